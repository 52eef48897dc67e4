"""The status with which a script exits, for whoever reports its end.

Python tells nobody about a SystemExit that ends the script, not even the functions of atexit.  So the
name stands for a class of our own, which every ``raise SystemExit(3)``, ``exit(3)`` and ``sys.exit(3)``
makes its exception from, and every ``except SystemExit`` finds.

Needs nothing but the standard library and Python 3.6, so it may be shipped with a job.
"""

import builtins
import sys
import threading
from typing import Any


class Exits:
    """Learns the status of every SystemExit from now on."""

    def __init__(self) -> None:
        self.last = 0  #: status of the last one, which somebody may have caught
        self.main = _main_frame()
        exits, real, real_exit = self, SystemExit, sys.exit

        def __init__(self: Any, *args: Any) -> None:
            real.__init__(self, *args)
            code = self.code
            exits.last = 0 if code is None else code & 255 if isinstance(code, int) else 1

        def exit(status: Any = None) -> None:
            raise ours() if status is None else ours(status)

        ours = type("SystemExit", (real,), {"__init__": __init__, "__module__": "builtins", "__doc__": real.__doc__})
        setattr(builtins, "SystemExit", ours)
        setattr(sys, "exit", exit)
        # ``from sys import exit`` before us.
        for names in [vars(m) for m in list(sys.modules.values()) if m is not None] + [self.main.f_globals if self.main else {}]:
            for name in ("exit", "sys_exit", "_exit"):
                if names.get(name) is real_exit:
                    names[name] = exit
        hook = getattr(threading, "excepthook", None)  # since Python 3.8

        def on_thread(args: Any) -> None:
            """A thread ends by a SystemExit without a word; Python asks for that very class."""
            if not issubclass(args.exc_type, real):
                hook(args)

        if hook:
            setattr(threading, "excepthook", on_thread)

    def status(self) -> int:
        """Of a SystemExit that nobody caught: the script did not come to its end."""
        if not self.last or self.main is None:
            return 0
        import dis

        code = self.main.f_code.co_code
        last = dis.opname[code[self.main.f_lasti]] if 0 <= self.main.f_lasti < len(code) else ""
        return 0 if last.startswith("RETURN_") else self.last


def _main_frame() -> Any:
    """That of the script itself."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame
