"""`berth tune`: one ask and one tell through the pipe as the history grows, five floats, beside Optuna and Rustuna.

Medians of the last 50 trials of a study; a peer is called in its own process, without a pipe.
"""

import importlib.util
import json
import statistics
import subprocess
import time

# engine: number of trials → bar in ms
BARS = {
    "random": {100: 0.03, 1000: 0.03},
    "sobol": {100: 0.03, 1000: 0.03},
    "tpe": {100: 0.08, 1000: 0.2, 5000: 0.4, 50000: 0.6},
    "cmaes": {100: 0.05, 1000: 0.05, 5000: 0.05},
    "gp": {100: 3.0, 200: 8.0, 400: 30.0},
}
PEERS = {"tpe": "TPESampler", "cmaes": "CmaEsSampler", "gp": "GPSampler", "random": "RandomSampler"}
WINDOW, DIMS, PEER_TRIALS_MAX = 50, 5, 1000
SPACE = [{"name": "x%d" % i, "type": "float", "low": -5.0, "high": 5.0} for i in range(DIMS)]


class Pipe:
    def __init__(self, rig, engine, trials):
        self.p = subprocess.Popen([rig.find("berth-full"), "tune", "--engine", engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, bufsize=1)
        self.call({"op": "create", "seed": 1, "direction": "minimize", "n_trials": trials, "space": SPACE})

    def call(self, message):
        self.p.stdin.write(json.dumps(message) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def turn(self):
        """Seconds of one trial, without the objective."""
        began = time.perf_counter()
        trial = self.call({"op": "ask"})
        asked = time.perf_counter()
        value = sum(x * x for x in trial["params"].values())
        told = time.perf_counter()
        self.call({"op": "tell", "id": trial["id"], "value": value})
        return asked - began + time.perf_counter() - told

    def close(self):
        self.p.communicate('{"op":"close"}\n')


class Peer:
    """A sampler of Optuna, or of Rustuna, which has the same interface."""

    def __init__(self, module, sampler):
        made = getattr(module.samplers, sampler)(seed=1)
        self.study = module.create_study(sampler=made, direction="minimize")

    def turn(self):
        began = time.perf_counter()
        trial = self.study.ask()
        params = [trial.suggest_float("x%d" % i, -5.0, 5.0) for i in range(DIMS)]
        asked = time.perf_counter()
        value = sum(x * x for x in params)
        told = time.perf_counter()
        self.study.tell(trial.number, value)
        return asked - began + time.perf_counter() - told

    def close(self):
        pass


def medians(study, marks):
    """{trials: median ms of the last WINDOW}"""
    times, found = [], {}
    for n in range(1, max(marks) + 1):
        times.append(study.turn() * 1000)
        if n in marks:
            found[n] = statistics.median(times[-WINDOW:])
    study.close()
    return found


def peers(engine, marks):
    """[(name, {trials: ms})] of the peers that are installed and have such a sampler."""
    found = []
    for name in ("optuna", "rustuna"):
        if engine not in PEERS or importlib.util.find_spec(name) is None:
            continue
        module = __import__(name)
        if name == "optuna":
            module.logging.set_verbosity(module.logging.ERROR)
        few = [m for m in marks if m <= PEER_TRIALS_MAX]
        try:
            found.append((name, medians(Peer(module, PEERS[engine]), few)))
        except (AttributeError, ImportError, TypeError):
            continue  # this release has no such sampler, or it lacks a package
    return found


def run(rig, table):
    if all(importlib.util.find_spec(name) is None for name in ("optuna", "rustuna")):
        table.note("neither optuna nor rustuna is installed: no peer of berth tune")
    for engine, bars in BARS.items():
        marks = [m for m in bars if m <= rig.n(50000, 200)]
        ours = [medians(Pipe(rig, engine, max(marks)), marks) for _ in range(rig.repeats)]
        others = peers(engine, marks)
        for mark in marks:
            best = min(o[mark] for o in ours)
            told = ", ".join("%s %.3g ms" % (name, ms[mark]) for name, ms in others if mark in ms)
            ratio = min((ms[mark] for _, ms in others if mark in ms), default=0)
            table.row("ask + tell, %s, %d trials" % (engine, mark), "%.3f ms" % best, told, "%.3f" % (best / ratio) if ratio else "",
                      "≤ %g ms" % bars[mark], best <= bars[mark])
