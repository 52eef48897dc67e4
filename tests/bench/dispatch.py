"""Dispatch: N × /bin/true, 2 and 8 at once, embedded and through the daemon, against a bare spawn loop.

Every berth figure includes the job's log file and durable transitions of every job.  The limit is
measured before each of them; the best of ours is compared with the best of the limit.  The homes stay
until all is measured: for minutes after a deletion ext4 searches longer for each new file's inode.
"""

import os
import subprocess
import time

from rig import Daemon, children_cpu_s, installed

BAR_ONE_LOG, BAR_TWO_LOGS, BAR_CPU_MS = 0.50, 0.35, 0.6


def sweep_file(rig, count, split):
    path = os.path.join(rig.tmp, "true-%d-%d.yaml" % (count, split))
    with open(path, "w") as f:
        f.write("name: t\ncommand: ['/bin/true']\narray: %d\nsplit_output: %s\n" % (count, "true" if split else "false"))
    return path


def embedded(rig, slots, count, split, round_):
    """(jobs/s, CPU ms per job) of `berth run`."""
    home = os.path.join(rig.tmp, "run-%d-%d-%d" % (slots, split, round_))
    cpu, began = children_cpu_s(), time.monotonic()
    subprocess.run(
        [rig.berth, "run", "-j", str(slots), sweep_file(rig, count, split)],
        env=dict(rig.env, BERTH_HOME=home),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=rig.tmp,
    )
    took = time.monotonic() - began
    rig.end_shepherds()
    cpu = children_cpu_s() - cpu
    return count / took, cpu * 1000 / count


def through_daemon(rig, slots, count, split, round_):
    """The same through `berth serve`: from the request to the last job's end."""
    cpu = children_cpu_s()
    daemon = Daemon(rig, "serve-%d-%d-%d" % (slots, split, round_), "--slots", str(slots))
    began = time.monotonic()
    daemon.submit(name="t", command=["/bin/true"], array=count, split_output=bool(split))
    daemon.wait_drained()
    took = time.monotonic() - began
    if daemon.count("succeeded") != count:
        raise SystemExit("bench: only %d of %d jobs succeeded" % (daemon.count("succeeded"), count))
    daemon.close(remove=False)
    return count / took, (children_cpu_s() - cpu) * 1000 / count


def gnu_parallel(rig, slots, count):
    numbers = "\n".join(str(i) for i in range(count))
    began = time.monotonic()
    subprocess.run(
        ["parallel", "--will-cite", "-j", str(slots), "/bin/true"],
        input=numbers,
        text=True,
        env=dict(rig.env, HOME=rig.tmp),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return count / (time.monotonic() - began)


def task_spooler(rig, slots, count, round_):
    env = dict(rig.env, TS_SOCKET=os.path.join(rig.tmp, "ts-%d-%d" % (slots, round_)), TS_SLOTS=str(slots), TS_MAXFINISHED="10")
    began = time.monotonic()
    for _ in range(count):
        subprocess.run(["tsp", "/bin/true"], env=env, check=True, stdout=subprocess.DEVNULL)
    while True:
        out = subprocess.run(["tsp"], env=env, check=True, capture_output=True, text=True).stdout
        if "queued" not in out and "running" not in out:
            break
        time.sleep(0.02)
    took = time.monotonic() - began
    subprocess.run(["tsp", "-K"], env=env, check=False)
    return count / took


def measure(rig, table, slots):
    count = rig.n(10000, 500)
    peers = rig.n(800, 100)
    limits, limit_cpu, ours = [], [], {}
    has_parallel, has_tsp = installed(table, "parallel"), installed(table, "tsp")
    parallel_rates, tsp_rates = [], []
    ways = (("embedded", embedded), ("daemon", through_daemon))
    for round_ in range(rig.repeats):
        for name, way in ways:
            for split in (0, 1):
                rate, cpu = rig.limit(rig.n(3000, 300), slots)
                limits.append(rate)
                limit_cpu.append(cpu)
                rate, cpu = way(rig, slots, count, split, round_)
                ours.setdefault((name, split), []).append((rate, cpu))
        if has_parallel:
            parallel_rates.append(gnu_parallel(rig, slots, peers))
        if has_tsp:
            tsp_rates.append(task_spooler(rig, slots, peers, round_))
    limit, own_cpu = max(limits), min(limit_cpu)
    table.row("bare posix_spawn loop (L), %d at once" % slots, "", "%.0f/s, %.2f ms CPU" % (limit, own_cpu))
    for name, _ in ways:
        for split in (0, 1):
            rate = max(ours[name, split])[0]
            share = rate / limit
            bar = BAR_TWO_LOGS if split else BAR_ONE_LOG
            what = "dispatch %s, %d slots, %s" % (name, slots, "two files" if split else "one log")
            table.row(what, "%.0f jobs/s" % rate, "L %.0f/s" % limit, "%.2f" % share, "≥ %.2f L" % bar, share >= bar)
        extra = min(c for _, c in ours[name, 0]) - own_cpu
        what = "CPU per job beyond its own, %s, %d slots" % (name, slots)
        table.row(what, "%.2f ms" % extra, "own %.2f ms" % own_cpu, "", "≤ %.1f ms" % BAR_CPU_MS, extra <= BAR_CPU_MS)
    for name, rates in (("GNU parallel", parallel_rates), ("task-spooler", tsp_rates)):
        if rates:
            table.row("%s, %d at once" % (name, slots), "", "%.0f jobs/s" % max(rates), "%.2f" % (max(rates) / limit))


def run(rig, table):
    for slots in (2, 8):
        measure(rig, table, slots)
