#!/usr/bin/env python3
"""How fast is the planner?  Time of a plan at several sizes, and of a trace of 100 000 jobs.

    tests/bench/gpu_speed.py [--build DIR] [--data DIR] [--jobs N]

Use a release build: figures of a debug or sanitised one say nothing.  Exit status 1 when a bar is missed.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import gpu_quality  # noqa: E402
import gpu_workload as workload  # noqa: E402

# what, family, jobs, GPUs, load, options, {figure: bar}
CASES = [
    ("16 GPUs, 1/2/4 each", "multi", 400, 16, 1.2, [], {"plan_ms_mean": 1.0}),
    ("16 GPUs, elastic", "multi", 400, 16, 1.2, ["--elastic"], {"plan_ms_mean": 1.0}),
    ("400 GPUs, 450 jobs at a time", "multi", 4000, 400, 1.15, [], {"plan_ms_max": 100.0}),
    ("400 GPUs, 450 jobs, elastic", "multi", 4000, 400, 1.15, ["--elastic"], {"plan_ms_max": 100.0}),
    ("a long trace on 400 GPUs", "multi", None, 400, 0.9, [], {"wall_s": 60.0}),
    ("a long trace, single GPUs", "single", None, 400, 0.9, [], {"wall_s": 60.0}),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    parser.add_argument("--data", default=os.environ.get("BERTH_GPU_DATA"))
    parser.add_argument("--jobs", type=int, default=100000, help="of the long traces")
    args = parser.parse_args()
    berth, missed = gpu_quality.berth_of(args.build), 0
    with tempfile.TemporaryDirectory(prefix="berth-speed-") as tmp:
        given = sorted(glob.glob(os.path.join(args.data, "gpu-*.json"))) if args.data else []
        path = given[0] if given else workload.write(os.path.join(tmp, "table.json"), workload.synthetic_table())
        with open(path, encoding="utf-8") as f:
            table = json.load(f)
        print("%-30s | %7s | %8s | %8s | %8s | %7s | bar" % ("what", "jobs", "plans", "ms mean", "ms max", "wall s"))
        for what, family, jobs, gpus, load, options, bars in CASES:
            rows = workload.trace(table, family, jobs or args.jobs, gpus, load, 1)
            trace = workload.write(os.path.join(tmp, "t.csv"), workload.as_csv(rows))
            start = time.monotonic()
            out = subprocess.check_output([berth, "simulate", trace, "--table", path, "--gpus", str(gpus), "--policy",
                                           "berth", "--json", *options], stderr=subprocess.DEVNULL)
            got = json.loads(out)["policies"]["berth"]
            got["wall_s"] = time.monotonic() - start
            late = [k for k, bar in bars.items() if got[k] > bar]
            missed += len(late)
            print("%-30s | %7d | %8d | %8.3f | %8.2f | %7.1f | %s%s" % (
                what, len(rows), got["plans"], got["plan_ms_mean"], got["plan_ms_max"], got["wall_s"],
                ", ".join("%s ≤ %g" % b for b in bars.items()), "  MISSED" if late else ""), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
