"""GPU workloads made from a seed: tables of speeds, and traces in the layout of `berth simulate`.

A table is {type: {gpus: {"alone": steps/s, other type: steps/s}}}.  `synthetic_table` draws types from
four numbers each: how busy it keeps a device, how much of its memory it takes, how well it scales, how
much it suffers from company.  Families of traces:

    single   log-uniform run times of 10 min to 16 h on one GPU each, Poisson arrivals
    multi    the same with 1, 2 or 4 GPUs (70, 10, 20 %)
    heavy    what logs of clusters look like: half the jobs take minutes, some take days; bursts
"""

import csv
import io
import json
import math
import random


def synthetic_table(seed=1, types=12, counts=(1, 2, 4, 8)):
    rng = random.Random("table %d" % seed)
    kinds = {}
    for i in range(types):
        kinds["type-%02d" % i] = {
            "rate": math.exp(rng.uniform(math.log(0.5), math.log(60))),
            "busy": rng.uniform(0.4, 1.0),
            "memory": rng.choice([0.15, 0.25, 0.35, 0.45, 0.6]),
            "scaling": rng.uniform(0.55, 0.98),
            "suffers": rng.uniform(0.85, 1.0),
        }
    table = {}
    for name, k in kinds.items():
        table[name] = {}
        for n in counts:
            # Beside others a device is busy for less of the time with each job.
            alone = k["rate"] * n ** k["scaling"]
            busy = k["busy"] * n ** (k["scaling"] - 1)
            row = {"alone": round(alone, 4)}
            for other, o in kinds.items():
                both = busy + o["busy"] * n ** (o["scaling"] - 1)
                fits = k["memory"] + o["memory"] <= 0.97
                row[other] = round(alone * k["suffers"] * min(1.0, 1.0 / both), 4) if fits else 0.0
            table[name][str(n)] = row
    return table


def _durations(rng, family, jobs):
    for _ in range(jobs):
        u = rng.random()
        if family == "heavy":
            run_s = min(max(rng.lognormvariate(math.log(1500), 2.2), 60.0), 48 * 3600.0)
            yield run_s, 1 if u < 0.72 else 2 if u < 0.80 else 4 if u < 0.9 else 8
        else:
            run_s = 600 * math.exp(rng.uniform(0, math.log(96)))
            yield run_s, 1 if family == "single" or u < 0.7 else 2 if u < 0.8 else 4


def trace(table, family, jobs, gpus, load, seed):
    """Rows (job, arrival, type, gpus, steps, isolated_s) whose work is `load` × what the GPUs can do."""
    rng = random.Random("%s %d" % (family, seed))
    drawn = [(d, min(g, gpus)) for d, g in _durations(rng, family, jobs)]
    gap = sum(d * g for d, g in drawn) / jobs / (load * gpus)
    rows, at, burst = [], 0.0, 0
    for i, (run_s, n) in enumerate(drawn):
        kind = rng.choice(sorted(t for t in table if str(n) in table[t]))
        steps = run_s * table[kind][str(n)]["alone"]
        rows.append(("j%d" % i, round(at, 1), kind, n, round(steps, 1), round(run_s, 1)))
        if family == "heavy":  # one in ten arrivals opens a burst of up to twelve
            burst = burst - 1 if burst else (rng.randrange(12) if rng.random() < 0.1 else 0)
            at += rng.expovariate(1 / gap) * (0.05 if burst else 1.55)
        else:
            at += rng.expovariate(1 / gap)
    return rows


def resample(rows, table, jobs, gpus, load, seed, block=20):
    """Another window of the same log: blocks of consecutive jobs, types drawn anew."""
    rng = random.Random("resample %d" % seed)
    at = [float(r["arrival"]) for r in rows]
    out, now = [], 0.0
    while len(out) < jobs:
        k = rng.randrange(max(1, len(rows) - block))
        for i in range(k, min(k + block, len(rows) - 1)):
            out.append((now, float(rows[i]["isolated_s"]) * rng.uniform(0.9, 1.1), int(rows[i]["gpus"])))
            now += at[i + 1] - at[i]
    out = out[:jobs]
    stretch = sum(d * g for _, d, g in out) / (load * gpus) / max(1.0, out[-1][0])
    made = []
    for i, (t, d, g) in enumerate(out):
        kind = rng.choice(sorted(k for k in table if str(g) in table[k]))
        made.append(("j%d" % i, round(t * stretch, 1), kind, g, round(d * table[kind][str(g)]["alone"], 1), round(d, 1)))
    return made


def as_csv(rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow("job,arrival,type,gpus,steps,isolated_s".split(","))
    writer.writerows(rows)
    return out.getvalue()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))
    return path
