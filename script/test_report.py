#!/usr/bin/env python3
"""Counts test results and prints `N passed, M failed, K skipped`.

Reads every file of a directory: *.json are Meson's test logs (one JSON object per line; tests that
speak TAP count each of their points), *.tap are plain TAP.  Prints what failed, with its output.
Exit status 1 when anything failed, or when there was nothing to count.
"""

import json
import os
import re
import sys

POINT = re.compile(r"^(not )?ok\b(?:\s+\d+)?(?:\s*-\s*)?([^#\n]*)(?:#\s*(\w+).*)?$")
PLAN = re.compile(r"^1\.\.(\d+)")
TAIL_LINES = 60


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []  # (name, what, output)

    def fail(self, name, what, output):
        self.failed += 1
        self.failures.append((name, what, output))

    def tap(self, name, text, rest=""):
        """Counts the points of a TAP stream; how many there were.  `rest` is shown with failures.

        cmocka 1.1.5 says "not ok 3 # SKIP name" of a test that was skipped.
        """
        points, failed, plan = 0, [], None
        for line in text.splitlines():
            plan_line = PLAN.match(line)
            if plan_line:
                plan = int(plan_line.group(1))
            m = POINT.match(line)
            if not m:
                continue
            points += 1
            directive = (m.group(3) or "").upper()
            if directive.startswith("SKIP"):
                self.skipped += 1
            elif m.group(1) and directive != "TODO":
                failed.append(m.group(2).strip())
            else:
                self.passed += 1
        for what in failed:
            self.fail(name, what, without_passed(text) + rest)
        if plan is not None and plan > points:
            self.fail(name, "%d of %d tests did not run" % (plan - points, plan), text + rest)
        return points

    def meson(self, path, build):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if not line.strip():
                    continue
                test = json.loads(line)
                name = "%s: %s" % (build, test["name"])
                out = (test.get("stdout") or "") + (test.get("stderr") or "")
                before = self.failed
                points = self.tap(name, test.get("stdout") or "", test.get("stderr") or "")
                result = test["result"]
                if result == "SKIP" and not points:
                    self.skipped += 1
                elif result in ("OK", "EXPECTEDFAIL", "SKIP"):
                    if not points:
                        self.passed += 1
                elif result == "FAIL" and test.get("returncode") == 0 and points:
                    pass  # Meson's reading of cmocka's skipped tests
                elif self.failed == before:  # crashed, timed out, or failed without saying where
                    self.fail(name, "%s, exit status %s" % (result.lower(), test.get("returncode")), out)


def without_passed(tap):
    """A TAP stream without its passed points: each failed one, with what was printed before and after it."""
    kept, between, shown = [], [], False
    for line in tap.splitlines(keepends=True):
        if not POINT.match(line.rstrip("\n")):
            between.append(line)
            continue
        failed = line.startswith("not ok")
        if failed or shown:
            kept += between
        if failed:
            kept.append(line)
        between, shown = [], failed
    return "".join(kept + (between if shown else []))


def tail(text):
    lines = text.rstrip().splitlines()
    cut = len(lines) - TAIL_LINES
    return (["… %d lines before" % cut] if cut > 0 else []) + lines[-TAIL_LINES:]


def main():
    folder = sys.argv[1]
    tally = Tally()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        base, ext = os.path.splitext(name)
        if ext == ".json":
            tally.meson(path, base)
        elif ext == ".tap":
            with open(path, encoding="utf-8", errors="replace") as f:
                tally.tap(base, f.read())
    shown = set()
    for name, what, output in tally.failures:
        print("\nFAILED %s: %s" % (name, what))
        if name not in shown:
            shown.add(name)
            for line in tail(output):
                print("    " + line)
    print("\n%d passed, %d failed, %d skipped" % (tally.passed, tally.failed, tally.skipped))
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
