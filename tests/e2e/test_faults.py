"""Faults one at a time: what an operator meets, and what must hold then."""
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import harness
from harness import ApiError, Home, Skip, wait_for


def job(h, n):
    return h.api("GET", f"/v1/jobs/{n}")


def wait_state(h, n, *states, timeout=120):
    return wait_for(f"job {n} in {states}",
                    lambda: (j := job(h, n))["state"] in states and j, timeout)


def running(h, *command, **spec):
    n = h.submit(*command, **spec)["number"]
    wait_state(h, n, "running")
    return n


def test_daemon_killed_job_ends_meanwhile():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "sleep 0.4; exit 7")
        h.kill()
        time.sleep(0.8)
        h.start()
        j = wait_state(h, n, "failed", timeout=120)
        assert j["exit_code"] == 7, j
    finally:
        h.close()


def test_daemon_killed_job_goes_on():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "sleep 1.2; exit 7")
        h.kill()
        h.start()
        assert job(h, n)["state"] == "running"
        assert wait_state(h, n, "failed", timeout=120)["exit_code"] == 7
    finally:
        h.close()


def test_shepherd_killed_job_goes_on():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "sleep 0.8; exit 7")
        os.kill(h.shepherd_pid(), signal.SIGKILL)
        m = h.submit("/bin/true")["number"]
        wait_state(h, m, "succeeded", timeout=120)
        assert wait_state(h, n, "failed", timeout=120)["exit_code"] == 7
    finally:
        h.close()


def test_nothing_stays_after_the_daemon():
    """A home without daemon and jobs keeps no process, so its file system can be unmounted."""
    h = Home()
    try:
        h.start()
        h.submit("true")
        h.wait_all()
        assert h.shepherd_pid()
        h.stop()
        wait_for("the shepherd's end", lambda: not h.shepherd_pid(), 30)
        assert not h.processes(), h.processes()
        h.start()  # and the next daemon has another one
        h.submit("true")
        assert h.wait_all()["succeeded"] == 2
        n = running(h, "sleep", "5")
        h.stop()
        time.sleep(3)
        assert h.shepherd_pid(), "it left although a job runs"
        h.start()
        wait_state(h, n, "succeeded")
    finally:
        h.close()


def test_all_killed_code_kept():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "sleep 0.5; exit 7")
        os.kill(h.shepherd_pid(), signal.SIGKILL)
        h.kill()
        time.sleep(0.8)
        h.start()
        assert wait_state(h, n, "failed", timeout=120)["exit_code"] == 7
    finally:
        h.close()


def test_cancel_survives_daemon_kill():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sleep", "60")
        h.api("POST", f"/v1/jobs/{n}/cancel")
        h.kill()
        h.start()
        wait_state(h, n, "cancelled", timeout=120)
    finally:
        h.close()


def supervisor_of(h, n):
    """The process above the command of job n."""
    pid = job(h, n)["runs"][-1]["pid"]
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1]), pid


def check_supervisor_killed(kill_shepherd):
    h = Home()
    try:
        h.start("--slots", "1")
        n = running(h, "/bin/sh", "-c", "setsid sleep 300 & sleep 300")
        if kill_shepherd:
            os.kill(h.shepherd_pid(), signal.SIGKILL)
            time.sleep(0.5)
        sup, _ = supervisor_of(h, n)
        os.kill(sup, signal.SIGKILL)
        j = wait_state(h, n, "lost")
        assert "supervisor" in (j["reason"] or ""), j
        m = h.submit("/bin/true")["number"]  # the slot is free again
        wait_state(h, m, "succeeded", timeout=120)
        wait_for("its tree is gone", lambda: not [p for p, v in h.processes().items()
                                                  if "sleep" in v[0] or v[0] == "/bin/sh"], 5)
    finally:
        h.close()


def test_supervisor_killed_is_noticed():
    check_supervisor_killed(False)


def test_supervisor_killed_after_shepherd():
    check_supervisor_killed(True)


# Detaches in every way at once: new session, no environment, no descriptors, no parent.
ESCAPE = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os.closerange(0, 100)
    os.execve("/bin/sleep", ["sleep", "300"], {})
