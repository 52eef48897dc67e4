"""T: a Keras fit with callbacks: the best weights are saved BEFORE end_epoch, and only when a fake
accuracy improves; a restart begins at initial_epoch = EPOCHS_DONE; evaluation follows the last epoch."""

import os

import standin

prof = standin.profiler()
checkpoint = os.path.join(prof.root_dir, "tf_ckpts")


def accuracy(epoch):
    """Improves, except in every third epoch."""
    return 0.5 + 0.4 * epoch / (epoch + 3.0) - (0.3 if epoch % 3 == 2 else 0.0)


def fit(initial_epoch, best):
    for epoch in range(initial_epoch, prof.EPOCHS):
        prof.start_epoch()
        for index in range(standin.steps_of(prof)):
            standin.step(prof, epoch, index)
            prof.measure()
        standin.time.sleep(standin.TAIL_S)
        standin.say_epoch(prof, epoch)
        if accuracy(epoch) > best:
            best = accuracy(epoch)
            standin.save(checkpoint, accuracy=best, epoch=epoch)
        prof.end_epoch()


if prof.RESTARTED:
    fit(prof.EPOCHS_DONE, standin.load(checkpoint)["accuracy"])
else:
    fit(0, 0.0)
print("evaluated %s" % standin.load(checkpoint)["accuracy"], flush=True)
