"""Which files stay out of a bundle: ``.foundationsignore``, in the syntax of ``.gitignore``.

The last pattern that matches decides; nothing below a directory that is left out can be taken back.
"""

import re


def _translate(glob):
    out, i = "", 0
    while i < len(glob):
        c = glob[i]
        i += 1
        if c == "*":
            if glob[i - 1:i + 2] == "**/" and (i == 1 or glob[i - 2] == "/"):
                out += "(?:.*/)?"
                i += 2
            elif glob[i - 1:] == "**" and (i == 1 or glob[i - 2] == "/"):
                out += ".+"
                i += 1
            else:
                while glob[i:i + 1] == "*":
                    i += 1
                out += "[^/]*"
        elif c == "?":
            out += "[^/]"
        elif c == "[":
            end = glob.find("]", i + 2 if glob[i:i + 1] in ("!", "^") else i + 1)
            if end < 0:
                return None
            body = glob[i:end]
            negate = body[:1] in ("!", "^")
            body = body[1:] if negate else body
            out += "(?!/)[%s%s]" % ("^" if negate else "", body.replace("\\", "\\\\").replace("[", "\\["))
            i = end + 1
        elif c == "\\":
            if i >= len(glob):
                return None
            out += re.escape(glob[i])
            i += 1
        else:
            out += re.escape(c)
    try:
        return re.compile(out + r"\Z", re.S)
    except re.error:
        return None


class Ignore:
    """The rules of one file."""

    def __init__(self, text=""):
        self._rules = []
        for line in text.replace("\r\n", "\n").split("\n"):
            stripped = re.sub(r"(?<!\\)[ ]+$", "", line)
            if not stripped or stripped.startswith("#"):
                continue
            take_back = stripped.startswith("!")
            glob = stripped[1:] if take_back else stripped
            only_dirs = glob.endswith("/")
            glob = glob.rstrip("/") if only_dirs else glob
            anchored = "/" in glob
            pattern = _translate(glob.lstrip("/") if anchored else glob)
            if pattern is not None and glob:
                self._rules.append((pattern, anchored, only_dirs, take_back))

    @classmethod
    def load(cls, path):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as f:
                return cls(f.read())
        except FileNotFoundError:
            return cls()

    def match(self, path, is_dir):
        """Is this one entry left out?  `path` is relative, with / between its parts."""
        out = False
        name = path.rpartition("/")[2]
        for pattern, anchored, only_dirs, take_back in self._rules:
            if only_dirs and not is_dir:
                continue
            if pattern.match(path if anchored else name):
                out = not take_back
        return out
