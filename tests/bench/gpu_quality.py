#!/usr/bin/env python3
"""How good are the planner's schedules?  Average completion times against SRTF and FIFO, with bars.

    tests/bench/gpu_quality.py [--build DIR] [--data DIR] [--seeds N] [--family NAME]… [--policy-seed N] [--json FILE]

SRTF and FIFO know exact run times and use the GPU counts asked for; berth starts from estimates, which
the "noise" rows make wrong by up to e.  Traces are made here from seeds.  With --data (or BERTH_GPU_DATA)
a folder of measured speeds (gpu-*.json) and traces (single-*.csv, multi-*.csv, philly-*.csv) is used as
well; the bars are those of measured speeds.  Without it the table is synthetic, and the rows say how
berth compares there.

A = single-GPU jobs on 8 GPUs, B = 1/2/4 GPUs on 16, P = windows of the Philly log on 16, H = heavy-tailed
jobs in bursts on 16.  Exit status 1 when a bar is missed.
"""

import argparse
import concurrent.futures
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import gpu_workload as workload  # noqa: E402

# family: (GPUs, elastic, {what: bar}); bars are ratios to SRTF, "fifo" to FIFO, "p99" of the 99th percentile
FAMILIES = {
    "A single": ("A", 8, False, {"srtf": 0.92, "fifo": 0.62, "p99": 0.75}),
    "B rigid": ("B", 16, False, {"srtf": 0.97}),
    "B elastic": ("B", 16, True, {"srtf": 0.72}),
    "P rigid": ("P", 16, False, {"srtf": 1.02}),
    "P elastic": ("P", 16, True, {"srtf": 0.52}),
    "H rigid": ("H", 16, False, {}),
    "H elastic": ("H", 16, True, {}),
}
NOISE_ALLOWANCE = 1.05


def berth_of(build):
    for root, _, files in os.walk(build):
        if "berth" in files and os.access(os.path.join(root, "berth"), os.X_OK):
            return os.path.join(root, "berth")
    raise SystemExit("there is no berth in %s; build it first" % build)


class Runner:
    def __init__(self, berth, table, extra):
        self.berth, self.table, self.extra, self.references = berth, table, extra, {}

    def simulate(self, trace, gpus, policies, *options):
        out = subprocess.check_output(
            [self.berth, "simulate", trace, "--table", self.table, "--gpus", str(gpus), "--policy", policies, "--json",
             *options])
        return json.loads(out)["policies"]

    def compare(self, job):
        trace, gpus, options = job
        if trace not in self.references:
            self.references[trace] = self.simulate(trace, gpus, "fifo,srtf")
        return self.references[trace], self.simulate(trace, gpus, "berth", *options, *self.extra)["berth"]


