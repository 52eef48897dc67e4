"""The checkers of script/: names, sizes, strings, and how script/bootstrap copes with a package manager that fails."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(ROOT, "script")
sys.path.insert(0, SCRIPT)

import c_source  # noqa: E402
import check_names  # noqa: E402

SOURCE = '''/* a comment
 * of two lines */
static int first_thing(int a)
{
    return a; /* not a line of comment */
}

struct pair {
    int a, b;
    struct { int x; } inner;
};

void second_thing(void)
{
}
'''
APT = """#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in
*update*) [ "$(grep -c update "$LOG")" -ge 3 ] || { echo "E: Could not get lock /var/lib/apt/lists/lock"; exit 100; } ;;
*) exit 100 ;;
esac
"""


class Tree(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="berth-checkers-")
        self.addCleanup(shutil.rmtree, self.tmp)

    def write(self, path, text, mode=0o644):
        full = os.path.join(self.tmp, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)
        os.chmod(full, mode)
        return full


class Source(unittest.TestCase):
    def test_functions_structs_comments(self):
        self.assertEqual(c_source.functions(SOURCE), [("first_thing", 3, 4), ("second_thing", 13, 3)])
        self.assertEqual(c_source.structs(SOURCE), [("pair", 8, 3)])
        self.assertEqual(c_source.comment_lines(SOURCE), 2)


class Names(Tree):
    def test_this_tree(self):
        self.assertEqual(check_names.check(ROOT)[0], [])

    def test_shared_names_over_the_limit(self):
        self.write("src/io/a.c", "static void fill(void)\n{\n}\n")
        self.write("src/core/b.c", "static void fill(void)\n{\n}\n")
        found, total, share = check_names.check(self.tmp, (), 50.0)
        self.assertEqual((total, share), (2, 100.0))
        self.assertIn("src/core/b.c:1", "\n".join(found))

    def test_dialects_and_exceptions(self):
        self.write("src/core/b.c", "/* as Atlas does */\n")
        self.write("src/dialect/atlas/c.c", "/* Atlas */\n")
        self.assertIn("src/core/b.c:1", check_names.check(self.tmp, (), 50.0)[0][0])
        self.assertEqual(check_names.check(self.tmp, ("src/core/b.c",), 50.0)[0], [])
        self.assertIn("no dialect any more", check_names.check(self.tmp, ("src/core/b.c", "src/io/a.c"), 50.0)[0][0])


class Strings(Tree):
    def test_sentences_are_listed_with_their_place(self):
        target = os.path.join(self.tmp, "strings.txt")
        subprocess.run([sys.executable, os.path.join(SCRIPT, "strings"), target], check=True, capture_output=True)
        with open(target, encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertGreater(len(lines), 2000)
        self.assertTrue(all(len(line.split("\t")) >= 3 and ":" in line for line in lines))


@unittest.skipUnless(shutil.which("dpkg-query"), "not a Debian system")
class Bootstrap(Tree):
    def test_locks_are_waited_for_and_missing_packages_named(self):
        self.write("bin/apt-get", APT, 0o755)
        self.write("bin/apt-cache", "#!/bin/sh\nexit 1\n", 0o755)
        self.write("bin/sudo", "#!/bin/sh\nexec env \"$@\"\n", 0o755)
        self.write("bin/dpkg-query", "#!/bin/sh\ncase \"$*\" in *ninja-build) exit 1 ;; esac\necho installed\n", 0o755)
        log = os.path.join(self.tmp, "log")
        env = dict(os.environ, PATH=os.path.join(self.tmp, "bin") + ":" + os.environ["PATH"], LOG=log,
                   BERTH_BOOTSTRAP_PAUSES="0 0")
        p = subprocess.run([os.path.join(SCRIPT, "bootstrap")], env=env, capture_output=True, text=True)
        with open(log) as f:
            calls = f.read().splitlines()
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertIn("another program holds the package lists", p.stdout)
        self.assertIn("could not be installed: ninja-build", p.stderr)
        self.assertIn("apt-get install --no-install-recommends ninja-build", p.stderr)
        self.assertEqual(sum(" update" in c for c in calls), 3)
        self.assertTrue(all("DPkg::Lock::Timeout=" in c for c in calls if " -y " in c))
        self.assertEqual(sum(" -y " in c for c in calls), 4)  # three tries, then the package by itself

    def test_what_is_only_wished_for_may_be_missing(self):
        """A package without which some tests are skipped: its name is said, and the exit status is 0."""
        self.write("bin/apt-get", '#!/bin/sh\necho "$*" >>"$LOG"\nexit 100\n', 0o755)
        self.write("bin/apt-cache", "#!/bin/sh\nexit 0\n", 0o755)
        self.write("bin/sudo", "#!/bin/sh\nexec env \"$@\"\n", 0o755)
        self.write("bin/dpkg-query", "#!/bin/sh\ncase \"$*\" in *python3-torch) exit 1 ;; esac\necho installed\n", 0o755)
        log = os.path.join(self.tmp, "log")
        env = dict(os.environ, PATH=os.path.join(self.tmp, "bin") + ":" + os.environ["PATH"], LOG=log)
        p = subprocess.run([os.path.join(SCRIPT, "bootstrap"), "--tests"], env=env, capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertIn("python3-torch could not be installed; tests that use it are skipped", p.stderr)
        with open(log) as f:
            self.assertEqual(sum(" install python3-torch" in c for c in f), 1)  # one try


if __name__ == "__main__":
    unittest.main()
