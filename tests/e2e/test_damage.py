"""Damage to a home: what is lost or broken is said before anything is built upon it."""
import contextlib
import os
import random
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading

import harness
import test_faults
from harness import ApiError, Home, wait_for


def refused(h, *args):
    """The daemon must not start; what it said."""
    h.start(*args, wait=False)
    code = h.daemon.wait(120)
    text = h.log_text().strip().splitlines()[-1]
    assert code != 0, f"the daemon started and ended well: {text}"
    return text


def database(h):
    return os.path.join(h.home, "berth.db")


def worked(n=5):
    """A home with n finished jobs, and no daemon."""
    h = Home()
    h.start("--slots", "2")
    for _ in range(n):
        h.submit("/bin/true")
    h.wait_all()
    h.stop()
    return h


def lose(h):
    for end in ("", "-wal", "-shm"):
        if os.path.exists(database(h) + end):
            os.unlink(database(h) + end)


def numbers(h):
    return sorted(j["number"] for j in h.jobs())


def test_a_deleted_database_is_not_replaced_by_an_empty_one():
    h = worked()
    try:
        lose(h)
        said = refused(h)
        assert "berth.db is missing or empty" in said and "berth restore" in said, said
        assert "--new-database" in said, said
        assert not os.path.exists(database(h)), "a refused start left a database behind"
        p = h.berth("doctor", check=False)
        assert p.returncode == 1 and "missing or empty" in p.stdout, p.stdout
        p = h.berth("submit", "--", "true", check=False)
        assert p.returncode != 0 and "missing or empty" in p.stderr, p.stderr
        h.start("--new-database")
        assert numbers(h) == []
        h.submit("/bin/true")
        h.wait_all()
        h.stop()
        h.start()  # the flag is needed once
        assert len(numbers(h)) == 1
        h.stop()
        assert "would hide its jobs" in refused(h, "--new-database")
    finally:
        h.close()


def test_an_emptied_database_is_noticed():
    h = worked()
    try:
        os.truncate(database(h), 0)
        assert "missing or empty" in refused(h)
        lose(h)
        sqlite3.connect(database(h)).executescript("VACUUM")  # a database without tables
        assert "missing or empty" in refused(h) or "no tables" in refused(h)
    finally:
        h.close()


def test_the_database_of_another_home_is_refused():
    h, other = worked(2), worked(1)
    try:
        shutil.copy(database(h), h.dir + "/kept.db")
        shutil.copy(database(other), database(h))
        said = refused(h)
        assert "another home" in said, said
        shutil.copy(h.dir + "/kept.db", database(h))  # a backup of this home
        h.start()
        assert numbers(h) == [1, 2]
        h.stop()
        os.unlink(h.home + "/id")
        shutil.copy(database(other), database(h))  # and a decision of the owner
        h.start()
        assert numbers(h) == [1]
        with open(h.home + "/id") as mine, open(other.home + "/id") as its:
            assert mine.read() == its.read()
    finally:
        h.close()
        other.close()


def test_a_home_of_before_there_were_ids():
    h = worked(3)
    try:
        os.unlink(h.home + "/id")
        db = sqlite3.connect(database(h))
        db.execute("DELETE FROM fact WHERE name = 'home.id'")
        db.commit()
        db.close()
        h.start()
        assert numbers(h) == [1, 2, 3]
        with open(h.home + "/id") as f:
            assert re.fullmatch(r"[0-9a-f]{32}\n", f.read())
        h.stop()
        lose(h)
        assert "missing or empty" in refused(h)
    finally:
        h.close()


def flips(h, n, seed):
    """n copies of the database, each with one changed bit that SQLite's own check notices."""
    rng = random.Random(seed)
    with open(database(h), "rb") as f:
        sound = f.read()
    while n:
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with open(database(h), "wb") as f:
            f.write(data)
        db = sqlite3.connect(database(h))
        try:
            said = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as x:
            said = str(x)
        db.close()
        if said != "ok":
            n -= 1
            yield said
    with open(database(h), "wb") as f:
        f.write(sound)


