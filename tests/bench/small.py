"""Small: the binary, the start of a command, the idle daemon, and what a finished job leaves in memory."""

import os
import shutil
import subprocess
import time

from latency import rounds
from rig import Daemon, proc_memory

MB = 1 << 20


def binary_size(rig):
    copy = os.path.join(rig.tmp, "stripped")
    shutil.copy(rig.find("berth-full"), copy)
    subprocess.run(["strip", copy], check=True)
    return os.path.getsize(copy)


def run(rig, table):
    table.at_most("stripped program", binary_size(rig) / MB, 4, "%.2f MB")
    best = min(rounds(rig, 100, "-", [rig.berth, "version"], rig.env)[1] for _ in range(rig.repeats))
    table.at_most("start of a command, CPU (version)", best / 1000, 2.0, "%.2f ms")
    daemon = Daemon(rig, "small", "--slots", "8")
    _, cpu = rounds(rig, rig.n(100, 10), "-", [rig.berth, "ls"], daemon.env)
    table.row("berth ls, CPU", "%.2f ms" % (cpu / 1000))
    daemon.close()
    memory(rig, table)


def memory(rig, table):
    daemon = Daemon(rig, "memory", "--slots", "8")
    time.sleep(0.3)
    idle = proc_memory(daemon.pid, "VmRSS")
    table.at_most("idle daemon", idle / MB, 15, "%.1f MB", "Slurm 14, HyperQueue 17 MB")
    count = rig.n(10000, 500)
    marks = []
    for _ in range(2):
        daemon.submit(command=["/bin/true"], array=count)
        daemon.wait_drained()
        time.sleep(0.3)
        marks.append(proc_memory(daemon.pid, "VmRSS"))
    # The first lot fills caches of fixed size; what history costs shows in the second.
    each = max(0, marks[1] - marks[0]) / count
    table.row("memory per finished job", "%.0f bytes" % each, "%.1f MB after %d jobs" % (marks[1] / MB, 2 * count), "", "≤ 1 KB", each <= 1024)
    daemon.close()