import time
time.sleep(300)
"""


def test_nobody_escapes_when_all_are_killed():
    h = Home()
    try:
        h.start("--slots", "1")
        note = os.path.join(h.dir, "pid")
        n = running(h, "/usr/bin/python3", "-c", ESCAPE, note)
        wait_for("the detached process", lambda: os.path.exists(note))
        with open(note) as f:
            escaped = int(f.read())

        def alive():
            try:
                with open(f"/proc/{escaped}/stat") as f:
                    return f.read().rsplit(")", 1)[1].split()[0] != "Z"
            except FileNotFoundError:
                return False

        wait_for("its program", lambda: open(f"/proc/{escaped}/comm").read() == "sleep\n")
        supervisor, pid = supervisor_of(h, n)
        os.kill(h.shepherd_pid(), signal.SIGKILL)
        h.kill()
        os.kill(supervisor, signal.SIGKILL)
        try:
            assert alive()
            h.start("--slots", "1")
            wait_state(h, n, "lost")
            assert not alive(), "a process of the lost run goes on"
        finally:
            if alive():
                os.kill(escaped, signal.SIGKILL)
    finally:
        h.close()


def test_lost_run_is_retried_when_asked():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "[ $BERTH_ATTEMPT = 2 ] && exit 0; sleep 300", retries=1,
                    backoff="10ms")
        sup, _ = supervisor_of(h, n)
        os.kill(sup, signal.SIGKILL)
        j = wait_state(h, n, "succeeded", timeout=120)
        assert j["attempt"] == 2, j
    finally:
        h.close()


def test_kill_right_after_200_acknowledgements():
    h = Home()
    try:
        h.start("--slots", "1")
        blocker = running(h, "/bin/sleep", "300")
        acked = [h.submit("/bin/true")["number"] for _ in range(200)]
        h.kill()
        h.start("--slots", "1")
        there = {j["number"] for j in h.jobs()}
        assert set(acked) <= there, f"{len(set(acked) - there)} of 200 lost"
        h.api("POST", f"/v1/jobs/{blocker}/cancel")
        h.wait_all()
    finally:
        h.close()


def test_10000_queued_at_restart():
    h = Home()
    try:
        h.start("--slots", "1")
        blocker = running(h, "/bin/sleep", "300")
        h.api("POST", "/v1/jobs", {"command": ["/bin/true"], "cwd": "/", "array": 10000})
        h.kill()
        h.start("--slots", "4")
        s = h.api("GET", "/v1/jobs/summary")
        assert s["queued"] + s["starting"] + s["running"] + s["succeeded"] >= 10001, s
        h.api("POST", "/v1/jobs/cancel", {"state": "queued"})
        h.api("POST", f"/v1/jobs/{blocker}/cancel")
        s = h.wait_all()
        assert s["total"] == 10001, s
    finally:
        h.close()


def small_disk(size):
    """A tmpfs of so many megabytes, or with these options."""
    if os.geteuid() != 0:
        raise Skip("mounting a small tmpfs needs root")
    path = tempfile.mkdtemp(prefix="berth-full-")
    options = f"size={size}m" if isinstance(size, int) else f"size={size}"
    p = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path],
                       capture_output=True, text=True)
    if p.returncode:
        os.rmdir(path)
        raise Skip(f"cannot mount a tmpfs here: {p.stderr.strip()}")
    return path


def fill(path):
    """Takes all the space that is left."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 1 << 16, 4096):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError:
                pass


def on_small_disk(megabytes, body):
    path = small_disk(megabytes)
    h = Home(path)
    try:
        h.start("--slots", "2")
        body(h, path)
        h.stop()
        db = sqlite3.connect(os.path.join(h.home, "berth.db"))
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
    finally:
        h.log.close()
        h.log = open(os.devnull, "ab")
        h.close()
        subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(f"{path}.full"):
            os.unlink(f"{path}.full")


