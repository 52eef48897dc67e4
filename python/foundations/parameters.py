"""Parameters of jobs: loading, flattening, and drawing them at random."""

import json
import os
import random
import re

from . import _say

FILE = "foundations_job_parameters.json"


def load_parameters(log_parameters=True):
    """The parameters of this job: what submit(params=…) was given; {} when there are none.

    Commas before a closing bracket, as people write them, are overlooked with a WARNING.
    """
    try:
        with open(FILE, encoding="utf-8") as f:
            text = f.read()
    except FileNotFoundError:
        return {}
    if not text.strip():
        return {}
    found = _parse(text)
    if log_parameters and isinstance(found, dict):
        from . import _job

        _job.log_params(found, quiet=True)
    return found


def _parse(text):
    try:
        return json.loads(text)
    except ValueError:
        # Texts are matched whole, so a comma inside one stays.
        mended = re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda m: m.group(1) or "", text)
        if mended == text:
            raise
        found = json.loads(mended)
        _say.notice("%s has a comma before a closing bracket; it was overlooked." % os.path.abspath(FILE))
        return found


def flatten_parameters(value, prefix=""):
    """{"a": {"b": 1}, "c": [2, 3]} becomes {"a_b": 1, "c_0": 2, "c_1": 3}; empty ones become None."""
    if isinstance(value, dict):
        items = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(str(i), v) for i, v in enumerate(value)]
    else:
        return {prefix: value}
    if not items:
        return {prefix: None} if prefix else {}
    flat = {}
    for key, v in items:
        flat.update(flatten_parameters(v, prefix + "_" + key if prefix else key))
    return flat


def generate_random_parameters(space):
    """{"min": a, "max": b} becomes a float between the two, with "min_count" and "max_count" a list
    of such; anything else stays as it is."""
    drawn = {}
    for key, value in space.items():
        if isinstance(value, dict) and "min" in value and "max" in value:
            low, high = value["min"], value["max"]
            if "min_count" in value and "max_count" in value:
                count = random.randint(value["min_count"], value["max_count"])
                drawn[key] = [random.uniform(low, high) for _ in range(count)]
            else:
                drawn[key] = random.uniform(low, high)
        else:
            drawn[key] = value
    return drawn


def sample(space, seed=None):
    """One point of a search space.

    ``{"min": a, "max": b}`` is a number between the two, both included when they are integers and
    then an integer itself; with ``count_min`` and ``count_max`` (or ``min_count``, ``max_count``) a list
    of such; a list means one of its items; anything else is itself.  The same seed gives the same
    point.

    >>> sample({"epochs": {"min": 5, "max": 5}, "batch_size": [64], "tolerance": 0.01})
    {'epochs': 5, 'batch_size': 64, 'tolerance': 0.01}
    """
    rng = random.Random(seed)
    return {key: _draw(rng, value) for key, value in space.items()}


def _draw(rng, value):
    if isinstance(value, (list, tuple)):
        return rng.choice(value) if value else None
    if not isinstance(value, dict) or "min" not in value or "max" not in value:
        return value
    low, high = value["min"], value["max"]
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (low, high))

    def one():
        return rng.randint(low, high) if whole else rng.uniform(low, high)

    fewest = value.get("count_min", value.get("min_count"))
    most = value.get("count_max", value.get("max_count"))
    if fewest is None and most is None:
        return one()
    fewest = 1 if fewest is None else fewest
    return [one() for _ in range(rng.randint(fewest, fewest if most is None else most))]
