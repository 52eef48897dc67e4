"""The job this process is: what log_metric() and its companions report to.

Three kinds of process: the worker of a scheduled job (the scheduler's environment says so), a script
that is tracked because it imported the module (execution mode), and everything else, where reports
are nothing and one WARNING says so.

Rules: a report is appended to a file and sent by a background thread; nothing here waits for a server
and nothing raises because of one.  Only what the caller got wrong (a key that is no text, a value
that is no number) is raised, before anything else happens.
"""

import atexit
import errno
import os
import shutil
import sys
import threading

from . import _say
from .parameters import flatten_parameters

OUTSIDE = "Script not run with Foundations."

_NUMBERS = (int, float)


class Job:
    """One job as seen from inside; `spool` takes the reports, `files` the things to keep."""

    def __init__(self, job_id, project, spool, files):
        self.id, self.project = job_id, project
        self.spool, self.files = spool, files
        self.metric = spool.metric
        self.tags = {}
        self.artifacts = {}  # key → name it is kept under
        self.lock = threading.Lock()


current = None  #: the Job of this process, or None
quiet = False  #: somebody was told already why there is none
untracked = False  #: execution mode was tried and there is no server


def _outside():
    global quiet
    if not quiet:
        quiet = True
        _say.notice(OUTSIDE)


def _invalid(key, value):
    text = str(value)
    return TypeError(
        'Invalid metric with key="%s" of value=%s with type %s. Value should be of type string or number, or a list '
        "of strings and numbers" % (key, text if len(text) <= 30 else text[:30] + "...", type(value))
    )


def _exact(value):
    """Metrics are kept as floats: a whole number that none can hold goes as text, which the server reads back."""
    return str(value) if isinstance(value, int) and abs(value) > 1 << 53 else value


def _scalar(key, whole, value):
    """A number or text a spool can hold."""
    if isinstance(value, (str,) + _NUMBERS):
        return _exact(value)
    item = getattr(value, "item", None)  # numpy and tensors of one element
    if callable(item):
        try:
            inner = item()
        except Exception:
            raise _invalid(key, whole)
        if isinstance(inner, (str,) + _NUMBERS):
            return _exact(inner)
    raise _invalid(key, whole)


def log_metric(key, value, step=None):
    """Appends a value to a metric; a list appends each of its items."""
    job = current
    if job is not None and type(value) is float and type(key) is str:
        job.metric(key, value, step)  # what a training loop does
        return
    if not isinstance(key, str):
        raise ValueError("Invalid metric name `%s`" % (key,))
    if isinstance(value, (list, tuple)):
        values = [_scalar(key, value, v) for v in value]
    else:
        values = (_scalar(key, value, value),)
    if job is None:
        return _outside()
    for i, v in enumerate(values):
        job.metric(key, v, step if step is None or i == 0 else int(step) + i)


def log_metrics(metrics, value=None, step=None):
    """``log_metrics({"loss": 0.1, "accuracy": 0.9})``, or as log_metric(key, value)."""
    if isinstance(metrics, dict):
        for key, v in metrics.items():
            log_metric(key, v, step)
    else:
        log_metric(metrics, value, step)


