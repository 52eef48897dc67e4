"""Archives: what a submission of the same 20 MB costs, again and again, in CPU and on disk.

One round is what a server does for one job: the bundle is packed, taken into the store, checked out,
changed as a job would (parameters, a log), kept with an image, and the working directory removed.
The peers do the same work with `tar cz`, `tar xz` and `cp -r`.
"""

import os
import random
import shutil
import subprocess

from rig import children_cpu_s

MB = 1 << 20
SIZE = 20 * MB


def content(source, count):
    """A third text, a third noise, a third in between, SIZE bytes in `count` files and ten directories."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 9))) for _ in range(3000)]
    each = SIZE // count
    for i in range(count):
        folder = os.path.join(source, "part%d" % (i % 10))
        os.makedirs(folder, exist_ok=True)
        if i % 3 == 0:
            data = b" ".join(chance.choices(words, k=each // 6 + 1))
        elif i % 3 == 1:
            data = chance.randbytes(each)
        else:
            data = bytes(chance.choices(range(100), k=each))
        with open(os.path.join(folder, "file%d" % i), "wb") as f:
            f.write(data[:each])


def blocks(*folders):
    """Bytes on disk, each inode once."""
    seen, total = set(), 0
    for top in folders:
        for folder, _, names in os.walk(top):
            for path in [folder] + [os.path.join(folder, n) for n in names]:
                st = os.lstat(path)
                if st.st_ino not in seen:
                    seen.add(st.st_ino)
                    total += st.st_blocks * 512
    return total


class Yard:
    def __init__(self, rig, name, count):
        self.tool = rig.find("archive_tool")
        self.top = os.path.join(rig.tmp, name)
        self.source = os.path.join(self.top, "source")
        self.store = os.path.join(self.top, "store")
        self.archive = os.path.join(self.top, "archive")
        os.makedirs(self.archive)
        os.makedirs(os.path.join(self.top, "work"))
        content(self.source, count)
        self.cpu = {"pack": 0.0, "take": 0.0, "check out": 0.0, "keep": 0.0}

    def step(self, step, *words, **files):
        before = children_cpu_s()
        subprocess.run([self.tool, *words], check=True, stderr=subprocess.DEVNULL, **files)
        self.cpu[step] += children_cpu_s() - before

    def round(self, i):
        bundle, work = os.path.join(self.top, "bundle.tgz"), os.path.join(self.top, "work", "job-%d" % i)
        with open(bundle, "wb") as out:
            self.step("pack", "pack", self.source, "job", stdout=out)
        with open(bundle, "rb") as f:
            self.step("take", "take", self.store, "bundle-%d" % i, "job", stdin=f)
        self.step("check out", "out", self.store, "bundle-%d" % i, work)
        job = os.path.join(work, "job_source")
        with open(os.path.join(job, "parameters.json"), "w") as f:
            f.write('{"lr": %d}\n' % i)
        with open(os.path.join(job, "part0", "log"), "w") as f:
            f.write("run %d\n" % i * 20)
        image = os.path.join(self.archive, str(i))
        self.step("keep", "keep", self.store, "archive-%d" % i, job, image, "ends", stdout=subprocess.DEVNULL)
        same = i % 50 != 0 or subprocess.run(["diff", "-r", "--no-dereference", job, image]).returncode == 0
        shutil.rmtree(work)
        subprocess.run([self.tool, "drop", self.store, "bundle-%d" % i], check=True)
        return same


def peers(yard, repeats):
    """CPU of the same with tar and cp."""
    packed, out, copy = (os.path.join(yard.top, n) for n in ("peer.tgz", "peer", "peer-copy"))
    before = children_cpu_s()
    for _ in range(repeats):
        os.makedirs(out)
        subprocess.run(["tar", "czf", packed, "-C", yard.source, "."], check=True)
        subprocess.run(["tar", "xzf", packed, "-C", out], check=True)
        subprocess.run(["cp", "-r", out, copy], check=True)
        shutil.rmtree(out)
        shutil.rmtree(copy)
    return (children_cpu_s() - before) / repeats


def measure(rig, table, count, rounds, cpu_bar):
    yard = Yard(rig, "archive-%d" % count, count)
    what = "%d files, 20 MB: " % count
    same = yard.round(0)
    first = blocks(yard.store, yard.archive)
    yard.cpu = dict.fromkeys(yard.cpu, 0.0)
    for i in range(1, rounds + 1):
        same &= yard.round(i)
    grown = (blocks(yard.store, yard.archive) - first) / rounds * 1000
    table.at_most(what + "growth by 1000 jobs", grown / MB, 100, "%.0f MB", "cp -r: 20000 MB")
    for step, cpu in yard.cpu.items():
        table.row(what + step + ", CPU", "%.3f s" % (cpu / rounds))
    total, peer = sum(yard.cpu.values()) / rounds, peers(yard, 2)
    against = "tar cz, xz, cp -r: %.3f s" % peer
    table.row(what + "all four, CPU", "%.3f s" % total, against, "%.2f" % (total / peer), "≤ %.1f s" % cpu_bar, total <= cpu_bar)
    table.row(what + "archives as diff -r sees them", "equal" if same else "other", "", "", "equal", bool(same))
    shutil.rmtree(yard.top)


def run(rig, table):
    measure(rig, table, 50, rig.n(300, 10), 0.6)
    measure(rig, table, 2000, rig.n(60, 5), 1.0)
