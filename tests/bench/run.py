#!/usr/bin/env python3
"""Measures Berth beside its peers, in one run on one machine, and holds it to the bars.

    tests/bench/run.py [--build DIR] [--only NAME]… [--repeats N] [--quick] [--json FILE]

Figures that depend on the machine are ratios: each peer and each limit runs just before or after
what it is compared with, several times in turn, and the best of each counts.  A peer that is not
installed is left out with a line.  Exit status 1 when a bar is missed.
"""

import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]

import archive  # noqa: E402
import backup  # noqa: E402
import dispatch  # noqa: E402
import durable  # noqa: E402
import hyperctl  # noqa: E402
import latency  # noqa: E402
import library  # noqa: E402
import metrics  # noqa: E402
import reading  # noqa: E402
import scale  # noqa: E402
import serving  # noqa: E402
import small  # noqa: E402
import studies  # noqa: E402
import submissions  # noqa: E402
import trials  # noqa: E402
import tune  # noqa: E402
from rig import Rig, Table  # noqa: E402

SECTIONS = {
    "small": small.run,  # binary size, start of a command, idle memory
    "dispatch": dispatch.run,  # jobs per second as a share of a bare spawn loop
    "latency": latency.run,  # submit returns, job starts
    "scale": scale.run,  # 100 000 and 1 000 000 jobs
    "durable": durable.run,  # kill -9 right after the reply
    "backup": backup.run,  # 10 GB of outputs
    "library": library.run,  # what the training library costs a script
    "metrics": metrics.run,  # points per second, series in buckets, cost of a point
    "reading": reading.run,  # lists by metrics and parameters
    "serving": serving.run,  # HTTP requests and idle event streams
    "hyperctl": hyperctl.run,  # batches of Hypernets
    "trials": trials.run,  # searches of DI-toolkit
    "archive": archive.run,  # the same 20 MB submitted again and again
    "tune": tune.run,  # ask and tell of the search engines
    "studies": studies.run,  # durable trials, large studies, many programs on one
    "submissions": submissions.run,  # the same 20 MB through a whole Atlas, a thousand times
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    parser.add_argument("--only", action="append", choices=sorted(SECTIONS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small counts, to see that it works")
    parser.add_argument("--json", help="write the rows here too")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="berth-bench-") as tmp:
        rig = Rig(os.path.abspath(args.build), tmp, 1 if args.quick else args.repeats, args.quick)
        table = Table()
        try:
            for name, section in SECTIONS.items():
                if not args.only or name in args.only:
                    section(rig, table)
        finally:
            left = rig.close()
    table.finish()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(table.rows, f, indent=1)
    if left:
        sys.exit("bench: these were left running: " + ", ".join(left))
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
