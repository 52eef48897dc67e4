"""The GPU scheduler with the frameworks themselves: PyTorch and scikit-learn of Debian, others where a Python has them.

Jobs are preempted, killed and resumed; what the weights have seen is counted in the weights.  GPUs are the stand-ins of
the other tests, so the frameworks compute on CPUs.  BERTH_TEST_FRAMEWORKS may name a Python with Lightning or TensorFlow.
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import harness  # noqa: E402
from gpu_rig import GpuHome  # noqa: E402
from harness import Skip  # noqa: E402

DEBIAN = "/usr/bin/python3"
OTHER = os.environ.get("BERTH_TEST_FRAMEWORKS")
EPOCHS, STEPS = 6, 20


def imports(python, *modules):
    return any(subprocess.run([python, "-c", f"import {m}"], capture_output=True, timeout=600).returncode == 0 for m in modules)


def need(python, package, *modules):
    """Skips the test, with the line that says how to have it, where the framework is not there."""
    if python is None:
        raise Skip(f"no Python with {package} is known: name one in BERTH_TEST_FRAMEWORKS")
    if not imports(python, *modules):
        remedy = f"apt-get install {package}" if python == DEBIAN else f"{python} -m pip install {package}"
        raise Skip(f"{python} has no {modules[0]}: {remedy}")


class Frameworks(GpuHome):
    """Jobs run with the Python that was asked for."""

    def __init__(self, python=DEBIAN, **options):
        super().__init__(**options)
        self.env["OMP_NUM_THREADS"] = "1"
        for name in ("python", "python3"):
            path = os.path.join(self.bin, name)
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w") as f:
                f.write(f'#!/bin/sh\nexec {python} "$@"\n')
            os.chmod(path, 0o755)

    def loop(self, name, script, **options):
        """Submits one training of EPOCHS epochs of STEPS steps; the id."""
        return self.train(name, script=script, custom_dir=HERE, epochs=EPOCHS, steps=STEPS, step_ms=0, **options)

    def weights(self, job):
        """What the last line says that the weights have seen of each epoch."""
        return json.loads(re.findall(r"^weights (\[.*\])$", self.output(job), re.M)[-1])

    def begun(self, job):
        return re.findall(r"^start at (\d+) restarted (\w+)", self.output(job), re.M)

    def preempt(self, job, after):
        """An urgent job that wants the GPU alone, once `after` epochs are done; both end."""
        self.wait_epochs(job, after)
        urgent = self.train("urgent", script="P", epochs=1, steps=2, priority=5, disable_gpu_sharing=True)
        self.wait_state(urgent, "finished", "failed")
        return self.wait_state(job, "finished", "failed")


# ---- PyTorch ----

def test_pytorch_preempted():
    """The job makes room at the end of an epoch and goes on: the weights have seen each epoch exactly once."""
    need(DEBIAN, "python3-torch", "torch")
    with Frameworks() as h:
        job = h.loop("torch", "torch_loop.py", env={"STEP_S": "0.02"})
        row = h.preempt(job, after=1)
        assert (row["state"], row["epochs"]) == ("finished", f"{EPOCHS}/{EPOCHS}"), (row, h.output(job))
        assert row["preemptions"] >= 1 and row["attempts"] >= 2, row
        assert h.begun(job)[1][1] == "True", h.output(job)
        assert h.weights(job) == [STEPS] * EPOCHS, h.weights(job)


def test_pytorch_killed_in_an_epoch():
    """SIGKILL in the first epoch, when there is nothing to load, and in a later one."""
    killed_and_resumed("0 step", "3 step")


def test_pytorch_killed_before_saving():
    """An epoch that was reported but not saved is trained again."""
    killed_and_resumed("0 save", "3 save")


def killed_and_resumed(*kills):
    """No epoch is missing in the weights, and none is in them twice."""
    need(DEBIAN, "python3-torch", "torch")
    with Frameworks(gpus=len(kills)) as h:
        jobs = {kill: h.loop("torch", "torch_loop.py", max_retries=1, env={"KILL": kill}) for kill in kills}
        for kill, job in jobs.items():
            row = h.wait_state(job, "finished", "failed")
            assert (row["state"], row["epochs"], row["attempts"]) == ("finished", f"{EPOCHS}/{EPOCHS}", 2), (kill, row, h.output(job))
            assert h.weights(job) == [STEPS] * EPOCHS, (kill, h.weights(job))
            first, again = h.begun(job)
            assert again == (("0", "False") if kill.startswith("0") else ("3", "True")), (kill, first, again)


def test_pytorch_ranks():
    """Two processes of torch.distributed, with the backend that the job chose."""
    need(DEBIAN, "python3-torch", "torch")
    with Frameworks(gpus=2) as h:
        reply = h.submit("python3", os.path.join(HERE, "torch_ranks.py"), name="ranks", dialect="gpu-scheduler", launch="gpu",
                         extra={"torchBackend": "gloo"}, env={"PATH": h.env["PATH"], "OMP_NUM_THREADS": "1"},
                         resources={"gpus": 2, "gpu_share": False})
        job = next(j for j, row in h.rows().items() if row["number"] == reply["number"])
        row = h.wait_state(job, "finished", "failed")
        assert row["state"] == "finished", h.output(job)
        lines = sorted(line for line in h.output(job).splitlines() if "sum" in line)
        assert lines == [f"[{r}] sum 3 of 2 ranks by gloo" for r in (0, 1)], h.output(job)


# ---- scikit-learn ----

def test_sklearn_without_a_gpu():
    """A job on CPUs, killed in its third epoch: the model was fitted to every epoch once."""
    need(DEBIAN, "python3-sklearn", "sklearn")
    with Frameworks(gpus=0) as h:
        args = h.options("sklearn_loop.py", custom_dir=HERE, epochs=EPOCHS, steps=STEPS, max_retries=1)
        job = h.command("run-scheduler", *args, "--no_gpu", "sklearn").stdout.split()[-1]
        row = h.wait_state(job, "finished", "failed")
        assert (row["state"], row["epochs"], row["attempts"]) == ("finished", f"{EPOCHS}/{EPOCHS}", 2), (row, h.output(job))
        fitted, score, samples = re.search(r"^fitted (\d+) epochs, score (\S+) steps (\d+)$", h.output(job), re.M).groups()
        assert (int(fitted), int(samples)) == (EPOCHS, EPOCHS * STEPS * 10) and float(score) > 0.9, h.output(job)


# ---- where a Python has them ----

def test_lightning_preempted():
    need(OTHER, "lightning", "lightning", "pytorch_lightning")
    with Frameworks(OTHER) as h:
        job = h.loop("lightning", "lightning_loop.py", env={"STEP_S": "0.05"})
        row = h.preempt(job, after=1)
        assert (row["state"], row["epochs"]) == ("finished", f"{EPOCHS}/{EPOCHS}"), (row, h.output(job))
        assert row["attempts"] >= 2 and h.weights(job) == [STEPS] * EPOCHS, (row, h.weights(job))


def test_tensorflow_ranks():
    need(OTHER, "tensorflow", "tensorflow")
    with Frameworks(OTHER, gpus=2) as h:
        reply = h.submit("python3", os.path.join(HERE, "tensorflow_ranks.py"), name="ranks", dialect="gpu-scheduler", launch="gpu",
                         env={"PATH": h.env["PATH"]}, resources={"gpus": 2, "gpu_share": False})
        job = next(j for j, row in h.rows().items() if row["number"] == reply["number"])
        row = h.wait_state(job, "finished", "failed", timeout=300)
        assert row["state"] == "finished", h.output(job)
        lines = sorted(line for line in h.output(job).splitlines() if "] replicas" in line)
        assert lines == [f"[{r}] replicas 2 sum 2" for r in (0, 1)], h.output(job)


if __name__ == "__main__":
    harness.main(__name__)
