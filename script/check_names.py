#!/usr/bin/env python3
"""Names in src/: functions that share one, and names of dialects where no dialect may be known.

A name that many functions share cannot be searched for.  SHARED_MAX is the largest share of functions whose
name another function has too; it only goes down, and the goal is GOAL.

Rooms below the dialects know none of them (docs/architecture.md).  EXCEPTIONS lists the files that still
name one; the list must shrink to nothing, so an entry that is no longer needed is an error.
"""

import collections
import os
import re
import sys

import c_source

SHARED_MAX = 8.0  # per cent
GOAL = 8.0
NO_DIALECT = ("src/core", "src/model", "src/sched", "src/store", "src/api")
DIALECT = re.compile(r"hyperctl|atlas|foundations|gpu[-_ ]scheduler|gpu_dialect|kubernetesdlprofile", re.I)
EXCEPTIONS = ()


def shared_names(root):
    """(functions, name → places of the names that more than one function has)"""
    places = collections.defaultdict(list)
    for path in c_source.files(root, "src", ext=(".c",)):
        for name, line, _ in c_source.functions(c_source.read(root, path)):
            if name != "main":
                places[name].append("%s:%d" % (path, line))
    return sum(map(len, places.values())), {n: p for n, p in places.items() if len(p) > 1}


def share(root):
    """Per cent of the functions of src/ whose name another one has too."""
    total, shared = shared_names(root)
    return 100.0 * sum(map(len, shared.values())) / max(total, 1)


def dialect_names(root):
    """path → lines that name a dialect"""
    found = collections.defaultdict(list)
    for path in c_source.files(root, *NO_DIALECT):
        for number, line in enumerate(c_source.read(root, path).split("\n"), 1):
            if DIALECT.search(line):
                found[path].append("%s:%d: names a dialect: %s" % (path, number, line.strip()))
    return found


def check(root, exceptions=EXCEPTIONS, limit=SHARED_MAX):
    complaints = []
    total, shared = shared_names(root)
    per_cent = 100.0 * sum(map(len, shared.values())) / max(total, 1)
    if per_cent > limit:
        worst = sorted(shared.items(), key=lambda x: (-len(x[1]), x[0]))[:12]
        complaints.append("%.1f %% of %d functions share their name with another; the limit is %.1f %%. The most common:"
                          % (per_cent, total, limit))
        complaints += ["    %s: %s" % (name, " ".join(where)) for name, where in worst]
    found = dialect_names(root)
    for path, lines in sorted(found.items()):
        if path not in exceptions:
            complaints += lines
    complaints += ["%s names no dialect any more: take it from EXCEPTIONS in script/check_names.py" % path
                   for path in exceptions if path not in found]
    return complaints, total, per_cent


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    complaints, total, per_cent = check(os.path.abspath(root))
    for c in complaints:
        print(c)
    if GOAL < SHARED_MAX - 1 and per_cent < SHARED_MAX - 1:
        print("names: SHARED_MAX in script/check_names.py can go down to %.1f" % max(GOAL, per_cent + 0.1))
    print("names: %d functions, %.1f %% share a name (limit %.1f, goal %.1f), %d complaints"
          % (total, per_cent, SHARED_MAX, GOAL, len(complaints)))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
