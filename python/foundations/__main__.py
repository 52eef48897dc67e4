"""python -m foundations: the foundations command, wherever it was installed."""

import os
import shutil
import sys


def _candidates():
    """Beside this package when both come from one installation, then on the PATH."""
    if os.environ.get("BERTH"):
        yield os.environ["BERTH"]
    base = os.path.dirname(os.path.realpath(os.path.abspath(__file__)))
    for _ in range(5):
        base = os.path.dirname(base)
        yield os.path.join(base, "bin", "berth")
    for name in ("foundations", "berth"):
        found = shutil.which(name)
        if found:
            yield found


def main():
    os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"
    for path in _candidates():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            # The program does what the name it is called by says.
            os.execv(path, ["foundations"] + sys.argv[1:])
    sys.stdout.write(
        "Error running command: the foundations program was not found on the PATH; install Berth, or set BERTH to "
        "where its berth program is\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
