"""The state file of the stand-in NVML library (tests/fakes/nvml.c): devices, and who holds memory on them.

It is replaced as a whole, under a lock, so that several processes may change it.
"""

import contextlib
import fcntl
import os


def library(build):
    for folder, _, names in os.walk(build):
        if "libfake_nvml.so" in names:
            return os.path.join(folder, "libfake_nvml.so")
    raise SystemExit("libfake_nvml.so is not in %s; build it first" % build)


def uuid(index):
    return "GPU-%08x-0000-4000-8000-000000000000" % index


def create(path, count, mib):
    replace(path, ["driver 535.104.05"] + ["gpu %s %d name=Stand-in" % (uuid(i), mib) for i in range(count)])


def replace(path, lines):
    with open("%s.%d" % (path, os.getpid()), "w") as f:
        f.write("\n".join(lines) + "\n")
    os.rename(f.name, path)


@contextlib.contextmanager
def changing(path):
    """The lines, to be changed in place."""
    with open(path + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(path) as f:
            lines = f.read().splitlines()
        yield lines
        replace(path, lines)


def devices(lines):
    """uuid -> index, in the order of the file."""
    return {line.split()[1]: i for i, line in enumerate(x for x in lines if x.startswith("gpu "))}


def alive(line):
    """Whether the process of a line lives; those of jobs that ended are forgotten."""
    return not line.startswith("proc ") or os.path.exists("/proc/" + line.split()[1])


def hold(path, uuids, mib):
    """This process uses so much on each of these devices; nothing with 0."""
    with changing(path) as lines:
        index = devices(lines)
        lines[:] = [x for x in lines if alive(x) and not x.startswith("proc %d " % os.getpid())]
        if mib:
            lines += ["proc %d %d %d" % (os.getpid(), index[u], mib) for u in uuids]


def processes(path):
    """(device, pid, MiB) of each line."""
    with open(path) as f:
        found = [line.split() for line in f if line.startswith("proc ")]
    return [(int(words[2]), int(words[1]), int(words[3])) for words in found]
