"""ditk.scheduler without a daemon: samples written into programs, known fields, pickles, side files."""

import collections
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.abspath(os.path.join(HERE, "..", "..", "python")))

import ditk  # noqa: E402
from ditk.scheduler import run_scheduler, run_scheduler_k8s, run_scheduler_local  # noqa: E402
from ditk.scheduler import _result, _table  # noqa: E402
from ditk.scheduler._template import Template, literal  # noqa: E402

PROGRAM = '''\
import os
main_config = dict(
    exp_name="plain",
    policy=dict(discount_factor=0.9, learn=dict(rate=0.1)),
)
if __name__ == "__main__":
    print(main_config)
'''


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ditk-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path


class Programs(WithFolder):
    def template(self, program=PROGRAM):
        return Template(self.file("config.py", program))

    def config_of(self, text):
        """main_config of a rewritten program, as the program would find it."""
        names = {"__name__": "no main"}
        exec(compile(text, "program", "exec"), names)
        return names["main_config"]

    def test_lines_stand_before_the_entry_line(self):
        text = self.template().program({"policy": {"discount_factor": 0.95, "learn": {}}, "name": "abc"}, "try-0")
        self.assertEqual(
            text,
            PROGRAM.replace(
                'if __name__',
                'main_config["policy"]["discount_factor"] = 0.95\nmain_config["name"] = "abc"\n'
                'main_config["exp_name"] = "try-0"\nif __name__',
            ),
        )

    def test_the_users_exp_name_is_left_alone(self):
        self.assertEqual(self.config_of(self.template().program({"exp_name": "mine"}, "try-0"))["exp_name"], "mine")

    def test_entry_lines(self):
        for line in ("if __name__ == '__main__':", 'if  __name__=="__main__" :', 'if __name__ is "__main__":  # go'):
            self.assertIn("try-0", self.template(PROGRAM.replace('if __name__ == "__main__":', line)).program({}, "try-0"))
        with self.assertRaisesRegex(ValueError, "__main__"):
            self.template("main_config = {}\n    if __name__ == '__main__': pass\n")
        with self.assertRaisesRegex(ValueError, "main_config"):
            self.template("if __name__ == '__main__':\n    pass\n")
        with self.assertRaisesRegex(ValueError, "no Python program.*line 1"):
            self.template("def (:\nmain_config = {}\nif __name__ == '__main__':\n    pass\n")
        twice = self.template(PROGRAM + 'if __name__ == "__main__":\n    pass\n').program({}, "try-0")
        self.assertEqual(twice.count("try-0"), 1)

    def test_values_survive(self):
        sample = {
            "text": 'a"b\\c\nd\u2028é😀\x7f', "half": "\ud800", "inf": math.inf, "minus": -math.inf, "big": 10 ** 30,
            "tiny": 5e-324, "none": None, "yes": True, "list": [1, (2,), {"k": {3}}, set(), b"\x00", 1j],
            "ordered": collections.OrderedDict(a=1), 7: "number as key",
        }  # fmt: skip
        text = self.template().program(sample, "try-0")
        found = self.config_of(text)
        for key, value in sample.items():
            self.assertEqual(found[key], value, key)
        self.assertTrue(math.isnan(eval(literal(math.nan))))
        with self.assertRaisesRegex(ValueError, r'main_config\["policy"\]\["x"\].*type object'):
            self.template().program({"policy": {"x": object()}}, "try-0")

    def test_line_ends(self):
        text = self.template(PROGRAM.replace("\n", "\r\n")).program({}, "try-0")
        self.assertNotIn("\r", text)

    def test_unknown_fields(self):
        template = self.template()
        template.check({"policy": {"discount_factor": 1, "learn": {"rate": 2}}, "exp_name": "x"})
        with self.assertRaisesRegex(ValueError, r'no dict at \["polcy"\].*\["polcy"\]\["discount_factor"\].*\'policy\''):
            template.check({"polcy": {"discount_factor": 1}})
        with self.assertRaisesRegex(ValueError, r'no dict at \["policy"\]\["discount_factor"\]'):
            template.check({"policy": {"discount_factor": {"deep": 1}}})
        with self.assertLogs("ditk.scheduler", "WARNING") as logs:
            template.check({"policy": {"discont_factor": 1}})
            template.check({"policy": {"discont_factor": 2}})
        self.assertEqual(len(logs.records), 1)
        self.assertIn("'discount_factor'", logs.output[0])

    def test_what_reading_cannot_tell_is_allowed(self):
        for beginning in (
            "from config import main_config\nmain_config = main_config",
            "main_config = make()",
            "main_config = {}\nmain_config.update(polcy={})",
            "main_config = {}\nfor k in ['polcy']:\n    main_config[k] = {}",
            "base = {}\nmain_config = base\nfill(base)",
            "base = {}\nbase['polcy'] = dict()\nmain_config = EasyDict(base)",
            "from easydict import EasyDict\nmain_config = EasyDict(dict(a=1))\nmain_config.polcy = {}",
            "main_config = {**other}",
            "key = 'polcy'\nmain_config = {key: {}}",
        ):
            program = beginning + "\nmain_config\nif __name__ == '__main__':\n    pass\n"
            self.template(program).check({"polcy": {"x": 1}})
        with self.assertRaises(ValueError):
            known = "base = dict(policy={})\nmain_config = EasyDict(base)\nif __name__ == '__main__':\n    pass\n"
            self.template(known).check({"polcy": {"x": 1}})


