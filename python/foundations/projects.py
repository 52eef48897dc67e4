"""Projects: ``foundations.projects.set_project_name`` and ``get_metrics_for_all_jobs``."""

from . import _state
from ._metrics import get_metrics_for_all_jobs

__all__ = ["get_metrics_for_all_jobs", "set_project_name"]


def set_project_name(project_name="default"):
    """The project of jobs this process submits from now on."""
    _state.project_name = project_name