def test_disk_full_while_submitting():
    def body(h, path):
        before = [h.submit("/bin/true")["number"] for _ in range(5)]
        h.wait_all()
        fill(f"{path}/ballast")
        refused = None
        for _ in range(300):  # what SQLite had allocated already may still take a few
            try:
                before.append(h.submit("/bin/true", env={"PAD": "x" * 4000})["number"])
            except ApiError as e:
                refused = e
                break
        assert refused and refused.status == 507, refused
        assert "space" in str(refused) or "full" in str(refused), refused
        assert len(h.jobs()) == len(before)
        os.unlink(f"{path}/ballast")
        n = wait_for("submissions are accepted again", lambda: try_submit(h), 10)
        wait_state(h, n, "succeeded")
        h.wait_all()
        there = {j["number"] for j in h.jobs()}
        assert set(before) <= there
    on_small_disk(8, body)


def test_disk_full_while_removing():
    def body(h, path):
        first = h.submit("/bin/echo", "kept")["number"]
        h.wait_all()
        fill(f"{path}/ballast")
        for _ in range(300):
            try:
                h.submit("/bin/true", env={"PAD": "x" * 4000})
            except ApiError as e:
                assert e.status == 507, e
                break
        for _ in range(2):  # the first may find the store healthy, the second does not
            p = h.berth("rm", str(first), check=False, timeout=20)
            assert p.returncode != 0 and "no space left" in p.stderr, (p.returncode, p.stdout, p.stderr)
        assert h.berth("logs", str(first)).stdout == "kept\n"
        os.unlink(f"{path}/ballast")
        wait_for("removals are accepted again", lambda: h.berth("rm", str(first), check=False, timeout=20).returncode == 0)
        assert first not in [j["number"] for j in h.jobs()]
    on_small_disk(8, body)


def test_disk_full_while_cancelling_and_holding():
    """Each is answered soon, takes effect and is recorded when there is space; a cancelled job ends at once."""
    def body(h, path):
        done = h.submit("/bin/true")["number"]
        h.wait_all()
        first = running(h, "/bin/sleep", "600")
        second = running(h, "/bin/sleep", "600")
        waiting, other, held = [h.submit("/bin/true")["number"] for _ in range(3)]
        h.api("POST", f"/v1/jobs/{held}/hold")
        pids = [job(h, n)["runs"][-1]["pid"] for n in (first, second)]
        fill(f"{path}/ballast")
        for _ in range(300):
            try:
                h.submit("/bin/true", env={"PAD": "x" * 4000})
            except ApiError as e:
                assert e.status == 507, e
                break
        for words in (("cancel", first), ("cancel", waiting), ("hold", other), ("release", held), ("retry", done),
                      ("queue", "pause", "other"), ("tag", done, "kept")):
            p = h.berth(*map(str, words), check=False, timeout=20)
            assert p.returncode != 0 and "no space left" in p.stderr and "recorded" in p.stderr, (words, p.stdout, p.stderr)
        wait_for("the cancelled job ends", lambda: not os.path.exists(f"/proc/{pids[0]}"))
        assert os.path.exists(f"/proc/{pids[1]}")
        os.unlink(f"{path}/ballast")
        assert wait_state(h, first, "cancelled")
        assert wait_state(h, waiting, "cancelled")
        assert wait_state(h, other, "held")
        h.api("POST", f"/v1/jobs/{second}/cancel")
        assert wait_state(h, held, "succeeded")
        assert wait_state(h, done, "succeeded")["attempt"] == 2
        assert job(h, done)["tags"], job(h, done)
        h.api("POST", f"/v1/jobs/{other}/release")
        h.wait_all()
    on_small_disk(8, body)


def try_submit(h):
    try:
        return h.submit("/bin/true")["number"]
    except ApiError:
        return None


def wait_gone(*pids):
    wait_for(f"the end of {pids}", lambda: not any(os.path.exists(f"/proc/{p}") for p in pids))


@contextlib.contextmanager
def kept_full(path):
    """Takes every block that becomes free, until the end of the block of code."""
    over = threading.Event()

    def fill_again():
        with open(f"{path}/ballast", "ab", 0) as f:
            while not over.is_set():
                try:
                    f.write(b"\0" * 4096)
                except OSError:
                    over.wait(0.002)

    t = threading.Thread(target=fill_again)
    t.start()
    try:
        wait_for("no block is left", lambda: shutil.disk_usage(path).free < 4096)
        yield
    finally:
        over.set()
        t.join()
        os.unlink(f"{path}/ballast")


