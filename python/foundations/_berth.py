"""Spool and transport of the package beside this one, without the rest of it.

``berth`` itself asks for a newer Python than some worker images have; the three files needed here do
not, so they are loaded under a name of this package.
"""

import importlib
import os
import sys
import types


def _load(which):
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "berth")
    if not os.path.isfile(os.path.join(beside, "_spool.py")):
        import berth  # installed somewhere else

        beside = os.path.dirname(os.path.abspath(berth.__file__))
    name = __package__ + "._berth_files"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [beside]
        sys.modules[name] = package
    return importlib.import_module(name + "." + which)


def spool_module():
    return _load("_spool")


def exits_module():
    return _load("_exits")


def http_module():
    return _load("_http")
