"""What the checkers need to know of C files: functions, structs, comments.

No parser: the code is formatted by clang-format, so a line that is just "{" opens a function and a line
that begins with "}" closes it.
"""

import os
import re

NAME = re.compile(r"(\w+)\s*\(")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\b[A-Z][A-Z_0-9]+\([^()]*\)")


def files(root, *folders, ext=(".c", ".h")):
    """Paths below the folders, relative to the root, in order."""
    found = []
    for folder in folders:
        for where, dirs, names in os.walk(os.path.join(root, folder)):
            dirs.sort()
            found += [os.path.relpath(os.path.join(where, n), root) for n in names if n.endswith(ext)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def functions(text):
    """(name, first line, lines) of every function that is defined."""
    lines = text.split("\n")
    found = []
    for i, line in enumerate(lines):
        if line != "{":
            continue
        top = i
        while top > 0 and lines[top - 1] and not re.match(r"[}#]|.*(;|\*/)$", lines[top - 1]):
            top -= 1
        name = NAME.search(ATTRIBUTE.sub("", " ".join(lines[top:i])))
        end = next((k for k in range(i, len(lines)) if lines[k].startswith("}")), i)
        if name:
            found.append((name.group(1), top + 1, end - top + 1))
    return found


def without_comments(text):
    """The text with comments blanked out; strings stay, lines keep their numbers."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0)) if m.group(0).startswith("/") else m.group(0)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def comment_lines(text):
    """How many lines are a comment, or part of one, and nothing else."""
    bare = without_comments(text).split("\n")
    return sum(1 for a, b in zip(text.split("\n"), bare) if a.strip() and not b.strip())


def structs(text):
    """(name, line, members) of every struct and union; what is nested in one counts as one member."""
    bare = without_comments(text)
    found = []
    for m in re.finditer(r"^(?:typedef )?(?:struct|union) (\w+) \{$", bare, re.M):
        depth, members, i = 1, 0, m.end()
        while depth and i < len(bare):
            c = bare[i]
            depth += (c in "{([") - (c in "})]")
            members += depth == 1 and c in ";,"
            i += 1
        found.append((m.group(1), bare.count("\n", 0, m.start()) + 1, members))
    return found
