"""A training loop of your own, as in plain PyTorch.

The three calls: start_epoch() before the first batch, measure() after each step, end_epoch() after
validation.  Save after end_epoch(): the process is only ever stopped at the first step of an epoch.
"""

import os
import time

from kubernetesdlprofile import kubeprofiler

import toy

prof = kubeprofiler.KubeProfiler()
path = os.path.join(prof.root_dir, "line.json")
model = toy.Line()
loader = toy.batches(toy.samples(prof.TRAINING_SET_SIZE), prof.BATCH_SIZE * prof.NUM_GPUS)
print("%d GPUs, epoch %d of %d" % (prof.NUM_GPUS, prof.EPOCHS_DONE, prof.EPOCHS), flush=True)

if prof.RESTARTED:
    model.load(path)
for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
    prof.start_epoch()
    for batch in loader:
        loss = model.step(batch)
        time.sleep(0.02)  # a network would take its time here
        prof.measure()
    prof.end_epoch()
    model.save(path)
    print("epoch %d: loss %.4f" % (epoch, loss), flush=True)
