"""Where things are and what the config files say.

The home is ``$FOUNDATIONS_HOME`` or ``~/.foundations``.  A submission config is looked for in
``config/submission`` of the job's directory first, then of the home.  Keys nobody knows are told
once and left alone; values of the wrong type are errors that name the file and the key.
"""

import difflib
import math
import os
import re
import threading

from . import _say, _yaml

SCHEDULER_URL = "http://localhost:5000"
STANDARD_IMAGE = re.compile(r"(?:^|/)(?:atlas-ce|dessa-atlas)/worker(?:-gpu)?(?::[\w.\-]+)?(?:@sha256:[0-9a-f]+)?$")

_DIRS = (
    "config/submission",
    "config/execution",
    "config/local_docker_scheduler/worker_config/submission",
    "config/local_docker_scheduler/worker_config/execution",
    "job_data/archive",
    "job_bundle_store_dir",
    "local_docker_scheduler/work_dir",
    "tensorboard/work_dir",
    "logs",
)


class ConfigError(ValueError):
    """A config file, or a value given to submit(), that cannot be meant."""


def home():
    path = os.environ.get("FOUNDATIONS_HOME") or os.path.join(os.path.expanduser("~"), ".foundations")
    return os.path.abspath(os.path.expanduser(path))


def _quote(path):
    return '"%s"' % path.replace("\\", "\\\\").replace('"', '\\"') if re.search(r"[^\w./+-]", path) else path


def make_home():
    """Every missing directory and default config of the home; what is there stays as it is."""
    base = home()
    for name in _DIRS:
        os.makedirs(os.path.join(base, name), exist_ok=True)
    submission = (
        "cache_config:\n  end_point: /cache_end_point\n"
        "container_config_root: %s\njob_deployment_env: local_docker_scheduler_plugin\n"
        "job_results_root: %s\nscheduler_url: %s\nworking_dir_root: %s\n"
    ) % (
        _quote(os.path.join(base, "config/local_docker_scheduler/worker_config")),
        _quote(os.path.join(base, "job_data")),
        SCHEDULER_URL,
        _quote(os.path.join(base, "local_docker_scheduler/work_dir")),
    )
    execution = (
        "results_config:\n  tracker_url: %s\n  archive_end_point: %s\n"
        "cache_config:\n  end_point: /cache_end_point\nlog_level: INFO\n"
    ) % (SCHEDULER_URL, _quote(os.path.join(base, "job_data")))
    worker = "config/local_docker_scheduler/worker_config/"
    for name, text in (
        ("config/submission/scheduler.config.yaml", submission),
        ("config/execution/default.config.yaml", execution),
        (worker + "submission/scheduler.config.yaml", submission),
        (worker + "execution/default.config.yaml", execution),
    ):
        path = os.path.join(base, name)
        if os.path.exists(path):
            continue
        part = "%s.%d.%d" % (path, os.getpid(), threading.get_ident())
        with open(part, "w", encoding="utf-8") as f:
            f.write(text)
        try:
            os.link(part, path)  # never over one that appeared meanwhile
        except FileExistsError:
            pass
        finally:
            os.unlink(part)


# ---- reading ----

_TEXT = (str,)
_ANY = (object,)
_WORDS = (str, list)
_AMOUNT = (int, float, str)
WORKER_KEYS = {
    "image": _TEXT, "entrypoint": _WORDS, "command": _WORDS, "working_dir": _TEXT, "volumes": (dict,),
    "environment": (dict, list), "args": (list,), "network": _TEXT, "runtime": _TEXT, "mem_limit": _AMOUNT,
    "user": (str, int), "ports": (dict,), "shm_size": _AMOUNT,
}
#: what of a worker block goes to the scheduler as it is
SPEC_KEYS = (
    "image", "working_dir", "volumes", "network", "runtime", "mem_limit", "user", "ports", "shm_size",
)
JOB_KEYS = {
    "project_name": _TEXT, "log_level": _TEXT, "entrypoint": _WORDS, "params": (dict,), "num_gpus": (int,),
    "ram": _AMOUNT, "worker": (dict,),
}
SUBMISSION_KEYS = {
    "job_deployment_env": _ANY, "scheduler_url": _TEXT, "job_results_root": _TEXT, "working_dir_root": _TEXT,
    "container_config_root": _TEXT, "job_store_dir_root": _TEXT, "cache_config": _ANY, "worker": (dict,),
    "redis_url": _ANY, "log_level": _TEXT, "job_notification_channel": _TEXT, "ssh_config": _ANY,
}
_NAMES = {str: "a string", dict: "an object", list: "a list", int: "a whole number", float: "a number"}


