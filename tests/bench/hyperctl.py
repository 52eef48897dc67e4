"""Hyperctl: a batch of nothing but `true`, the same again, 10 000 jobs with few descriptors, and one over SSH.

The original needs two ticks of five seconds and one more for every job: 514 s for the first figure,
34 s for the last with the shortest interval it can stand.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")]

from ssh_rig import SshMissing, SshRig  # noqa: E402

JOBS, BAR_HUNDRED_S, BAR_AGAIN_S, DESCRIPTORS, BAR_SHARE, BAR_FAR_S = 100, 0.5, 0.1, 1024, 0.25, 2.0
FILES = 200  # of file_cost


class Batch:
    """`count` × true in a directory of its own."""

    def __init__(self, rig, name, count, **more):
        self.rig = rig
        self.dir = os.path.join(rig.tmp, name)
        os.makedirs(self.dir)
        self.hyperctl = os.path.join(self.dir, "hyperctl")
        os.symlink(rig.berth, self.hyperctl)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        jobs = [{"name": "j%d" % i, "params": {}, "command": "true"} for i in range(count)]
        self.file = os.path.join(self.dir, "batch.json")
        with open(self.file, "w", encoding="utf-8") as f:
            json.dump(dict({"name": "b", "jobs": jobs, "server": {"port": port}}, **more), f)

    def run(self, limit=None):
        """Seconds."""
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        env = dict(self.rig.env, HOME=self.dir, BERTH_HOME=os.path.join(self.dir, "home"))
        began = time.monotonic()
        subprocess.run([self.hyperctl, "-error", "run", "-c", self.file, "--batches-data-dir", self.dir], env=env, check=True,
                       preexec_fn=few if limit else None)
        return time.monotonic() - began

    def run_far(self, ssh):
        """(seconds until the machine was connected to, seconds from then to the end)."""
        env = dict(self.rig.env, HOME=self.dir, BERTH_HOME=os.path.join(self.dir, "home"), BERTH_SSH=ssh, BERTH_FAR=self.rig.find("berth-far"))
        began, connected = time.monotonic(), None
        with subprocess.Popen([self.hyperctl, "run", "-c", self.file, "--batches-data-dir", self.dir], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            for line in p.stdout:
                if connected is None and "connected to" in line:
                    connected = time.monotonic()
        if p.returncode or connected is None:
            raise SystemExit("bench: the batch over SSH ended with %s" % p.returncode)
        return connected - began, time.monotonic() - connected

    def succeeded(self):
        return sum(1 for f in os.listdir(os.path.join(self.dir, "b")) if f.endswith(".succeed"))

    def close(self):
        """The directory stays until the end of the bench: on ext4 a new file costs more while many inodes were freed lately."""
        self.rig.end_shepherds()


def file_cost(rig, table):
    """Notes what a new file costs: a job makes about nine, and on ext4 each took 13 µs, or 1000 after many others were removed."""
    where = os.path.join(rig.tmp, "files")
    os.makedirs(where)
    began = time.monotonic()
    for i in range(FILES):
        os.close(os.open(os.path.join(where, str(i)), os.O_WRONLY | os.O_CREAT))
    table.note("a new file takes %.0f µs here; with TMPDIR=/dev/shm the file system does not count" % ((time.monotonic() - began) / FILES * 1e6))


def hundred(rig, table):
    first, again, bare = [], [], []
    for round_ in range(rig.repeats):
        bare.append(JOBS / rig.limit(JOBS, 1, "/bin/true")[0])
        batch = Batch(rig, "hundred-%d" % round_, JOBS)
        first.append(batch.run())
        again.append(batch.run())
        if batch.succeeded() != JOBS:
            raise SystemExit("bench: only %d of %d jobs succeeded" % (batch.succeeded(), JOBS))
        batch.close()
    ours = min(first)
    table.row("hyperctl, 100 x true", "%.2f s" % ours, "bare loop %.2f s" % min(bare), "%.1f" % (ours / min(bare)),
              "≤ %.2f s" % BAR_HUNDRED_S, ours <= BAR_HUNDRED_S)
    table.at_most("hyperctl, the same batch again", min(again), BAR_AGAIN_S, "%.3f s")


def few_descriptors(rig, table):
    count = rig.n(10000, 500)
    limit, _ = rig.limit(rig.n(3000, 300), 2)
    batch = Batch(rig, "many", count, backend={"type": "local", "slots": 2})
    rate = count / batch.run(DESCRIPTORS)
    good = batch.succeeded()
    batch.close()
    what = "hyperctl, %d jobs, %d descriptors" % (count, DESCRIPTORS)
    table.row(what, "%d succeeded" % good, "", "", "all", good == count)
    # A shell, a directory, a script, three files and two markers for every job are its own part.
    table.row("hyperctl, 2 slots", "%.0f jobs/s" % rate, "L %.0f/s" % limit, "%.2f" % (rate / limit), "≥ %.2f L" % BAR_SHARE,
              rate / limit >= BAR_SHARE)


def over_ssh(rig, table):
    try:
        ssh = SshRig()
    except SshMissing as x:
        table.note("%s: left out" % x)
        return
    with ssh:
        host = ssh.host("bench")
        connection = {"hostname": host.address, "port": host.port, "username": host.user, "ssh_rsa_file": ssh.key,
                      "known_hosts": ssh.known_hosts}
        times = []
        for round_ in range(rig.repeats):
            batch = Batch(rig, "far-%d" % round_, JOBS, backend={"type": "remote", "machines": [{"connection": connection}] * 2})
            times.append(batch.run_far(ssh.ssh))
            if batch.succeeded() != JOBS:
                raise SystemExit("bench: only %d of %d jobs succeeded" % (batch.succeeded(), JOBS))
            batch.close()
    table.row("hyperctl, connecting to a machine", "%.2f s" % min(t for t, _ in times))
    table.at_most("hyperctl, 100 x true over SSH, 2 slots", min(t for _, t in times), BAR_FAR_S, "%.2f s", "original 34 s")


def run(rig, table):
    file_cost(rig, table)
    hundred(rig, table)
    few_descriptors(rig, table)
    over_ssh(rig, table)
