"""berth.Study: ask, tell, whole searches, and what a broken connection leaves behind."""

import json
import os
import shutil
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [PACKAGE, HERE]

import berth  # noqa: E402
from berth import _study  # noqa: E402
from fake_daemon import FakeDaemon, start_when_missed  # noqa: E402
from fake_study import FakeStudy  # noqa: E402

SPACE = {"x": {"int": [1, 1000]}}


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="berth-py-")
        self.daemon = FakeDaemon(os.path.join(self.home, "sock")).start()
        self.fake = FakeStudy(self.daemon)

    def tearDown(self):
        self.daemon.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def client(self):
        return berth.Client(home=self.home, autostart=False)

    def study(self, name="s", space=SPACE, **options):
        options.setdefault("minimize", "loss")
        return berth.Study(name, space, client=self.client(), **options)

    def sent(self, verb):
        return [r for r in self.daemon.requests if r[1].split("?")[0].endswith("/" + verb)]


    def bodies(self, verb):
        return [json.loads(r[3]) for r in self.sent(verb)]


class Opening(Case):
    def test_the_body(self):
        study = self.study(engine="tpe", seed=4, trials=10, constraints=["x <= 5"], stop="asha", warm_start="old")
        self.assertEqual(
            self.fake.body,
            {
                "name": "s",
                "space": SPACE,
                "objective": {"minimize": "loss"},
                "engine": "tpe",
                "seed": 4,
                "trials": 10,
                "constraints": ["x <= 5"],
                "stop": "asha",
                "from": "old",
            },
        )
        self.assertEqual((study.space, study.engine, study.minimizes), (SPACE, "tpe", True))

    def test_reopening(self):
        study = self.study(minimize=None, maximize=True)
        study.tell(study.ask(), 3)
        again = berth.Study("s", client=self.client())
        self.assertEqual((again.best.value, again.minimizes), (3.0, False))
        self.assertEqual(self.study(minimize=None, maximize=True).best.params, {"x": 1})
        with self.assertRaises(berth.BerthError) as other:
            self.study(space={"y": [1]}, minimize=None, maximize=True)
        self.assertEqual(other.exception.status, 409)
        with self.assertRaises(berth.NotFound):
            berth.Study("none", client=self.client())

    def test_objectives(self):
        for wrong in ({}, {"minimize": []}, {"objectives": [("small", "loss")]}):
            with self.assertRaises(TypeError):
                self.study(**{"minimize": None, **wrong})
        self.study(minimize=["ms", "size"], maximize="acc")
        self.assertEqual(self.fake.body["objective"], [{"minimize": "ms"}, {"minimize": "size"}, {"maximize": "acc"}])
        self.fake.body = None
        self.study(minimize=None, objectives=[("maximize", "acc")])
        self.assertEqual(self.fake.body["objective"], {"maximize": "acc"})


class AskTell(Case):
    def test_trials(self):
        study = self.study(trials=5)
        first = study.ask()
        self.assertEqual((first.number, first["x"], dict(first), len(first)), (1, 1, {"x": 1}, 1))
        self.assertEqual([t.number for t in study.ask(3)], [2, 3, 4])
        study.tell(first, 0.5)
        study.tell(2, 0.25)
        study.tell(3, failed=True, reason="it burnt")
        study.tell(4, float("nan"))
        study.tell(study.ask(), 0.75, pruned=True)
        with self.assertRaises(berth.Exhausted):
            study.ask()
        self.assertEqual(
            [(t.number, t.state, t.value, t.reason) for t in study.trials],
            [
                (1, "done", 0.5, None),
                (2, "done", 0.25, None),
                (3, "failed", None, "it burnt"),
                (4, "failed", None, "the result is nan"),
                (5, "pruned", 0.75, None),
            ],
        )
        self.assertEqual((study.best.number, study.best.value), (2, 0.25))
        self.assertEqual(study.counts["failed"], 2)
        with self.assertRaises(berth.BerthError) as twice:
            study.tell(2, 0.1)
        self.assertEqual(twice.exception.status, 409)
        with self.assertRaises(TypeError):
            study.tell(2, "good")

    def test_enqueued_first(self):
        study = self.study()
        self.assertEqual(study.enqueue({"x": 77}), 1)
        self.assertEqual(study.enqueue(x=78), 2)
        self.assertEqual([t["x"] for t in study.ask(3)], [77, 78, 3])

    def test_pages(self):
        study = self.study()
        study._tell([{"number": t.number, "value": t["x"]} for t in study.ask(2500)], 0)
        self.assertEqual([t.value for t in study.trials], list(range(1, 2501)))
        self.assertEqual(len(self.sent("trials")), 3)

    def test_to_pandas(self):
        study = self.study()
        study.tell(study.ask(), 2.5)
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pandas"):
                study.trials.to_pandas()
            self.skipTest("pandas is not installed")
        frame = study.trials.to_pandas()
        self.assertEqual(list(frame.columns), ["number", "state", "value", "params_x", "job"])
        self.assertEqual((frame["params_x"][0], frame["value"][0]), (1, 2.5))


