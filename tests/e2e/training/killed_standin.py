"""A small real training that dies where it is told: the weights of a line, fitted step by step.

It saves after end_epoch(), as the guide's PyTorch example does, straight into the final file, so a
death while saving leaves half a checkpoint.  The checkpoint names the epochs its weights have seen.

    KILL_AT     POINT:EPOCH[,POINT:EPOCH …], one for each attempt, in order: it dies at this point of
                the first epoch from EPOCH on.  An attempt beyond the list lives.
    KILL_WAIT   directory: at each point it makes the file POINT-EPOCH there and waits until the file
                `go` appears, instead of dying by itself
"""
import io
import json
import os
import random
import signal
import time
import zipfile

from kubernetesdlprofile import kubeprofiler

POINTS = ("step", "reported", "half", "saved", "asked")


class Death:
    def __init__(self, attempt):
        plan = [p for p in os.environ.get("KILL_AT", "").split(",") if p]
        self.point, _, epoch = (plan[attempt - 1] if attempt <= len(plan) else ":0").partition(":")
        self.epoch, self.attempt = int(epoch), attempt

    def here(self, point, epoch):
        waits = os.environ.get("KILL_WAIT")
        if point != self.point or epoch < self.epoch:
            return
        print("dies at %s of epoch %d" % (point, epoch), flush=True)
        if waits:
            open(os.path.join(waits, "%s-%d" % (point, epoch)), "w").close()
            while not os.path.exists(os.path.join(waits, "go")):
                time.sleep(0.01)
        if self.attempt % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)

    def is_due(self, point, epoch):
        return point == self.point and epoch >= self.epoch


def pack(state):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as f:
        f.writestr("weights", json.dumps(state))
    return data.getvalue()


def save(folder, epoch, state, death):
    os.makedirs(folder, exist_ok=True)
    data = pack(state)
    with open(os.path.join(folder, "epoch=%d.ckpt" % epoch), "wb") as f:
        if death.is_due("half", epoch):
            f.write(data[: len(data) // 2])
            f.flush()
            death.here("half", epoch)
        f.write(data)


def load(prof):
    if not prof.RESTARTED:
        return {"a": 0.0, "b": 0.0, "seen": []}
    with zipfile.ZipFile(prof.ckpt_path) as f:  # None, or half a file, ends the script here
        return json.loads(f.read("weights"))


def main():
    prof = kubeprofiler.KubeProfiler()
    death = Death(int(os.environ["BERTH_RUN"].rpartition(".")[2]))
    state = load(prof)
    print("start done %d seen %s" % (prof.EPOCHS_DONE, json.dumps(state["seen"])), flush=True)
    if not set(range(prof.EPOCHS_DONE)) <= set(state["seen"]):
        raise SystemExit("the counter says %d epochs, the weights have seen %s" % (prof.EPOCHS_DONE, state["seen"]))
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        if epoch > prof.EPOCHS_DONE:
            death.here("asked", epoch - 1)
        draw = random.Random(epoch)
        for _ in range(prof.iterationPerEpoch):
            x = draw.random()
            error = state["a"] * x + state["b"] - (3 * x + 1)
            state["a"] -= 0.5 * error * x
            state["b"] -= 0.5 * error
            death.here("step", epoch)
            prof.measure()
        state["seen"] = state["seen"] + [epoch]
        prof.end_epoch()
        death.here("reported", epoch)
        save(os.path.join(prof.root_dir, "checkpoints"), epoch, state, death)
        death.here("saved", epoch)
    print("trained %s" % json.dumps(state), flush=True)


if __name__ == "__main__":
    main()
