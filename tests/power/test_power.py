"""Power cuts: what was acknowledged is there, whatever the disk lost of what had not been synced.

A daemon's day is recorded (record.c, driver.py), then disks are made as a power cut may leave them
(model.py): at many moments, with all, some or none of what was not synced.  A daemon is started on each
and asked for its jobs, what they reported, their snapshots; its keys and backups are looked at.

The last tests leave out syncs, one kind of file at a time, and must find something.
"""

import atexit
import concurrent.futures
import contextlib
import functools
import gzip
import io
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import dataclass, field

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")]

import harness  # noqa: E402
import model  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STATES = 2000
PLANTED_STATES = 100  # around one promise
KEEP = (0, 0.5, 0.9, 1)  # of what was not sure
WAITING = 8  # disks made ahead


@functools.cache
def record():
    """(records, inode of the directory) of a day, the same day for all tests."""
    where = tempfile.mkdtemp(prefix="berth-power-")
    log = where + ".log"
    try:
        root = os.stat(where).st_ino
        subprocess.run([harness.find_program("record"), log, where, sys.executable, os.path.join(HERE, "driver.py"), where], check=True,
                       env={**os.environ, "BERTH_BUILD": harness.BUILD})
        records = model.read_log(log)
        end = next(i for i, r in enumerate(records) if r.op == "write" and r.data == b'{"end": true}\n')
        return records[:end], root
    finally:
        shutil.rmtree(where, ignore_errors=True)
        if os.path.exists(log):
            os.unlink(log)


def notes_of(records):
    """[(number of the record, note)…], in order."""
    ino = next(r.numbers[0] for r in records if r.op == "create" and r.data == b"notes")
    return [(i, json.loads(r.data)) for i, r in enumerate(records) if r.op == "write" and r.numbers[0] == ino]


@dataclass
class Promises:
    """What was acknowledged."""
    jobs: dict = field(default_factory=dict)  # number → what is known of it
    queues: dict = field(default_factory=dict)  # name → paused
    files: dict = field(default_factory=dict)  # path → bytes
    snapshots: dict = field(default_factory=dict)  # id → {name: text}
    backups: dict = field(default_factory=dict)  # path → numbers of jobs in it
    all_backups: dict = field(default_factory=dict)  # also those that were not finished yet


def promised(notes, cut):
    """What was heard before the cut; nothing of jobs that were being changed then."""
    p = Promises()
    coming = next((n for i, n in notes if i >= cut), {})
    for i, n in notes:
        if "backup" in n:
            p.all_backups[n["backup"]] = n["jobs"]
        if i >= cut:
            continue
        if "queue" in n:
            p.queues[n["queue"]] = n["paused"]
        elif "file" in n:
            p.files[n["file"]] = bytes.fromhex(n["hex"])
        elif "snapshot" in n:
            p.snapshots[n["snapshot"]] = n["files"]
        elif "backup" in n:
            p.backups[n["backup"]] = n["jobs"]
        elif n.get("gone"):
            p.jobs[n["job"]] = {"gone": True}
        else:
            p.jobs.setdefault(n["job"], {}).update({k: v for k, v in n.items() if k != "job"})
    # What was asked for and not answered before the cut may have happened or not.
    p.jobs.pop(coming.get("job"), None)
    return p


def broken_row(number, known, row):
    """What is wrong with one job, from its row."""
    if known.get("gone"):
        return [f"job {number} was removed and is back"] if row else []
    if not row:
        return [f"job {number} was acknowledged and is lost"]
    wrong = []
    if known.get("id") and row["id"] != known["id"]:
        wrong.append(f"job {number} is another one")
    state = known.get("state")
    if state and state != "queued" and row["state"] != state:
        wrong.append(f"job {number} was {state} and is {row['state']}")
    if "exit_code" in known and row["exit_code"] != known["exit_code"]:
        wrong.append(f"job {number} ended with {known['exit_code']} and says {row['exit_code']}")
    return wrong


def broken_backups(disk, want, scratch):
    """A backup that was acknowledged is there, and one that is there is whole."""
    for path, jobs in want.all_backups.items():
        # A backup is one file, or a directory with the database in it.
        found = [p for p, (kind, *_) in disk.items() if kind == "file" and (p == path or (p.startswith(path + "/") and p.endswith(".db")))
                 and "/.part-" not in p]  # that one is not complete yet
        if not found:
            if path in want.backups:
                yield f"{path} was acknowledged and is lost"
            continue
        with open(scratch, "wb") as f:
            f.write(disk[found[0]][2])
        try:
            with contextlib.closing(sqlite3.connect(scratch)) as db:
                rows = {n for n, in db.execute("SELECT seq FROM job")}
                if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok" or not set(jobs) <= rows:
                    yield f"{path} is there and not whole"
        except sqlite3.DatabaseError as e:
            yield f"{path} is there and not whole: {e}"