class Leases(Case):
    def test_a_search_gives_signs_of_life(self):
        study = self.study(trials=1)

        def slow(trial):
            for _ in range(2):
                self.assertTrue(self.fake.renewed.acquire(timeout=60))
            return 1.0

        study.optimize(slow, lease=1)
        self.assertEqual((study.trials[0].state, study.trials[0].value), ("done", 1.0))

    def test_what_another_client_has_is_left_to_it(self):
        """Known before the end from a renewal, or from the answer to the result: the search goes on."""
        study = self.study(trials=3)

        def f(trial):
            if trial.number < 3:
                self.fake.taken.add(trial.number)
            if trial.number == 1:
                self.assertFalse(trial.renew())
                self.assertTrue(trial.report(1.0, 1))
            return 2.0

        study.optimize(f)
        self.assertEqual([t.state for t in study.trials], ["running", "running", "done"])
        self.assertEqual([r["trials"][0]["number"] for r in self.bodies("tell")], [2, 3])

    def test_alone_takes_no_lease(self):
        self.study(trials=1, alone=True).optimize(lambda t: 1.0)
        self.assertEqual(self.bodies("ask")[0], {"n": 1})


class Optimize(Case):
    def test_one_thread(self):
        seen = []
        best = self.study().optimize(lambda t: seen.append(t["x"]) or abs(t["x"] - 4), 10)
        self.assertEqual(seen, list(range(1, 11)))
        self.assertEqual((best["x"], best.value), (4, 0.0))
        self.assertEqual(len(self.sent("ask")), 1)  # later trials come with the answers to results
        self.assertEqual([t["state"] for t in self.fake.trials.values()], ["done"] * 10)

    def test_until_there_are_no_more(self):
        study = self.study(trials=7)
        study.optimize(lambda t: t["x"], 100)
        study.optimize(lambda t: self.fail("there is none"))
        self.assertEqual([t.state for t in study.trials], ["done"] * 7)

    def test_threads(self):
        """Four threads meet inside of the objective, so they ran at once; each trial once."""
        meet = threading.Barrier(4, timeout=120)
        lock, seen = threading.Lock(), []

        def objective(trial):
            with lock:
                seen.append(trial.number)
            meet.wait()
            return trial["x"]

        self.study().optimize(objective, 40, parallel=4)
        self.assertEqual(sorted(seen), list(range(1, 41)))
        self.assertEqual({t["state"] for t in self.fake.trials.values()}, {"done"})

    def test_failures(self):
        def objective(trial):
            if trial["x"] == 2:
                raise ValueError("two")
            if trial["x"] == 3:
                raise berth.Pruned()
            return float("inf") if trial["x"] == 4 else trial["x"]

        study = self.study()
        study.optimize(objective, 5, catch=ValueError)
        self.assertEqual([t.state for t in study.trials], ["done", "failed", "failed", "failed", "done"])
        self.assertEqual(study.trials[1].reason, "ValueError: two")
        with self.assertRaises(ZeroDivisionError):
            study.optimize(lambda t: 1 / 0, 10)
        self.assertEqual([t.state for t in study.trials][5:], ["failed"])  # told, and no more were asked for

    def test_early_stopping(self):
        self.fake.stops = {2}

        def objective(trial):
            for step in range(3):
                if trial.report(step + trial["x"], step):
                    raise berth.Pruned("not promising")
            return trial["x"]

        study = self.study(stop="median")
        study.optimize(objective, 3)
        self.assertEqual([(t.state, t.value) for t in study.trials], [("done", 1), ("pruned", 2), ("done", 3)])
        self.assertEqual(len(self.sent("report")), 7)


class Breaks(Case):
    def test_results_count_once(self):
        """The daemon took the result and died before it answered: the result is not told again."""
        for ask in (0, 1):
            study = self.study()
            trial = study.ask()
            self.fake.lose = {"tell"}
            told = study._tell([{"number": trial.number, "value": 1.0}], ask)
            self.assertEqual(len(told), ask)
            self.assertEqual(self.fake.trials[trial.number]["state"], "done")

    def test_results_arrive(self):
        """The daemon went away before it took the result, and came back."""
        study = self.study()
        trial = study.ask()
        self.daemon.kill()
        missed = start_when_missed(study._client, self.daemon.start)
        study.tell(trial, 1.5)
        self.assertEqual(len(missed), 1)
        self.assertEqual(self.fake.trials[trial.number]["value"], 1.5)

    def test_patience_ends(self):
        study = self.study()
        self.daemon.kill()
        saved, _study.PATIENCE_S = _study.PATIENCE_S, 0.1
        try:
            with self.assertRaises(berth.Unavailable):
                study.ask()
        finally:
            _study.PATIENCE_S = saved
            self.daemon.start()

    def test_alone_finds_its_trials_again(self):
        """Alone, no trial is lost: neither one whose answer broke nor those of a process that died."""
        study = self.study(alone=True)
        self.fake.lose = {"ask"}
        self.assertEqual([t.number for t in study.ask(2)], [1, 2])
        self.assertEqual(len(self.fake.trials), 2)
        study.tell(1, 1.0)
        heir = self.study(alone=True)
        self.assertEqual([(t.number, t["x"]) for t in heir.ask(2)], [(2, 2), (3, 3)])
        beside = self.study()
        self.assertEqual(beside.ask().number, 4)

    def test_interrupted_search(self):
        """Ctrl-C leaves the trial to the next search; the two together are one uninterrupted search."""

        def objective(trial):
            if trial["x"] == 4 and not resumed:
                raise KeyboardInterrupt
            seen.append(trial["x"])
            return trial["x"]

        seen, resumed = [], False
        with self.assertRaises(KeyboardInterrupt):
            self.study(trials=9, alone=True).optimize(objective)
        resumed = True
        self.study(trials=9, alone=True).optimize(objective)
        self.assertEqual(seen, list(range(1, 10)))
        self.assertEqual({t["state"] for t in self.fake.trials.values()}, {"done"})


if __name__ == "__main__":
    unittest.main()
