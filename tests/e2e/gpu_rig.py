"""A home with fake GPUs, and training jobs in it through the commands people use.

Devices come from the stand-in NVML library of the build (tests/fakes), which reads its devices, their
memory and their processes from a file; jobs are the stand-in loops of training/.  The GPU planner's
clock runs `scale` times faster than ours, so that its minutes are milliseconds.
"""
import glob
import json
import os
import re
import subprocess
import sys

import harness
from harness import Home, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
TRAINING = os.path.join(HERE, "training")
sys.path.insert(0, TRAINING)

import fake_gpu  # noqa: E402

COMMANDS = ("run-scheduler", "scheduler-state", "scheduler-cancel-job", "scheduler-get-logs")
SCRIPTS = {"P": "pytorch_standin.py", "L": "lightning_standin.py", "T": "tensorflow_standin.py"}
FINAL = ("finished", "failed", "cancelled")


class GpuHome(Home):
    """Started when entered, ended and checked when left."""

    def __init__(self, gpus=1, mib=16000, scale=10000, serve=(), **env):
        super().__init__(**env)
        self.scale, self.serve, self.numbers = scale, serve, {}
        self.state = os.path.join(self.dir, "gpus")
        self.snapshots = os.path.join(self.dir, "snapshots")
        self.bin = os.path.join(self.dir, "bin")
        fake_gpu.create(self.state, gpus, mib)
        os.mkdir(self.snapshots)
        os.mkdir(self.bin)
        os.symlink("/usr/bin/python3", os.path.join(self.bin, "python"))
        for name in COMMANDS:
            os.symlink(harness.BERTH, os.path.join(self.bin, name))
        self.env.update(BERTH_NVML_LIBRARY=fake_gpu.library(harness.BUILD), FAKE_NVML_STATE=self.state,
                        PATH=self.bin + ":/usr/bin:/bin", PYTHONDONTWRITEBYTECODE="1")
        if not harness.BUILD.startswith(ROOT + os.sep):  # from there jobs find the packages by themselves
            self.env["PYTHONPATH"] = os.path.join(ROOT, "python")

    def __enter__(self):
        try:
            self.serve_again()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print("# the daemon's log:\n# " + self.log_text().replace("\n", "\n# "), flush=True)
        self.close()

    def serve_again(self):
        self.start("--slots", "64", "--gpu-time-scale", str(self.scale), *self.serve)

    # -- the commands --
    def command(self, name, *args, check=True, timeout=120):
        p = subprocess.run([os.path.join(self.bin, name), *args], env=self.env, capture_output=True, text=True,
                           timeout=timeout, cwd=self.dir)
        if check and p.returncode != 0:
            raise AssertionError(f"{name} {' '.join(args)}: exit {p.returncode}\n{p.stdout}{p.stderr}")
        return p

    def options(self, script="P", epochs=3, steps=20, step_ms=5, est=1.01, env=None, **more):
        """The arguments of run-scheduler; step_ms and env are for the stand-in."""
        told = {"STANDIN_STEP_MS": step_ms, **(env or {})}
        options = {"script_path": "/custom/" + SCRIPTS.get(script, script), "custom_dir": TRAINING,
                   "snapshots_dir": self.snapshots, "batch_size": 10, "training_set_size": steps * 10,
                   "max_epochs": epochs, "est_nhours": est, **more}
        args = [a for k, v in options.items() if v is not None
                for a in ("--" + k, str(v).lower() if isinstance(v, bool) else str(v))]
        return args + [a for k, v in told.items() for a in ("--env", f"{k}={v}")]

    def train(self, name, **options):
        """Submits; the id."""
        return self.command("run-scheduler", *self.options(**options), name).stdout.split()[-1]

    def rows(self):
        text = self.command("scheduler-state", "--all_users", "--nlast", "1000", "--extended", "--json").stdout
        return {row["id"]: row for row in json.loads(text)}

    def row(self, job):
        return self.rows()[job]

    def state_of(self, job):
        return self.row(job)["state"]

    def output(self, job):
        return self.command("scheduler-get-logs", job).stdout

    # -- what jobs say --
    def endpoint(self, job):
        """Where the job reports, as it was told."""
        wait_for("the environment of the job", lambda: "endpoint" in self.output(job))
        host, port = re.search(r"endpoint (\S+):(\d+)", self.output(job)).groups()
        return host, int(port)

    def number(self, job):
        if job not in self.numbers:
            self.numbers[job] = self.api("GET", f"/v1/jobs/{job}")["number"]
        return self.numbers[job]

    def epochs_so_far(self, job):
        """Counted in the files of its runs: cheap, for waiting."""
        n = self.number(job)
        texts = []
        for path in glob.glob(os.path.join(self.home, "runs", str(n // 1000), f"{n}.*.log")):
            with open(path, errors="replace") as f:
                texts.append(f.read())
        return len(re.findall(r"^epoch \d+ attempt", "\n".join(texts), re.M))

    def epochs(self, job):
        """(epoch, attempt, gpus) of each line."""
        found = re.findall(r"^epoch (\d+) attempt (\d+) gpus (\d+)$", self.output(job), re.M)
        return [tuple(map(int, f)) for f in found]

    def starts(self, job):
        """What each attempt was told: dictionaries in order."""
        lines = re.findall(r"^start (.*)$", self.output(job), re.M)
        return [dict(zip(words[::2], words[1::2])) for words in (line.split() for line in lines)]

    # -- waiting --
    def wait_state(self, job, *states, timeout=120):
        """The row, once the job is in one of the states."""
        seen = {}

        def there():
            seen.update(self.row(job))
            return seen["state"] in states

        try:
            wait_for(f"{job} in {states}", there, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}; it is {seen}\n{self.output(job)}") from None
        return seen

    def wait_epochs(self, job, count, timeout=120):
        wait_for(f"{count} epochs of {job}", lambda: self.epochs_so_far(job) >= count, timeout)

    def finish(self, job, epochs, timeout=120):
        """Waits for the end; each epoch ran exactly once, in order.  The last row."""
        row = self.wait_state(job, *FINAL, timeout=timeout)
        assert row["state"] == "finished", f"{row}\n{self.output(job)}"
        assert [e for e, _, _ in self.epochs(job)] == list(range(epochs)), self.output(job)
        return row
