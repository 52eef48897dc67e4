"""What a client was told is on disk, and what dies is noticed soon.

SIGKILL right after the last of 200 replies; SIGKILL to a supervisor, alone and with its shepherd; a
second interrupt of `berth run`, whose job ignores the first.
"""

import os
import signal
import subprocess
import time

from rig import Daemon

BAR_NOTICED_S, BAR_LEAVES_S = 2.0, 0.8


def acknowledged(rig, table):
    count, worst = 200, 200
    for turn in range(rig.repeats):
        daemon = Daemon(rig, "durable-%d" % turn)
        daemon.pause("bulk")
        for _ in range(count):
            daemon.submit(command=["/bin/true"], queue="bulk")
        daemon.kill()
        daemon.start()
        worst = min(worst, daemon.count())
        daemon.close()
    table.row("acknowledged jobs after an immediate kill -9", "%d of %d" % (worst, count), "Slurm 22.05: 0 of 200", "", "all", worst == count)


def wait_state(daemon, job, state):
    while True:
        row = daemon.call("GET", "/v1/jobs/%d" % job)
        if row["state"] == state:
            return row
        time.sleep(0.005)


def parent_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[1])


def noticed(rig, table, with_shepherd):
    """Seconds until a job whose supervisor was killed counts as lost; the longest."""
    daemon, worst = Daemon(rig, "noticed", "--slots", "1"), 0.0
    for _ in range(rig.repeats):
        job = daemon.submit(command=["/bin/sleep", "300"])["number"]
        supervisor = parent_of(wait_state(daemon, job, "running")["runs"][-1]["pid"])
        if with_shepherd:
            os.kill(parent_of(supervisor), signal.SIGKILL)
        began = time.monotonic()
        os.kill(supervisor, signal.SIGKILL)
        wait_state(daemon, job, "lost")
        worst = max(worst, time.monotonic() - began)
    daemon.close()
    table.at_most("a killed supervisor%s is noticed" % (" and shepherd" if with_shepherd else ""), worst, BAR_NOTICED_S, "%.2f s")


def second_interrupt(rig, table):
    worst = 0.0
    for turn in range(rig.repeats):
        daemon = Daemon(rig, "interrupt-%d" % turn)
        p = subprocess.Popen([rig.berth, "run", "--grace", "1s", "--", "sh", "-c", "trap '' TERM; echo on; sleep 300"], env=daemon.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        p.stderr.readline()
        began = time.monotonic()
        p.send_signal(signal.SIGINT)
        p.wait()
        worst = max(worst, time.monotonic() - began)
        daemon.wait_drained()
        daemon.close()
    table.at_most("berth run leaves at the second interrupt", worst, BAR_LEAVES_S, "%.2f s")


def run(rig, table):
    acknowledged(rig, table)
    noticed(rig, table, False)
    noticed(rig, table, True)
    second_interrupt(rig, table)
