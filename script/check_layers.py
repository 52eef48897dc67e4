#!/usr/bin/env python3
"""Who may include whom.  Reads every #include of src/ against the table below.

Also: headers of other libraries stay inside .c files and *_priv.h of the room that owns them, and
a *_priv.h is included by its own room only (and by that room's tests), and the folder of a dialect
is closed to everybody else.
"""

import os
import re
import sys

# room: rooms it may include.  Arrows point one way; the order is that of docs/architecture.md.
TABLE = {
    "base": "",
    "io": "base",
    "archive": "base io",
    "model": "base",
    "shepherd": "base model",  # model: the numbers of run ends, and keys of runs, only
    "sched": "base model",
    "simulate": "base model sched",
    "tune": "base model",
    "store": "base model",
    "backend": "base io model shepherd",  # shepherd: the wire and journal format
    "far": "base io model shepherd backend",
    "core": "base io model store sched tune backend",
    "request": "base io archive model store core",
    "api": "base io archive model store backend core request tune",  # backend: the settings of nodes
    "dialect": "base io archive model store core request api host cli",  # cli: the toolkit of commands
    "host": "base io archive model store sched backend core request api",
    "cli": "base io archive model store backend core host api simulate tune dialect",  # dialect: its rows
    "main": "base io cli dialect",
}
# header: the room (or rooms) that may see it.
FOREIGN = {
    "uv.h": "io",
    "llhttp.h": "io",
    "curl/curl.h": "io",
    "openssl/": "io",
    "zstd.h": "io",
    "zlib.h": "io archive",
    "archive.h": "archive",
    "archive_entry.h": "archive",
    "sqlite3.h": "store",
    "json.h": "base",
    "yaml.h": "base",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def room_of(path):
    """src/io/loop.c -> io; src/main.c -> main"""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "main"


def foreign_owner(name):
    for pattern, owner in FOREIGN.items():
        if name == pattern or (pattern.endswith("/") and name.startswith(pattern)):
            return owner
    return None


def closed_folder(name):
    """dialect/atlas/x.h -> dialect/atlas/: nobody outside may include it, so a dialect can be left out."""
    parts = name.split("/")
    return "dialect/%s/" % parts[1] if parts[0] == "dialect" and len(parts) > 2 else None


def check_line(path, room, quote, name):
    """A complaint, or None."""
    if quote == '"' and "/" in name:
        other = name.split("/")[0]
        if other not in TABLE:
            return "%s is in no room of the table" % name
        folder = closed_folder(name)
        if folder and not path.startswith("src/" + folder):
            return "%s is a dialect's own: use its row (dialect/dialect.h)" % name
        if other == room:
            return None
        if name.endswith("_priv.h"):
            return "%s is private to %s" % (name, other)
        if other not in TABLE[room].split():
            return "%s may not use %s (it may use: %s)" % (room, other, TABLE[room] or "nothing")
        return None
    owner = foreign_owner(name)
    if owner is None:
        return None
    if room not in owner.split():
        return "%s belongs to %s" % (name, owner)
    if path.endswith(".h") and not path.endswith("_priv.h"):
        return "%s may appear in .c files and _priv.h only" % name
    return None


def check_tree(root):
    complaints, files = [], 0
    for folder, dirs, names in sorted(os.walk(os.path.join(root, "src"))):
        dirs.sort()
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            files += 1
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            room = room_of(path)
            if room not in TABLE:
                complaints.append("%s: room %s is not in the table" % (path, room))
                continue
            with open(full, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    m = INCLUDE.match(line)
                    text = check_line(path, room, *m.groups()) if m else None
                    if text:
                        complaints.append("%s:%d: %s" % (path, number, text))
    return complaints, files


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    complaints, files = check_tree(os.path.abspath(root))
    for c in complaints:
        print(c)
    print("layers: %d files, %d complaints" % (files, len(complaints)))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