class Checker:
    """Starts a daemon on a disk and asks it; one per thread."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="berth-cut-")
        atexit.register(shutil.rmtree, self.dir, ignore_errors=True)
        self.n = 0

    def broken(self, disk, want):
        """What is wrong; empty = nothing."""
        self.n += 1
        where = os.path.join(self.dir, str(self.n))
        os.mkdir(where)
        wrong = list(broken_backups(disk, want, os.path.join(self.dir, "backup")))
        model.write_out(disk, where)
        h = harness.Home(where)
        try:
            h.start("--slots", "1")
            return wrong + self.ask(h, where, want)
        except RuntimeError as e:
            return [*wrong, "the daemon does not start: " + " ".join(str(e).split())]
        finally:
            h.kill()
            while left := h.processes():
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            h.log.close()
            shutil.rmtree(where, ignore_errors=True)

    def ask(self, h, where, want):
        for number, known in want.jobs.items():
            if known.get("journal"):  # the daemon may have to read the end of the run first
                harness.wait_for("the end", lambda number=number: self.ended(h, number))
        rows = {j["number"]: j for j in h.jobs()}
        wrong = [w for number, known in want.jobs.items() for w in broken_row(number, known, rows.get(number))]
        for number, known in want.jobs.items():
            if number in rows and "points" in known:
                wrong += self.reports(h, number, known)
            if number in rows and "files" in known:
                wrong += self.snapshot(h, number, known["files"])
        paused = {q["name"] for q in h.api("GET", "/v1/queues")["items"] if q["paused"]}
        wrong += [f"queue {q} was paused" for q, was in want.queues.items() if was and q not in paused]
        for path, content in want.files.items():
            with open(os.path.join(where, path), "rb") as f:
                if f.read() != content:
                    wrong.append(f"{path} is another one")
        return wrong + list(self.unused_snapshots(h, want))

    @staticmethod
    def ended(h, number):
        try:
            return h.api("GET", f"/v1/jobs/{number}")["ended"]
        except harness.ApiError:
            return True  # it is lost, which is told by its row

    @staticmethod
    def reports(h, number, known):
        job = h.api("GET", f"/v1/jobs/{number}")
        points = job["metrics"].get("loss", {}).get("points", 0)
        if points < known["points"]:
            yield f"{known['points']} points of job {number} were acknowledged and {points} are there"
        if known["param"] not in job["logged_params"] or known["tag"] not in job["tags"]:
            yield f"a parameter or tag of job {number} was acknowledged and is lost"

    @staticmethod
    def snapshot(h, number, files):
        status, _, data = h.request("GET", f"/v1/jobs/{number}/snapshot")
        if status != 200:
            return [f"the snapshot of job {number}: {status} {data[:200]}"]
        try:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
                found = {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode() for m in tar.getmembers() if m.isfile()}
        except (OSError, EOFError, tarfile.TarError) as e:
            return [f"the snapshot of job {number} is damaged: {e}"]
        return [] if found == files else [f"the snapshot of job {number} is damaged"]

    def unused_snapshots(self, h, want):
        """A snapshot that no job names yet may be gone; then a job that names it is refused."""
        for snapshot, files in want.snapshots.items():
            try:
                number = h.submit("true", queue="parked", snapshot=snapshot)["number"]
            except harness.ApiError as e:
                if e.status not in (400, 404, 409):
                    yield f"snapshot {snapshot}: {e}"
                continue
            yield from self.snapshot(h, number, files)


LOCAL = threading.local()


def check(disk, want):
    if not hasattr(LOCAL, "checker"):
        LOCAL.checker = Checker()
    return LOCAL.checker.broken(disk, want)


def cut_states(records, root, count, lost_syncs=lambda name: False, since=None):
    """(cut, share kept, disk, promises): `count` of them, always the same for the same records.

    since: only cuts around the first note that has this key."""
    notes = notes_of(records)
    disk = model.Disk(records, root, lost_syncs)
    at = next(i for i, n in notes if since in n) if since else 0
    cuts = [c for c in disk.cuts() if not since or at - 100 <= c < at + 300]
    rng = random.Random(1)
    for cut, keep in sorted((cuts[i * len(cuts) // count], KEEP[i % len(KEEP)]) for i in range(count)):
        yield cut, keep, disk.at(cut, rng, keep), promised(notes, cut)


def first_broken(states):
    """How many disks were looked at, and the first complaint."""
    seen = 0
    under_way = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for state in itertools.chain(states, [None] * WAITING):
            if state:
                cut, keep, disk, want = state
                under_way.append((cut, keep, pool.submit(check, disk, want)))
            if under_way and (not state or len(under_way) > WAITING):
                cut, keep, result = under_way.pop(0)
                seen += 1
                if result.result():
                    return seen, f"cut at record {cut}, {keep} of the rest kept: " + "; ".join(result.result())
    return seen, None


def test_nothing_acknowledged_is_lost():
    records, root = record()
    seen, wrong = first_broken(cut_states(records, root, STATES))
    print(f"# {len(records)} records, {seen} disks", flush=True)
    assert seen >= STATES and not wrong, wrong


def find_missing_sync(what, names, since):
    """Without these syncs something is lost, and it is noticed."""
    records, root = record()
    seen, wrong = first_broken(cut_states(records, root, PLANTED_STATES, names, since))
    assert wrong, f"{seen} disks without syncs of {what}, and none lost anything"
    print(f"# found on disk {seen}: {wrong}", flush=True)


def test_a_missing_sync_of_the_store_is_found():
    find_missing_sync("the log of the database", lambda name: name == "berth.db-wal", "job")


def test_a_missing_sync_of_the_journal_is_found():
    find_missing_sync("the journal", lambda name: name.startswith("journal-"), "journal")


def test_a_missing_sync_of_a_key_is_found():
    find_missing_sync("the keys", lambda name: name.startswith(("token", "secret")), "file")


def test_a_missing_sync_of_a_backup_is_found():
    find_missing_sync("backups", lambda name: name == "*" or name.startswith("backup"), "backup")


if __name__ == "__main__":
    harness.main(__name__)
