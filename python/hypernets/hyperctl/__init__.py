"""What a job asks the batch it belongs to.

    from hypernets import hyperctl
    params = hyperctl.get_job_params()
"""

from . import api
from .api import get_job_params

__all__ = ["api", "get_job_params"]
