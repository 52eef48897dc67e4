"""Homes that earlier releases made: this program opens each of them, loses nothing, and runs what was waiting."""
import atexit
import glob
import json
import os
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
        same({j: t for j, t in jobs.items() if j in ended}, new["tracked"][project], f"tracked.{project}")
    assert not new["queue"] and len(new["ended"]) == 5, new


def hyperctl_batch(name):
    """The batch goes on where its scheduler was killed; no job runs twice."""
    told, now = played(name)
    same(told["before"]["hyper"], now["before"]["hyper"], "batch")
    stable = [k for k in told["after"]["hyper"] if not k.endswith(".json")]  # those hold times
    same({k: told["after"]["hyper"][k] for k in stable}, now["after"]["hyper"], "batch")
    same(sorted(told["after"]["hyper"]), sorted(now["after"]["hyper"]), "batch")


for _path in sorted(glob.glob(os.path.join(HERE, "*.tar.gz"))):
    _name = os.path.basename(_path)[:-len(".tar.gz")]
    for _check in (queue_as_it_was, queue_after_its_rest_ran, atlas_home, hyperctl_batch):
        globals()[f"test_{_name}_{_check.__name__}"] = lambda n=_name, c=_check: c(n)


if __name__ == "__main__":
    harness.main(__name__)
