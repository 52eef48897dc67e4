"""Every client command under valgrind: no invalid access, no use of what was never set, no leak.

It cannot look into the static client; the full program has the same commands from the same files.
"""
import mmap
import os
import shutil
import subprocess
import sys

import harness
from harness import Home, Skip, find_program

FULL = find_program("berth-full")
FOUND = 99  # exit status for a finding; none of ours


def require_valgrind():
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    with open(FULL, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if text.find(b"__asan_init") >= 0:
            raise Skip("this build has AddressSanitizer, which does the same and excludes valgrind")


def watched(h, *args, status=(0,)):
    p = subprocess.run(
        ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
         f"--error-exitcode={FOUND}", FULL, *args],
        env=h.env, capture_output=True, text=True, timeout=120)
    assert p.returncode in status, f"berth {' '.join(args)}: exit {p.returncode}\n{p.stderr[-3000:]}"
    return p.stdout


def test_commands_are_clean():
    require_valgrind()
    h = Home()
    try:
        h.start("--slots", "1")
        watched(h, "version")
        watched(h, "--help")
        watched(h, "submit", "--help")
        watched(h, "submit", "--name", "a", "--cpus", "1", "--env", "K=V", "--param", "lr=0.1", "--",
                "sh", "-c", "echo hello; exit 3")
        watched(h, "wait", "1", status=(3,))
        for args in (["ls"], ["ls", "-o", "json"], ["ls", "-o", "csv"], ["ls", "state:failed and lr<0.5"],
                     ["show", "1"], ["logs", "1"], ["nodes"], ["projects"], ["queue", "list"],
                     ["schema", "job"], ["completion", "bash"], ["man", "submit"]):
            watched(h, *args)
        watched(h, "submit", "--", "sleep", "300")
        watched(h, "submit", "--after", "2", "--", "true")
        watched(h, "explain", "3")
        watched(h, "cancel", "2", "3")
        watched(h, "retry", "1")
        h.wait_all()
        watched(h, "rm", "1")
    finally:
        h.close()


def test_mistakes_are_clean():
    require_valgrind()
    h = Home()
    try:
        h.start("--slots", "1")
        for args in (["lss"], ["ls", "--sorted"], ["ls", "state:"], ["show", "77"], ["submit"],
                     ["submit", "--mem", "many", "--", "true"], ["logs", "nothing"]):
            watched(h, *args, status=tuple(s for s in range(1, 128) if s != FOUND))
    finally:
        h.close()


if __name__ == "__main__":
    harness.main(__name__)
    sys.exit(0)
