"""What goes wrong besides the trials themselves.  The two marks are read by ditk.hpo (hpo/_search.py)."""


class WrongSample(ValueError):
    """The sample does not fit the template.  No other sample of the space would, so the search is aborted."""

    aborts_search = True


class SchedulerGone(RuntimeError):
    """The scheduling process has died; the search is aborted."""

    aborts_search = True


class SchedulerEnded(RuntimeError):
    """The scheduler takes no more samples: it was stopped, or has had its largest number of tasks.  The search ends
    with what it has."""

    ends_search = True
