"""hyperctl on a full disk: what it says, what it answers, and what its files say afterwards."""
import os
import subprocess

import harness
import test_faults
from harness import BERTH, wait_for
from hyper_rig import Place, free_port, job


class Small(Place):
    """Batches on a small file system of their own."""

    def __init__(self, size=16):
        if os.geteuid() != 0:
            raise harness.Skip("mounting a small tmpfs needs root")
        super().__init__()
        m = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", self.home], capture_output=True, text=True)
        if m.returncode:
            raise harness.Skip(f"cannot mount a tmpfs here: {m.stderr.strip()}")

    def __exit__(self, *_):
        self.sweep()
        subprocess.run(["umount", "-l", self.home], check=False)
        super().__exit__()

    def fill(self):
        test_faults.fill(self.home + "/ballast")

    def free(self):
        os.unlink(self.home + "/ballast")

    def serve(self):
        """A daemon whose home is on the small disk, too."""
        self.env["BERTH_HOME"] = os.path.join(self.home, "berth")
        d = subprocess.Popen([BERTH, "serve", "--slots", "4"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started.append(d)
        wait_for("the daemon", lambda: subprocess.run([BERTH, "ls"], env=self.env, capture_output=True).returncode == 0)
        return d


class Quota(Place):
    """Batches of a user whose quota can be used up for the store and every file at one moment.

    Of a full disk the store would not learn before it needs a new block: its database has allocated some."""

    def __init__(self):
        super().__init__()
        self.when = os.path.join(self.dir, "used-up")
        self.env.update(harness.quota_rules(self.home, self.when), QUOTA_PROGRAM="berth")

    def fill(self):
        self.write("used-up", "")

    def free(self):
        os.unlink(self.when)


def use_up(at):
    """Until the daemon has no space for a record either: its database may have allocated some before the disk was full."""
    for _ in range(300):
        p = subprocess.run([BERTH, "submit", "--", "true"], env={**at.env, "PAD": "x" * 100000}, capture_output=True, text=True)
        if p.returncode:
            assert "no space" in p.stderr, p
            return
    raise AssertionError("the database has space for ever")


def until(p, *words):
    """Reads what hyperctl prints up to a line with one of the words: all of it."""
    said = []
    for line in p.stdout:
        said.append(line)
        if any(w in line for w in words):
            return said
    raise AssertionError(f"no line with {words}: {said}")


def marks(at, batch):
    return sorted(n for n in os.listdir(at.path(batch)) if n.endswith((".succeed", ".failed", ".running")))


def without_space_for_output(at, *options):
    """Two jobs whose output does not fit run again; the files, the counts and a re-run agree."""
    ran = os.path.join(at.dir, "ran")
    run = f"echo $HYPERCTL_JOB_NAME >> {ran}; until [ -e {at.dir}/go ]; do sleep 0.02; done; cat /dev/zero | head -c 40960 && echo result"
    config = at.batch("out", [job(f"j{i}", run) for i in range(3)], backend={"type": "local", "slots": 2}, server={"port": free_port()})
    p = at.start(config, *options)
    at.wait_for("out", "j0.running")
    at.wait_for("out", "j1.running")
    supervisors = [pid for pid in at.survivors() if name_of(pid).startswith("run ")]
    assert len(supervisors) == 2, supervisors
    at.fill()
    at.write("go", "")
    said = until(p, "disk_full", "waits for space", "runs again when there is space")
    # A supervisor looks at the disk when its command has ended, so the disk stays full until both are gone.
    wait_for("both supervisors ended", lambda: not set(supervisors) & set(at.survivors()))
    at.free()
    said += p.stdout.readlines()
    assert p.wait(120) == 0, said
    assert marks(at, "out") == ["j0.succeed", "j1.succeed", "j2.succeed"], (said, marks(at, "out"))
    assert '"succeed": 3' in said[-1], said
    assert all(at.read("out", f"j{i}", "stdout").endswith("result\n") for i in range(3)), said
    with open(ran) as f:
        before = f.read()
    assert "status is succeed" in at.ok("run", "-c", config, *options)
    with open(ran) as f:
        assert f.read() == before, "a re-run repeated something"


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def test_output_without_space():
    with Small() as at:
        without_space_for_output(at, "--no-daemon")


def test_output_without_space_with_a_daemon():
    with Small() as at:
        at.serve()
        without_space_for_output(at)


def kill_on_a_full_disk(at, *options):
    config = at.batch("kill", [job("short", f"until [ -e {at.dir}/go ]; do sleep 0.02; done"), job("long", "sleep 600"), job("last")],
                      backend={"type": "local", "slots": 2}, server={"port": free_port()})
    p = at.start(config, *options)
    at.wait_for("kill", "short.running")
    at.wait_for("kill", "long.running")
    at.fill()
    at.write("go", "")
    said = until(p, "disk_full", "waits for space")  # a line when it begins to wait
    if not options:
        use_up(at)
    k = at.call("job", "kill", "-b", "kill", "-j", "long")
    assert "killing job long" in k.stderr and "has taken effect" in k.stderr, (k.stdout, k.stderr)  # it is recorded later
    wait_for("the end of the killed job", lambda: not [pid for pid in at.survivors() if name_of(pid) == "sleep"])
    assert p.poll() is None
    at.free()
    said += p.stdout.readlines()
    assert p.wait(120) == 0, said
    assert marks(at, "kill") == ["last.succeed", "long.failed", "short.succeed"], (said, marks(at, "kill"))
    assert '"failed": 1' in said[-1] and '"succeed": 2' in said[-1], said


def test_kill_without_space():
    with Quota() as at:
        kill_on_a_full_disk(at, "--no-daemon")


def test_kill_without_space_with_a_daemon():
    with Small() as at:
        at.serve()
        kill_on_a_full_disk(at)


def test_a_used_up_quota():
    """The store says one line when it finds no space and one when there is space again; so does the batch if it writes a file then."""
    with Quota() as at:
        p = at.start(at.batch("full", [job(f"j{i}", "sleep 0.05") for i in range(60)]), "--no-daemon")
        at.wait_for("full", "j0.succeed")
        at.fill()
        said = until(p, "disk_full")
        assert p.poll() is None, said
        at.free()
        said += p.stdout.readlines()
        assert p.wait(120) == 0, said
        assert marks(at, "full") == sorted(f"j{i}.succeed" for i in range(60)), (said, marks(at, "full"))
        words = ("disk_full: no space", "disk_full: over after", "Disk quota exceeded (the batch waits", "the batch goes on")
        told = [w for line in said for w in words if w in line]
        assert [w for w in told if w in words[:2]] == list(words[:2]), said
        assert [w for w in told if w in words[2:]] in ([], list(words[2:])), said


if __name__ == "__main__":
    harness.main("__main__")
