"""Full disks and used up quotas: no job ends as succeeded or as failed because of one."""
import contextlib
import os
import subprocess

import harness
from harness import Home, Skip, wait_for
from ssh_rig import SshMissing
from test_faults import fill, job, on_full_directory, on_small_disk, running, supervisor_of, wait_gone, wait_state, waits_for_space
from test_ssh_node import Far


def started(j):
    return [r for r in j["runs"] if r["started"]]


def test_first_output_on_a_full_disk():
    """A job that was silent so far has room for its first lines, whatever becomes of the disk."""
    def body(h, path):
        go = f"{path}.full"
        n = running(h, "/bin/sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; echo result; exit 0")
        log = h.run_path(n, 1, ".log")
        pids = supervisor_of(h, n)
        wait_for("room for its output", lambda: os.stat(log).st_blocks)
        fill(f"{path}/ballast")
        open(go, "w").close()
        wait_gone(*pids)
        os.unlink(f"{path}/ballast")
        j = wait_state(h, n, "succeeded")
        assert len(started(j)) == 1 and h.berth("logs", str(n)).stdout == "result\n", j
    on_small_disk(8, body)


def test_a_silent_job_on_a_full_disk():
    """Who has nothing to say is believed, and keeps no space."""
    def body(h, path):
        go = f"{path}.full"
        n = running(h, "/bin/sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
        log = h.run_path(n, 1, ".log")
        pids = supervisor_of(h, n)
        wait_for("room for its output", lambda: os.stat(log).st_blocks)
        fill(f"{path}/ballast")
        open(go, "w").close()
        wait_gone(*pids)
        os.unlink(f"{path}/ballast")
        j = wait_state(h, n, "succeeded")
        assert len(started(j)) == 1 and os.stat(log).st_blocks == 0, j
    on_small_disk(8, body)


def test_no_output_of_a_short_job_on_a_full_disk():
    """Its exit status 0 is no success: nobody knows what it wanted to write."""
    def body(h, path):
        once = f"{path}.full"
        n = running(h, "/bin/sh", "-c", f"[ -e {once} ] || {{ sleep 0.3; cat /dev/zero > {path}/ballast; }}; echo result; exit 0")
        pids = supervisor_of(h, n)
        log = h.run_path(n, 1, ".log")
        wait_gone(*pids)
        lost = os.path.getsize(log) == 0  # on a slow machine it got its room before
        open(once, "w").close()
        os.unlink(f"{path}/ballast")
        j = wait_state(h, n, "succeeded")
        assert h.berth("logs", str(n)).stdout == "result\n", j
        assert len(started(j)) == 1 + lost, j
        if lost:
            assert "incomplete output while the disk of" in j["runs"][0]["detail"], j
    on_small_disk(8, body)


def test_a_silent_job_in_a_full_directory():
    """Only the disk of its log counts for exit status 0."""
    def body(h, path):
        n = h.submit("/bin/true", cwd=path)["number"]
        assert len(wait_state(h, n, "succeeded")["runs"]) == 1
    on_full_directory(body)


def test_a_full_disk_again_and_again():
    """A job that fills the disk itself never fails: it waits longer each time, also after a restart of the daemon."""
    def body(h, path):
        os.unlink(f"{path}/ballast")
        n = h.submit("/bin/sh", "-c", "cat /dev/zero > big; exit 9", cwd=path)["number"]
        for k in (1, 2, 3, 4):
            j = wait_for(f"run {k} met a full disk", lambda: waits_for_space(h, n, k))
            said = started(j)[-1]["detail"]
            assert "exit status 9 while the disk of" in said and (k == 1 or f"{k} times in a row" in said), j
            if k == 3:  # it knows that it wants space, and how often it met none
                h.stop()
                h.start("--slots", "2")
                wait_for("a start that found no space", lambda: "waits for space" in (job(h, n)["reason"] or ""))
                assert waits_for_space(h, n, 3), job(h, n)
            if k < 4:
                os.unlink(f"{path}/big")
        h.berth("cancel", str(n))
        wait_state(h, n, "cancelled")
    on_full_directory(body)


class FarSmall(Far):
    """A node whose login home, with all that Berth keeps there, is a small file system of its own."""

    def __init__(self, size):
        if os.geteuid() != 0:
            raise Skip("mounting a small tmpfs needs root")
        super().__init__()
        self.mounted = None
        self.size = size

    def add_small(self, name, *options):
        try:
            host = self.rig.host(name)
        except SshMissing as x:
            raise Skip(str(x)) from x
        m = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}m", "tmpfs", host.home], capture_output=True, text=True)
        if m.returncode:
            raise Skip(f"cannot mount a tmpfs here: {m.stderr.strip()}")
        self.mounted = host.home
        self.berth("node", "add", f"ssh://{name}", "--wait", "2m", *options, timeout=150)
        return host

    def __exit__(self, *_):
        try:
            if self.mounted:
                self.end_runs()
                subprocess.run(["umount", "-l", self.mounted], check=False)
        finally:
            super().__exit__()


