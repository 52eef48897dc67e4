"""Homes that earlier releases made: this program opens each of them, loses nothing, and runs what was waiting."""
import atexit
import contextlib
import glob
import hashlib
import json
import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import old_home  # noqa: E402
import harness  # noqa: E402
from engine_rig import BUSYBOX, Engine, busybox_tree  # noqa: E402

_played = {}


def engine():
    """A container engine, or None where there can be none."""
    try:
        found = Engine("docker")
    except harness.Skip as x:
        print(f"# no container engine: {x}", flush=True)
        return None
    atexit.register(found.close)
    found.load(BUSYBOX, busybox_tree())
    return found


def played(name):
    """(what the old program said, what this one says), worked out once for each home."""
    if name not in _played:
        with open(os.path.join(HERE, name + ".json"), encoding="utf-8") as f:
            told = json.load(f)
        with old_home.root():
            try:
                _played[name] = told, old_home.play(os.path.join(HERE, name + ".tar.gz"), engine())
            except BaseException as x:
                _played[name] = x
    if isinstance(_played[name], BaseException):
        raise _played[name]
    return _played[name]


def same(old, new, what):
    found = old_home.losses(old, new, what)
    assert not found, "\n".join(found[:40])


def queue_as_it_was(name):
    told, now = played(name)
    same(told["before"]["queue"], now["before"]["queue"], "queue")


def queue_after_its_rest_ran(name):
    """What had ended is still as it was, and what waited has ended as it ended under the old program."""
    told, now = played(name)
    jobs = told["before"]["queue"]["jobs"]
    same({n: j for n, j in jobs.items() if j["record"]["state"] != "queued"}, now["before"]["queue_again"], "jobs")
    given_up = [n for n, j in now["after"]["queue"].items() if j["state"] == "cancelled"]  # no engine or no sshd here
    same({n: j for n, j in told["after"]["queue"].items() if n not in given_up}, now["after"]["queue"], "waiting")
    if given_up:
        names = ", ".join(jobs[n]["record"]["name"] for n in given_up)
        raise harness.Skip(f"checked, but for {names}: what they need cannot be had here")


# The listing names types as the tracker's own clients know them; the values are as they were.
TYPES = {"int": "number", "float": "number"}


def with_types_of_today(job):
    job = dict(job)
    for key in ("job_parameters", "output_metrics"):
        job[key] = [{**item, "type": TYPES.get(item["type"], item["type"])} for item in job[key]]
    return job


def atlas_home(name):
    """The job that ended while no server ran is archived, the queue went on, and the archives are whole."""
    told, now = played(name)
    was, then, new = told["before"]["atlas"], told["after"]["atlas"], now["after"]["atlas"]
    same(was["archives"], new["archives"], "archives")
    same(sorted(then["archives"]), sorted(new["archives"]), "archives")
    same(was["ended"], new["ended"], "ended")
    same({j: (e["status"], e["return_code"], e["logs"]) for j, e in then["ended"].items()},
         {j: (e["status"], e["return_code"], e["logs"]) for j, e in new["ended"].items()}, "ended")
    ended = set(was["ended"])
    for project, jobs in was["tracked"].items():
        old = {j: with_types_of_today(t) for j, t in jobs.items() if j in ended}
        same(old, new["tracked"][project], f"tracked.{project}")
    assert not new["queue"] and len(new["ended"]) == 5, new


def hyperctl_batch(name):
    """The batch goes on where its scheduler was killed; no job runs twice."""
    told, now = played(name)
    same(told["before"]["hyper"], now["before"]["hyper"], "batch")
    stable = [k for k in told["after"]["hyper"] if not k.endswith(".json")]  # those hold times
    same({k: told["after"]["hyper"][k] for k in stable}, now["after"]["hyper"], "batch")
    same(sorted(told["after"]["hyper"]), sorted(now["after"]["hyper"]), "batch")


SECRET = "hunter2-of-an-older-program"


def plant(path, waiting):
    """Stores secrets as an older program did: in a spec that waits and in all others, in the pages of a removed one, and in
    the log.  The files are left as a killed program leaves them."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA secure_delete=OFF")
        db.execute("PRAGMA wal_autocheckpoint=0")
        for seq, text in db.execute("SELECT seq, body FROM spec").fetchall():
            body = json.loads(text)
            body.setdefault("env", {})["WANDB_API_KEY"] = SECRET
            if seq == waiting:
                body["command"] = ["sh", "-c", "printf %s \"$WANDB_API_KEY\" | sha256sum"]
            db.execute("UPDATE spec SET body = ? WHERE seq = ?", (json.dumps(body, separators=(",", ":")), seq))
        columns = [c[1] for c in db.execute("PRAGMA table_info(spec)")]
        one = db.execute("SELECT * FROM spec LIMIT 1").fetchone()
        for seq in range(9000, 9050):  # of removed jobs: whole pages and parts of pages become free
            row = dict(zip(columns, one), seq=seq, body=SECRET * (1 + seq % 500 * 20))
            db.execute(f"INSERT INTO spec({','.join(columns)}) VALUES({','.join('?' * len(columns))})",
                       [row[c] for c in columns])
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("DELETE FROM spec WHERE seq >= 9000")
        db.execute("UPDATE spec SET body = body || ' '")
        db.commit()
        left = {s: open(path + s, "rb").read() for s in ("", "-wal")}
    for s, data in left.items():
        assert SECRET.encode() in data, f"nothing to look for in berth.db{s}"
        with open(path + s, "wb") as f:
            f.write(data)


def holders(home):
    """Files of the database that have the secret in the clear."""
    found = []
    for name in os.listdir(home):
        if name.startswith("berth.db"):
            with open(os.path.join(home, name), "rb") as f:
                if SECRET.encode() in f.read():
                    found.append(name)
    return found


def no_secret_stays_in_the_clear(name):
    """The first start seals what an older program stored: no byte of it is left, and the job that waits still gets it."""
    with old_home.root():
        old_home.unpack(os.path.join(HERE, name + ".tar.gz"))
        q = old_home.Queue()
        try:
            path = os.path.join(q.home.home, "berth.db")
            with contextlib.closing(sqlite3.connect(path)) as db:
                job, spec = db.execute("SELECT seq, spec FROM job WHERE state = 0 AND deps = 0 ORDER BY seq").fetchone()
            plant(path, spec)
            q.start()
            assert not holders(q.home.home), holders(q.home.home)
            assert "sealed the secrets that an older program had stored" in q.home.log_text(), q.home.log_text()
            for queue in ("default", "night"):
                q.command("berth", "queue", "resume", queue)
            q.reach(job, *old_home.FINAL)
            assert hashlib.sha256(SECRET.encode()).hexdigest() in q.text(job), q.text(job)
            shown = q.command("berth", "show", str(job), "-o", "json")
            assert SECRET not in shown and "WANDB_API_KEY" in shown, shown
            q.stop()
            assert not holders(q.home.home), holders(q.home.home)
        finally:
            q.close()


for _path in sorted(glob.glob(os.path.join(HERE, "*.tar.gz"))):
    _name = os.path.basename(_path)[:-len(".tar.gz")]
    for _check in (queue_as_it_was, queue_after_its_rest_ran, atlas_home, hyperctl_batch, no_secret_stays_in_the_clear):
        globals()[f"test_{_name}_{_check.__name__}"] = lambda n=_name, c=_check: c(n)


if __name__ == "__main__":
    harness.main(__name__)
