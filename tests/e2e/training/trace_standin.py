"""One job of a trace, played: its speed is what the table says, alone or next to whoever shares its GPU.

    PLAY_TABLE    the speed table (steps per second)         PLAY_TYPE    the kind of this job
    PLAY_STEPS    its steps in all                           PLAY_SCALE   how much faster than life
    PLAY_STAGE    directory where jobs leave word which GPU they are on
"""

import json
import os
import time

from kubernetesdlprofile import kubeprofiler

TICK_S = 0.01
SCALE = float(os.environ["PLAY_SCALE"])
TYPE = os.environ["PLAY_TYPE"]


class Stage:
    """Who is on my devices?"""

    def __init__(self, job):
        devices = os.environ["CUDA_VISIBLE_DEVICES"].replace(",", "+")
        self.folder = os.path.join(os.environ["PLAY_STAGE"], devices)
        os.makedirs(self.folder, exist_ok=True)
        self.mine = job
        with open(os.path.join(self.folder, job), "w") as f:
            f.write(TYPE)

    def partner(self):
        for name in os.listdir(self.folder):
            if name != self.mine:
                try:
                    with open(os.path.join(self.folder, name)) as f:
                        return f.read() or None
                except FileNotFoundError:
                    pass
        return None

    def leave(self):
        os.unlink(os.path.join(self.folder, self.mine))


def play(prof, stage, rates):
    steps_per_epoch = float(os.environ["PLAY_STEPS"]) / prof.EPOCHS
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        left, last = steps_per_epoch, time.monotonic()
        while left > 0:
            rate = rates[stage.partner() or "alone"] * SCALE
            time.sleep(min(TICK_S, left / rate))
            now = time.monotonic()
            left -= rate * (now - last)
            last = now
            prof.measure()
        prof.end_epoch()
        print("epoch %d attempt %s gpus %d" % (epoch, os.environ["BERTH_RUN"].rpartition(".")[2], prof.NUM_GPUS), flush=True)


def main():
    with open(os.environ["PLAY_TABLE"]) as f:
        table = json.load(f)
    prof = kubeprofiler.KubeProfiler()
    stage = Stage(prof.JOBID)
    print("first step at %.3f" % time.time(), flush=True)
    try:
        play(prof, stage, table[TYPE][str(prof.NUM_GPUS)])
    finally:
        stage.leave()


if __name__ == "__main__":
    main()
