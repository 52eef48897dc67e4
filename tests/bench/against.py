#!/usr/bin/env python3
"""Measures this program and an older one in turn, and says where this one is slower.

    tests/bench/against.py --build DIR --old DIR [--only NAME]… [--rounds N] [--quick] [--limit PERCENT]

Both are measured by the scripts of this directory, section by section, several times in turn, so that
a busy minute of the machine meets both; the best of each figure counts.  Exit status 1 when a figure
is worse by more than the limit.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]

from run import SECTIONS  # noqa: E402

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
MORE_IS_BETTER = re.compile(r"/s\b|per second|requests per|succeeded|\d of \d")


def figures(build, section, quick):
    """{what: (value, text)} of one section; empty when it could not be measured."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, os.path.join(HERE, "run.py"), "--build", build, "--only", section, "--repeats", "1", "--json", out.name]
        subprocess.run(command + (["--quick"] if quick else []), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            rows = json.load(out)
        except ValueError:
            return {}
    found = {}
    for row in rows:
        number = NUMBER.search(row["ours"])
        if number:
            found[row["what"].strip()] = (float(number.group()), row["ours"])
    return found


def better(what, text):
    """The one of two values that is better: max or min."""
    return max if MORE_IS_BETTER.search(what + " " + text) else min


def compare(args, section):
    """Prints a row per figure; how many are worse than the limit allows."""
    best = {"old": {}, "new": {}}
    sides = [("old", args.old), ("new", args.build)]
    for round_ in range(args.rounds):
        # The sides take turns in going first: on ext4 new files cost the second one more after the first one removed many.
        for side, build in sides if round_ % 2 == 0 else reversed(sides):
            for what, (value, text) in figures(build, section, args.quick).items():
                known = best[side].get(what)
                best[side][what] = (value, text) if known is None else better(what, text)(known, (value, text))
    worse = 0
    for what, (value, text) in best["new"].items():
        if what not in best["old"]:
            continue
        old = best["old"][what][0]
        if better(what, text) is max:
            ratio = old / value if value else float("inf")
        else:
            ratio = value / old if old else float(value == old) or float("inf")
        slow = ratio > 1 + args.limit / 100
        worse += slow
        print("%-52s | %-18s | %-18s | %5.2f %s" % (what, best["old"][what][1], text, ratio, "WORSE" if slow else ""), flush=True)
    if not best["new"] or not best["old"]:
        print("%-52s | not measured" % section, flush=True)
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--old", required=True, help="the build of the older program")
    parser.add_argument("--only", action="append", choices=sorted(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small counts")
    parser.add_argument("--limit", type=float, default=5, help="percent by which a figure may be worse")
    args = parser.parse_args()
    args.build, args.old = os.path.abspath(args.build), os.path.abspath(args.old)
    print("%-52s | %-18s | %-18s | ratio (above 1 is worse)" % ("what", "older", "this"))
    worse = sum(compare(args, name) for name in SECTIONS if not args.only or name in args.only)
    print("\n%d figures are worse by more than %g %%" % (worse, args.limit))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
