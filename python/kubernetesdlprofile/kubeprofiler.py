"""The object a training script builds: its job's facts, and three calls at the right places.

Owns: the attributes scripts read, the counting of steps and epochs, the moment a preempted script
ends.  Does not own: how messages travel (_wire.py), which checkpoint to load (_snapshot.py), device
memory (_gpumem.py).

Rules:

* ``start_epoch`` hears whether to stop; the process ends at the first ``measure`` after that.  What a
  script does between ``end_epoch`` and its next first step, such as saving, is therefore done.
* A request to stop is never obeyed when only one epoch is left: finishing is quicker.
* ``measure`` takes well under two microseconds unless a heartbeat is due, and then only queues it.
* No call raises because of the scheduler: what fails is printed, and training goes on.
* Without a job around it (no JOB_UUID) the object has defaults and talks to nobody.
"""

import os
import sys
import time
from datetime import datetime
from typing import Any, Dict, Mapping, Optional

from ._gpumem import GpuMemory
from ._snapshot import find_checkpoint, is_empty
from ._wire import Message, Wire

STANDALONE_ID = "standalone"

#: Where the scheduler is looked for when neither the script nor the environment says.
DEFAULT_ENDPOINT = "127.0.0.1:8643"

#: (attribute, variable, value without one): the numbers of a job.
NUMBERS = (
    ("RANK", "NODE_RANK", 0),
    ("LOCAL_RANK", "LOCAL_RANK", -1),
    ("EPOCHS_DONE", "EPOCHS_DONE", 0),
    ("PROFILE_EACH", "HEARTBEAT_FREQ", 100),
    ("NUM_GPUS", "NUM_GPUS", 1),
    ("NUM_NODES", "NUM_NODES", 1),
    ("BATCH_SIZE", "BATCH_SIZE", 32),
    ("EPOCHS", "EPOCHS_TO_BE_DONE", 1),
    ("TRAINING_SET_SIZE", "TRAINING_SET_SIZE", 1024),
    ("attempt", "SCHED_ATTEMPT", 1),
    ("share", "SCHED_SHARE", 1),
)


