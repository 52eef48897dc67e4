#!/usr/bin/env python3
"""Which engine is better?  Mann and Whitney's test per problem, over ten seeds or more.

    tune_compare.py run --out R.jsonl --berth build/src/cli/berth-full --engines tpe,cmaes,gp,auto [--set held] [--seeds 10] [--trials 200]
    tune_compare.py run --out R.jsonl --peers optuna:tpe,optuna:gp --python VENV/bin/python --as optuna-
    tune_compare.py report R.jsonl [--at 50,200] [--engines a,b] [--pairs tpe:optuna-tpe,gp:optuna-gp]
    tune_compare.py serve optuna:tpe       the peer as a program that speaks the lines of `berth tune`; `run` starts it

Every engine, a peer too, is a process that is driven by lines of JSON. What --out has already is not run again, so that a run can be cut
short (--minutes) and continued. Not part of script/test: it takes minutes to hours. `--load FILE.py` adds the problems of a file with
PROBLEMS = {name: (function, space, optimum)}. Of noisy problems the true value of the trial that looked best counts.
"""

import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
MARKS = (25, 50, 100, 200, 400, 1000)
LEVEL = 0.05


# ---- peers, in their own interpreter ----
def peer_sampler(module, kind, seed):
    made = module.samplers
    if kind == "cmaes" and module.__name__ == "optuna":
        return made.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    if kind == "gp":
        return made.GPSampler(seed=seed, deterministic_objective=True)
    if kind in ("tpe-one", "tpe-many"):
        return made.TPESampler(seed=seed, multivariate=kind == "tpe-many")
    if kind == "tpe-group":
        return made.TPESampler(seed=seed, multivariate=True, group=True)
    return getattr(made, {"tpe": "TPESampler", "cmaes": "CmaEsSampler", "nsga2": "NSGAIISampler", "random": "RandomSampler"}[kind])(seed=seed)


class PeerStudy:
    """Optuna, or Rustuna, which has the same interface."""

    def __init__(self, module, kind, message):
        self.space = message["space"]
        directions = message.get("directions")
        kwargs = {"directions": directions} if directions else {"direction": "minimize"}
        self.study = module.create_study(sampler=peer_sampler(module, kind, message["seed"]), **kwargs)

    def ask(self):
        trial, params = self.study.ask(), {}
        for it in self.space:
            if not is_active(it, params):
                continue
            if it["type"] == "cat":
                params[it["name"]] = trial.suggest_categorical(it["name"], it["choices"])
            else:
                suggest = trial.suggest_int if it["type"] == "int" else trial.suggest_float
                params[it["name"]] = suggest(it["name"], it["low"], it["high"], log=it.get("log", False))
        return trial.number, params

    def tell(self, number, message):
        self.study.tell(number, message["values"] if "values" in message else message["value"])


def is_active(item, params):
    return all(params.get(k) in v for k, v in item.get("when", {}).items())


def cmd_serve(a):
    name, kind = a.peer.split(":")
    warnings.simplefilter("ignore")
    module = __import__(name)
    if name == "optuna":
        module.logging.set_verbosity(module.logging.ERROR)
    if kind == "gp":
        import torch
        torch.set_num_threads(1)
    study = None
    for line in sys.stdin:
        message, answer = json.loads(line), {"ok": True}
        if message["op"] == "close":
            return
        if message["op"] == "create":
            study = PeerStudy(module, kind, message)
        elif message["op"] == "ask":
            number, params = study.ask()
            answer = {"id": number, "params": params}
        else:
            study.tell(message["id"], message)
        print(json.dumps(answer), flush=True)


