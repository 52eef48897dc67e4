"""L: a Lightning module under DDP.

The object is built in the module's constructor.  With g GPUs the first process runs this script g-1
times more with LOCAL_RANK set, as Lightning does, and all of them meet at a barrier after each step:
a rank that stops alone makes the others hang, which is found here (exit 5) and never waited for long.
After end_epoch the framework writes lightning_logs/version_<k>/checkpoints/epoch=<i>-step=<s>.ckpt.
"""

import os
import re
import socket
import subprocess
import sys

import standin

BARRIER_S = 30.0


class Barrier:
    """All ranks of this node, at MASTER_ADDR:MASTER_PORT."""

    def __init__(self, rank, size):
        self.rank, self.peers, self.hub = rank, [], None
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if size == 1:
            return
        if rank == 0:
            with socket.create_server(address) as server:
                server.settimeout(BARRIER_S)
                self.peers = [server.accept()[0] for _ in range(size - 1)]
        else:
            self.hub = self.connect(address)
        for peer in self.peers + [self.hub] * bool(self.hub):
            peer.settimeout(BARRIER_S)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def connect(address):
        for _ in range(int(BARRIER_S / 0.01)):
            try:
                return socket.create_connection(address, BARRIER_S)
            except ConnectionRefusedError:
                standin.time.sleep(0.01)
        standin.fail(5, "rank 0 never came to the barrier")

    def wait(self):
        try:
            for peer in self.peers:
                self.expect(peer)
            for peer in self.peers:
                peer.sendall(b".")
            if self.hub:
                self.hub.sendall(b".")
                self.expect(self.hub)
        except OSError as e:
            standin.fail(5, "rank %d hangs at the barrier: %s" % (self.rank, e))

    def expect(self, peer):
        if peer.recv(1) != b".":
            standin.fail(5, "rank %d went on alone: another one stopped" % self.rank)


class Module:
    def __init__(self):
        self.prof = standin.profiler()

    def on_train_epoch_start(self):
        self.prof.start_epoch()

    def training_step(self, epoch, index):
        standin.step(self.prof, epoch, index)
        self.prof.measure()

    def on_train_epoch_end(self):
        self.prof.end_epoch()


class Trainer:
    def __init__(self, devices, max_epochs, default_root_dir):
        self.size, self.max_epochs, self.root = devices, max_epochs, default_root_dir
        self.rank = max(0, int(os.environ.get("LOCAL_RANK", "0")))
        self.children = []

    def fit(self, module, ckpt_path=None):
        if self.rank == 0:
            for rank in range(1, self.size):
                env = dict(os.environ, LOCAL_RANK=str(rank))
                self.children.append(subprocess.Popen([sys.executable] + sys.argv, env=env))
        try:
            self.run(module, standin.load(ckpt_path)["epoch"] + 1 if ckpt_path else 0)
        finally:
            self.join()

    def run(self, module, first):
        barrier = Barrier(self.rank, self.size)
        folder = self.new_version() if self.rank == 0 else ""
        steps = standin.steps_of(module.prof)
        for epoch in range(first, self.max_epochs):
            module.on_train_epoch_start()
            for index in range(steps):
                module.training_step(epoch, index)
                barrier.wait()
            standin.time.sleep(standin.TAIL_S)
            if self.rank == 0:
                standin.say_epoch(module.prof, epoch)
            module.on_train_epoch_end()
            if self.rank == 0:
                self.keep_only(os.path.join(folder, "epoch=%d-step=%d.ckpt" % (epoch, (epoch + 1) * steps)), epoch)

    @staticmethod
    def keep_only(path, epoch):
        """The newest checkpoint takes the place of the one before."""
        standin.save(path, epoch=epoch)
        folder, name = os.path.split(path)
        for other in os.listdir(folder):
            if other != name:
                os.unlink(os.path.join(folder, other))

    def new_version(self):
        logs = os.path.join(self.root, "lightning_logs")
        names = os.listdir(logs) if os.path.isdir(logs) else []
        numbers = [int(m.group(1)) for m in map(re.compile(r"version_(\d+)$").match, names) if m]
        folder = os.path.join(logs, "version_%d" % (max(numbers, default=-1) + 1), "checkpoints")
        os.makedirs(folder)
        return folder

    def join(self):
        """The ranks end together, in the same way."""
        for rank, child in enumerate(self.children, 1):
            try:
                code = child.wait(BARRIER_S)
            except subprocess.TimeoutExpired:
                standin.fail(5, "rank %d goes on alone: rank 0 ended" % rank)
            if code != 0:
                standin.fail(5, "rank %d ended with %d" % (rank, code))


if __name__ == "__main__":
    nn = Module()
    trainer = Trainer(devices=nn.prof.NUM_GPUS, max_epochs=nn.prof.EPOCHS, default_root_dir=nn.prof.root_dir)
    if not nn.prof.RESTARTED:
        trainer.fit(nn)
    else:
        trainer.fit(nn, ckpt_path=nn.prof.ckpt_path)