def say(text: str) -> None:
    """One line for the log of the job; never a reason to fail."""
    try:
        print("kubernetesdlprofile: " + text, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        say("%s is '%s' and should be a whole number; %d is used" % (name, text[:40], default))
        return default


def _host(given: Optional[str], env: Mapping[str, str]) -> str:
    """host[:port], also from a whole address."""
    text = given or env.get("SCHED_ENDPOINT") or DEFAULT_ENDPOINT
    return text.partition("://")[2].strip("/") if "://" in text else text.strip("/")


class KubeProfiler:
    """One per process.  ``hosts`` takes the two host names by position; an integer there, the
    iteration count of the first version, is ignored."""

    # What the environment says; see NUMBERS.
    RANK: int
    LOCAL_RANK: int
    EPOCHS_DONE: int
    PROFILE_EACH: int
    NUM_GPUS: int
    NUM_NODES: int
    BATCH_SIZE: int
    EPOCHS: int
    TRAINING_SET_SIZE: int
    attempt: int  # which start of this job this is
    share: int  # jobs on its devices, itself counted

    def __init__(
        self,
        *hosts: Any,
        job_manager_hostname: Optional[str] = None,
        db_hostname: Optional[str] = None,
    ) -> None:
        env = os.environ
        names = [h for h in hosts if isinstance(h, str)]
        self.JOBID = env.get("JOB_UUID") or STANDALONE_ID
        self.in_job = bool(env.get("JOB_UUID"))
        for attribute, variable, default in NUMBERS:
            setattr(self, attribute, _number(env, variable, default))
        # In a job anything but FALSE means restarted, even nothing: so it was from the start.
        self.RESTARTED = env.get("JOB_RESTARTED", "TRUE" if self.in_job else "FALSE") != "FALSE"
        self.NODE_LIST = env.get("NODELIST", "")
        self._global_rank = _number(env, "RANK", -1)  # only with one process per GPU
        self.job_manager_hostname = _host(job_manager_hostname or (names[0] if names else None), env)
        self.db_hostname = _host(db_hostname or (names[1] if len(names) > 1 else None), env)

        self.epoch = self.EPOCHS_DONE
        samples = self.BATCH_SIZE * self.NUM_GPUS * self.NUM_NODES
        self.iterationPerEpoch = self.TRAINING_SET_SIZE // samples if samples > 0 else 0
        self.maxIterations = self.iterationPerEpoch * self.EPOCHS
        self.has_to_stop = False

        # Without containers the three mounts of a job are ordinary directories, named here.
        self.custom_dir = env.get("SCHED_ROOT_CUSTOM") or "/custom"
        self.data_dir = env.get("SCHED_ROOT_DATA") or "/data"
        self.snapshots_dir = env.get("SCHED_ROOT_SNAPSHOTS") or "/snapshots"
        self.root_dir = self._make_root()
        self.ckpt_path = find_checkpoint(self.root_dir, say) if self.RESTARTED else None
        if self.RESTARTED and self.ckpt_path is None and is_empty(self.root_dir):
            say(
                "this run goes on after epoch %d, but nothing is saved in %s; a script that saves elsewhere"
                " must load it itself, or the weights begin anew" % (self.EPOCHS_DONE, self.root_dir)
            )

        self._last: Optional[float] = None  # time of the last measure()
        self._count = 0  # intervals between calls of measure() in this process
        self._due = self.PROFILE_EACH if self.PROFILE_EACH > 0 else -1
        self._first_step = True  # the next interval is not a step: start-up, validation, saving
        self._sum, self._steps = 0.0, 0  # steps of this epoch
        self._began: Optional[float] = None
        self._memory = GpuMemory()
        self._wire: Optional[Wire] = None
        if self.in_job:
            token = env.get("SCHED_TOKEN") or env.get("BERTH_JOB_TOKEN") or ""
            self._wire = Wire(token, say, several_ranks=self.NUM_GPUS * self.NUM_NODES > 1)
        else:
            say("JOB_UUID is not set: this run is on its own, with defaults; run-scheduler starts jobs")

    def _make_root(self) -> str:
        """The job's own directory for snapshots, with its parents."""
        path = os.path.join(self.snapshots_dir, self.JOBID)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as e:
            if self.in_job:
                raise OSError(
                    e.errno, "snapshots cannot be kept (is --snapshots_dir writable for you?): %s" % e.strerror, path
                ) from e
            path = os.path.join(os.getcwd(), "snapshots", self.JOBID)
            os.makedirs(path, exist_ok=True)
        return path

    # ---- what scripts call ----

    def measure(self) -> None:
        """At the end of each training step.  Ends the process, with status 0, if it has to stop."""
        now = time.monotonic()
        if self._first_step:
            self._first_step = False
            if self._last is None:
                self._count -= 1  # the very first call only sets the clock
        else:
            self._sum += now - self._last  # type: ignore[operator]
            self._steps += 1
        self._last = now
        self._count += 1
        if self._count == self._due:
            self._due += self.PROFILE_EACH
            self._heartbeat()
        if self.has_to_stop:
            sys.exit(0)

    def start_epoch(self) -> None:
        """At the start of each epoch: hears whether the job has to stop."""
        self._began = time.monotonic()
        self._first_step = True
        self._sum, self._steps = 0.0, 0
        if self._wire is None:
            return
        answer = self._wire.ask(Message("GET", self.job_manager_hostname, self._question()))
        if answer == b"1" and self.epoch < self.EPOCHS - 1:
            self.has_to_stop = True

    def end_epoch(self) -> None:
        """At the end of each epoch, after validation.  It counts once it is saved, which the scheduler
        takes from the next start_epoch() of rank 0, or from a good end."""
        began, self._began = self._began, None
        duration = time.monotonic() - began if began is not None else 0.0
        facts = self._facts(duration)
        facts["epochDur"] = duration
        self.epoch += 1
        if self._wire is None:
            return
        self._wire.tell(Message("POST", self.db_hostname, "/profiling/" + self.JOBID, facts, self._memory.fresh))
        done = {"done": self.epoch}
        self._wire.tell_done(Message("POST", self.job_manager_hostname, "/end_epoch/" + self.JOBID, done))

    def end(self) -> None:
        """At the end of the script; the scheduler sees the process end, so this only waits for
        what is still to be sent."""
        if self._wire is not None:
            self._wire.close()

    # ---- messages ----

    def _rank(self) -> Optional[int]:
        """Of this process among all of the job; None when it cannot tell."""
        torch = sys.modules.get("torch.distributed")
        try:
            if torch is not None and torch.is_available() and torch.is_initialized():
                return int(torch.get_rank())
        except Exception:  # another module of that name, or a group that is going away
            pass
        if self._global_rank >= 0:
            return self._global_rank
        if self.LOCAL_RANK >= 0:
            return self.RANK * max(self.NUM_GPUS, 1) + self.LOCAL_RANK
        # One of several that the script itself started?  Then multiprocessing is loaded.
        process = sys.modules.get("multiprocessing.process")
        if self.NUM_GPUS > 1 and process is not None and process.parent_process() is not None:
            return None
        return self.RANK

    def _question(self) -> str:
        """Must I stop?  It also says how many epochs are saved by now, if this is the rank that saves."""
        rank = self._rank()
        path = "/has_to_stop/" + self.JOBID
        return path if rank is None else "%s?epoch=%d&rank=%d" % (path, self.epoch, rank)

    def _heartbeat(self) -> None:
        if self._wire is not None:
            self._wire.post(
                Message("POST", self.db_hostname, "/profiling/" + self.JOBID, self._facts(0.0), self._memory.recent)
            )

    def _facts(self, epoch_duration: float) -> Dict[str, Any]:
        """What a heartbeat says; `gpumem` is filled in when it is sent."""
        if self._steps:
            mean = self._sum / self._steps
        else:  # an epoch of one step has no interval between steps
            mean = epoch_duration
        return {
            "jobid": self.JOBID,
            "timestamp": datetime.now().isoformat(),
            "iternum": max(self._count, 0),
            "nodelist": self.NODE_LIST,
            "numgpu": self.NUM_GPUS,
            "rank": self.RANK,
            "meandur": mean,
            "gpumem": 0,
            "epoch": self.epoch,
            "local_rank": self.LOCAL_RANK,
            "attempt": self.attempt,
            "gpus": self.NUM_GPUS * self.NUM_NODES,
            "share": self.share,
        }
