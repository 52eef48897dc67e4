"""A framework that calls your hooks and writes the checkpoints itself, as Lightning does.

The object lives in the module; the trainer saves lightning_logs/version_<k>/checkpoints/*.ckpt under
default_root_dir, a new version at each start, and `ckpt_path` names the one to go on from.
"""

import glob
import os
import time

from kubernetesdlprofile import kubeprofiler

import toy


class Module:
    def __init__(self):
        self.prof = kubeprofiler.KubeProfiler()
        self.line = toy.Line()

    def training_step(self, batch):
        loss = self.line.step(batch)
        time.sleep(0.02)
        self.prof.measure()
        return loss

    def on_train_epoch_start(self):
        self.prof.start_epoch()

    def on_train_epoch_end(self):
        self.prof.end_epoch()


class Trainer:
    """The part that a framework brings along."""

    def __init__(self, max_epochs, default_root_dir):
        self.max_epochs = max_epochs
        logs = os.path.join(default_root_dir, "lightning_logs")
        version = len(glob.glob(os.path.join(logs, "version_*")))
        self.folder = os.path.join(logs, "version_%d" % version, "checkpoints")

    def fit(self, module, loader, ckpt_path=None):
        first = module.line.load(ckpt_path)["epoch"] + 1 if ckpt_path else 0
        for epoch in range(first, self.max_epochs):
            module.on_train_epoch_start()
            for batch in loader:
                loss = module.training_step(batch)
            module.on_train_epoch_end()
            name = "epoch=%d-step=%d.ckpt" % (epoch, (epoch + 1) * len(loader))
            module.line.save(os.path.join(self.folder, name), epoch=epoch)
            print("epoch %d: loss %.4f" % (epoch, loss), flush=True)


if __name__ == "__main__":
    module = Module()
    prof = module.prof
    loader = toy.batches(toy.samples(prof.TRAINING_SET_SIZE), prof.BATCH_SIZE * prof.NUM_GPUS)
    # With Lightning: accelerator="gpu", devices=prof.NUM_GPUS, num_nodes=prof.NUM_NODES, strategy="ddp"
    trainer = Trainer(max_epochs=prof.EPOCHS, default_root_dir=prof.root_dir)
    trainer.fit(module, loader, ckpt_path=prof.ckpt_path)  # None unless the job was restarted
