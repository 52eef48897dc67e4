"""What users call to get a scheduler.

Owns: the arguments, their defaults and their errors.
"""

import random
from typing import Any, Optional

from ._scheduler import Scheduler
from ._task import Layout
from ._template import Template

#: The largest number that the scheduling process takes as its slots.
RUNNING_MAX = 100000


def run_scheduler_local(
    task_config_template_path: str,
    dijob_project_name: Optional[str] = None,
    max_number_of_running_task: int = 2,
    max_number_of_tasks: int = 100000,
    time_out: Optional[float] = None,
    *,
    naming: str = "seed",
    strict: bool = False,
    allow_unsafe_pickle: bool = False,
    shared: Optional[bool] = None,
) -> Scheduler:
    """Starts a scheduler on this machine and returns its handle.

    `time_out`: seconds that a trial may run; None or 0 is no limit.  `naming`: "seed" or "late" names of files.
    `strict`: a trial that exits with another status than 0 failed, also with a result.  `allow_unsafe_pickle`: load
    results with all that a pickle can do, in this process.  `shared`: trials are jobs of the daemon that `berth
    submit` uses (True), or of one for this scheduler alone (False); None: of the former, if there is one.
    """
    project = _project(dijob_project_name)
    if time_out is not None and (isinstance(time_out, bool) or not isinstance(time_out, (int, float)) or time_out < 0):
        raise ValueError("time_out is a number of seconds from 0 on, not %r" % (time_out,))
    return Scheduler(
        Template(task_config_template_path),
        Layout(project, naming),
        _count("max_number_of_running_task", max_number_of_running_task),
        _count("max_number_of_tasks", max_number_of_tasks, 10 ** 9),
        time_out,
        strict,
        allow_unsafe_pickle,
        shared,
    )


def run_scheduler_k8s(
    task_config_template_path: str,
    k8s_dijob_yaml_file_path: str,
    time_out: Optional[float] = None,
    *,
    max_number_of_running_task: int = 10000,
    max_number_of_tasks: int = 100000,
) -> Scheduler:
    """Would run trials in a Kubernetes cluster; Berth cannot do that yet."""
    raise NotImplementedError(
        "run_scheduler_k8s needs Kubernetes, which Berth cannot use yet; run_scheduler_local runs the same template on"
        " this machine"
    )


def run_scheduler(
    task_config_template_path: str,
    dijob_project_name: Optional[str] = None,
    max_number_of_running_task: int = 10,
    max_number_of_tasks: int = 100000,
    mode: str = "local",
    time_out: Optional[float] = None,
    k8s_dijob_yaml_file_path: Optional[str] = None,
    k8s_remote_project_path: Optional[str] = None,
    **options: Any,
) -> Scheduler:
    """run_scheduler_local or run_scheduler_k8s, by `mode`."""
    if mode == "local":
        return run_scheduler_local(
            task_config_template_path,
            dijob_project_name,
            max_number_of_running_task,
            max_number_of_tasks,
            time_out,
            **options,
        )
    if mode == "k8s":
        return run_scheduler_k8s(task_config_template_path, k8s_dijob_yaml_file_path or "", time_out)
    raise ValueError('mode is "local" or "k8s", not %r' % (mode,))


def _project(name: Optional[str]) -> str:
    if name is None:
        return "dijob-project-%08d" % random.randrange(10 ** 8)
    if not isinstance(name, str) or not name or name[0] in ".-" or any(c == "/" or not c.isprintable() for c in name):
        raise ValueError(
            "dijob_project_name is the name of a directory, without / and not beginning with . or -, not %r" % (name,)
        )
    return name


def _count(name: str, n: Any, most: int = RUNNING_MAX) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= most:
        raise ValueError("%s is a whole number from 1 to %d, not %r" % (name, most, n))
    return n
