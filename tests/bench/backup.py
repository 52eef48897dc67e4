"""A backup of 10 GB of outputs on one file system, the next one, and the restore of a lost home.

The outputs are 10 000 logs of 1 MB, whose blocks are allocated and not written: a hard link costs the same.
"""

import os
import shutil
import subprocess
import time

from rig import Daemon

BAR_BACKUP_S = 10.0
FILES, BYTES = 10000, 1 << 20


def fill(daemon, files):
    runs = os.path.join(daemon.home, "runs")
    logs = [os.path.join(d, n) for d, _, names in os.walk(runs) for n in names if n.endswith(".log")]
    assert len(logs) == files, (len(logs), files)
    for path in logs:
        fd = os.open(path, os.O_WRONLY)
        os.posix_fallocate(fd, 0, BYTES)
        os.close(fd)


def timed(rig, daemon, *args):
    began = time.monotonic()
    subprocess.run([rig.berth, *args], env=daemon.env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def run(rig, table):
    files = 200 if rig.quick else FILES
    copies = os.path.join(rig.tmp, "copies")
    daemon = Daemon(rig, "backup", "--slots", "16")
    daemon.submit(array=files, command=["/bin/true"])
    daemon.wait_drained()
    fill(daemon, files)
    what = "%.1f GB of outputs" % (files * BYTES / 1e9)
    table.at_most("backup of %s, hard links" % what, timed(rig, daemon, "backup", copies), BAR_BACKUP_S, "%.2f s")
    table.at_most("the next backup", timed(rig, daemon, "backup", copies), BAR_BACKUP_S, "%.2f s")
    shutil.rmtree(os.path.join(daemon.home, "runs"))
    seconds = timed(rig, daemon, "restore", "--stop", copies)
    table.row("restore of all of it, hard links", "%.2f s" % seconds)
    daemon.close()
    shutil.rmtree(copies)
