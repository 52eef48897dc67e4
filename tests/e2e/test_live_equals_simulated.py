"""What `berth simulate` foretells is what the daemon does.

Twelve jobs of three kinds on four GPUs are played twice: by the simulator on its virtual clock, and by
the real daemon with scripts that run as fast as the table says, a thousand times faster than life.  The
mean completion time must agree within 10 %.  What starting a script costs here is measured first and
told to both.  A thousand seconds pass in one, so a try on a machine whose processors were busy says
nothing about the program: it does not count, and without a try that counts the test is skipped.
"""
import csv
import json
import os
import random
import re
import time
from datetime import datetime

import harness
from gpu_rig import GpuHome
from harness import Skip

SCALE, GPUS, JOBS, EPOCH_S = 1000, 4, 12, 600
TRIES = 5
IDLE_SHARE = 0.4  # of all processors, at least, in a try that counts
TABLE = {
    "light": {"1": {"alone": 20.0, "light": 16.0, "medium": 15.0, "heavy": 11.0}},
    "medium": {"1": {"alone": 10.0, "light": 8.0, "medium": 6.5, "heavy": 4.5}},
    "heavy": {"1": {"alone": 4.0, "light": 2.8, "medium": 2.2, "heavy": 1.9}},
}
KINDS = sorted(TABLE)


def make_trace(seed):
    """Rows job,arrival,type,gpus,steps,isolated_s; every job is longer than an hour, as estimates must be."""
    rng, at, rows = random.Random(seed), 0.0, []
    for job in range(JOBS):
        kind = rng.choice(KINDS)
        isolated = round(rng.uniform(3700, 12000))
        rows.append({"job": job, "arrival": round(at), "type": kind, "gpus": 1,
                     "steps": round(isolated * TABLE[kind]["1"]["alone"]), "isolated_s": isolated})
        at += rng.expovariate(1 / 900)
    return rows


def write(h, rows):
    paths = [os.path.join(h.dir, name) for name in ("trace.csv", "table.json")]
    with open(paths[0], "w", newline="") as f:
        out = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    with open(paths[1], "w") as f:
        json.dump(TABLE, f)
    return paths


def submit(h, row, table):
    epochs = max(2, min(400, round(row["isolated_s"] / EPOCH_S)))
    env = {"PLAY_TABLE": table, "PLAY_TYPE": row["type"], "PLAY_STEPS": row["steps"], "PLAY_SCALE": SCALE,
           "PLAY_STAGE": os.path.join(h.dir, "stage")}
    return h.train(f"job-{row['job']}", script="trace_standin.py", epochs=epochs, steps=10, est=row["isolated_s"] / 3600,
                   batch_size=KINDS.index(row["type"]) + 1, training_set_size=1000, estimated_memory=5000, env=env)


def start_cost_s(h, table):
    """Seconds from submission to the first step, in the simulator's time: the median of five."""
    waits = []
    for i in range(5):
        row = {"job": f"probe{i}", "type": "light", "steps": 2000, "isolated_s": 3700}
        began = time.time()
        job = submit(h, row, table)
        h.finish(job, 6)
        waits.append(float(re.search(r"first step at ([\d.]+)", h.output(job)).group(1)) - began)
    return sorted(waits)[2] * SCALE


def live(h, rows, table):
    """The mean completion time, in the simulator's seconds."""
    began, jobs, total = time.time(), [], 0.0
    for row in rows:
        time.sleep(max(0.0, began + row["arrival"] / SCALE - time.time()))
        jobs.append(submit(h, row, table))
    for job in jobs:
        h.wait_state(job, "finished", timeout=120)
        total += span_s(h.api("GET", f"/v1/jobs/{job}"))
    return total / len(jobs) * SCALE


def processor_ticks():
    """(idle, all) since the machine started."""
    with open("/proc/stat") as f:
        ticks = [int(n) for n in f.readline().split()[1:9]]
    return ticks[3], sum(ticks)


def span_s(job):
    """From submission to the end."""
    created, ended = (datetime.fromisoformat(job[k].replace("Z", "+00:00")) for k in ("created", "ended"))
    return (ended - created).total_seconds()


def simulated(h, trace, table, restart_s):
    p = h.berth("simulate", trace, "--table", table, "--gpus", str(GPUS), "--policy", "berth", "--epoch", str(EPOCH_S),
                "--restart", str(round(restart_s)), "--json")
    return json.loads(p.stdout)["policies"]["berth"]["avg_jct_s"]


def test_live_equals_simulated():
    seed = int(os.environ.get("LIVE_SEED", "3"))
    rows = make_trace(seed)
    with GpuHome(gpus=GPUS, scale=SCALE) as h:
        trace, table = write(h, rows)
        restart_s = 2 * start_cost_s(h, table)  # a first start counts half
        h.stop()
        h.serve = ("--gpu-restart", f"{round(restart_s)}s")
        h.serve_again()
        foretold = simulated(h, trace, table, restart_s)
        counted = None
        for _ in range(TRIES):
            before = processor_ticks()
            found = live(h, rows, table)
            idle, ticks = (now - then for now, then in zip(processor_ticks(), before))
            print(f"# restart {restart_s:.0f} s, simulated {foretold:.0f} s, live {found:.0f} s, ratio {found / foretold:.3f}, "
                  f"idle {idle / ticks:.2f}", flush=True)
            if abs(found / foretold - 1) < 0.10:
                return
            if idle / ticks >= IDLE_SHARE:
                counted = found
        if counted is None:
            raise Skip("the processors were busy with other things in every try")
        raise AssertionError(f"simulated {foretold:.0f} s, live {counted:.0f} s")


if __name__ == "__main__":
    harness.main(__name__)
