"""ditk.hpo: spaces, grids, random search, expressions, the life of a trial, texts and rank lists."""

import collections
import importlib
import logging
import math
import os
import sys
import threading
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.abspath(os.path.join(HERE, "..", "..", "python")))

from ditk import logging as ditk_logging  # noqa: E402
from ditk.hpo import C, M, R, Skip, choice, hpo, quniform, randint, randn, uniform  # noqa: E402
from ditk.hpo._expression import evaluate  # noqa: E402


def samples(runner, space, steps=None):
    """Every sample of a search, in order, of one worker."""
    seen = []

    def note(config):
        seen.append(config)
        return 0

    search = getattr(hpo(note), runner)(silent=True).max_workers(1).minimize(R).spaces(space)
    if steps is not None:
        search.max_steps(steps)
    search.run()
    return seen


class Spaces(unittest.TestCase):
    def test_bad_arguments(self):
        for error, call in (
            (ValueError, lambda: uniform(1, 1)),
            (ValueError, lambda: uniform(2, 1)),
            (ValueError, lambda: uniform(0, math.inf)),
            (TypeError, lambda: uniform("a", 1)),
            (ValueError, lambda: quniform(1, 0, 0.1)),
            (ValueError, lambda: quniform(0, 1, 0)),
            (ValueError, lambda: quniform(0, 1, -1)),
            (ValueError, lambda: randint(3, 1)),
            (ValueError, lambda: randint(0.2, 0.8)),
            (ValueError, lambda: choice([])),
            (TypeError, lambda: choice("ab")),
            (TypeError, lambda: choice({1, 2})),
            (TypeError, lambda: uniform(0, 1) >> 3),
        ):
            with self.assertRaises(error):
                call()

    def test_containers_keep_types_and_dicts_are_visited_in_sorted_order(self):
        Pair = collections.namedtuple("Pair", "left right")
        space = {"b": [choice([1, 2]), "x"], "a": Pair(choice([3, 4]), (None,)), "k": 7}
        got = samples("grid", space)
        self.assertEqual([(s["a"].left, s["b"][0]) for s in got], [(3, 1), (3, 2), (4, 1), (4, 2)])
        self.assertEqual(got[0], {"b": [1, "x"], "a": Pair(3, (None,)), "k": 7})
        self.assertIsInstance(got[0]["a"], Pair)
        self.assertEqual(list(got[0]), ["b", "a", "k"])

    def test_values_compose(self):
        space = {
            "pow": 10 ** choice([1, 2]),
            "line": choice([3]) * 2 + 1,
            "minus": 10 - (-choice([3])),
            "div": (9 // choice([2]), 9 % choice([4]), 1 / choice([4])),
            "pipe": choice([4]) >> math.sqrt >> str,
            "two": choice([1, 2]) + choice([10]),
        }
        got = samples("grid", space)
        self.assertEqual(got[0], {"pow": 10, "line": 7, "minus": 13, "div": (4, 1, 0.25), "pipe": "2.0", "two": 11})
        self.assertEqual(len(got), 4)

    def test_steps(self):
        self.assertEqual(samples("grid", quniform(0, 0.3, 0.1)), [0, 0.1, 0.2, 0.3])
        self.assertEqual(samples("grid", randint(0.5, 3.5)), [1, 2, 3])
        self.assertTrue(all(type(v) is int for v in samples("grid", quniform(-10, 20, 30))))


class Grid(unittest.TestCase):
    def test_every_row_of_the_table(self):
        """A9"""
        five, wide = choice(list("abcde")), uniform(-10, 100)
        step30 = quniform(-10, 20, 30)
        points = lambda space, steps=None: samples("grid", space, steps)  # noqa: E731
        self.assertEqual(points(uniform(0.95, 1), 5), [0.95, 0.9624999999999999, 0.975, 0.9875, 1.0])
        self.assertEqual(points(uniform(0, 1), 1), [0.5])
        self.assertEqual(points(uniform(0, 1), 0), [0.5])
        with self.assertRaisesRegex(ValueError, "max_steps"):
            points(uniform(0, 1))
        two = points({"a": uniform(0, 1), "b": uniform(0, 10)}, 20)
        self.assertEqual({s["a"] for s in two}, {0.5})
        self.assertEqual([s["b"] for s in two], [10 * (i / 19) for i in range(20)])
        self.assertEqual(points(quniform(0, 1, 0.3)), [0, 0.3, 0.6, 0.9])
        self.assertEqual(points(quniform(0, 1, 0.3), 3), [0, 0.6, 0.9])
        pairs = points({"b": choice(["x", "y"]), "a": randint(1, 3)}, 4)
        self.assertEqual([(s["a"], s["b"]) for s in pairs], [(1, "x"), (1, "y"), (3, "x"), (3, "y")])
        self.assertEqual(points(five, 2), list("abcde"))
        self.assertEqual(len(points({"x": wide, "y": uniform(-10, 20), "z": five}, 1000)), 945)
        self.assertEqual(len(points({"x": wide, "y": step30, "z": five}, 1000)), 1000)
        self.assertEqual(len(points({"x": wide, "y": step30, "z": five}, 11)), 10)
        for steps in (None, 10000):
            self.assertEqual(len(points({"x": randint(-10, 100), "y": step30, "z": five}, steps)), 1110)
        self.assertEqual(points({"k": 1}, 5), [{"k": 1}])
        self.assertEqual(points(10 ** uniform(-4, -1), 4), [1e-4, 1e-3, 1e-2, 1e-1])

    def test_lengths_end_at_the_last_value(self):
        """As in the original: a step that does not reach its end counts up to where it comes."""
        space = {"g": randint(-2, 0), "a": quniform(-5, 2, 2), "d": randint(1, 3)}
        self.assertEqual(len(samples("grid", space, 60)), 36)
        self.assertEqual(len(samples("grid", {"c": quniform(-5, -4, 2), "x": uniform(0, 1)}, 4)), 4)

    def test_one_value_is_one_point_and_the_normal_has_finite_ends(self):
        self.assertEqual(samples("grid", {"a": randint(3, 3), "b": uniform(0, 1)}, 2), [{"a": 3, "b": 0.0}, {"a": 3, "b": 1.0}])
        normal = samples("grid", randn(5, 2), 3)
        self.assertEqual(normal[1], 5)
        self.assertAlmostEqual(normal[0] + normal[2], 10)
        self.assertTrue(all(map(math.isfinite, normal)))

    def test_no_point_twice_with_many_workers(self):
        seen, lock = collections.Counter(), threading.Lock()

        def note(config):
            with lock:
                seen[config["a"], config["b"]] += 1
            return 0

        hpo(note).grid(silent=True).max_workers(16).minimize(R).spaces({"a": randint(1, 20), "b": randint(1, 20)}).run()
        self.assertEqual((len(seen), set(seen.values())), (400, {1}))


class Random(unittest.TestCase):
    def test_finite_spaces_end_and_never_repeat(self):
        got = samples("random", {"a": choice([[1], {}]), "b": randint(1, 3), "k": "same"}, 100)
        self.assertEqual(len(got), 6)
        self.assertEqual(len({repr(s) for s in got}), 6)
        self.assertEqual(samples("random", {"k": 1}, 5), [{"k": 1}])

    def test_same_seed_same_samples(self):
        def run(seed):
            seen = []
            search = hpo(lambda config: seen.append(config) or 0).random(silent=True).seed(seed).max_workers(1)
            search.max_steps(20).minimize(R).spaces({"a": uniform(0, 1), "b": choice("xyz".split()), "c": randn()}).run()
            return seen

        self.assertEqual(run(1), run(1))
        self.assertNotEqual(run(1), run(2))
        self.assertTrue(all(0 <= s["a"] <= 1 for s in run(3)))

    def test_no_steps(self):
        self.assertIsNone(hpo(lambda c: 0).random(silent=True).max_steps(0).minimize(R).spaces(uniform(0, 1)).run())


class Expressions(unittest.TestCase):
    OUTCOME = {"config": {"b": (2, 3)}, "return": {"bb": [5, 7], "v": -4, "s": "text"}, "metrics": {"time": 1.5}}

    def value(self, expression):
        return evaluate(expression, self.OUTCOME)

    def test_operators(self):
        self.assertEqual(self.value(C["b"][0] * R["bb"][1]), 14)
        self.assertEqual(self.value(R), self.OUTCOME["return"])
        self.assertEqual(self.value(2 ** R["bb"][0] - -R["v"] // 3 + 7 % R["bb"][0]), 32 - 1 + 2)
        self.assertEqual(self.value(1 / M["time"]), 1 / 1.5)
        self.assertEqual(self.value(R["s"].upper()), "TEXT")
        self.assertEqual(self.value(R["bb"][C["b"][0] - 1]), 7)
        self.assertEqual(self.value(R.get("nothing", R["v"])), -4)
        self.assertEqual([self.value(R["v"].abs()), self.value(R["bb"].len()), self.value(R["bb"].sum())], [4, 2, 12])
        self.assertEqual(self.value(R["bb"].mean()), 6)
        self.assertAlmostEqual(self.value(R["bb"].stdev()), math.sqrt(2))
        self.assertTrue(self.value(R["v"].isinstance_(int)))
        self.assertTrue(self.value(R["s"].is_(self.OUTCOME["return"]["s"])))
        for expression, expected in (
            (R["v"] == -4, True), (R["v"] != -4, False), (R["v"] < 0, True), (R["v"] <= -4, True),
            (R["v"] > 0, False), (0 >= R["v"], True), (~(R["v"] > 0), True),
        ):  # fmt: skip
            self.assertIs(self.value(expression), expected, repr(expression))

    def test_logic_decides_like_and_or(self):
        self.assertEqual(self.value((R["v"] > 0) & R["missing"]), False)
        self.assertEqual(self.value((R["v"] < 0) | R["missing"]), True)
        self.assertEqual(self.value(R["v"] & 3), 3)

    def test_functions_and_constants(self):
        self.assertEqual(self.value(lambda o: o["config"]["b"][1] + o["metrics"]["time"]), 4.5)
        self.assertEqual(self.value(R["v"] + (lambda o: 10)), 6)
        self.assertEqual(self.value(3), 3)

    def test_misuse_is_said(self):
        with self.assertRaisesRegex(TypeError, "&"):
            bool(R["a"] > 1)
        with self.assertRaises(TypeError):
            list(R)


class Life(unittest.TestCase):
    def search(self, function, **space):
        return hpo(function).grid(silent=True).max_workers(1).spaces(space or {"x": randint(1, 5)})

    def test_surplus_arguments_are_dropped(self):
        got = []
        self.search(lambda: got.append("none") or 0, x=1).minimize(R).run()
        self.search(lambda config: got.append(config) or 0, x=1).minimize(R).run()
        self.search(lambda config, number: got.append(number) or 0, x=1).minimize(R).run()
        self.search(lambda *args: got.append(args) or 0, x=1).minimize(R).run()
        self.assertEqual(got, ["none", {"x": 1}, 1, ({"x": 1}, 1)])

    def test_wrapping(self):
        @hpo
        def double(config):
            """Twice x."""
            return 2 * config["x"]

        self.assertIs(hpo(double), double)
        self.assertEqual((double({"x": 4}), double.__doc__, double.__name__), (8, "Twice x.", "double"))

    def test_result_of_the_best(self):
        cfg, ret, metrics = self.search(lambda c: {"value": 40 * c["x"]}).maximize(R["value"]).run()
        self.assertEqual((cfg, ret), ({"x": 5}, {"value": 200}))
        self.assertGreaterEqual(metrics["time"], 0)
        with self.assertRaisesRegex(KeyError, "val"):
            self.search(lambda c: {"value": 1}).maximize(R["val"]).run()

    def test_target_rules(self):
        with self.assertRaises(SyntaxError):
            self.search(abs).run()
        with self.assertRaises(SyntaxError):
            self.search(abs).maximize(R).minimize(R)
        for bad in (lambda s: s.max_workers(0), lambda s: s.max_workers(1.5), lambda s: s.max_retries(0), lambda s: s.rank(0)):
            with self.assertRaises(ValueError):
                bad(self.search(abs))

    def test_attempts(self):
        calls = collections.Counter()

        def flaky(config):
            calls[config["x"]] += 1
            if config["x"] == 1 or config["x"] == 2 and calls[2] < 3:
                raise KeyboardInterrupt
            if config["x"] == 3:
                raise Skip("three")
            return config["x"]

        self.assertEqual(self.search(flaky).minimize(R).run()[0], {"x": 2})
        self.assertEqual(calls, {1: 3, 2: 3, 3: 1, 4: 1, 5: 1})
        calls.clear()
        self.assertEqual(self.search(flaky).max_retries(1).minimize(R).run()[0], {"x": 4})
        self.assertEqual(calls, {1: 1, 2: 1, 3: 1, 4: 1, 5: 1})

    def test_nothing_succeeds(self):
        def fail(config):
            raise ValueError

        self.assertIsNone(self.search(fail).minimize(R).run())

    def test_stop_when_ends_with_the_trial_that_met_it(self):
        """A10"""
        seen = []
        search = self.search(lambda c: seen.append(c["x"]) or {"a": c["x"] / 4})
        cfg, _, _ = search.maximize(R["a"]).stop_when(R["a"] > 0.9).stop_when(R["a"] < 0).run()
        self.assertEqual((seen, cfg), ([1, 2, 3, 4], {"x": 4}))

    def test_ties_and_nan(self):
        self.assertEqual(self.search(lambda c: 0).maximize(R).run()[0], {"x": 1})
        for aim in ("maximize", "minimize"):
            search = self.search(lambda c: math.nan if c["x"] in (1, 3) else 7)
            self.assertEqual(getattr(search, aim)(R).run()[0], {"x": 2})

    def test_at_most_max_workers_at_once(self):
        running, most, lock, both = [0], [0], threading.Lock(), threading.Barrier(2)

        def work(config):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            both.wait(60)  # fails unless two run at once
            with lock:
                running[0] -= 1
            return 0

        self.assertIsNotNone(hpo(work).grid(silent=True).max_workers(2).minimize(R).spaces(choice(list("abcdef"))).run())
        self.assertEqual(most[0], 2)

    def test_unknown_setting_warns_once(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.search(lambda c: 0).minimize(R).no_such_setting(3).run()
        self.assertEqual([str(w.message) for w in caught], ["the algorithm grid does not use no_such_setting"])

    def test_an_error_that_aborts(self):
        class Wrong(ValueError):
            aborts_search = True

        calls = []

        def work(config):
            calls.append(config)
            raise Wrong("no such field")

        with self.assertRaisesRegex(Wrong, "no such field"):
            self.search(work).minimize(R).run()
        self.assertEqual(len(calls), 1)

    def test_observers(self):
        seen = []

        class Observer:
            def init(self, algorithm):
                seen.append(("init", algorithm))

            def step(self, trial):
                seen.append(("step", trial.number))

            def try_fail(self, trial, error):
                seen.append(("try_fail", repr(error)))

            def step_ok(self, trial, values):
                seen.append(("step_ok", values))

            def run_complete(self):
                seen.append("run_complete")

        def work(config):
            if len(seen) == 2:
                raise ValueError("once")
            return 9

        self.search(work, x=1).minimize(R, name="loss").add_event_set(Observer()).run()
        self.assertEqual(
            seen,
            [("init", "grid"), ("step", 1), ("try_fail", "ValueError('once')"), ("step_ok", {"loss": 9}), "run_complete"],
        )


class Texts(unittest.TestCase):
    """A decorated function without any scheduler: what is logged, and in which order."""

    def test_progress_and_rank_list(self):
        """A13"""
        calls = []

        @hpo
        def train(config):
            calls.append(config)
            gamma = config["policy"]["discount_factor"]
            if gamma == 0.975 and len(calls) < 4:
                raise ValueError("first time")
            if gamma == 0.9875:
                raise Skip("unstable")
            if gamma == 1.0:
                raise RuntimeError("always")
            return {"eval_value": gamma * 100}

        with self.assertLogs("ditk.hpo", logging.INFO) as logs:
            train.grid().max_steps(5).max_workers(1).rank(3).maximize(R["eval_value"]).concern(
                R["eval_value"] / 2, "half"
            ).spaces({"policy": {"discount_factor": uniform(0.95, 1)}}).run()
        texts = [r.getMessage() for r in logs.records]
        expected = [
            "Algorithm: grid", "Setting max_retries: 3", "Setting max_steps: 5", "ready", "started",
            "- 1st sample -", "1st sample: 1st attempt", "1st sample completed in", "Rank list (1 of 1 records)",
            "Elapsed", "- 2nd sample -", "- 3rd sample -", "3rd sample: 1st attempt",
            "ValueError('first time'); it will be tried again (1/3)", "3rd sample: 2nd attempt", "3rd sample completed",
            "- 4th sample -", "4th sample skipped: 'unstable'", "- 5th sample -",
            "RuntimeError('always'); it will not be tried again (3/3)", "Traceback", "iteration is exhausted",
        ]  # fmt: skip
        at = 0
        for words in expected:
            found = next((i for i in range(at, len(texts)) if words in texts[i]), None)
            self.assertIsNotNone(found, "%r is not among %r" % (words, texts[at:]))
            at = found + 1
        step = next(t for t in texts if "- 1st sample -" in t)
        self.assertIn("policy.discount_factor: 0.95", step)
        completed = next(t for t in texts if "1st sample completed" in t)
        self.assertRegex(completed, r"^1st sample completed in \d+\.\d{3} s\ntarget: 95\.0\nhalf: 47\.5$")
        ranks = [t for t in texts if t.startswith("Rank list")][-1]
        self.assertEqual(
            ranks.splitlines()[1:],
            [
                "+-----+--------------------------+----------+--------+",
                "|   # |   policy.discount_factor |   target |   half |",
                "|-----+--------------------------+----------+--------|",
                "|   3 |                   0.975  |    97.5  | 48.75  |",
                "|   2 |                   0.9625 |    96.25 | 48.125 |",
                "|   1 |                   0.95   |    95    | 47.5   |",
                "+-----+--------------------------+----------+--------+",
            ],
        )

    def test_silent(self):
        with self.assertLogs("ditk.hpo", logging.INFO) as logs:
            logging.getLogger("ditk.hpo").info("only this")
            hpo(lambda c: 0).grid(silent=True).minimize(R).spaces({}).run()
        self.assertEqual(len(logs.records), 1)

    def test_logging_module(self):
        self.assertEqual(ditk_logging.INFO, logging.INFO)
        self.assertIs(ditk_logging.getLogger("a"), logging.getLogger("a"))
        self.assertIs(ditk_logging._srcfile, logging._srcfile)
        root, level = logging.getLogger(), logging.getLogger().level
        handlers, root.handlers = root.handlers, []
        try:
            ditk_logging.try_init_root(logging.INFO)
            ditk_logging.try_init_root(logging.DEBUG)
            self.assertEqual((len(root.handlers), root.level), (1, logging.INFO))
            record = logging.LogRecord("x", logging.INFO, "/a/train.py", 7, "[bold red]loss[/] [0, 1] []", (), None)
            line = root.handlers[0].format(record)
            self.assertRegex(line, r"^\[\d\d-\d\d \d\d:\d\d:\d\d\]\[train\.py:7\]\[INFO\] loss \[0, 1\] \[\]$")
        finally:
            root.handlers = handlers
            root.setLevel(level)


class Names(unittest.TestCase):
    def test_surface(self):
        module = importlib.import_module("ditk.hpo")
        for name in "hpo R M C Skip uniform quniform choice randint randn".split():
            self.assertTrue(hasattr(module, name), name)


if __name__ == "__main__":
    unittest.main()
