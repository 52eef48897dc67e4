"""Damage to a home: what is lost or broken is said before anything is built upon it."""
import os
import re
import shutil
import sqlite3
import sys

import harness
from harness import Home


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


if __name__ == "__main__":
    harness.main(__name__)
    sys.exit(0)
