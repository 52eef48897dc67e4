"""Run every sample of a search as a job: a copy of your program with the sample in its `main_config`.

    scheduler = run_scheduler_local(task_config_template_path="config.py", dijob_project_name="try")
    hpo(scheduler.get_hpo_callable()).grid()…
    scheduler.stop()
"""

from ._entry import run_scheduler, run_scheduler_k8s, run_scheduler_local
from ._scheduler import Scheduler
from ._task import Task

task = Task  #: the name in older programs

__all__ = ["Scheduler", "Task", "run_scheduler", "run_scheduler_k8s", "run_scheduler_local", "task"]
