"""Power cuts: what was acknowledged is there, whatever the disk lost of what had not been synced.

A daemon's day is recorded (record.c, driver.py), then disks are made as a power cut may leave them
(model.py): at many moments, with all, some or none of what was not synced.  A daemon is started on each
and asked for its jobs.
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")]

import harness  # noqa: E402
import model  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STATES = 2000
KEEP = (0, 0.5, 0.9, 1)  # of what was not sure
WAITING = 8  # disks made ahead


def record():
    """(records, inode of the directory) of a day."""
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


def promised(notes, cut):
    """({job: what is known of it}, {queue: paused}) from what was heard before the cut, and jobs that were being changed then."""
    jobs, queues = {}, {}
    heard = [n for i, n in notes if i < cut]
    coming = next((n for i, n in notes if i >= cut), {})
    for n in heard:
        if "queue" in n:
            queues[n["queue"]] = n["paused"]
        elif n.get("gone"):
            jobs[n["job"]] = {"gone": True}
        else:
            jobs.setdefault(n["job"], {}).update({k: v for k, v in n.items() if k != "job"})
    # What was asked for and not answered before the cut may have happened or not.
    jobs.pop(coming.get("job"), None)
    return jobs, queues


def broken(found, want):
    """What is wrong with a daemon's answers; empty = nothing."""
    rows, paused = found
    jobs, queues = want
    wrong = []
    for number, known in jobs.items():
        row = rows.get(number)
        if known.get("gone"):
            if row:
                wrong.append(f"job {number} was removed and is back")
        elif not row:
            wrong.append(f"job {number} was acknowledged and is lost")
        else:
            if known.get("id") and row["id"] != known["id"]:
                wrong.append(f"job {number} is another one")
            state = known.get("state")
            if state and state != "queued" and row["state"] != state:
                wrong.append(f"job {number} was {state} and is {row['state']}")
            if "exit_code" in known and row["exit_code"] != known["exit_code"]:
                wrong.append(f"job {number} ended with {known['exit_code']} and says {row['exit_code']}")
    wrong += [f"queue {q} was paused" for q, was in queues.items() if was and q not in paused]
    return wrong


class Checker:
    """Starts a daemon on a disk and asks it; one per thread."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="berth-cut-")
        self.n = 0

    def look(self, disk):
        self.n += 1
        where = os.path.join(self.dir, str(self.n))
        os.mkdir(where)
        model.write_out(disk, where)
        h = harness.Home(where)
        try:
            h.start("--slots", "1")
            rows = {j["number"]: j for j in h.jobs()}
            paused = {q["name"] for q in h.api("GET", "/v1/queues")["items"] if q["paused"]}
            return rows, paused
        finally:
            h.kill()
            while left := h.processes():
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            h.log.close()
            shutil.rmtree(where, ignore_errors=True)


LOCAL = threading.local()


def check(disk, want):
    if not hasattr(LOCAL, "checker"):
        LOCAL.checker = Checker()
    return broken(LOCAL.checker.look(disk), want)


def cut_states(records, root, count, lost_syncs=lambda name: False):
    """(cut, share kept, disk, promises): `count` of them, always the same for the same records."""
    notes = notes_of(records)
    disk = model.Disk(records, root, lost_syncs)
    cuts = disk.cuts()
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


def test_a_missing_sync_is_found():
    records, root = record()
    seen, wrong = first_broken(cut_states(records, root, STATES, lambda name: name == "berth.db-wal"))
    assert wrong, f"{seen} disks without syncs of the log of the database, and none lost anything"
    print(f"# found on disk {seen}: {wrong}", flush=True)


if __name__ == "__main__":
    harness.main(__name__)
