"""What the stand-in training loops share: they sleep instead of computing.

Settings come from the environment, so that a test gives them with --env:

    STANDIN_STEP_MS     length of a step (default 5)
    STANDIN_SETUP_MS    time before the first step, as loading data and a model takes (default 0)
    STANDIN_TAIL_MS     validation at the end of an epoch (default 0)
    STANDIN_STEPS       steps of an epoch, instead of what the job's numbers give
    STANDIN_MEM_MIB     "allocates" so much on each of its fake devices (FAKE_NVML_STATE)
    STANDIN_EXIT        EPOCH:CODE, ends with CODE in the middle of that epoch, in the first attempt
    STANDIN_LIBRARY     "original": the wire behaviour of the original library (original_client.py)
    STANDIN_RECORD      file that gets a line per message to the scheduler
    STANDIN_SHOW        prints this variable
    STANDIN_CLOCK       "steps": what the library measures is the length of the steps, however long the
                        machine takes for them
"""

import http.client
import json
import os
import sys
import time

STEP_S = float(os.environ.get("STANDIN_STEP_MS", "5")) / 1000
SETUP_S = float(os.environ.get("STANDIN_SETUP_MS", "0")) / 1000
TAIL_S = float(os.environ.get("STANDIN_TAIL_MS", "0")) / 1000


class StepClock:
    """The module `time` of the library: its clock goes on by the length of a step, with each step."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def __getattr__(self, name):
        return getattr(time, name)


CLOCK = StepClock()


def record_messages(path):
    """A line per request, as it is sent: METHOD path body."""
    real = http.client.HTTPConnection.request

    def request(self, method, url, body=None, *args, **options):
        line = "%s %s %s\n" % (method, url, body.decode() if body else "")
        with open(path, "a") as f:
            f.write(line)
        return real(self, method, url, body, *args, **options)

    http.client.HTTPConnection.request = request


def profiler():
    """The library's object, ours or as the original behaves."""
    if os.environ.get("STANDIN_RECORD"):
        record_messages(os.environ["STANDIN_RECORD"])
    if os.environ.get("STANDIN_LIBRARY") == "original":
        import original_client

        endpoint = os.environ["SCHED_ENDPOINT"]
        prof = original_client.KubeProfiler(job_manager_hostname=endpoint, db_hostname=endpoint)
    else:
        from kubernetesdlprofile import kubeprofiler

        if os.environ.get("STANDIN_CLOCK") == "steps":
            kubeprofiler.time = CLOCK
        prof = kubeprofiler.KubeProfiler()
    use_memory()
    say_start(prof)
    time.sleep(SETUP_S)
    return prof


def attempt():
    return os.environ.get("BERTH_RUN", "0.1").rpartition(".")[2]


def say_start(prof):
    """What this attempt was told."""
    if prof.LOCAL_RANK <= 0:
        names = ("JOB_RESTARTED", "EPOCHS_DONE", "NUM_GPUS", "RESERVED_MEM", "HEARTBEAT_FREQ", "SCHED_ENDPOINT", "CUDA_VISIBLE_DEVICES")
        told = [attempt()] + [os.environ.get(name, "-") for name in names]
        if os.environ.get("STANDIN_SHOW"):
            print(os.environ["STANDIN_SHOW"], os.environ.get(os.environ["STANDIN_SHOW"]), flush=True)
        print("start attempt %s restarted %s done %s gpus %s reserved %s heartbeat %s endpoint %s devices %s" % tuple(told), flush=True)


def steps_of(prof):
    return int(os.environ.get("STANDIN_STEPS") or max(1, prof.iterationPerEpoch))


def step(prof, epoch, index):
    """One batch; perhaps the one that fails."""
    where, _, code = os.environ.get("STANDIN_EXIT", "").partition(":")
    if where and int(where) == epoch and index == 1 and os.environ.get("JOB_RESTARTED") == "FALSE":
        print("CUDA error: the stand-in was told to fail", flush=True)
        os._exit(int(code))
    time.sleep(STEP_S)
    CLOCK.now += STEP_S


def say_epoch(prof, epoch):
    """The line by which tests see that each epoch ran exactly once."""
    print("epoch %d attempt %s gpus %d" % (epoch, attempt(), prof.NUM_GPUS), flush=True)


def save(path, **state):
    """Whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w") as f:
        json.dump(state, f)
    os.rename(path + ".part", path)


def load(path):
    with open(path) as f:
        return json.load(f)


def use_memory():
    mib = os.environ.get("STANDIN_MEM_MIB")
    if mib:
        import fake_gpu

        fake_gpu.hold(os.environ["FAKE_NVML_STATE"], os.environ["CUDA_VISIBLE_DEVICES"].split(","), int(mib))


def fail(code, text):
    print("stand-in: " + text, flush=True)
    sys.stdout.flush()
    os._exit(code)
