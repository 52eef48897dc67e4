"""Lightning: the trainer saves, the library names the checkpoint to go on from; the weights count their epochs."""
import os
import time

import torch
from kubernetesdlprofile import kubeprofiler

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl


class Module(pl.LightningModule):
    def __init__(self, prof):
        super().__init__()
        self.prof = prof
        self.layer = torch.nn.Linear(6, 1)
        self.register_buffer("seen", torch.zeros(prof.EPOCHS, dtype=torch.int64))

    def training_step(self, batch, index):
        x, wanted = batch
        self.seen[self.current_epoch] += 1
        time.sleep(float(os.environ.get("STEP_S", "0")))
        self.prof.measure()
        return torch.nn.functional.mse_loss(self.layer(x), wanted)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_epoch_start(self):
        self.prof.start_epoch()

    def on_train_epoch_end(self):
        print("epoch", self.current_epoch, "attempt", os.environ["SCHED_ATTEMPT"], flush=True)
        self.prof.end_epoch()


if __name__ == "__main__":
    torch.set_num_threads(1)
    prof = kubeprofiler.KubeProfiler()
    x = torch.randn(prof.TRAINING_SET_SIZE, 6)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=prof.BATCH_SIZE)
    module = Module(prof)
    trainer = pl.Trainer(max_epochs=prof.EPOCHS, default_root_dir=prof.root_dir, accelerator="cpu", devices=1,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, loader, ckpt_path=prof.ckpt_path)
    print("weights", module.seen.tolist(), flush=True)
