"""Berth from Python: report from inside a job, submit and look at jobs from outside.

Inside a job (nothing to install: the scheduler puts this package on ``PYTHONPATH``)::

    import berth

    p = berth.params(lr=0.1, depth=3)        # this job's parameters over your defaults
    for epoch in range(10):
        loss = train(p["lr"], p["depth"])
        berth.log(loss=loss, step=epoch)     # appended to a file, sent by a background thread
        berth.epoch(epoch)
        if berth.should_stop():              # someone cancelled or wants the slot
            save_checkpoint()
            break

Outside::

    job = berth.submit(["python", "train.py"], cpus=2, mem="4G", params={"lr": 0.01})
    job.wait()
    print(job.state, job.exit_code, job.logs())

A search from Python (docs/search.md)::

    study = berth.Study("lr", {"lr": {"log": [1e-5, 0.1]}}, minimize="loss")
    best = study.optimize(lambda t: train(t["lr"]), n=100, parallel=4)

The functions for inside a job never block and never raise: without a scheduler around they do
nothing and say so once.  The functions for outside raise :class:`BerthError`.
"""

from ._client import (
    Batch,
    BerthError,
    Client,
    Denied,
    Job,
    NotFound,
    Unavailable,
    job,
    jobs,
    submit,
    sweep,
)
from ._inside import (
    artifact,
    artifact_dir,
    epoch,
    flush,
    in_job,
    log,
    log_metric,
    log_params,
    params,
    parent_dir,
    save_artifact,
    should_stop,
    tag,
)
from ._study import Exhausted, Pruned, Study, Trial
from ._track import Run, track

__version__ = "0.1.0"

for _public in (
    Batch, BerthError, Client, Denied, Exhausted, Job, NotFound, Pruned, Run, Study, Trial, Unavailable
):
    _public.__module__ = "berth"  # the name people import, also in tracebacks
del _public

__all__ = [
    "Batch",
    "BerthError",
    "Client",
    "Denied",
    "Exhausted",
    "Job",
    "NotFound",
    "Pruned",
    "Run",
    "Study",
    "Trial",
    "Unavailable",
    "artifact",
    "artifact_dir",
    "epoch",
    "flush",
    "in_job",
    "job",
    "jobs",
    "log",
    "log_metric",
    "log_params",
    "params",
    "parent_dir",
    "save_artifact",
    "should_stop",
    "submit",
    "sweep",
    "tag",
    "track",
]
