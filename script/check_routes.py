#!/usr/bin/env python3
"""Every route has a row in tests/e2e/two_users.py, which says who gets which answer; and only caller_sees
(src/core/core.h) compares a caller with an owner.

Usage: script/check_routes.py [--list]     --list prints the routes of every table
"""

import os
import re
import sys

import c_source

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TABLE = re.compile(r"\bstruct route (\w+)\[\] = \{\n(.*?)\n\};", re.S)
ROW = re.compile(r'^    \{"([A-Z]+)", ([^,]+),', re.M)
DEFINE = re.compile(r'^#define (\w+) (.*"[^"\n]*".*)$', re.M)
# "who->admin || who->uid == x" and "!who->admin && who->uid != x", in any spelling.
COMPARES = re.compile(r"admin\s*(\|\||&&)[^;{]*\buid\b\s*[!=]=(?!\s*0\b)|"
                      r"\buid\b\s*[!=]=(?! *0\b)[^;{]*(\|\||&&)\s*!?[\w.>-]*admin\b")
SEES = "src/core/core.h"


def path_of(text, names):
    """The text of string literals and macros in a row."""
    parts = []
    for literal, name in re.findall(r'"([^"]*)"|(\w+)', text):
        parts.append(path_of(names[name], names) if name else literal)
    return "".join(parts)


def routes():
    """{file: ["METHOD path"…]}"""
    found, errors = {}, []
    shared = {}
    for path in c_source.files(ROOT, "src", ext=(".h",)):
        shared.update(DEFINE.findall(c_source.read(ROOT, path)))
    for path in c_source.files(ROOT, "src", ext=(".c",)):
        text = c_source.without_comments(c_source.read(ROOT, path))
        names = {**shared, **dict(DEFINE.findall(text))}
        tables = TABLE.findall(text)
        if len(re.findall(r"\bstruct route \w+\[\w*\] =", text)) != len(tables):
            errors.append(f"{path}: a table of routes that this script cannot read")
        for _, body in tables:
            rows = [f"{method} {path_of(what, names)}" for method, what in ROW.findall(body)]
            if len(rows) != len(re.findall(r"^    \{", body, re.M)):
                errors.append(f"{path}: a row of the table that this script cannot read")
            found.setdefault(path, []).extend(rows)
    return found, errors


def main():
    found, errors = routes()
    if sys.argv[1:] == ["--list"]:
        for path, rows in found.items():
            print(f"# {path}", *rows, sep="\n")
        return
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    import two_users
    for path in sorted(set(found) | set(two_users.TABLES)):
        there = set(found.get(path, []))
        known = {f"{method} {where}" for method, where, _ in two_users.rows(two_users.TABLES.get(path, ""))
                 if "?" not in where}
        errors += [f"{path}: {r} has no row in tests/e2e/two_users.py; say there who gets which answer"
                   for r in sorted(there - known)]
        errors += [f"tests/e2e/two_users.py: {r} is no route of {path}" for r in sorted(known - there)]
    for path in c_source.files(ROOT, "src"):
        text = c_source.without_comments(c_source.read(ROOT, path))
        for m in COMPARES.finditer(text):
            if path != SEES:
                line = text.count("\n", 0, m.start()) + 1
                errors.append(f"{path}:{line}: compares a caller with an owner; use caller_sees ({SEES})")
    print(*errors, sep="\n")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