def _check(data, keys, path, inside):
    for key, value in data.items():
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = "; did you mean '%s'?" % near[0] if near else ""
            _say.warning("%s: %s%s is no known key and is ignored%s" % (path, inside, key, hint))
            continue
        kinds = keys[key]
        if value is None or kinds is _ANY:
            continue
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ConfigError("%s: %s%s must be %s" % (path, inside, key, " or ".join(_NAMES[k] for k in kinds)))


def read(path, keys):
    """The mapping in a config file, checked; a key nobody knows is a WARNING."""
    try:
        data = _yaml.load_file(path)
    except _yaml.YamlError as e:
        raise ConfigError(str(e))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError("%s:1: keys with values are expected" % path)
    _check(data, keys, path, "")
    if isinstance(data.get("worker"), dict):
        _check(data["worker"], WORKER_KEYS, path, "worker.")
        _check_worker(data["worker"], path)
    return {k: v for k, v in data.items() if v is not None}


def _check_worker(worker, path):
    for host, mount in (worker.get("volumes") or {}).items():
        if not isinstance(mount, dict) or not isinstance(mount.get("bind"), str):
            raise ConfigError("%s: worker.volumes.%s needs bind: the path in the worker" % (path, host))
        if mount.get("mode", "rw") not in ("rw", "ro"):
            raise ConfigError("%s: worker.volumes.%s: mode must be rw or ro" % (path, host))
        if not host.startswith("/") or not mount["bind"].startswith("/"):
            raise ConfigError("%s: worker.volumes.%s: both paths must be absolute" % (path, host))
    env = worker.get("environment")
    if isinstance(env, dict) and any(isinstance(v, (dict, list)) for v in env.values()):
        raise ConfigError("%s: worker.environment must be a mapping of texts" % path)
    if isinstance(env, list) and any(not isinstance(v, str) or "=" not in v for v in env):
        raise ConfigError("%s: worker.environment must be a mapping, or a list of NAME=value" % path)


def submission(name, directory):
    """The submission config of that name, for a job from `directory`."""
    if name and "/" not in name:
        for base in (directory, home()):
            path = os.path.join(base, "config", "submission", name + ".config.yaml")
            if os.path.isfile(path):
                found = read(path, SUBMISSION_KEYS)
                if not found.get("scheduler_url"):
                    raise ConfigError(
                        "%s has no scheduler_url; add a line such as scheduler_url: %s" % (path, SCHEDULER_URL)
                    )
                return found
    raise ConfigError("Could not find submission configuration with name: `%s`" % name)


def execution():
    """The execution config, or None when there is none."""
    path = os.path.join(home(), "config", "execution", "default.config.yaml")
    try:
        data = _yaml.load_file(path)
    except OSError:
        return None
    return data if isinstance(data, dict) else None


def token():
    """The token of `foundations login`, or None."""
    if os.environ.get("FOUNDATIONS_TOKEN"):
        return os.environ["FOUNDATIONS_TOKEN"]
    try:
        data = _yaml.load_file(os.path.join(home(), "credentials.yaml"))
        value = data["default"]["token"]
        return value if isinstance(value, str) and value else None
    except Exception:
        return None


# ---- values ----

def ram_bytes(value):
    """Below 1048576 it is GiB, otherwise bytes; text may have a unit: 512m, 4g."""
    if isinstance(value, str):
        m = re.match(r"\s*([0-9.]+)\s*([kmgt]?)(?:i?b)?\s*$", value, re.I)
        if not m:
            raise ConfigError("invalid RAM: ram '%s' is no amount of memory; write 4, 512m or 2g" % value)
        try:
            number = float(m.group(1))
        except ValueError:
            raise ConfigError("invalid RAM: ram '%s' is no amount of memory; write 4, 512m or 2g" % value)
        scale = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[m.group(2).lower()]
        if scale == 1 and number < 1048576:
            scale = 1 << 30
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError("invalid RAM: ram must be a number or a text such as 512m")
    else:
        number, scale = value, 1 << 30 if value < 1048576 else 1
    if not number > 0 or math.isinf(number):
        raise ConfigError("invalid RAM: ram is %s and must be above 0" % value)
    return int(number * scale)


def gpu_count(value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("invalid number of GPUs: num_gpus is %r and must be a whole number of 0 or more" % (value,))
    if value < 0:
        raise ConfigError("invalid number of GPUs: num_gpus is %d and must be 0 or more" % value)
    return value


def environment_map(env):
    """Texts, whatever they were written as."""
    if isinstance(env, list):
        return dict(item.split("=", 1) for item in env)
    return {k: "" if v is None else str(v) for k, v in env.items()}