def _plain(value):
    """What JSON can hold of a parameter."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, _NUMBERS):
        return value if value - value == 0 else str(value)
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return _plain(item())
        except Exception:
            pass
    return str(value)


def log_param(key, value):
    """Sets a parameter of this job; the last value wins."""
    if not isinstance(key, str):
        raise ValueError("Invalid parameter name `%s`" % (key,))
    log_params({key: value})


def log_params(parameters, quiet=False):
    """Sets many; nested ones become ``outer_inner``, items of lists ``name_0``, ``name_1``."""
    job = current
    if job is None:
        return None if quiet else _outside()
    for key, value in flatten_parameters(parameters).items():
        job.spool.param(key, _plain(value))


def set_tag(key, value=""):
    """Marks this job; the last value of a key wins."""
    job = current
    if job is None:
        return _outside()
    key, value = str(key), str(value)
    if key in job.tags and job.tags[key] != value:
        _say.notice("Tag `%s` updated from `%s` to `%s`" % (key, job.tags[key], value))
    job.tags[key] = value
    job.spool.tag(key, value)


def set_tags(tags):
    """A dict of tags, or a list of keys."""
    for key in tags:
        if isinstance(tags, dict):
            set_tag(key, tags[key])
        else:
            set_tag(key)


def save_artifact(filepath, key=None):
    """Keeps a copy of a file with this job, as it is now."""
    job = current
    if job is None:
        if not untracked:
            _say.notice("Cannot save artifact outside of job.")
        return
    path = os.path.abspath(os.path.expanduser(os.fspath(filepath)))
    if os.path.isdir(path):
        raise IsADirectoryError(
            errno.EISDIR, "an artifact is a file; create_syncable_directory() keeps directories", os.fspath(filepath)
        )
    if not os.path.isfile(path):
        raise FileNotFoundError(2, os.strerror(2), os.fspath(filepath))
    key = os.path.basename(path) if key is None else str(key)
    with job.lock:
        if key in job.artifacts:
            _say.notice("Artifact `%s` already exists, overwriting" % key)
            name = job.artifacts[key]
        else:
            name = _free_name(os.path.basename(path), job.artifacts.values())
        job.artifacts[key] = name
    try:
        kept = job.files.keep("user_artifacts", name, path)
    except Exception as e:
        _say.notice("Artifact `%s` was not saved: %s" % (key, e))
        return
    job.spool.artifact(key, kept)


def _free_name(name, taken):
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    taken, candidate, n = set(taken), name, 0
    while candidate in taken:
        n += 1
        candidate = "%s_%d%s%s" % (stem, n, dot, ending)
    return candidate


class LocalFiles:
    """The job's archive as a directory of this machine."""

    def __init__(self, archive):
        self.archive = archive

    def keep(self, section, name, path):
        target = os.path.join(self.archive, section, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        part = "%s.%d.%d.part" % (target, os.getpid(), threading.get_ident())
        try:
            shutil.copy2(path, part)
            os.replace(part, target)  # a reader sees the old file or the new one
        except BaseException:
            try:
                os.unlink(part)
            except OSError:
                pass
            raise
        return target

    def _dir(self, job_id, key):
        archive = self.archive if job_id is None else os.path.join(os.path.dirname(self.archive), job_id)
        return os.path.join(archive, "synced_directories", key)

    def listing(self, job_id, key):
        """{relative path: (size, time of change)} of a synced directory."""
        top, found = self._dir(job_id, key), {}
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    st = os.stat(path)
                except OSError:
                    continue
                found[os.path.relpath(path, top)] = (st.st_size, st.st_mtime)
        return found

    def fetch(self, job_id, key, name, target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        part = "%s.%d.%d.part" % (target, os.getpid(), threading.get_ident())
        shutil.copy2(os.path.join(self._dir(job_id, key), name), part)
        os.replace(part, target)


def command_line_mode():
    return os.environ.get("FOUNDATIONS_COMMAND_LINE", "") in ("True", "true", "1")


def _runs_a_script():
    """``python script.py``, and not ``-c``, ``-m``, a prompt or a notebook: those only use the module,
    and the directory they are in is no project of theirs."""
    main = sys.modules.get("__main__")
    if sys.argv[:1] == ["-m"] or getattr(main, "__spec__", None) is not None:
        return False  # seen while the module is looked for, and afterwards by its spec
    return isinstance(getattr(main, "__file__", None), str)


def begin():
    """Import time: finds out what this process is.  Never raises for want of a server."""
    env = os.environ
    if command_line_mode():
        return
    if env.get("BERTH_JOB_ID") and env.get("BERTH_RUN_DIR") and env.get("FOUNDATIONS_JOB_ID"):
        _scheduled(env)
    elif _runs_a_script():
        from . import _execution

        _execution.begin()
    if current is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


def _scheduled(env):
    global current
    from . import _berth

    archive = env.get("FOUNDATIONS_JOB_ARCHIVE") or os.path.join(env["BERTH_RUN_DIR"], "archive")
    current = Job(
        env["FOUNDATIONS_JOB_ID"], env.get("FOUNDATIONS_PROJECT_NAME") or "default",
        _berth.spool_module().Spool(dict(env)), LocalFiles(archive),
    )
    atexit.register(_at_exit)


def _at_exit():
    try:
        current.spool.close()
    except Exception:
        pass  # the server reads the rest itself


def _after_fork():
    if current is not None:
        current.spool.after_fork()
        current.lock = threading.Lock()
