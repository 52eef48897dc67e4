"""The YAML that config files are written in, read without any package.

Owns: block and flow mappings and lists, all five kinds of scalars, comments, anchors, aliases and
merge keys; what a plain scalar means is what PyYAML has always made of it (YAML 1.1).  Does not
know: tags, several documents, mappings as keys.  What it does not know it refuses, with file and
line; it never guesses.
"""

import re

_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)$")
_WORDS = {
    "": None, "~": None, "null": None, "yes": True, "true": True, "on": True, "no": False,
    "false": False, "off": False, ".inf": float("inf"), "+.inf": float("inf"),
    "-.inf": float("-inf"), ".nan": float("nan"),
}
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028",
    "P": "\u2029",
}
_DEPTH_MAX = 64
_COPIES_MAX = 100000


class YamlError(ValueError):
    """The text is not YAML, or more of it than is known here; the message has file and line."""


def load(text, name="text"):
    """The value of the one document in `text`; None when it is empty."""
    return _Reader(text, name).document()


def load_file(path):
    with open(path, "rb") as f:
        data = f.read()
    try:
        return load(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise YamlError("%s:1: this is not UTF-8: save the file as UTF-8" % path)


def plain(text):
    """What an unquoted scalar means."""
    if text.lower() in _WORDS and (text in (text.lower(), text.upper(), text.capitalize())):
        return _WORDS[text.lower()]
    if text.lower() in (".inf", "-.inf", "+.inf", ".nan"):
        return _WORDS[text.lower()]
    if _INT.match(text):
        digits = text.replace("_", "")
        sign = -1 if digits[0] == "-" else 1
        digits = digits.lstrip("+-")
        if digits == "0":
            return 0
        base = {"0b": 2, "0x": 16}.get(digits[:2].lower(), 8 if digits[0] == "0" else 10)
        return sign * int(digits[2:] if base in (2, 16) else digits, base)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text


class _Line:
    __slots__ = ("number", "indent", "text")

    def __init__(self, number, indent, text):
        self.number, self.indent, self.text = number, indent, text


class _Reader:
    def __init__(self, text, name):
        self._name = name
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._at = 0  # the next line
        self._anchors = {}
        self._copies = 0

    def fail(self, number, what):
        raise YamlError("%s:%d: %s" % (self._name, number, what))

    # ---- lines ----

    def _peek(self):
        """The next line with something on it, or None."""
        while self._at < len(self._lines):
            raw = self._lines[self._at]
            body = raw.lstrip(" ")
            if body.strip() and not body.lstrip().startswith("#"):
                if body.startswith("\t"):
                    self.fail(self._at + 1, "a tab cannot indent: use spaces")
                return _Line(self._at + 1, len(raw) - len(body), body)
            self._at += 1
        return None

    def document(self):
        line = self._peek()
        while line and line.text.startswith("%"):
            self._at += 1
            line = self._peek()
        if line and line.indent == 0 and re.match(r"---(\s|$)", line.text):
            self._lines[self._at] = "   " + line.text[3:]
            line = self._peek()
        if line is None:
            return None
        value = self._block(line.indent, 0)
        line = self._peek()
        if line and line.text.split()[0] == "...":
            return value
        if line:
            what = "a second document starts here" if line.text.startswith("---") else (
                "this does not belong to anything before it: look at the indentation")
            self.fail(line.number, what)
        return value

    # ---- blocks ----

    def _block(self, indent, depth):
        """The value that starts at the next line, which is indented by `indent`."""
        line = self._peek()
        if depth > _DEPTH_MAX:
            self.fail(line.number, "lists and mappings are nested too deep")
        if line.text == "-" or line.text.startswith("- "):
            return self._list(indent, depth)
        if self._key_end(line.text, line.number) is not None:
            return self._mapping(indent, depth)
        self._at += 1
        return self._inline(line.text, line, indent - 1, depth)

    def _list(self, indent, depth):
        items = []
        while True:
            line = self._peek()
            if line is None or line.indent < indent:
                return items
            if line.indent > indent:
                self.fail(line.number, "this line is indented too far")
            if not (line.text == "-" or line.text.startswith("- ")):
                return items
            rest = line.text[1:]
            body = rest.lstrip(" ")
            if body.startswith("\t"):
                self.fail(line.number, "a tab cannot indent: use spaces")
            if not body or body.startswith("#"):
                self._at += 1
                items.append(self._below(indent, depth, line))
            elif body == "-" or body.startswith("- ") or self._key_end(body, line.number) is not None:
                # The item is a block of its own that starts on this line.
                inner = indent + 1 + len(rest) - len(body)
                self._lines[self._at] = " " * inner + body
                items.append(self._block(inner, depth + 1))
            else:
                self._at += 1
                items.append(self._inline(body, line, indent, depth))

    def _mapping(self, indent, depth):
        found, merges = {}, []
        while True:
            line = self._peek()
            if line is None or line.indent < indent:
                break
            if line.indent > indent:
                self.fail(line.number, "this line is indented too far")
            if line.text == "-" or line.text.startswith("- ") or re.match(r"(---|\.\.\.)(\s|$)", line.text):
                break
            end = self._key_end(line.text, line.number)
            if end is None:
                self.fail(line.number, "a key with a colon is expected here")
            key = self._key(line.text[:end], line.number)
            rest = line.text[end + 1:].strip(" \t")
            self._at += 1
            if not rest or rest.startswith("#"):
                value = self._below(indent, depth, line, True)
            else:
                value = self._inline(rest, line, indent, depth)
            if key == "<<" and line.text.startswith("<<"):
                merges.append((line.number, value))
                continue
            if key in found:
                self.fail(line.number, "key \"%s\" is given twice" % key)
            found[key] = value
        for number, value in merges:
            for one in value if isinstance(value, list) else [value]:
                if not isinstance(one, dict):
                    self.fail(number, "<< needs a mapping or a list of mappings")
                for k, v in one.items():
                    found.setdefault(k, v)
        return found

    def _below(self, indent, depth, line, list_too=False):
        """The value of a key or dash with nothing behind it: the deeper block, or null."""
        below = self._peek()
        if below is None or below.indent < indent:
            return None
        if below.indent > indent:
            return self._block(below.indent, depth + 1)
        if list_too and (below.text == "-" or below.text.startswith("- ")):
            return self._list(indent, depth + 1)
        return None

    def _key_end(self, text, number):
        """Where the colon of a key stands in this line, or None when there is none."""
        if text[0] in "\"'":
            end = self._quote_end(text, 0)
            if end is None:
                return None
            rest = text[end:].lstrip(" ")
            at = len(text) - len(rest)
            return at if re.match(r":(\s|$)", rest) else None
        if text[0] in "[{":
            return None
        if text[0] == "?" and (len(text) == 1 or text[1] == " "):
            self.fail(number, "mappings as keys are not known here")
        for m in re.finditer(r":(?=\s|$)| #", text):
            return m.start() if m.group() == ":" else None
        return None

    def _key(self, text, number):
        text = text.strip()
        if text[:1] in ("\"", "'"):
            return self._quoted(text, number)
        if text[:1] in ("&", "*", "!", "|", ">", "%", "@", "`"):
            self.fail(number, "a key cannot start with %s" % text[0])
        return text

    # ---- what stands behind a key or a dash ----

    def _inline(self, text, line, indent, depth):
        anchor = None
        while True:
            m = re.match(r"&([^\s,\[\]{}]+)(\s+|$)", text)
            if not m:
                break
            anchor, text = m.group(1), text[m.end():]
        value = self._inline_value(text, line, indent, depth)
        if anchor:
            self._anchors[anchor] = value
        return value

    def _inline_value(self, text, line, indent, depth):
        if not text or text.startswith("#"):
            return self._below(indent, depth, line, True)
        c = text[0]
        if c == "*":
            return self._alias(text.split(" #")[0].strip(), line.number)
        if c == "!":
            self.fail(line.number, "tags are not known here")
        if c in "%@`":
            self.fail(line.number, "a value cannot start with %s: put it in quotes" % c)
        if c in "|>":
            return self._text_block(text, line, indent)
        if c in "[{\"'":
            return self._flow_value(text, line)
        if text == "-" or text.startswith("- "):
            self.fail(line.number, "a list cannot start here: put it on lines of its own")
        return self._plain_lines(text, line, indent)

    def _alias(self, text, number):
        if text[1:] not in self._anchors:
            self.fail(number, "alias %s names no anchor before it" % text)
        value = self._anchors[text[1:]]
        self._copies += _weight(value)
        if self._copies > _COPIES_MAX:
            self.fail(number, "aliases expand to too much")
        return value

    def _plain_lines(self, text, line, indent):
        """An unquoted scalar, with the deeper lines that go on with it."""
        parts = [self._cut_comment(text)]
        if re.search(r":(\s|$)", parts[0]):
            self.fail(line.number, "a mapping cannot start here: put it on lines of its own, or quote the text")
        more = parts[0] == text.rstrip()
        while more:
            below = self._peek()
            if below is None or below.indent <= indent or self._at != below.number - 1:
                break
            if self._at > line.number and not self._lines[self._at - 1].strip():
                break
            if self._key_end(below.text, below.number) is not None:
                self.fail(below.number, "this line is indented too far")
            self._at += 1
            cut = self._cut_comment(below.text)
            parts.append(cut)
            more = cut == below.text.rstrip()
        return plain(parts[0]) if len(parts) == 1 else " ".join(parts)

    @staticmethod
    def _cut_comment(text):
        m = re.search(r"\s#", text)
        return (text[: m.start()] if m else text).rstrip()

    def _text_block(self, text, line, indent):
        """| keeps line breaks, > folds them."""
        m = re.match(r"([|>])([-+]?)([1-9]?)([-+]?)\s*(#.*)?$", text)
        if not m:
            self.fail(line.number, "after %s only +, - or a number may stand" % text[0])
        style, chomp = m.group(1), m.group(2) or m.group(4)
        inner = indent + int(m.group(3)) if m.group(3) else None
        rows = []
        while self._at < len(self._lines):
            raw = self._lines[self._at]
            own = len(raw) - len(raw.lstrip(" "))
            if raw.strip(" "):
                if inner is None:
                    if own <= indent:
                        break
                    inner = own
                if own < inner:
                    break
                rows.append(raw[inner:])
            else:
                rows.append(raw[inner:] if inner is not None else "")
            self._at += 1
        end = len(rows)
        while end and not rows[end - 1].strip(" "):
            end -= 1
        body, tail = rows[:end], len(rows) - end
        out = "\n".join(body) if style == "|" else _fold(body)
        if chomp == "-" or not body:
            return out
        return out + "\n" * (1 + tail if chomp == "+" else 1)

    # ---- quotes and flow ----

    @staticmethod
    def _quote_end(text, at):
        """Behind the closing quote of the scalar that starts at `at`, or None."""
        quote, i = text[at], at + 1
        while i < len(text):
            if quote == '"' and text[i] == "\\":
                i += 2
                continue
            if text[i] == quote:
                if quote == "'" and text[i + 1:i + 2] == "'":
                    i += 2
                    continue
                return i + 1
            i += 1
        return None

    def _quoted(self, text, number):
        body = re.sub(r"[ \t]*\n[ \t]*(\n[ \t]*)*", lambda m: "\n" * (m.group().count("\n") - 1) or " ", text[1:-1])
        if text[0] == "'":
            return body.replace("''", "'")

        def escape(m):
            c = m.group(1)
            if c[0] in "xuU":
                if len(c) == 1:
                    self.fail(number, "\\%s needs its digits" % c)
                return chr(int(c[1:], 16))
            if c not in _ESCAPES:
                self.fail(number, "\\%s is no escape" % c)
            return _ESCAPES[c]

        return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", escape, body, flags=re.S)

    def _flow_value(self, text, line):
        """A quoted scalar, [list] or {mapping}, over as many lines as it takes."""
        while True:
            flow = _Flow(self, text, line.number)
            value = flow.value(0)
            if flow.complete:
                rest = text[flow.at:].strip()
                if rest and not (rest.startswith("#") and text[flow.at] in " \t"):
                    self.fail(line.number, "only a comment may stand behind this value")
                return value
            if self._at >= len(self._lines):
                self.fail(line.number, "this %s has no end" % ("text" if text[0] in "\"'" else "list or mapping"))
            text += "\n" + self._lines[self._at].strip(" \t")
            self._at += 1


class _Flow:
    """Reads one flow value; `complete` is False when the text ended too early."""

    def __init__(self, reader, text, number):
        self.r, self.text, self.number = reader, text, number
        self.at, self.complete = 0, True

    def _skip(self):
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\n":
                self.at += 1
            if self.at < len(self.text) and self.text[self.at] == "#" and (
                    self.at == 0 or self.text[self.at - 1] in " \t\n"):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            break
        if self.at >= len(self.text):
            self.complete = False
            return ""
        return self.text[self.at]

    def value(self, depth):
        if depth > _DEPTH_MAX:
            self.r.fail(self.number, "lists and mappings are nested too deep")
        c = self._skip()
        if not c:
            return None
        if c in "\"'":
            end = self.r._quote_end(self.text, self.at)
            if end is None:
                self.complete = False
                return None
            text, self.at = self.text[self.at:end], end
            return self.r._quoted(text, self.number)
        if c == "[":
            return self._list(depth)
        if c == "{":
            return self._mapping(depth)
        if c in "&!|>%@`":
            self.r.fail(self.number, "%s cannot stand inside [ ] or { }" % c)
        m = re.compile(r"(?:[^,\[\]{}:#\n]|:(?=[^\s,\[\]{}])|(?<=\S)#)+").match(self.text, self.at)
        if not m:
            self.r.fail(self.number, "a value is expected before '%s'" % c)
        self.at = m.end()
        word = m.group().strip()
        return self.r._alias(word, self.number) if word.startswith("*") else plain(word)

    def _list(self, depth):
        self.at += 1
        items = []
        while True:
            c = self._skip()
            if not c or c == "]":
                self.at += 1
                return items
            items.append(self.value(depth + 1))
            c = self._skip() if self.complete else ""
            if c == ":":
                self.r.fail(self.number, "a pair inside [ ] is not known here: write {key: value}")
            if c == ",":
                self.at += 1
            elif c not in ("", "]"):
                self.r.fail(self.number, "a comma is missing inside [ ]")
            if not c:
                return items

    def _mapping(self, depth):
        self.at += 1
        found = {}
        while True:
            c = self._skip()
            if not c or c == "}":
                self.at += 1
                return found
            start = self.at
            key = self.value(depth + 1)
            key = key if c in "\"'" else self.text[start:self.at].strip()
            c = self._skip() if self.complete else ""
            value = None
            if c == ":":
                self.at += 1
                value = None if self._skip() in (",", "}") else self.value(depth + 1)
                c = self._skip() if self.complete else ""
            if not c:
                return found
            if key in found:
                self.r.fail(self.number, "key \"%s\" is given twice" % key)
            found[key] = value
            if c == ",":
                self.at += 1
            elif c != "}":
                self.r.fail(self.number, "a comma is missing inside { }")


def _fold(rows):
    out = ""
    for i, row in enumerate(rows):
        if i == 0:
            out = row
        elif row == "":
            out += "\n"
        elif rows[i - 1] == "" or row[0] in " \t" or rows[i - 1][:1] in (" ", "\t"):
            out += ("" if rows[i - 1] == "" and row[0] not in " \t" else "\n") + row
        else:
            out += " " + row
    return out


def _weight(value):
    if isinstance(value, dict):
        return 1 + sum(_weight(v) for v in value.values())
    if isinstance(value, list):
        return 1 + sum(_weight(v) for v in value)
    return 1
