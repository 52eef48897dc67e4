"""Foundations: jobs of an Atlas scheduler from Python.

In a job, or in any script that is run with ``python script.py``::

    import foundations

    params = foundations.load_parameters()
    for epoch in range(params["epochs"]):
        foundations.log_metric("loss", train(params))
    foundations.save_artifact("model.pt")

To submit jobs::

    import os
    os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"    # this script itself is no job
    import foundations

    for seed in range(5):
        foundations.submit(command=["main.py"], params=foundations.parameters.sample(space, seed))

Importing the module makes the running script a tracked job, unless ``FOUNDATIONS_COMMAND_LINE`` says
otherwise.  ``python -c``, ``python -m``, prompts and notebooks are no scripts.  Without a server there is one WARNING and the
script runs as it would without this module.
"""

from . import artifacts, parameters, projects
from ._job import log_metric, log_metrics, log_param, log_params, save_artifact, set_tag, set_tags
from ._metrics import get_metrics_for_all_jobs
from ._submit import submit
from .artifacts import create_syncable_directory, set_tensorboard_logdir
from .deployment import Deployment
from .parameters import load_parameters
from .projects import set_project_name

__version__ = "0.1.0"

__all__ = [
    "Deployment",
    "artifacts",
    "create_syncable_directory",
    "get_metrics_for_all_jobs",
    "load_parameters",
    "log_metric",
    "log_metrics",
    "log_param",
    "log_params",
    "parameters",
    "projects",
    "save_artifact",
    "set_job_resources",
    "set_project_name",
    "set_tag",
    "set_tags",
    "set_tensorboard_logdir",
    "submit",
]


def set_job_resources(num_gpus=0, ram=None):
    """GPUs and memory of jobs this process submits from now on, unless submit() is told otherwise."""
    from . import _conf, _state

    _state.num_gpus = _conf.gpu_count(num_gpus)
    if ram is not None:
        _conf.ram_bytes(ram)
    _state.ram = ram


def _start():
    from . import _job

    try:
        _job.begin()
    except Exception as e:  # nothing here may end a user's script
        from . import _say

        _say.notice("This script is not tracked and runs as usual: %r" % (e,))
        _job.quiet = _job.untracked = True


_start()
del _start
