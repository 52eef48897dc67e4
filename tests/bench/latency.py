"""One submit on an idle machine: when the command returns, when its job starts; empty and full queues."""

import os
import statistics
import subprocess

from rig import Daemon, installed

BAR_RETURNS, BAR_STARTS, BAR_SAME = 1.3, 2.0, 1.10


def rounds(rig, count, fifo, command, env):
    """[(returned µs, started µs)] and CPU µs per command."""
    out = subprocess.run(
        [rig.latency, str(count), fifo, *command], env=env, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [tuple(int(x) for x in line.split()) for line in out[:-1]], int(out[-1].split()[1])


def run(rig, table):
    fifo = os.path.join(rig.tmp, "stamps")
    os.mkfifo(fifo)
    many, per_round = rig.n(1000000, 20000), 10
    turns = rig.n(20, 2)
    job = [rig.latency, "--stamp", fifo]
    ts_env = dict(rig.env, TS_SOCKET=os.path.join(rig.tmp, "ts-latency"))
    empty = Daemon(rig, "lat-empty")
    full = Daemon(rig, "lat-full")
    full.pause("bulk")
    full.submit(name="waits", command=["/bin/true"], queue="bulk", array=many)
    ways = {
        "empty": ([rig.berth, "submit", "--", *job], empty.env),
        "full": ([rig.berth, "submit", "--", *job], full.env),
    }
    if installed(table, "tsp"):
        ways["tsp"] = (["tsp", *job], ts_env)
    for command, env in ways.values():
        rounds(rig, 5, fifo, command, env)
    seen = {name: [] for name in ways}
    for _ in range(turns):
        for name, (command, env) in ways.items():
            seen[name] += rounds(rig, per_round, fifo, command, env)[0]
    if "tsp" in ways:
        subprocess.run(["tsp", "-K"], env=ts_env, check=False)
    full.close()
    empty.close()
    report(table, seen, many)


def report(table, seen, many):
    for column, what, bar in ((0, "submit returns", BAR_RETURNS), (1, "submitted job starts", BAR_STARTS)):
        ours = {name: statistics.median(x[column] for x in values) / 1000 for name, values in seen.items()}
        peer = ours.get("tsp")
        count = len(seen["empty"])
        table.row(
            "%s, median of %d" % (what, count),
            "%.2f ms" % ours["empty"],
            "task-spooler %.2f ms" % peer if peer else "",
            "%.2f" % (ours["empty"] / peer) if peer else "",
            "≤ %.1f" % bar,
            ours["empty"] <= bar * peer if peer else None,
        )
        table.row(
            "  the same with %d queued" % many,
            "%.2f ms" % ours["full"],
            "empty queue %.2f ms" % ours["empty"],
            "%.2f" % (ours["full"] / ours["empty"]),
            "≤ %.2f" % BAR_SAME,
            ours["full"] <= BAR_SAME * ours["empty"],
        )
