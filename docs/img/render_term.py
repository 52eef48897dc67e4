#!/usr/bin/env python3
"""Terminal output → SVG: plays ANSI text on a small screen and draws what is left on it.

    script -qec 'berth ls' /dev/null | docs/img/render_term.py --title 'berth ls' > ls.svg
    docs/img/render_term.py --run 'berth ls' --width 100 > ls.svg     # runs it on a terminal of its own

Understands colours (16, 256, 24 bit), bold, dim, italic, underline, reverse, carriage return, cursor
movement and erasing; everything else is ignored.  Lines are as wide as the terminal said.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import select
import struct
import sys
import termios
import time
import unicodedata

CELL_W, CELL_H, FONT = 8.4, 18, 14
BACKGROUND, FOREGROUND, FRAME = "#1b1f27", "#d7dae0", "#2b313c"
PALETTE = ["#3b4252", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf"]
PALETTE += ["#7f848e", "#ff7b86", "#b5e08d", "#ffd68a", "#7cc4ff", "#dd92f2", "#6fd3de", "#ffffff"]
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.|[\r\n\b\t]|.", re.S)
PLAIN = (None, None, frozenset())  # foreground, background, attributes


def color256(n):
    if n < 16:
        return PALETTE[n]
    if n >= 232:
        v = 8 + (n - 232) * 10
        return "#%02x%02x%02x" % (v, v, v)
    n -= 16
    return "#%02x%02x%02x" % tuple(0 if c == 0 else 55 + c * 40 for c in (n // 36, n // 6 % 6, n % 6))


def width_of(ch):
    if unicodedata.combining(ch):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


class Screen:
    def __init__(self, columns):
        self.columns = columns
        self.rows = [[]]
        self.x = self.y = 0
        self.style = PLAIN

    def row(self):
        while len(self.rows) <= self.y:
            self.rows.append([])
        return self.rows[self.y]

    def put(self, ch):
        w = width_of(ch)
        if w == 0:
            return
        if self.x + w > self.columns:
            self.x, self.y = 0, self.y + 1
        row = self.row()
        while len(row) < self.x + w:
            row.append((" ", PLAIN))
        row[self.x] = (ch, self.style)
        if w == 2:
            row[self.x + 1] = ("", self.style)
        self.x += w

    def feed(self, text):
        for m in TOKEN.finditer(text):
            t = m.group(0)
            if m.group(2):
                self.control(m.group(1), m.group(2))
            elif t == "\n":
                self.y += 1
                self.row()
            elif t == "\r":
                self.x = 0
            elif t == "\b":
                self.x = max(0, self.x - 1)
            elif t == "\t":
                self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
            elif t[0] != "\x1b" and t >= " ":
                self.put(t)

    def control(self, args, what):
        numbers = [int(a) if a.isdigit() else 0 for a in args.split(";")]
        n = max(1, numbers[0])
        if what == "m":
            self.graphics(numbers)
        elif what == "A":
            self.y = max(0, self.y - n)
        elif what == "B":
            self.y += n
        elif what == "C":
            self.x = min(self.columns - 1, self.x + n)
        elif what == "D":
            self.x = max(0, self.x - n)
        elif what == "F":
            self.x, self.y = 0, max(0, self.y - n)
        elif what == "G":
            self.x = n - 1
        elif what in "Hf":
            self.y = n - 1
            self.x = max(1, numbers[1] if len(numbers) > 1 else 1) - 1
        elif what == "K" and numbers[0] == 0:
            del self.row()[self.x :]
        elif what == "K":
            self.row()[:] = []
        elif what == "J" and numbers[0] == 0:
            del self.row()[self.x :]
            del self.rows[self.y + 1 :]
        elif what == "J":
            self.rows, self.x, self.y = [[]], 0, 0

    def graphics(self, numbers):
        fg, bg, attrs = self.style
        i = 0
        while i < len(numbers):
            n = numbers[i]
            if n == 0:
                fg, bg, attrs = PLAIN
            elif n in (1, 2, 3, 4, 7):
                attrs = attrs | {n}
            elif n == 22:
                attrs = attrs - {1, 2}
            elif n in (23, 24, 27):
                attrs = attrs - {n - 20}
            elif n in (38, 48):
                if numbers[i + 1 : i + 2] == [5]:
                    color, i = color256(numbers[i + 2] & 255), i + 2
                else:
                    color, i = "#%02x%02x%02x" % tuple(v & 255 for v in numbers[i + 2 : i + 5]), i + 4
                fg, bg = (color, bg) if n == 38 else (fg, color)
            elif n == 39:
                fg = None
            elif n == 49:
                bg = None
            else:
                for base, bright in ((30, 0), (90, 8)):
                    if base <= n < base + 8:
                        fg = PALETTE[n - base + bright]
                    if base + 10 <= n < base + 18:
                        bg = PALETTE[n - base - 10 + bright]
            i += 1
        self.style = (fg, bg, attrs)

    def lines(self):
        rows = [list(r) for r in self.rows]
        while rows and not any(c.strip() for c, _ in rows[-1]):
            rows.pop()
        return rows


def runs(row):
    """Neighbours of one style: (column, text, style)."""
    start, text, style = 0, "", None
    for x, (ch, st) in enumerate(row):
        if st != style and text:
            yield start, text, style
            text = ""
        if not text:
            start, style = x, st
        text += ch
    if text:
        yield start, text, style


def draw_run(x, y, text, style, out):
    fg, bg, attrs = style
    fg, bg = fg or FOREGROUND, bg
    if 7 in attrs:
        fg, bg = bg or BACKGROUND, fg
    width = CELL_W * sum(width_of(c) for c in text)
    if bg:
        out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>' % (x, y, width, CELL_H, bg))
    if not text.strip():
        return
    more = ""
    if 1 in attrs:
        more += ' font-weight="bold"'
    if 2 in attrs:
        more += ' opacity="0.6"'
    if 3 in attrs:
        more += ' font-style="italic"'
    if 4 in attrs:
        more += ' text-decoration="underline"'
    out.append(
        '<text x="%.1f" y="%.1f" fill="%s" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>'
        % (x, y + CELL_H - 5, fg, width, more, html.escape(text))
    )


def svg(rows, columns, title):
    pad, bar = 16, 34
    width = int(columns * CELL_W) + 2 * pad
    height = bar + len(rows) * CELL_H + pad
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">' % (width, height, width, height),
        "<title>%s</title>" % html.escape(title),
        '<rect width="100%%" height="100%%" rx="8" fill="%s"/>' % BACKGROUND,
        '<path d="M0 8a8 8 0 0 1 8-8h%da8 8 0 0 1 8 8v18H0z" fill="%s"/>' % (width - 16, FRAME),
        '<text x="%d" y="18" fill="#8b93a1" font-family="sans-serif" font-size="12">%s</text>' % (pad, html.escape(title)),
        '<g font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="%d" xml:space="preserve">' % FONT,
    ]
    for y, row in enumerate(rows):
        for x, text, style in runs(row):
            # Blanks at the ends would be stretched by textLength.
            lead = len(text) - len(text.lstrip(" ")) if style == PLAIN else 0
            draw_run(pad + (x + lead) * CELL_W, bar + y * CELL_H, text[lead:].rstrip(" ") if style == PLAIN else text, style, out)
    out.append("</g></svg>")
    return "\n".join(out) + "\n"


def run_on_terminal(command, columns, lines, stop_after):
    """Output of a command that believes it has a terminal; `stop_after` seconds end it."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(lines))
        os.environ.pop("NO_COLOR", None)
        os.execvp("/bin/sh", ["sh", "-c", command])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    data, until = b"", time.monotonic() + stop_after if stop_after else None
    while True:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            os.kill(pid, 15)
            break
        if not select.select([fd], [], [], left)[0]:
            continue
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.waitpid(pid, 0)
    return data.decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", metavar="COMMAND", action="append", help="run this instead of reading standard input; may be repeated")
    parser.add_argument("--title", default="")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--height", type=int, default=30)
    parser.add_argument("--stop-after", type=float, help="end a --run command after so many seconds and draw its screen")
    args = parser.parse_args()
    screen = Screen(args.width)
    if args.run:
        for command in args.run:
            if not args.stop_after:
                screen.feed("\x1b[1;32m$\x1b[0m \x1b[1m%s\x1b[0m\n\r" % command)
            screen.feed(run_on_terminal(command, args.width, args.height, args.stop_after))
            screen.x = 0
    else:
        screen.feed(sys.stdin.buffer.read().decode("utf-8", "replace"))
    sys.stdout.write(svg(screen.lines(), args.width, args.title or (args.run or [""])[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