# ---- one study ----
class Engine:
    def __init__(self, command):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env)

    def call(self, message):
        self.p.stdin.write(json.dumps(message) + "\n")
        self.p.stdin.flush()
        answer = json.loads(self.p.stdout.readline() or '{"error":"the engine has ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self):
        self.p.communicate('{"op":"close"}\n')


def dominated_area(points, corner):
    area, last = 0.0, corner[1]
    for x, y in sorted(p for p in points if p[0] < corner[0] and p[1] < corner[1]):
        if y < last:
            area += (corner[0] - x) * (last - y)
            last = y
    return area


def run_study(command, problem, seed, trials, parallel):
    engine, noise, order = Engine(command), random.Random(seed * 7 + 1), random.Random(10000 + seed)
    message = {"op": "create", "seed": seed, "n_trials": trials, "space": problem.space}
    many = problem.corner is not None
    engine.call(dict(message, **({"directions": ["minimize"] * len(problem.corner)} if many else {"direction": "minimize"})))
    flying, told, asked, best, regret, at, points = [], 0, 0, math.inf, math.inf, {}, []
    while told < trials:
        while asked < trials and len(flying) < parallel:
            trial = engine.call({"op": "ask"})
            flying.append((trial["id"], *problem.value(trial["params"], noise)))
            asked += 1
        number, seen, true = flying.pop(order.randrange(len(flying)) if parallel > 1 else 0)
        engine.call({"op": "tell", "id": number, ("values" if many else "value"): seen})
        told += 1
        if many:
            points.append(tuple(seen))
            regret = problem.optimum - dominated_area(points, problem.corner) if told in MARKS else regret
        elif seen < best:
            best, regret = seen, true - problem.optimum
        if told in MARKS or told == trials:
            at[str(told)] = regret
    engine.close()
    return at


def load_problems(a):
    sys.path.insert(0, HERE)
    import tune_set
    found = dict(tune_set.PROBLEMS)
    if a.load:
        spec = importlib.util.spec_from_file_location("loaded_problems", a.load)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, (function, space, optimum) in module.PROBLEMS.items():
            found[name] = tune_set.Problem("loaded", space, lambda p, _noise, f=function: f(p), optimum)
    if a.problems:
        return {n: found[n] for n in a.problems.split(",")}
    return {n: p for n, p in found.items() if p.group in a.set.split(",")}


def read_records(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def cmd_run(a):
    engines = {a.prefix + e: [a.berth, "tune", "--engine", e] for e in a.engines.split(",") if e}
    for peer in filter(None, a.peers.split(",")):
        engines[a.prefix + peer.split(":")[1]] = [a.python, os.path.abspath(__file__), "serve", peer]
    seen = {(r["engine"], r["problem"], r["seed"], r["trials"], r["parallel"]) for r in read_records(a.out)}
    until = time.monotonic() + 60 * a.minutes
    for name, problem in load_problems(a).items():
        for label, command in engines.items():
            for seed in range(a.first_seed, a.first_seed + a.seeds):
                if (label, name, seed, a.trials, a.parallel) in seen:
                    continue
                if time.monotonic() > until:
                    print("the time is over; the same command goes on", file=sys.stderr)
                    return 1
                began = time.monotonic()
                at = run_study(command, problem, seed, a.trials, a.parallel)
                record = {"engine": label, "problem": name, "group": problem.group, "seed": seed, "trials": a.trials, "parallel": a.parallel,
                          "at": at, "seconds": round(time.monotonic() - began, 2)}
                with open(a.out, "a", encoding="utf-8") as f:
                    f.write(json.dumps(record) + "\n")
    return 0


# ---- the test ----
def rank_sum(a, b):
    """U of `a`, and the sum that ties take off the variance."""
    everything, u, ties, i = sorted([(v, 0) for v in a] + [(v, 1) for v in b]), 0.0, 0.0, 0
    while i < len(everything):
        j = i
        while j < len(everything) and everything[j][0] == everything[i][0]:
            j += 1
        u += sum((i + j + 1) / 2 for k in range(i, j) if everything[k][1] == 0)
        ties += (j - i) ** 3 - (j - i)
        i = j
    return u - len(a) * (len(a) + 1) / 2, ties


def exact_below(n, m, u):
    """The chance that U is u or less when both come from the same distribution, without ties."""
    counts = {(0, 0): {0: 1}}
    for i in range(n + 1):
        for j in range(m + 1):
            if i or j:
                cell = {}
                for (p, q), add in (((i - 1, j), j), ((i, j - 1), 0)):
                    for value, count in counts.get((p, q), {}).items():
                        cell[value + add] = cell.get(value + add, 0) + count
                counts[(i, j)] = cell
    return sum(c for v, c in counts[(n, m)].items() if v <= u) / sum(counts[(n, m)].values())


def mann_whitney(a, b):
    """Two-sided p: exact for few values without ties, else by the normal distribution with a correction for ties."""
    n, m = len(a), len(b)
    u, ties = rank_sum(a, b)
    least = min(u, n * m - u)
    if not ties and n * m <= 400:
        return min(1.0, 2 * exact_below(n, m, least))
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    return 1.0 if variance <= 0 else math.erfc(max(0.0, n * m / 2 - least - 0.5) / math.sqrt(2 * variance))


def verdict(a, b):
    """+ when a is better (smaller), - when worse, = when the test cannot tell."""
    if mann_whitney(a, b) >= LEVEL:
        return "="
    return "+" if rank_sum(a, b)[0] < len(a) * len(b) / 2 else "-"


def report_mark(values, engines, problems, pairs, mark):
    """values: {(engine, problem): [regrets]}"""
    print("\n### %s trials: median regret (quartiles); + and - beside a peer of --pairs: %g %%\n" % (mark, 100 * LEVEL))
    print("| problem | " + " | ".join(engines) + " |\n|---|" + "---|" * len(engines))
    ranks = {e: [] for e in engines}
    for p in problems:
        medians = {e: statistics.median(values[e, p]) for e in engines if (e, p) in values}
        cells = []
        for e in engines:
            if e not in medians:
                cells.append("-")
                continue
            v = values[e, p]
            quarters = statistics.quantiles(v, n=4) if len(v) > 1 else [v[0]] * 3
            cells.append("%.3g (%.2g..%.2g)" % (medians[e], quarters[0], quarters[2]))
            ranks[e].append(1 + sum(m < medians[e] for m in medians.values()))
        print("| %s | %s |" % (p, " | ".join(cells)))
    print("| mean rank | " + " | ".join("%.2f" % statistics.mean(r) if r else "-" for r in ranks.values()) + " |")
    print("\n| pair, %s trials | wins | ties | losses | won | lost |\n|---|---|---|---|---|---|" % mark)
    for ours, theirs in pairs:
        marks = {p: verdict(values[ours, p], values[theirs, p]) for p in problems if (ours, p) in values and (theirs, p) in values}
        names = {s: [p for p in marks if marks[p] == s] for s in "+=-"}
        print("| %s against %s | %d | %d | %d | %s | %s |" % (ours, theirs, len(names["+"]), len(names["="]), len(names["-"]),
                                                              " ".join(names["+"]), " ".join(names["-"])))


def cmd_report(a):
    # A study that stands in two files counts once: the same seed twice would make differences look surer than they are.
    every = {(r["engine"], r["problem"], r["seed"], r["trials"]): r for path in a.files for r in read_records(path) if r["parallel"] == a.parallel}
    records = list(every.values())
    engines = a.engines.split(",") if a.engines else list(dict.fromkeys(r["engine"] for r in records))
    problems = [p for p in dict.fromkeys(r["problem"] for r in records) if not a.problems or p in a.problems.split(",")]
    pairs = [p.split(":") for p in a.pairs.split(",")] if a.pairs else [(x, y) for x in engines for y in engines if x != y]
    for mark in a.at.split(","):
        values = {}
        for r in records:
            if mark in r["at"] and r["problem"] in problems:
                values.setdefault((r["engine"], r["problem"]), []).append(r["at"][mark])
        report_mark(values, [e for e in engines if any(k[0] == e for k in values)], problems, pairs, mark)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="command", required=True)
    run = sub.add_parser("run")
    run.add_argument("--out", required=True)
    run.add_argument("--berth", default="berth")
    run.add_argument("--engines", default="")
    run.add_argument("--peers", default="", help="optuna:tpe, optuna:tpe-one, optuna:gp, rustuna:cmaes …")
    run.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    run.add_argument("--as", dest="prefix", default="", help="put before the names of engines in the table")
    run.add_argument("--set", default="open,held", help="open, held, fronts, loaded")
    run.add_argument("--problems", default="")
    run.add_argument("--load", default="")
    for name, value in (("seeds", 10), ("first-seed", 0), ("trials", 200), ("parallel", 1)):
        run.add_argument("--" + name, type=int, default=value)
    run.add_argument("--minutes", type=float, default=60)
    run.set_defaults(run=cmd_run)
    report = sub.add_parser("report")
    report.add_argument("files", nargs="+")
    report.add_argument("--at", default="50,200")
    report.add_argument("--engines", default="")
    report.add_argument("--problems", default="")
    report.add_argument("--pairs", default="")
    report.add_argument("--parallel", type=int, default=1)
    report.set_defaults(run=cmd_report)
    serve = sub.add_parser("serve")
    serve.add_argument("peer")
    serve.set_defaults(run=cmd_serve)
    a = ap.parse_args()
    sys.exit(a.run(a))


if __name__ == "__main__":
    main()
