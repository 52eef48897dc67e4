"""The project's own tools: what counts as a failure, what breaks a layer, what a screen shows."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def load(path):
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="berth-py-")

    def tearDown(self):
        shutil.rmtree(self.tmp)

    def write(self, path, text):
        full = os.path.join(self.tmp, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)


class Report(Case):
    def report(self):
        p = subprocess.run([sys.executable, os.path.join(ROOT, "script/test_report.py"), self.tmp], capture_output=True, text=True)
        return p.returncode, p.stdout.splitlines()[-1], p.stdout

    def test_counts_points(self):
        lines = [
            {"name": "tap", "stdout": "1..3\nok 1 - a\nok 2 - b # SKIP no root\nok 3 c\n", "result": "OK", "returncode": 0},
            {"name": "plain", "stdout": "hello\n", "result": "OK", "returncode": 0},
            {"name": "skipped", "stdout": "", "result": "SKIP", "returncode": 77},
            {"name": "cmocka", "stdout": "1..2\nok 1 - a\nnot ok 2 # SKIP b\n", "result": "FAIL", "returncode": 0},
        ]
        self.write("build.json", "\n".join(json.dumps(x) for x in lines))
        self.write("fuzz.tap", "ok - fuzz json\n")
        self.assertEqual(self.report()[:2], (0, "5 passed, 0 failed, 3 skipped"))

    def test_failures_of_every_kind(self):
        lines = [
            {"name": "point", "stdout": "1..3\nnoise\nok 1 - a\nwords\nnot ok 2 - bad\n# why\nok 3 - c\n", "stderr": "the leak", "result": "FAIL", "returncode": 1},
            {"name": "crash", "stdout": "1..3\nok 1 - a\n", "stderr": "boom", "result": "ERROR", "returncode": -6},
            {"name": "late", "stdout": "", "result": "TIMEOUT", "returncode": -15},
            {"name": "leak at exit", "stdout": "1..1\nok 1 - a\n", "stderr": "LeakSanitizer", "result": "ERROR", "returncode": 1},
        ]
        self.write("build.json", "\n".join(json.dumps(x) for x in lines))
        status, last, text = self.report()
        self.assertEqual((status, last), (1, "4 passed, 4 failed, 0 skipped"))
        for part in ("build: point: bad", "words", "# why", "the leak", "boom", "timeout", "LeakSanitizer", "2 of 3 tests did not run"):
            self.assertIn(part, text)
        for part in ("noise", "ok 1 - a", "ok 3 - c"):
            self.assertNotIn(part, text[text.index("point: bad"):text.index("the leak")])

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.report()[:2], (1, "0 passed, 0 failed, 0 skipped"))


class Layers(Case):
    def complaints(self):
        return load("script/check_layers.py").check_tree(self.tmp)[0]

    def test_this_tree(self):
        self.assertEqual(load("script/check_layers.py").check_tree(ROOT)[0], [])

    def test_breaches(self):
        self.write("src/base/a.c", '#include "base/a.h"\n#include "io/loop.h"\n')
        self.write("src/io/a.h", "#include <uv.h>\n")
        self.write("src/io/a_priv.h", "#include <uv.h>\n")
        self.write("src/core/b.c", '#include "io/a_priv.h"\n#include <sqlite3.h>\n#include "cli/cli.h"\n')
        self.write("src/attic/c.c", "")
        self.write("src/main.c", '#include "cli/cli.h"\n')
        found = "\n".join(self.complaints())
        for part in (
            "src/base/a.c:2: base may not use io (it may use: nothing)",
            "src/io/a.h:1: uv.h may appear in .c files and _priv.h only",
            "src/core/b.c:1: io/a_priv.h is private to io",
            "src/core/b.c:2: sqlite3.h belongs to store",
            "src/core/b.c:3: core may not use cli",
            "src/attic/c.c: room attic is not in the table",
        ):
            self.assertIn(part, found)
        self.assertEqual(len(self.complaints()), 6)


class Terminal(unittest.TestCase):
    def screen(self, text, columns=20):
        s = load("docs/img/render_term.py").Screen(columns)
        s.feed(text)
        return s

    def text(self, screen):
        return ["".join(c for c, _ in row).rstrip() for row in screen.lines()]

    def test_movement(self):
        self.assertEqual(self.text(self.screen("10%\r\x1b[K100%\nb\r\n\x1b[2A\x1b[6Gx")), ["100% x", "    b"])
        self.assertEqual(self.text(self.screen("abc\x1b[2Jd\r\n")), ["d"])
        self.assertEqual(self.text(self.screen("12345678", columns=5)), ["12345", "678"])

    def test_colours(self):
        row = self.screen("\x1b[1;31ma\x1b[0mb\x1b[38;5;196mc\x1b[48;2;1;2;3md").lines()[0]
        palette = load("docs/img/render_term.py").PALETTE
        self.assertEqual(row[0][1], (palette[1], None, frozenset({1})))
        self.assertEqual(row[1][1], (None, None, frozenset()))
        self.assertEqual((row[2][1][0], row[3][1][1]), ("#ff0000", "#010203"))

    def test_svg_is_xml(self):
        import xml.dom.minidom

        module = load("docs/img/render_term.py")
        s = self.screen("<a & b> \x1b[7mé漢\x1b[0m\r\n\r\nend")
        document = xml.dom.minidom.parseString(module.svg(s.lines(), 20, 'a "title" & more'))
        self.assertEqual(document.documentElement.tagName, "svg")


if __name__ == "__main__":
    unittest.main()