def test_a_damaged_database_stops_the_start():
    h = worked(40)
    try:
        for said in flips(h, 12, seed=7):
            text = refused(h)
            assert "damaged" in text and "berth doctor" in text, f"{said}: {text}"
        h.start()
        assert len(numbers(h)) == 40
    finally:
        h.close()


def test_a_shortened_database_stops_the_start():
    h = worked(40)
    try:
        os.truncate(database(h), os.path.getsize(database(h)) - 3 * 4096)
        text = refused(h)
        assert "damaged" in text and "size" in text, text
    finally:
        h.close()


def test_damage_that_the_start_had_no_time_for():
    """A large database whose events are broken: the start looks at what it needs, then the rest is looked at."""
    h = worked(3)
    try:
        db = sqlite3.connect(database(h))
        last, = db.execute("SELECT max(seq) FROM event").fetchone()
        db.executemany("INSERT INTO event VALUES(?, 1700000000000, 0, 0, 0, ?)",
                       ((last + 1 + i, '{"pad":"%s"}' % ("x" * 3000)) for i in range(12000)))
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        with open(database(h), "r+b") as f:
            f.seek(os.path.getsize(database(h)) // 8192 * 4096)  # a page in the middle of the events
            f.write(b"\xee" * 16)
        h.start()
        wait_for("it is said", lambda: "berth.db is damaged" in h.log_text())
        assert gauge(h, "berth_store_damaged") == 1
        h.submit("/bin/true")
        h.wait_all()
        assert h.log_text().count("berth.db is damaged") == 1
        p = h.berth("doctor", check=False)
        assert p.returncode == 1 and "damaged" in p.stdout, p.stdout
    finally:
        h.close()


def gauge(h, name):
    _, _, body = h.request("GET", "/metrics")
    found = re.search(r"^%s (\d+)$" % re.escape(name), body.decode(), re.M)
    return found and int(found.group(1))


def test_a_check_of_everything_once_a_week():
    h = worked(3)
    try:
        h.start()
        wait_for("the check has ended well", lambda: gauge(h, "berth_store_checked_seconds"))
        assert gauge(h, "berth_store_damaged") == 0
        h.stop()
        db = sqlite3.connect(database(h))
        first, = db.execute("SELECT value FROM fact WHERE name = 'check.ms'").fetchone()
        db.close()
        h.start()
        assert gauge(h, "berth_store_checked_seconds") == int(first) // 1000
        h.stop()
        db = sqlite3.connect(database(h))
        db.execute("UPDATE fact SET value = value - 8 * 86400000 WHERE name = 'check.ms'")
        db.commit()
        db.close()
        h.start()
        wait_for("a new check has ended", lambda: gauge(h, "berth_store_checked_seconds") >= int(first) // 1000)
    finally:
        h.close()


def check_database_gone(take_away, put_back):
    h = Home()
    try:
        h.start("--slots", "2")
        n = h.submit("/bin/sleep", "600")["number"]
        wait_for("it runs", lambda: h.api("GET", f"/v1/jobs/{n}")["state"] == "running")
        take_away(database(h))
        try:
            answer = h.submit("/bin/true")
            raise AssertionError(f"acknowledged without a database: {answer}")
        except ApiError as x:
            assert x.status == 503 and "removed or replaced" in str(x), x
        wait_for("it is said", lambda: "removed or replaced" in h.log_text())
        try:
            h.submit("/bin/true")
            raise AssertionError("acknowledged without a database")
        except ApiError as x:
            assert x.status == 503 and "removed or replaced" in str(x), x
        assert [c for c, _ in h.processes().values() if "sleep" in c], "the job ended"
        put_back(database(h))
        wait_for("submissions are accepted again", lambda: try_submit(h))
        h.api("POST", f"/v1/jobs/{n}/cancel")
        h.wait_all()
    finally:
        h.close()


def try_submit(h, **env):
    try:
        return h.submit("/bin/true", env=env)["number"]
    except ApiError:
        return None


def test_a_database_moved_away_under_the_daemon():
    check_database_gone(lambda p: os.rename(p, p + ".away"), lambda p: os.rename(p + ".away", p))


def test_a_database_replaced_under_the_daemon():
    def take(p):
        os.link(p, p + ".kept")
        shutil.copy(p, p + ".other")
        os.rename(p + ".other", p)
    check_database_gone(take, lambda p: os.rename(p + ".kept", p))


def test_a_log_of_the_database_removed_under_the_daemon():
    check_database_gone(lambda p: os.rename(p + "-wal", p + "-wal.away"), lambda p: os.rename(p + "-wal.away", p + "-wal"))


def on_disk(options, body):
    """body(h, path) with a home on a small file system of its own."""
    path = test_faults.small_disk(options)
    h = Home(path)
    try:
        h.start("--slots", "1")
        body(h, path)
        h.stop()
    finally:
        h.log.close()
        h.log = open(os.devnull, "ab")
        h.close()
        subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(path, ignore_errors=True)


def trouble(h, kind):
    return gauge(h, 'berth_trouble{kind="%s"}' % kind)


def lines(h, text):
    with open(os.path.join(h.dir, "daemon.log")) as f:
        return [line for line in f if text in line]


def test_a_full_disk_is_said_once():
    def body(h, path):
        first = h.submit("/bin/sleep", "600")["number"]
        waiting = h.submit("/bin/true")["number"]
        wait_for("it runs", lambda: h.api("GET", f"/v1/jobs/{first}")["state"] == "running")
        assert trouble(h, "disk_full") == 0
        test_faults.fill(f"{path}/ballast")
        for _ in range(300):
            if not try_submit(h, PAD="x" * 4000):
                break
        for _ in range(5):
            assert not try_submit(h, PAD="x" * 4000)
        assert trouble(h, "disk_full") == 1
        why = h.api("GET", f"/v1/jobs/{waiting}/explain")
        assert why["kind"] == "disk_full" and "no space left" in why["text"], why
        # What is written goes to the file on the full disk: the log of this daemon.
        os.unlink(f"{path}/ballast")
        wait_for("the trouble is over", lambda: trouble(h, "disk_full") == 0)
        wait_for("submissions are accepted again", lambda: try_submit(h))
        h.api("POST", f"/v1/jobs/{first}/cancel")
        h.wait_all()
        assert len(lines(h, "over after")) == 1, h.log_text()
    on_disk(8, body)


def test_out_of_inodes_jobs_wait():
    def body(h, path):
        h.submit("/bin/true")
        h.wait_all()
        made = 0
        try:
            while True:
                open(f"{path}/n{made}", "w").close()
                made += 1
        except OSError:
            pass
        first = h.submit("/bin/true", array=3)["first"]
        n = [first, first + 1, first + 2]
        wait_for("it is noticed", lambda: trouble(h, "no_inodes"))
        assert [j["state"] for j in h.jobs() if j["number"] in n] == ["queued"] * 3, h.jobs()
        why = h.api("GET", f"/v1/jobs/{n[0]}/explain")
        assert why["kind"] == "no_inodes", why
        assert not try_submit(h)
        for i in range(made):
            os.unlink(f"{path}/n{i}")
        wait_for("the trouble is over", lambda: trouble(h, "no_inodes") == 0)
        h.wait_all()
        assert [h.api("GET", f"/v1/jobs/{i}")["state"] for i in n] == ["succeeded"] * 3
        assert len(lines(h, "no_inodes: ")) == 2, h.log_text()
    on_disk("16m,nr_inodes=300", body)


def test_io_errors_of_the_database_are_survived():
    """Writes and syncs of the database fail for a while: nothing is acknowledged then, nothing that was is lost."""
    h = Home()
    failing, gate = os.path.join(h.dir, "failing"), os.path.join(h.dir, "gate")
    try:
        h.env.update(LD_PRELOAD=harness.find_program("libeio.so"), EIO_WHEN=failing, EIO_NAME="/berth.db",
                     ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
        h.start("--slots", "1")
        first = h.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit 3")["number"]
        wait_for("it runs", lambda: h.api("GET", f"/v1/jobs/{first}")["state"] == "running")
        kept = [h.submit("/bin/true")["number"] for _ in range(10)]
        open(failing, "w").close()
        for _ in range(5):
            assert not try_submit(h)
        wait_for("it is noticed", lambda: trouble(h, "io_error") == 1)
        why = h.api("GET", f"/v1/jobs/{kept[0]}/explain")
        assert why["kind"] == "io_error", why
        open(gate, "w").close()  # ends meanwhile, and its outcome waits
        os.unlink(failing)
        wait_for("it is over", lambda: trouble(h, "io_error") == 0)
        kept.append(wait_for("submissions are accepted again", lambda: try_submit(h)))
        h.wait_all()
        states = {j["number"]: j["state"] for j in h.jobs()}
        assert states == {first: "failed", **{n: "succeeded" for n in kept}}, states
        assert h.api("GET", f"/v1/jobs/{first}")["exit_code"] == 3
        assert len(lines(h, "io_error: ")) == 2, h.log_text()
        h.stop()
        with contextlib.closing(sqlite3.connect(database(h))) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        h.close()


def preload_shepherd(h, failing, more=""):
    """The journal of this home fails while the file `failing` exists.  The daemon gives the shepherd a clean environment, so a
    script adds to it."""
    shepherd = harness.find_program("berth-shepherd")
    with open(shepherd, "rb") as f:
        if b"ld-linux" not in f.read(4096):
            raise harness.Skip("the shepherd of this build is static, so no library can be preloaded")
    script = os.path.join(h.dir, "shepherd.sh")
    with open(script, "w") as f:
        f.write(f"#!/bin/sh\nexport LD_PRELOAD={harness.find_program('libeio.so')} EIO_WHEN={failing}"
                f" EIO_NAME=/shepherd/journal- ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 {more}\n"
                f"exec {shepherd} \"$@\"\n")
    os.chmod(script, 0o755)
    h.env["BERTH_SHEPHERD"] = script


def shepherd_said(h, number, words):
    with open(os.path.join(h.home, "shepherd", "log"), errors="replace") as f:
        return [line for line in f if f"run {number}.1: {words}" in line]


FAILS, HOLDS = "cannot write its record to the journal", "its record is in the journal now"


def test_io_errors_of_the_journal_are_survived():
    """The supervisors cannot record beginnings and ends for a while: each is recorded later, with the right code, also when
    the daemon and the shepherd are killed meanwhile."""
    h = Home()
    failing, gate = os.path.join(h.dir, "failing"), os.path.join(h.dir, "gate")
    try:
        preload_shepherd(h, failing)
        h.start("--slots", "4")
        n = [h.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit {3 + i}")["number"] for i in range(3)]
        wait_for("they run", lambda: all(h.api("GET", f"/v1/jobs/{i}")["state"] == "running" for i in n))
        open(failing, "w").close()
        late = h.submit("sh", "-c", "exit 7")["number"]
        wait_for("a beginning that is not recorded", lambda: shepherd_said(h, late, FAILS))
        open(gate, "w").close()
        wait_for("ends that are not recorded", lambda: all(shepherd_said(h, i, FAILS) for i in n))
        assert all(h.api("GET", f"/v1/jobs/{i}")["state"] == "running" for i in n), h.jobs()
        h.kill()
        os.kill(h.shepherd_pid(), 9)
        h.start("--slots", "4")
        os.unlink(failing)
        h.wait_all()
        assert [h.api("GET", f"/v1/jobs/{i}")["exit_code"] for i in n] == [3, 4, 5], h.jobs()
        job = h.api("GET", f"/v1/jobs/{late}")
        assert job["exit_code"] == 7 and job["state"] == "failed", job
        assert all(len(h.api("GET", f"/v1/jobs/{i}")["runs"]) == 1 for i in n), "no run was repeated"
        for i in n:
            assert len(shepherd_said(h, i, FAILS)) == 1
            wait_for("the line of the end", lambda i=i: shepherd_said(h, i, HOLDS))
    finally:
        h.close()


def test_a_journal_that_cannot_be_synced_gets_its_record_again():
    """Without a daemon the supervisor syncs.  After a failure the kernel may have dropped the record: it is written again."""
    h = Home()
    failing, gate = os.path.join(h.dir, "failing"), os.path.join(h.dir, "gate")
    try:
        preload_shepherd(h, failing, "EIO_SYNCS_ONLY=1")
        h.start("--slots", "1")
        n = h.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit 9")["number"]
        wait_for("it runs", lambda: h.api("GET", f"/v1/jobs/{n}")["state"] == "running")
        h.kill()
        open(failing, "w").close()
        open(gate, "w").close()
        wait_for("a sync that fails", lambda: shepherd_said(h, n, FAILS))
        os.unlink(failing)
        wait_for("one that does not", lambda: shepherd_said(h, n, HOLDS))
        h.start("--slots", "1")
        h.wait_all()
        job = h.api("GET", f"/v1/jobs/{n}")
        assert job["exit_code"] == 9 and len(job["runs"]) == 1, job
    finally:
        h.close()


def test_out_of_descriptors_is_said():
    h = Home()
    try:
        h.start("--slots", "1")
        n = h.submit("/bin/true")["number"]
        h.wait_all()
        pid = h.daemon.pid
        full = [c for c in os.listdir(f"/proc/{pid}/fd")]
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        top = max(map(int, full)) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        assert top > 3
        wait_for("it is noticed", lambda: trouble(h, "no_descriptors"))
        assert not try_submit(h)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        wait_for("it is over", lambda: trouble(h, "no_descriptors") == 0)
        n = h.submit("/bin/true")["number"]
        h.wait_all()
        assert h.api("GET", f"/v1/jobs/{n}")["state"] == "succeeded"
        assert len(lines(h, "no_descriptors: ")) == 2, h.log_text()
    finally:
        h.close()


def test_the_log_of_the_database_leaves_room_on_a_small_disk():
    """A submission of which only half fits would leave a log that can never be emptied."""
    def body(h, path):
        specs = [{"command": ["/bin/true"], "cwd": "/", "env": {"PAD": f"{i:05}" + "x" * 4000}} for i in range(1900)]
        h.api("POST", "/v1/queues/default/pause")
        try:
            h.api("POST", "/v1/jobs", specs)
        except ApiError as x:
            assert x.status == 507, x
        kept = [h.submit("/bin/true")["number"] for _ in range(20)]
        for _ in range(100):
            try:
                h.api("POST", "/v1/jobs", specs[:50])
            except ApiError as x:
                assert x.status == 507, x
                break
        else:
            raise AssertionError("more was accepted than the disk holds")
        assert os.path.getsize(database(h) + "-wal") < 5 << 20
        # The home can help itself: what was cancelled can be removed, and new jobs find room.
        h.api("POST", "/v1/jobs/cancel", {"state": "queued"})
        wait_for("it is removed", lambda: h.api("POST", "/v1/jobs/remove", {"state": "cancelled"}) and not numbers(h))
        assert kept and wait_for("there is room", lambda: try_submit(h))
    on_disk(14, body)


def test_a_command_says_why_its_daemon_does_not_start():
    """A home of a newer program: who needs a daemon is told at once, and not that there is none."""
    h = worked(1)
    try:
        with contextlib.closing(sqlite3.connect(database(h))) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version={version + 1}")
            db.commit()
        p = h.berth("submit", "--", "true", check=False, timeout=60)
        assert p.returncode != 0 and "newer berth" in p.stderr and "upgrade berth" in p.stderr, (p.returncode, p.stderr)
        p = h.berth("serve", "--auto", check=False, timeout=60)
        assert p.returncode != 0 and "newer berth" in p.stderr, (p.returncode, p.stderr)
    finally:
        h.close()


def test_retention_does_not_believe_a_jump_of_the_clock():
    h = worked(5)
    try:
        real = dict(h.env)
        h.env.update(LD_PRELOAD=test_faults.faketime_library(), FAKETIME="+60d", FAKETIME_DONT_FAKE_MONOTONIC="1",
                     ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
        h.start("--retain", "30d")
        wait_for("it is said", lambda: "--retain removes nothing" in h.log_text())
        assert numbers(h) == [1, 2, 3, 4, 5]
        h.stop()
        h.env = real
        outputs = os.path.join(h.home, "runs", "0")
        assert len(os.listdir(outputs)) >= 5, os.listdir(outputs)
        h.start("--retain", "1ms")
        wait_for("old jobs go", lambda: not numbers(h))
        wait_for("it is said", lambda: "--retain removed the outputs of 5 jobs: 1-5" in h.log_text())
        wait_for("it is said", lambda: "--retain removed 5 jobs: 1-5" in h.log_text())
        wait_for("their files go", lambda: not os.listdir(outputs))
    finally:
        h.close()


def test_a_retry_that_crosses_retention_is_not_lost():
    """Who is told that a job runs again finds it; who is told that there is none does not.  Commits are slow, so that
    some retry comes while the removal is on its way to disk."""
    h = Home()
    again = os.path.join(h.home, "again")
    h.start("--slots", "2")
    h.api("POST", "/v1/jobs", [{"command": ["sh", "-c", f"test ! -e {again} || exec sleep 1000"]}] * 40)
    h.wait_all()
    h.stop()
    open(again, "w").close()  # a job that is retried does not end
    answers = {}

    def retry(job):
        conn = harness.UnixHTTP(h.sock, 120)
        conn.request("POST", f"/v1/jobs/{job}/retry")
        answers[job] = conn.getresponse().status
        conn.close()
    try:
        h.env["BERTH_FAULT_COMMIT_MS"] = "1000"
        h.start("--retain", "1ms")
        asking = []
        for job in range(1, 40):  # until one comes too late
            asking.append(threading.Thread(target=retry, args=(job,)))
            asking[-1].start()
            asking[-1].join(0.1)
            if 404 in answers.values():
                break
        for t in asking:
            t.join()
        wait_for("the removal of the last job", lambda: 40 not in numbers(h))
        retry(40)
        there = numbers(h)
        assert len(answers) == len(asking) + 1 and set(answers.values()) <= {200, 404}, answers
        assert all((job in there) == (status == 200) for job, status in answers.items()), (answers, there)
        assert answers[40] == 404, answers
    finally:
        h.close()


def test_records_of_old_jobs_stay_longer_than_their_outputs():
    h = worked(5)

    def make_older(days):
        h.stop()
        with sqlite3.connect(database(h)) as db:
            for column in ("created_ms", "started_ms", "ended_ms"):
                db.execute(f"UPDATE job SET {column} = {column} - ? WHERE seq < 5", (days * 86400000,))
        db.close()
        h.start("--retain", "30d")
    try:
        outputs = os.path.join(h.home, "runs", "0")
        before = len(os.listdir(outputs))
        make_older(31)
        wait_for("outputs go", lambda: len(os.listdir(outputs)) <= before - 4)
        assert "--retain removed the outputs of 4 jobs: 1-4" in h.log_text()
        assert numbers(h) == [1, 2, 3, 4, 5], numbers(h)
        assert "removed" in h.berth("logs", "1", check=False).stderr
        make_older(7)
        wait_for("their records go", lambda: numbers(h) == [5])
        wait_for("it is said", lambda: "--retain removed 4 jobs: 1-4" in h.log_text())
        assert h.log_text().count("the outputs of") == 1, h.log_text()
    finally:
        h.close()


if __name__ == "__main__":
    harness.main(__name__)
    sys.exit(0)
