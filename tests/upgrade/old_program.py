"""An earlier program, built from its commit: once for each build directory, and only what a home needs."""
import contextlib
import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile

import harness

# The last commit before journals and locks named a job by its id.  BERTH_UPGRADE_FROM=COMMIT tries another one.
COMMIT = os.environ.get("BERTH_UPGRADE_FROM") or "951b4a287dbe49ec63719e2cebaee47143975256"
SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TARGETS = ("src/cli/berth", "src/cli/berth-full", "src/shepherd/berth-shepherd")


class Program:
    """A build of Berth: the command, the shepherd that belongs to it, and its Python packages."""

    def __init__(self, berth, shepherd, python):
        self.berth, self.shepherd, self.python = berth, shepherd, python


def this():
    return Program(harness.BERTH, harness.find_program("berth-shepherd"), os.path.join(SOURCE, "python"))


def told(words, what):
    """The output of a command.  What is not installed here is a reason to skip, a command that fails too."""
    try:
        p = subprocess.run(words, capture_output=True, timeout=600)
    except FileNotFoundError:
        raise harness.Skip(f"{what}: {words[0]} is not installed") from None
    if p.returncode:
        raise harness.Skip(f"{what}: {(p.stderr or p.stdout).decode(errors='replace').strip().splitlines()[-1:]}")
    return p.stdout


def make(commit, place):
    """Unpacks the commit and builds TARGETS into `place`, which appears when all of it is there."""
    work = tempfile.mkdtemp(prefix="making-", dir=os.path.dirname(place))
    try:
        text = told(["git", "-c", "safe.directory=*", "-C", SOURCE, "archive", "--prefix=source/", commit],
                    f"the history here does not have commit {commit}")
        with open(work + ".tar", "wb") as f:
            f.write(text)
        with tarfile.open(work + ".tar") as tar:
            tar.extractall(work)
        # A build of the earlier program that fails for want of a library it used to need is no failure of this one.
        told(["meson", "setup", work + "/build", work + "/source", "--buildtype=debug", "-Doptimization=0"],
             f"commit {commit} cannot be configured here")
        p = subprocess.run(["ninja", "-C", work + "/build", *TARGETS], capture_output=True, text=True, timeout=600)
        assert p.returncode == 0, p.stdout[-2000:]
        os.rename(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(work + ".tar")


def old(commit=COMMIT):
    """The program of an earlier commit; Skip with the reason where there is no way to have it."""
    cache = os.path.join(harness.BUILD, "tests", "upgrade", "programs")
    place = os.path.join(cache, commit)
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(place):
            make(commit, place)
    return Program(*(os.path.join(place, "build", t) for t in TARGETS[::2]), os.path.join(place, "source", "python"))
