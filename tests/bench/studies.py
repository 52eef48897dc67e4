"""Studies in the daemon: durable trials per second, a hundred thousand trials, 64 programs at once.

A trial is one ask and one tell, both on disk before the answer, so that a disk which is busy or slow
bounds the figures: an fdatasync loop runs beside each of them, and the bar is the smaller of the
absolute figure and a share of that loop.  The peer is Optuna on SQLite, which is as durable.
"""

import os
import random
import statistics
import subprocess
import sys
import time

from rig import Daemon, proc_memory

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
SPACE = {"x%d" % i: {"uniform": [-5, 5]} for i in range(5)}
# clients: (trials per second, share of the fdatasync loop)
RATES = {1: (2000, 0.5), 8: (5000, 2.0)}
IN_FLIGHT, BAR_ASK_MS, BAR_BYTES, BAR_LOOK_S = 64, 5.0, 1024, 1.0

# Each waits for a line, so that all begin together; the objective takes no time.
OURS = """
import sys
sys.path.insert(0, {package!r})
import berth
study = berth.Study({name!r}, {space!r}, minimize=True, engine={engine!r}, client=berth.Client(home={home!r}, autostart=False))
print("ready", flush=True)
sys.stdin.readline()
seen = []
study.optimize(lambda t: seen.append(t.number) or sum(x * x for x in t.values()), {n})
print(*seen)
"""
OPTUNA = """
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(study_name={name!r}, storage="sqlite:///{home}/{name}.db", load_if_exists=True, sampler=optuna.samplers.RandomSampler())
print("ready", flush=True)
sys.stdin.readline()
study.optimize(lambda t: sum(t.suggest_float("x%d" % i, -5, 5) ** 2 for i in range(5)), n_trials={n})
print(len(study.trials))
"""


def together(python, code, clients, **words):
    """Programs that begin at once: (seconds until the last has ended, the last line of each).  None: a peer failed."""
    text, errors = code.format(package=PACKAGE, space=SPACE, **words), None if code is OURS else subprocess.DEVNULL
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    programs = [subprocess.Popen([python, "-c", text], text=True, **pipes) for _ in range(clients)]
    for p in programs:
        p.stdout.readline()
    began = time.monotonic()
    for p in programs:
        p.stdin.write("\n")
        p.stdin.flush()
    said = [p.communicate()[0] for p in programs]
    took = time.monotonic() - began
    if not any(p.returncode for p in programs):
        return took, said
    if code is OURS:
        sys.exit("bench: a client of a study failed")
    return None


def syncs(rig, count=500):
    """fdatasync calls per second of a program that overwrites 4 KB, as a log does."""
    path = os.path.join(rig.tmp, "sync")
    with open(path, "wb", buffering=0) as f:
        f.write(b"\0" * (4096 * 64))
        os.fsync(f.fileno())
        began = time.monotonic()
        for i in range(count):
            os.pwrite(f.fileno(), b"x" * 4096, 4096 * (i % 64))
            os.fdatasync(f.fileno())
        return count / (time.monotonic() - began)


def python_with_optuna():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import optuna"], capture_output=True).returncode == 0:
            return python
    return None


def rates(rig, table):
    """Trials per second, in turns with the loop and the peer; the best of each counts."""
    daemon, optuna = Daemon(rig, "rates"), python_with_optuna()
    if not optuna:
        table.note("Optuna is not installed: left out")
    for clients, (bar, share) in RATES.items():
        ours, peer, limit = 0.0, 0.0, 0.0
        n = rig.n(4000, 200) // clients
        for turn in range(rig.repeats):
            limit = max(limit, syncs(rig))
            words = {"home": daemon.home, "name": "r%d-%d" % (clients, turn), "engine": "random"}
            took, _ = together(sys.executable, OURS, clients, n=n, **words)
            ours = max(ours, n * clients / took)
            if optuna:
                few = rig.n(80, 16) // clients
                together(optuna, OPTUNA, 1, n=1, **words)  # several cannot make its file at once
                found = together(optuna, OPTUNA, clients, n=few, **words)
                if found is None:
                    table.note("Optuna on SQLite with %d clients: the database was locked" % clients)
                else:
                    peer = max(peer, few * clients / found[0])
        least = min(bar, share * limit)
        table.row("durable trials/s, %d client%s" % (clients, "s" if clients > 1 else ""), "%.0f/s" % ours,
                  "%sfdatasync %.0f/s" % ("Optuna %.0f/s, " % peer if peer else "", limit), "%.0f" % (ours / peer) if peer else "",
                  "≥ %.0f" % least, ours >= least or rig.quick)
    daemon.close()


def large(rig, table, engine):
    """A hundred thousand trials, 64 of them always in flight."""
    count = rig.n(100000, 2000)
    daemon = Daemon(rig, "large-" + engine)
    path, chance = "/v1/studies/large", random.Random(1)

    def tell(numbers, ask):
        results = [{"number": n, "value": chance.random()} for n in numbers]
        return [t["number"] for t in daemon.call("POST", path + "/tell", {"trials": results, "ask": ask})["trials"]]

    daemon.call("POST", "/v1/studies", {"name": "large", "space": SPACE, "objective": {"minimize": "loss"}, "engine": engine, "trials": count})
    before = proc_memory(daemon.pid, "VmRSS")
    flying = [t["number"] for t in daemon.call("POST", path + "/ask", {"n": IN_FLIGHT})["trials"]]
    while flying[-1] < count - 2 * IN_FLIGHT:
        flying = tell(flying, IN_FLIGHT)
    each = (proc_memory(daemon.pid, "VmRSS") - before) / flying[-1]
    times = []
    for _ in range(IN_FLIGHT):
        began = time.perf_counter()
        flying += tell([flying.pop(0)], 1)
        times.append(1000 * (time.perf_counter() - began))
    limit = 1000 / syncs(rig)
    table.row("%d trials of %s: tell and ask, 64 in flight" % (count, engine), "%.2f ms" % statistics.median(times),
              "fdatasync %.2f ms" % limit, "", "≤ %.0f ms" % (BAR_ASK_MS + limit), statistics.median(times) <= BAR_ASK_MS + limit)
    if not rig.quick:  # what does not grow with the trials counts for little in a large study only
        table.at_most("%d trials of %s: memory of each" % (count, engine), each, BAR_BYTES, "%.0f bytes")
    for verb in ("best", "importance", "export"):
        took = min(look(rig, daemon, verb) for _ in range(rig.repeats))
        table.at_most("%d trials of %s: berth search %s" % (count, engine, verb), took, BAR_LOOK_S, "%.2f s")
    daemon.close()


def look(rig, daemon, verb):
    began = time.monotonic()
    subprocess.run([rig.berth, "search", verb, "large"], env=daemon.env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def crowd(rig, table):
    """64 programs on one grid: every point once, and none fails."""
    clients, each = rig.n(64, 8), 25
    daemon = Daemon(rig, "crowd")
    _, said = together(sys.executable, OURS, clients, home=daemon.home, name="crowd", engine="sobol", n=each)
    numbers = sorted(int(word) for line in said for word in line.split())
    record = daemon.call("GET", "/v1/studies/crowd")["counts"]
    good = numbers == list(range(1, clients * each + 1)) and record["done"] == clients * each and record["failed"] == 0
    table.row("%d programs on one study: trials once each" % clients, "%d of %d" % (len(set(numbers)), clients * each), "", "", "all", good)
    daemon.close()


def run(rig, table):
    rates(rig, table)
    for engine in ("auto", "tpe"):
        large(rig, table, engine)
    crowd(rig, table)
