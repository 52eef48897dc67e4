"""A package here that stands for another one makes room for it where that is installed.

Ours is first on a job's path only because the scheduler put it there: so it looks further down the path and
becomes what it finds.
"""

import importlib.machinery as _machinery
import os
import sys
from typing import Optional


def _first_line(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as f:
            return f.readline()
    except (OSError, ValueError):
        return None


def step_aside(name: str) -> None:
    """Turns the module `name`, which is being imported, into the real one if it is on the path.  Copies of ours may
    be there too; they begin with the same line."""
    module = sys.modules[name]
    ours = _first_line(str(module.__file__))
    for place in sys.path:
        spec = _machinery.PathFinder.find_spec(name, [place or os.getcwd()])
        if spec is None or spec.loader is None or not spec.origin or _first_line(spec.origin) == ours:
            continue
        module.__path__ = list(spec.submodule_search_locations or [])
        module.__file__ = spec.origin
        module.__spec__ = spec
        module.__loader__ = spec.loader
        spec.loader.exec_module(module)
        return