def make_traces(tmp, table, data, seeds):
    """{"A": [path, …], …}"""
    traces = {k: [] for k in "ABPH"}
    if data:
        for kind, pattern in (("A", "single-*.csv"), ("B", "multi-*.csv"), ("P", "philly-*.csv")):
            traces[kind] += sorted(glob.glob(os.path.join(data, pattern)))
    for seed in range(1, seeds + 1):
        for kind, family, jobs, gpus in (("A", "single", 120, 8), ("B", "multi", 160, 16), ("H", "heavy", 400, 16)):
            rows = workload.trace(table, family, jobs, gpus, 1.0 if kind == "H" else 1.2, seed)
            traces[kind].append(workload.write(os.path.join(tmp, "%s-%d.csv" % (kind, seed)), workload.as_csv(rows)))
    given = list(traces["P"])
    for seed in range(1, seeds + 1 if given else 1):
        with open(given[seed % len(given)], encoding="utf-8") as f:
            rows = workload.resample(list(csv.DictReader(f)), table, 400, 16, 1.0, seed)
        traces["P"].append(workload.write(os.path.join(tmp, "P-%d.csv" % seed), workload.as_csv(rows)))
    return traces


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def judge(name, results, bars, held):
    """One line of the table; returns the row and whether every bar holds."""
    ours = {k: mean(b[k] for _, b in results) for k in ("avg_jct_s", "p99_jct_s", "tardy2x_s", "restarts", "utilisation",
                                                        "plan_ms_mean")}
    srtf = {k: mean(r["srtf"][k] for r, _ in results) for k in ("avg_jct_s", "p99_jct_s", "tardy2x_s")}
    ratios = {
        "srtf": ours["avg_jct_s"] / srtf["avg_jct_s"],
        "fifo": ours["avg_jct_s"] / mean(r["fifo"]["avg_jct_s"] for r, _ in results),
        "p99": ours["p99_jct_s"] / srtf["p99_jct_s"],
    }
    row = {"family": name, "traces": len(results), **ratios, **ours,
           "calibration_80": mean(b.get("calibration_80", 0) for _, b in results),
           "calibration_80_at_start": mean(b.get("calibration_80_at_start", 0) for _, b in results),
           "stops_max": max(b["voluntary_stops_per_job_hour_max"] for _, b in results), "bars": bars if held else {},
           "ok": not held or all(ratios[k] <= v for k, v in bars.items())}

    def cell(key):
        if key not in bars:
            return "%.3f       " % ratios[key]
        return "%.3f %s%.3f" % (ratios[key], "≤" if ratios[key] <= bars[key] else ">", bars[key])

    print("%-17s %2d | %s | %s | %s | %5.0f | %.2f %.2f | %d | %6.3f%s" % (
        name, len(results), cell("srtf"), cell("fifo"), cell("p99"), ours["restarts"], row["calibration_80"],
        row["calibration_80_at_start"], row["stops_max"], ours["plan_ms_mean"], "" if row["ok"] else "   MISSED"), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    parser.add_argument("--data", default=os.environ.get("BERTH_GPU_DATA"))
    parser.add_argument("--seeds", type=int, default=10, help="traces made for each family; fewer leave the 99th percentile to chance")
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES))
    parser.add_argument("--policy-seed", type=int, help="seed of the simulator: estimates and the planner's search")
    parser.add_argument("--json", help="write the rows here too")
    args = parser.parse_args()

    if args.data and not glob.glob(os.path.join(args.data, "gpu-*.json")):
        raise SystemExit("%s holds no gpu-*.json; name a folder that does" % args.data)
    rows = []
    with tempfile.TemporaryDirectory(prefix="berth-quality-") as tmp:
        if args.data:
            path = sorted(glob.glob(os.path.join(args.data, "gpu-*.json")))[0]
            with open(path, encoding="utf-8") as f:
                table = json.load(f)
        else:
            table = workload.synthetic_table()
            path = workload.write(os.path.join(tmp, "table.json"), table)
            print("no folder of measured speeds (--data or BERTH_GPU_DATA): synthetic table, no Philly windows, bars not held")
        traces = make_traces(tmp, table, args.data, args.seeds)
        runner = Runner(berth_of(args.build), path, ["--seed", str(args.policy_seed)] if args.policy_seed else [])
        print("average completion time as a ratio to SRTF and FIFO, 99th percentile to SRTF's; bars behind\n"
              "%-17s  n | %-12s | %-12s | %-12s | restr | in 80 %%   | stops/h, ms a plan" % ("family", "/ srtf", "/ fifo", "p99"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, (kind, gpus, elastic, bars) in FAMILIES.items():
                if (args.family and name not in args.family) or not traces[kind]:
                    continue
                for noise in (0, 1):
                    options = ["--noise", str(noise)] + (["--elastic"] if elastic else [])
                    got = list(pool.map(runner.compare, [(t, gpus, options) for t in traces[kind]]))
                    allowed = {k: v * (NOISE_ALLOWANCE if noise else 1) for k, v in bars.items()}
                    rows.append(judge(name + (" noise" if noise else ""), got, allowed, bool(args.data)))
    if args.json:
        workload.write(args.json, rows)
    return 1 if any(not r["ok"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