def far_disk():
    """Megabytes for the far program, the shepherd and some room."""
    programs = sum(os.path.getsize(harness.find_program(p)) for p in ("berth-far", "berth-shepherd"))
    return 2 * (programs >> 20) + 16


def test_a_full_disk_on_another_node():
    """Both kinds of ends on a full disk: exit status 1, and 0 with a log that was cut off."""
    with FarSmall(far_disk()) as h:
        a = h.add_small("a", "--slots", "2")
        go = os.path.join(h.dir, "go")
        wait = f"[ -e {go}.all ] || until [ -e {go} ]; do sleep 0.05; done"
        fails = h.sh(f"{wait}; echo x > file || exit 4; exit 5", ["a"], cwd=a.home)
        cut = h.sh(f"echo begin; {wait}; head -c 40960 /dev/zero; echo end; exit 0", ["a"])
        for n in (fails, cut):
            h.wait_state(n, "running")
        h.wait("the first line", lambda: h.out(cut) == "begin\n")
        fill(f"{a.home}/ballast")
        open(go, "w").close()
        for n in (fails, cut):
            j = h.wait("it waits for space", lambda n=n: (j := h.job(n))["state"] == "queued" and j)
            assert "was full" in started(j)[-1]["detail"], j
        # Nothing begins there while there is no space.
        for n in (fails, cut):
            h.wait("a start that found no space", lambda n=n: "waits for space" in (h.job(n)["reason"] or ""))
            assert len(started(h.job(n))) == 1, h.job(n)
        open(f"{go}.all", "w").close()
        os.unlink(f"{a.home}/ballast")
        j = h.ended(fails)
        assert (j["state"], j["exit_code"], len(started(j))) == ("failed", 5, 2), j
        j = h.ended(cut)
        assert (j["state"], len(started(j))) == ("succeeded", 2), j
        assert h.out(cut).endswith("end\n") and j["runs"][0]["node"] == "a", j


@contextlib.contextmanager
def quota(below):
    """A home whose supervisors and jobs obey a quota: while the file `when` exists nothing can be written below a directory of it."""
    if not harness.build_option("asan"):
        raise Skip("the shepherd of this build is static: nothing can be put before its system calls")
    h = Home()
    h.when, h.below = os.path.join(h.dir, "used-up"), os.path.join(h.dir, below)
    os.makedirs(h.below, exist_ok=True)
    h.rules = harness.quota_rules(h.below, h.when)
    # The shepherd begins with an empty environment.
    h.env["BERTH_SHEPHERD"] = os.path.join(h.dir, "shepherd.sh")
    with open(h.env["BERTH_SHEPHERD"], "w") as f:
        f.write("#!/bin/sh\nexport " + " ".join(f"{k}={v}" for k, v in h.rules.items())
                + f"\nexec {harness.find_program('berth-shepherd')} \"$@\"\n")
    os.chmod(h.env["BERTH_SHEPHERD"], 0o755)
    try:
        yield h.start("--slots", "2")
    finally:
        h.close()


def test_a_quota_of_the_working_directory():
    """statvfs sees plenty of room, and only a write knows."""
    with quota("work") as h:
        open(h.when, "w").close()
        n = h.submit("/bin/sh", "-c", "echo x > out || exit 4", cwd=h.below, env=h.rules)["number"]
        j = wait_for("it waits", lambda: waits_for_space(h, n, 1))
        assert "exit status 4 while the disk of" in started(j)[0]["detail"], j
        j = wait_for("a start that found no space", lambda: (j := job(h, n)) and "waits for space" in (j["reason"] or "") and j)
        assert "quota" in j["reason"].lower(), j
        os.unlink(h.when)
        j = wait_state(h, n, "succeeded")
        assert len(started(j)) == 2, j


def test_a_quota_of_the_log():
    """Exit status 0 and an empty log."""
    with quota("home/runs") as h:
        n = h.submit("/bin/sh", "-c", f"[ -e {h.when}.once ] || {{ : > {h.when}.once; : > {h.when}; }}; echo result; exit 0", env=h.rules)["number"]
        j = wait_for("it waits", lambda: waits_for_space(h, n, 1))
        assert "incomplete output while the disk of" in started(j)[0]["detail"], j
        os.unlink(h.when)
        j = wait_state(h, n, "succeeded")
        assert len(started(j)) == 2 and h.berth("logs", str(n)).stdout == "result\n", j


if __name__ == "__main__":
    harness.main("__main__")
