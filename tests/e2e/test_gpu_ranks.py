"""No rank stops alone: a job of several processes is asked to stop at random moments, 200 times.

The stand-in for Lightning runs one process per GPU, with a barrier after each step.  Jobs that want all
GPUs for a moment come at random; each makes the long job stop at an epoch end and go on later.  If one
rank heard "stop" and another did not, the barrier would break and the attempt would fail.

What ranks print is whole, also what they print last.
"""
import os
import random
import signal
import subprocess
import time

import harness
from gpu_rig import SCRIPTS, TRAINING, GpuHome, wait_for

# The sanitized build takes all 200; without it the same story is told more briefly.
STOPS = int(os.environ.get("RANK_STOPS") or (200 if harness.build_option("asan") else 40))
GPUS, EPOCHS = 4, 100000


def test_4_ranks_agree():
    seed = int(os.environ.get("RANK_SEED") or random.randrange(1 << 32))
    rng = random.Random(seed)
    print(f"# seed {seed}", flush=True)
    with GpuHome(gpus=GPUS, scale=100000) as h:
        job = four_ranks(h)
        for stop in range(STOPS):
            before = h.epochs_so_far(job)
            wait_for(f"an epoch after stop {stop}", lambda: running_on(h, job, before), 60)
            time.sleep(rng.random() * 0.06)  # an epoch takes 20 ms and some messages
            h.submit("/bin/true", name="urgent", priority=2, estimate="1h", resources={"gpus": GPUS, "gpu_share": False})
            wait_for(f"stop {stop}", lambda: attempts(h, job) > stop + 1, 60)
        before = h.epochs_so_far(job)
        wait_for("it goes on", lambda: h.epochs_so_far(job) > before, 60)
        h.command("scheduler-cancel-job", job)
        row = h.wait_state(job, "cancelled")
        epochs = h.epochs(job)
        assert [e for e, _, _ in epochs] == list(range(len(epochs))), "an epoch ran twice, or never"
        assert int(row["epochs"].split("/")[0]) in (len(epochs), len(epochs) - 1), row
        assert row["preemptions"] >= STOPS, row
        starts = h.starts(job)
        assert all(s["gpus"] == str(GPUS) for s in starts), starts
        check_counts(epochs, starts)


def four_ranks(h):
    """The stand-in on exactly so many GPUs, by the job form: run-scheduler would let the planner choose."""
    env = {k: h.env[k] for k in ("PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "FAKE_NVML_STATE") if k in h.env}
    reply = h.submit("/usr/bin/python3", os.path.join(TRAINING, SCRIPTS["L"]), name="ranks", epochs=EPOCHS,
                     estimate="10000h", dialect="gpu-scheduler", mounts=[h.snapshots + ":/snapshots"],
                     extra={"batchSize": 10, "trainingSetSize": 10 * GPUS * 4}, env={**env, "STANDIN_STEP_MS": "5"},
                     resources={"gpus": GPUS, "gpu_share": False})
    return next(j for j, row in h.rows().items() if row["number"] == reply["number"])


def attempts(h, job):
    return len(h.api("GET", f"/v1/jobs/{job}")["runs"])


def running_on(h, job, before):
    return h.epochs_so_far(job) > before


def check_counts(epochs, starts):
    """Each attempt began where the one before had stopped: what was counted is what was done."""
    for number, start in enumerate(starts, 1):
        earlier = sum(1 for _, attempt, _ in epochs if attempt < number)
        assert int(start["done"]) == earlier, (number, start, earlier)
        assert (start["restarted"] == "TRUE") == (earlier > 0), start


def test_last_words_of_ranks_are_kept():
    """The process that reads stands still while its last rank prints and ends: it learns of both at once.

    More than it reads at a time is then in the pipe, and the last line has no newline.
    """
    lines, last = [str(n) for n in range(1, 8001)], "the end"
    script = f"[ $RANK = 0 ] || kill -STOP $PPID; seq 1 {len(lines)}; printf '{last}'"
    reader = subprocess.Popen([harness.BERTH, "__ranks", "2", "--", "/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        wait_for("the reader stands still and its ranks have ended",
                 lambda: process_state(reader.pid) == "T" and set(states_of_children(reader.pid)) == {"Z"})
        os.kill(reader.pid, signal.SIGCONT)
        out = reader.communicate(timeout=harness.PATIENCE_S)[0]
    finally:
        reader.kill()
        reader.wait()
    assert reader.returncode == 0, reader.returncode
    for rank in ("[0] ", "[1] "):
        said = [line[len(rank):] for line in out.splitlines() if line.startswith(rank)]
        assert said == lines + [last], f"{rank}printed {len(said)} lines, the last is {said[-1:]}"


def states_of_children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [process_state(child) for child in f.read().split()]


def process_state(pid):
    """The letter of /proc/PID/stat."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


if __name__ == "__main__":
    harness.main(__name__)
