#!/usr/bin/env python3
"""Runs a test program with a real OpenSSH server: BERTH_TEST_CONF names the configuration of an ssh backend for it."""
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "e2e"))
from ssh_rig import SshMissing, SshRig  # noqa: E402

try:
    with SshRig() as rig:
        host = rig.host("node")
        python = os.path.abspath(os.path.join(here, "..", "..", "..", "python"))
        env = dict(os.environ, BERTH_TEST_CONF=rig.conf_file(host, name="node", python_path=python), BERTH_TEST_PYTHON=python,
                   BERTH_TEST_HOME=host.home,
                   BERTH_TEST_SSHD=str(host.proc.pid), BERTH_SSH=rig.ssh)
        status = subprocess.run(sys.argv[1:], env=env).returncode
        if status:
            print("# sshd said:", *host.log_text().splitlines()[-10:], sep="\n# ")
    sys.exit(status)
except SshMissing as why:
    print(f"1..0 # SKIP {why}")