class Command:
    """A pickle of this runs a command when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, ("touch %s" % self.path,)


class Pickles(WithFolder):
    def read(self, content, name="result.pkl", allow_unsafe=False):
        return _result.read(self.file(name, content), allow_unsafe)

    def test_plain_values(self):
        value = {
            "f": 0.1, "inf": math.inf, "i": 2 ** 70, "t": (1, [2, None]), "s": {1}, "fs": frozenset("a"), "b": b"\xff",
            "c": 1 + 2j, 5: "int key", (1, 2): "tuple key", "$": "a mark", "o": collections.OrderedDict(z=1, a=2),
            "e": "é\u2028", "r": range(3), "ba": bytearray(b"x"), True: False,
        }  # fmt: skip
        expected = {**value, "o": {"z": 1, "a": 2}, "r": (0, 1, 2), "ba": b"x"}
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            self.assertEqual(self.read(pickle.dumps(value, protocol)), expected, protocol)
        self.assertTrue(math.isnan(self.read(pickle.dumps(math.nan))))
        self.assertEqual(list(self.read(pickle.dumps(value["o"]))), ["z", "a"])

    def test_numpy_without_numpy(self):
        """What NumPy writes, old and new, byte for byte; no NumPy is needed to read it."""
        dtype = b"cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
        bytes_of = b"c_codecs\nencode\n(V%s\nVlatin1\ntR"
        one = bytes_of % b"\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u00f0?"
        for core in (b"numpy.core", b"numpy._core"):
            scalar = b"c" + core + b".multiarray\nscalar\n(" + dtype + one + b"tR."
            self.assertEqual(self.read(scalar), 1.0)

    def test_numpy_arrays(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        value = {
            "f4": numpy.float32(0.5), "i": numpy.int64(-3), "b": numpy.bool_(True), "big": numpy.array([1, 258], ">i2"),
            "m": numpy.arange(6.0).reshape(2, 3), "fortran": numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
            "u": numpy.array(["ab", "c"]), "o": numpy.array([{"x": 1}, None], dtype=object), "empty": numpy.zeros((0, 2)),
            "zero": numpy.array(7), "c": numpy.array([1 + 2j]), "bytes": numpy.array([b"ab", b"c"]),
        }  # fmt: skip
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            found = self.read(pickle.dumps(value, protocol))
            self.assertEqual(found, {k: v.tolist() for k, v in value.items()}, protocol)
            self.assertIs(type(found["f4"]), float)
        with self.assertRaisesRegex(_result.BadResult, "records"):
            self.read(pickle.dumps(numpy.zeros(2, dtype=[("a", "i4")])))

    def test_easydict(self):
        """EasyDict keeps its items twice; only the items count."""
        easy = b"\x80\x02ceasydict\nEasyDict\n)\x81(X\x01\x00\x00\x00aK\x01u}X\x01\x00\x00\x00aK\x01sb."
        found = self.read(easy)
        self.assertEqual((found, type(found)), ({"a": 1}, dict))

    def test_nothing_is_run(self):
        victim = os.path.join(self.folder, "victim")
        for content in (
            pickle.dumps(Command(victim)),
            pickle.dumps({"deep": [Command(victim)]}, 0),
            b"cbuiltins\neval\n(S'open(%r, \"w\")'\ntR." % victim,
            b"c__builtin__\ngetattr\n(cbuiltins\nstr\nS'join'\ntR.",
            b"cdecimal\nDecimal\n(S'1'\ntR.",
            b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR.",
            b"ccopyreg\n_reconstructor\n(cbuiltins\nint\ncbuiltins\nobject\nNtR.",
            b"P1\n.",
        ):
            with self.assertRaises(_result.BadResult) as caught:
                self.read(content)
            self.assertEqual(caught.exception.status, "unsafe result", content)
        self.assertIn("posix.system", str(self.error(pickle.dumps(Command(victim)))))
        self.assertFalse(os.path.exists(victim))
        self.read(pickle.dumps(Command(victim)), allow_unsafe=True)
        self.assertTrue(os.path.exists(victim))

    def error(self, content):
        with self.assertRaises(_result.BadResult) as caught:
            self.read(content)
        return caught.exception

    def test_broken_and_huge(self):
        whole = pickle.dumps({"value": list(range(1000))})
        for content in (b"", b"not a pickle", whole[:-1], whole[: len(whole) // 2]):
            self.assertEqual(self.error(content).status, "fail")
        self.assertEqual(self.error(b"cbuiltins\nbytearray\n(I99999999999\ntR.").status, "fail")
        laughs = []
        for _ in range(60):
            laughs = [laughs, laughs]
        self.assertIn("values", str(self.error(pickle.dumps(laughs))))
        cycle = []
        cycle.append(cycle)
        self.assertEqual(self.error(pickle.dumps(cycle)).status, "fail")
        path = self.file("large.pkl", b"")
        os.truncate(path, _result.LIMIT + 1)
        with self.assertRaisesRegex(_result.BadResult, "at most"):
            _result.read(path, False)
        pipe = os.path.join(self.folder, "pipe.pkl")
        os.mkfifo(pipe)
        with self.assertRaisesRegex(_result.BadResult, "no regular file"):
            _result.read(pipe, False)

    def test_json_and_side_files(self):
        self.assertEqual(self.read('{"eval_value": NaN, "x": [1]}', "result.json")["x"], [1])
        with self.assertRaises(_result.BadResult):
            self.read("{", "result.json")
        self.assertEqual(_result.side_file([self.folder]), {"status": "success"})
        self.file("result.txt", json.dumps({"status": "fail", "why": "diverged"}))
        self.assertEqual(_result.side_file([self.folder]), {"status": "fail", "why": "diverged"})
        self.file("results.txt", "{")
        with self.assertLogs("ditk.scheduler", "WARNING"):
            self.assertEqual(_result.side_file([self.folder])["status"], "fail")


class Surface(WithFolder):
    def test_kubernetes_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "run_scheduler_local"):
            run_scheduler_k8s("a.py", "b.yml")
        with self.assertRaisesRegex(NotImplementedError, "run_scheduler_local"):
            run_scheduler("a.py", mode="k8s")

    def test_wrong_arguments(self):
        path = self.file("config.py", PROGRAM)
        for options in (
            {"dijob_project_name": "a/b"}, {"dijob_project_name": ""}, {"dijob_project_name": "."}, {"time_out": -1},
            {"max_number_of_running_task": 0}, {"max_number_of_tasks": 0}, {"naming": "new"}, {"time_out": "1h"},
        ):  # fmt: skip
            with self.assertRaises(ValueError):
                run_scheduler_local(path, **options)
        with self.assertRaises(ValueError):
            run_scheduler(path, mode="cloud")
        with self.assertRaises(FileNotFoundError):
            run_scheduler_local(os.path.join(self.folder, "missing.py"))

    def test_packaged_files(self):
        folder = os.path.join(ditk.__path__[0], "template")
        Template(os.path.join(folder, "cartpole_dqn_config.py")).check({"policy": {"discount_factor": 1.0}})
        with open(os.path.join(folder, "cartpole_dijob_with_empty_configmap.yml")) as f:
            self.assertTrue(f.read().endswith("data:\n  config.py: |\n"))

    def test_lighttuner_has_the_same_names_and_makes_room(self):
        code = "import lighttuner.hpo, lighttuner.scheduler, ditk.hpo; print(lighttuner.hpo.hpo is ditk.hpo.hpo, lighttuner.scheduler.run_scheduler_local.__module__)"
        package = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
        env = {**os.environ, "PYTHONPATH": package}
        answer = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True)
        self.assertEqual(answer.stdout, "True ditk.scheduler._entry\n", answer.stderr)
        for name in ("lighttuner", "ditk"):
            os.makedirs(os.path.join(self.folder, name))
            self.file(name + "/__init__.py", "origin = 'real'\n")
            self.file(name + "/other.py", "value = 5\n")
        code = "import lighttuner.other, ditk.other, ditk.hpo; print(lighttuner.origin, ditk.other.value)"
        env["PYTHONPATH"] = package + os.pathsep + self.folder
        answer = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        self.assertEqual(answer.stdout, "real 5\n", answer.stderr)

    def test_table(self):
        lists = [list(range(12)), [8], [9, 10, 11], list(range(8)), [1, 3, 4, 5, 6, 7], [0, 2]]
        rule = "+---------------+----------------------------------------+"
        rows = [
            "| task_defined  | [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] |", "| task_running  | [8]                                    |",
            "| task_waiting  | [9, 10, 11]                            |", "| task_finished | [0, 1, 2, 3, 4, 5, 6, 7]               |",
            "| task_success  | [1, 3, 4, 5, 6, 7]                     |", "| task_abnormal | [0, 2]                                 |",
        ]  # fmt: skip
        expected = [rule, "| status        | instances                              |", rule.replace("-", "=")]
        self.assertEqual(_table.render(lists, True).split("\n"), expected + [x for row in rows for x in (row, rule)])
        self.assertIn("+---------------+-------------+", _table.render([[]] * 6, True))
        self.assertIn("| task_running  | 1,2         |", _table.render([[], [1, 2], [], [], [], []], False))


if __name__ == "__main__":
    unittest.main()
