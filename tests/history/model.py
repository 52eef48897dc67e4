"""One job as a sequential program, and whether what clients saw of it can be explained by one.

A history of a job is a list of Op: who asked for what, from when to when, and what was answered.  The
history is linearizable when each operation can be given one moment between its begin and its end so that
the operations, in the order of these moments, get the answers of this model.  An operation without an
answer (end = None) happened at some moment after its begin, or never.

Between operations a job moves by itself: it is placed, runs and ends.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional


class Job(NamedTuple):
    phase: str  # a state of the API, or "absent" (not submitted yet) or "gone" (removed)
    attempt: int
    code: Optional[int]


ABSENT = Job("absent", 0, None)
WAITING, WITH_RUN = ("queued", "held"), ("starting", "running", "stopping")
FINAL = ("succeeded", "failed", "cancelled", "lost")
MISSING = ("absent", "gone")
ANY = -1  # exit code of a job that was stopped: of its signal, or none


@dataclass
class Op:
    client: str
    kind: str
    begin: int
    end: Optional[int]  # None: nobody knows whether it happened
    value: Any = None  # the answer: "done", "already", 404, 409; for reads what was seen

    def __str__(self):
        return f"{self.client} {self.kind} [{self.begin / 1e6:.3f}, {'?' if self.end is None else f'{self.end / 1e6:.3f}'}] ms -> {self.value}"


def moves(job, code):
    """Where a job may go by itself.  code: what its command exits with, None = it ends only when stopped."""
    phase, attempt, _ = job
    if phase == "queued":
        yield Job("starting", attempt + 1, None)
    if phase == "starting":
        yield Job("running", attempt, None)
    if phase in WITH_RUN and code is not None:
        yield Job("failed" if code else "succeeded", attempt, code)
    if phase == "stopping":
        yield Job("cancelled", attempt, ANY)


def submit(job):
    if job.phase == "absent":
        return Job("queued", 0, None), "done"
    return job, 409 if job.phase == "gone" else "done"  # the key is known: the same job again


def cancel(job):
    if job.phase in WAITING:
        return Job("cancelled", job.attempt, ANY), "done"
    if job.phase in ("starting", "running"):
        return job._replace(phase="stopping"), "done"
    return job, 404 if job.phase in MISSING else "already"


def hold(job):
    if job.phase in WAITING:
        return job._replace(phase="held"), "done"
    return job, 404 if job.phase in MISSING else 409


def release(job):
    if job.phase == "held":
        return job._replace(phase="queued"), "done"
    return job, 404 if job.phase in MISSING else "already"


def retry(job):
    if job.phase in FINAL:
        return Job("queued", job.attempt, None), "done"
    return job, 404 if job.phase in MISSING else 409


def remove(job):
    if job.phase in FINAL:
        return job._replace(phase="gone"), "done"
    return job, 404 if job.phase in MISSING else 409


ACTIONS = {"submit": submit, "cancel": cancel, "hold": hold, "release": release, "retry": retry, "remove": remove}


def seen(job, value):
    """Does the job look like this?  value: 404, a state, or a Job."""
    if value == 404:
        return job.phase in MISSING
    if isinstance(value, str):
        return job.phase == value
    return job.phase == value.phase and job.attempt == value.attempt and (job.code == ANY or job.code == value.code)


def step(job, op):
    """The job after op, or None when the answer of op does not fit."""
    if op.kind not in ACTIONS:
        return job if seen(job, op.value) else None
    after, answer = ACTIONS[op.kind](job)
    return after if op.end is None or answer == op.value else None


def explain(ops, code):
    """None when the history is linearizable, else the first operation that nothing explains.

    Goes through begins and ends in order and keeps every pair of (state, operations under way that have
    had their moment) that may be."""
    times = sorted([(op.begin, 0, i) for i, op in enumerate(ops)] + [(op.end, 1, i) for i, op in enumerate(ops) if op.end is not None])
    under_way, possible = set(), {(ABSENT, frozenset())}
    for _, ends, i in times:
        if not ends:
            under_way.add(i)
            continue
        todo, known, fit = list(possible), set(possible), set()
        while todo:
            job, done = todo.pop()
            if i in done:
                fit.add((job, done - {i}))
                continue
            following = [(m, done) for m in moves(job, code)]
            following += [(after, done | {k}) for k in under_way - done if (after := step(job, ops[k])) is not None]
            for pair in following:
                if pair not in known:
                    known.add(pair)
                    todo.append(pair)
        under_way.discard(i)
        if not fit:
            return ops[i]
        possible = fit
    return None
