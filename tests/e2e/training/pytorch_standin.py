"""P: a PyTorch loop as people write it, one process for all GPUs, the snapshot saved after end_epoch."""

import os

import standin


def main():
    prof = standin.profiler()
    path = prof.root_dir + "/cifar_net.pth"
    if prof.RESTARTED:
        saved = standin.load(path)["epochs"]
        if saved != prof.EPOCHS_DONE:
            standin.fail(6, "the snapshot has %d epochs, the scheduler says %d" % (saved, prof.EPOCHS_DONE))
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        for index in range(standin.steps_of(prof)):
            standin.step(prof, epoch, index)
            prof.measure()
        standin.time.sleep(standin.TAIL_S)
        standin.say_epoch(prof, epoch)
        prof.end_epoch()
        standin.save(path, epochs=epoch + 1, pid=os.getpid())


if __name__ == "__main__":
    main()
