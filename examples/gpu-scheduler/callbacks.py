"""A framework with a fit() and callbacks, as Keras.

Weights are saved by a callback that runs before ours, whenever the loss improved; a restarted job
loads them and tells fit() where to begin.
"""

import os
import time

from kubernetesdlprofile import kubeprofiler

import toy

prof = kubeprofiler.KubeProfiler()
checkpoint = os.path.join(prof.root_dir, "tf_ckpts")


class KeepBest:
    """tf.keras.callbacks.ModelCheckpoint(save_best_only=True)"""

    def __init__(self, best):
        self.best = best

    def on_epoch_end(self, model, loss):
        if loss < self.best:
            self.best = loss
            model.save(checkpoint, loss=loss)


class Profile:
    """tf.keras.callbacks.Callback"""

    def on_epoch_begin(self):
        prof.start_epoch()

    def on_train_batch_end(self):
        prof.measure()

    def on_epoch_end(self, model, loss):
        prof.end_epoch()


def fit(model, loader, epochs, initial_epoch, keep, profile):
    for epoch in range(initial_epoch, epochs):
        profile.on_epoch_begin()
        for batch in loader:
            loss = model.step(batch)
            time.sleep(0.02)
            profile.on_train_batch_end()
        for callback in (keep, profile):
            callback.on_epoch_end(model, loss)
        print("epoch %d: loss %.4f" % (epoch, loss), flush=True)


model, initial_epoch, best = toy.Line(), 0, float("inf")
if prof.RESTARTED:
    best = model.load(checkpoint)["loss"]
    initial_epoch = prof.EPOCHS_DONE
data = toy.samples(prof.TRAINING_SET_SIZE)
fit(model, toy.batches(data, prof.BATCH_SIZE * prof.NUM_GPUS), prof.EPOCHS, initial_epoch, KeepBest(best), Profile())
print("y = %.2f x %+.2f" % (model.slope, model.offset))