def test_disk_full_while_jobs_write():
    """What ends without space for its output runs again when there is space, and then its own outcome counts."""
    def body(h, path):
        # First the one that writes nothing: once the other runs there is no room for a submission.
        quiet = running(h, "/bin/sh", "-c", f"while [ ! -e {path}.full ]; do sleep 0.1; done; exit 3")
        supervisors = [supervisor_of(h, quiet)]
        noisy = running(h, "/bin/sh", "-c", f"[ -e {path}.full ] && exit 5; sleep 0.5; head -c 30000000 /dev/zero; exit 5")
        supervisors.append(supervisor_of(h, noisy))
        wait_for("the disk is full", lambda: shutil.disk_usage(path).free < 8192)
        log = h.run_path(noisy, 1, ".log")
        with kept_full(path):  # the daemon may give back space of its own
            open(f"{path}.full", "w").close()
            wait_gone(*[pid for pair in supervisors for pid in pair])  # both have ended on a full disk
        os.truncate(log, 0)
        for n, code in ((noisy, 5), (quiet, 3)):
            j = wait_state(h, n, "failed")
            assert j["exit_code"] == code and [r["exit_code"] for r in j["runs"] if r["started"]] == [code, code], j
            assert "was full" in j["runs"][0]["detail"] and "was full" not in j["reason"], j
        n = wait_for("submissions are accepted again", lambda: try_submit(h), 10)
        wait_state(h, n, "succeeded")
    on_small_disk(8, body)


def test_output_cut_off_by_a_full_disk():
    """Exit status 0 is no success when the log was cut off."""
    def body(h, path):
        n = running(h, "/bin/sh", "-c", f"[ -e {path}.full ] && echo whole && exit 0; sleep 0.5; head -c 30000000 /dev/zero; exit 0")
        pids = supervisor_of(h, n)
        wait_gone(*pids)
        log = h.run_path(n, 1, ".log")
        open(f"{path}.full", "w").close()
        os.truncate(log, 0)
        j = wait_state(h, n, "succeeded")
        assert len([r for r in j["runs"] if r["started"]]) == 2 and "was full" in j["runs"][0]["detail"], j
        assert h.berth("logs", str(n)).stdout.endswith("whole\n")
    on_small_disk(8, body)


def on_full_directory(body, size="1m"):
    """A home with space, and a directory for jobs on a small file system that is full."""
    path = small_disk(size)
    h = Home()
    try:
        h.start("--slots", "2")
        fill(f"{path}/ballast")
        body(h, path)
    finally:
        h.close()
        subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(path, ignore_errors=True)


def waits_for_space(h, n, runs):
    """The job waits, after so many runs of its command."""
    j = job(h, n)
    return j["state"] == "queued" and len([r for r in j["runs"] if r["started"]]) == runs and j


def test_a_full_working_directory():
    """The command's own failure, because its own file could not be written, counts too; other jobs start meanwhile."""
    def body(h, path):
        n = h.submit("/bin/sh", "-c", "echo $BERTH_ATTEMPT > out", cwd=path)["number"]
        j = wait_for("the job waits", lambda: waits_for_space(h, n, 1))
        assert path in j["reason"] and ("was full" in j["reason"] or "waits for space" in j["reason"]), j["reason"]
        wait_for("a start that found no space", lambda: len(job(h, n)["runs"]) > 2)
        wait_for("it waits again, with the reason", lambda: "waits for space" in ((waits_for_space(h, n, 1) or {}).get("reason") or ""))
        m = h.submit("/bin/sh", "-c", "true", cwd=path)["number"]
        wait_state(h, m, "succeeded")
        os.unlink(f"{path}/ballast")
        j = wait_state(h, n, "succeeded")
        assert open(f"{path}/out").read() == "1\n", j  # no retry was used up
    on_full_directory(body)


