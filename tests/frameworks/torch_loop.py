"""A PyTorch loop by hand, as a user of the GPU scheduler writes it: the snapshot is saved after end_epoch().

The weights count what they have seen: `seen[e]` is the number of steps that epoch e has given them, and travels in the
snapshot.  KILL names a place at which the first attempt dies, as "EPOCH step" or "EPOCH save".
"""
import os
import signal
import time

import torch
from kubernetesdlprofile import kubeprofiler

STEP_S = float(os.environ.get("STEP_S", "0"))


class Net(torch.nn.Module):
    def __init__(self, inputs, epochs):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros(epochs, dtype=torch.int64))

    def forward(self, x):
        return self.layers(x)


def die_at(epoch, place):
    if os.environ["SCHED_ATTEMPT"] == "1" and os.environ.get("KILL") == f"{epoch} {place}":
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    prof = kubeprofiler.KubeProfiler()
    path = os.path.join(prof.root_dir, "net.pth")
    net = Net(6, prof.EPOCHS)
    x = torch.randn(prof.TRAINING_SET_SIZE, 6)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=prof.BATCH_SIZE * prof.NUM_GPUS, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    if prof.RESTARTED:
        net.load_state_dict(torch.load(path))
    print("start at", prof.EPOCHS_DONE, "restarted", prof.RESTARTED, "weights", net.seen.tolist(), flush=True)
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(inputs), wanted)
            loss.backward()
            optimizer.step()
            net.seen[epoch] += 1
            time.sleep(STEP_S)
            die_at(epoch, "step")
            prof.measure()
        print("epoch", epoch, "attempt", os.environ["SCHED_ATTEMPT"], "loss", float(loss), flush=True)
        prof.end_epoch()
        die_at(epoch, "save")
        torch.save(net.state_dict(), path + ".new")
        os.replace(path + ".new", path)
    print("weights", net.seen.tolist(), flush=True)


if __name__ == "__main__":
    main()