def test_out_of_inodes_in_the_working_directory():
    def body(h, path):
        os.unlink(f"{path}/ballast")
        names = []
        try:
            while True:
                names.append(f"{path}/{len(names)}")
                open(names[-1], "w").close()
        except OSError:
            names.pop()
        n = h.submit("/bin/sh", "-c", "echo x > out", cwd=path)["number"]
        wait_for("the job waits", lambda: waits_for_space(h, n, 1))
        for name in names:
            os.unlink(name)
        wait_state(h, n, "succeeded")
    on_full_directory(body, "1m,nr_inodes=20")


def faketime_library():
    for root in ("/usr/lib", "/usr/local/lib"):
        for d, _, files in os.walk(root):
            if "libfaketime.so.1" in files:
                return os.path.join(d, "libfaketime.so.1")
    raise Skip("libfaketime is not installed")


def test_clock_stepped_by_hours():
    lib = faketime_library()
    d = tempfile.mkdtemp(prefix="berth-clock-")
    offset = os.path.join(d, "offset")

    def step(text):
        with open(offset + ".new", "w") as f:
            f.write(text + "\n")
        os.rename(offset + ".new", offset)

    step("+0")
    h = Home(d, LD_PRELOAD=lib, FAKETIME_TIMESTAMP_FILE=offset, FAKETIME_DONT_FAKE_MONOTONIC="1",
             FAKETIME_NO_CACHE="1", ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
    try:
        h.start("--slots", "4")
        long = running(h, "/bin/sh", "-c", "sleep 2.5; exit 4", timeout="1h")
        again = h.submit("/bin/sh", "-c", "[ $BERTH_ATTEMPT = 2 ]", retries=1, backoff="1s")["number"]
        limited = running(h, "/bin/sleep", "60", timeout="1s")
        for text in ("+5h", "-7h", "+0"):
            step(text)
            n = h.submit("/bin/true")["number"]
            wait_state(h, n, "succeeded")
        assert wait_state(h, again, "succeeded", timeout=120)["attempt"] == 2
        j = wait_state(h, limited, "failed", timeout=120)
        assert "limit" in j["reason"] or "timeout" in j["reason"], j
        step("-9h")
        h.kill()
        h.start("--slots", "4")
        j = wait_state(h, long, "failed", timeout=120)
        assert j["exit_code"] == 4, j
    finally:
        h.close()
        shutil.rmtree(d, ignore_errors=True)


def test_reports_that_were_never_sent():
    """A job that wrote megabytes of reports while nobody listened: the daemon reads them at its end."""
    script = """
import contextlib
import os
os.makedirs(os.environ["BERTH_RUN_DIR"], exist_ok=True)
with open(os.environ["BERTH_RUN_DIR"] + "/spool.jsonl", "w") as f:
    for i in range(40000):
        f.write('{"k":"m","n":"loss","v":%d.5,"s":%d,"t":1731700000000,"pad":"%s"}\\n' % (i, i, "x" * 40))
    f.write('{"k":"m","n":"half a li')
"""
    h = Home()
    try:
        h.start()
        n = h.submit("/usr/bin/python3", "-c", script)["number"]
        j = wait_state(h, n, "succeeded", timeout=120)
        assert j["metrics"]["loss"]["value"] == 39999.5, j["metrics"]
        assert j["metrics"]["loss"]["step"] == 39999, j["metrics"]
        h.kill()
        h.start()
        assert job(h, n)["metrics"]["loss"]["step"] == 39999
    finally:
        h.close()


def test_garbage_at_the_end_of_the_journal():
    h = Home()
    try:
        h.start()
        n = running(h, "/bin/sh", "-c", "sleep 0.5; exit 7")
        h.kill()
        journals = [f for f in os.listdir(f"{h.home}/shepherd") if f.startswith("journal")]
        with open(f"{h.home}/shepherd/{max(journals)}", "ab") as f:
            f.write(os.urandom(77))
        time.sleep(0.8)  # its outcome is appended behind the garbage
        h.start()
        assert wait_state(h, n, "failed", timeout=120)["exit_code"] == 7
        m = h.submit("/bin/true")["number"]
        wait_state(h, m, "succeeded")
        wait_for("it is said", lambda: "journal" in h.log_text(), 3)
    finally:
        h.close()


if __name__ == "__main__":
    harness.main(__name__)
    sys.exit(0)
