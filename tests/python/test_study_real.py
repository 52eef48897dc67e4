"""berth.Study with the real daemon: searches that are cut and continued, many clients, Optuna."""

import os
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
sys.path[:0] = [PACKAGE, HERE, os.path.join(HERE, "..", "e2e")]

import berth  # noqa: E402
import harness  # noqa: E402
from fake_daemon import start_when_missed  # noqa: E402

SPACE = {"x": {"uniform": [0, 1]}, "y": {"log": [1e-3, 10]}, "kind": ["a", "b"]}


def loss(trial):
    return (trial["x"] - 0.3) ** 2 + abs(trial["y"] - 1) + (trial["kind"] == "b")


class Case(unittest.TestCase):
    def setUp(self):
        self.home = harness.Home()
        self.home.start()
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.home.close()

    def client(self):
        self.clients.append(berth.Client(home=self.home.home, autostart=False))
        return self.clients[-1]

    def study(self, name="s", space=SPACE, **options):
        options.setdefault("minimize", True)
        return berth.Study(name, space, client=self.client(), **options)

    def facts(self, study):
        return [(t.number, t.state, t.value, t.params) for t in study.trials]


class Whole(Case):
    def test_search(self):
        study = self.study(seed=1, trials=30)
        best = study.optimize(loss, parallel=4)
        self.assertLess(best.value, 0.5)
        self.assertEqual((best["kind"], study.state, study.counts["done"]), ("a", "finished", 30))
        with self.assertRaises(berth.Exhausted):
            study.ask()
        study.extend(32)
        study.enqueue(x=0.3, y=1.0, kind="a")
        study.optimize(loss)
        trials = study.trials
        self.assertEqual(trials[30].params, {"x": 0.3, "y": 1.0, "kind": "a"})
        self.assertEqual((study.best.number, study.best.value), (31, 0.0))
        study.remove()
        with self.assertRaises(berth.NotFound):
            study.refresh()

    def test_conditions_and_failures(self):
        space = {"opt": ["adam", "sgd"], "m": {"uniform": [0, 1], "when": {"opt": "sgd"}}, "c": 3}

        def objective(t):
            self.assertEqual(("m" in t, t["c"]), (t["opt"] == "sgd", 3))
            if t["opt"] == "adam":
                raise ValueError("no adam")
            return t["m"]

        study = self.study(space=space, engine="random", minimize=None, maximize="acc")
        study.optimize(objective, 20, catch=ValueError)
        states = {t["opt"]: t.state for t in study.trials}
        self.assertEqual(states, {"adam": "failed", "sgd": "done"})
        self.assertEqual(study.best.value, max(t.value for t in study.trials if t.value is not None))
        self.assertIn("ValueError: no adam", {t.reason for t in study.trials})

    def test_early_stopping(self):
        """A trial that is worse than the others at the same step is told to stop, and counts as pruned."""

        def objective(t):
            for step in range(1, 6):
                if t.report(t["x"], step):
                    raise berth.Pruned()
            return t["x"]

        space = {"x": {"int": [1, 100]}}
        study = self.study(space=space, engine="random", stop={"median": {"warmup": 1, "startup": 3}})
        for x in (4, 3, 2, 1, 100, 5):
            study.enqueue(x=x)
        study.optimize(objective, 6)
        self.assertEqual([t.state for t in study.trials], ["done"] * 4 + ["pruned"] * 2)
        self.assertEqual((study.trials[4].value, study.best.value), (100.0, 1.0))

    def test_mistakes(self):
        for space, word in (({"x": {"log": [0, 1]}}, "x"), ({}, "space"), ({"x": {"int": [3, 1]}}, "x")):
            with self.assertRaises(berth.BerthError) as bad:
                self.study(space=space)
            self.assertIn(word, str(bad.exception))
        study = self.study()
        with self.assertRaises(berth.BerthError):
            self.study(space={"x": [1]})
        study.tell(study.ask(), 1.0)
        with self.assertRaises(berth.BerthError) as twice:
            study.tell(1, 2.0)
        self.assertEqual(twice.exception.status, 409)
        self.assertEqual(study.best.value, 1.0)


class Cut(Case):
    def test_daemon_killed(self):
        """kill -9 of the daemon at three places of a search: each point once, all as in the uncut study."""
        seen = []

        def objective(t):
            seen.append(t.number)
            if t.number in (5, 11, 17):
                self.home.kill()
                start_when_missed(study._client, self.home.start)
            return loss(t)

        for engine in ("auto", "tpe", "grid", "sobol"):
            del seen[:]
            study = self.study("cut-" + engine, engine=engine, seed=3, trials=20, alone=True)
            study.optimize(objective)
            uncut = self.study("uncut-" + engine, engine=engine, seed=3, trials=20)
            uncut.optimize(loss)
            self.assertEqual(self.facts(study), self.facts(uncut), engine)
            self.assertEqual(seen, list(range(1, 21)), engine)

    def test_client_killed(self):
        """kill -9 of the program that searches; another one takes over the trial it was at."""
        code = (
            "import os, sys\n"
            "sys.path[:0] = [%r]\n"
            "import berth\n"
            "s = berth.Study('s', %r, minimize=True, seed=3, trials=12, alone=True, client=berth.Client(home=%r, autostart=False))\n"
            "def f(t):\n"
            "    if t.number == int(sys.argv[1]): os.kill(os.getpid(), 9)\n"
            "    return (t['x'] - 0.3) ** 2 + abs(t['y'] - 1) + (t['kind'] == 'b')\n"
            "s.optimize(f)\n"
        ) % (PACKAGE, SPACE, self.home.home)
        for at, status in (("4", -9), ("9", -9), ("0", 0)):
            p = subprocess.run(["/usr/bin/python3", "-c", code, at], env=self.home.env)
            self.assertEqual(p.returncode, status)
        uncut = self.study("uncut", seed=3, trials=12)
        uncut.optimize(loss)
        self.assertEqual(self.facts(self.study(seed=3, trials=12)), self.facts(uncut))

    def test_several_objectives(self):
        study = self.study("two", minimize=["cost", "y"], maximize="gain", engine="random", trials=12, seed=2)

        def f(trial):
            if trial.number == 3:
                return float("nan"), 1, 1
            if trial.number == 4:
                raise berth.Pruned()
            return {"gain": -trial["x"], "cost": trial["x"], "y": trial["y"]}

        self.assertIsNone(study.optimize(f, parallel=2))
        self.home.kill()
        self.home.start()
        done = {t.number: t.values for t in study.trials if t.state == "done"}
        self.assertEqual(sorted(t.number for t in study.trials if t.state == "failed"), [3, 4])
        self.assertTrue(all(v == [t["x"], t["y"], -t["x"]] for t in study.trials for v in [t.values] if v))
        best = [n for n, a in done.items() if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in done.values())]
        self.assertEqual([(t.number, t.values) for t in study.front], [(n, done[n]) for n in sorted(best)])
        self.assertEqual(study.objectives, [("minimize", "cost"), ("minimize", "y"), ("maximize", "gain")])
        study.extend(13)
        trial = study.ask()
        for wrong in (1.0, [1, 2], {"cost": 1}, ["a", 1, 2]):
            with self.assertRaisesRegex(TypeError, "trial 13"):
                study.tell(trial, wrong)
        study.tell(trial, (1, 2, 3))
        self.assertEqual((trial.state, trial.values, len(study.trials)), ("done", [1.0, 2.0, 3.0], 13))

    def test_a_killed_client_loses_nothing(self):
        """A process is killed with three trials in its threads; another one finishes the grid, without any set-up."""
        code = (
            "import os, signal, sys, threading; sys.path.insert(0, %r)\n"
            "import berth\n"
            "s = berth.Study('grid', {'a': {'int': [1, 20]}}, engine='grid', minimize=True, client=berth.Client(home=%r))\n"
            "meet = threading.Barrier(3)\n"
            "def f(t):\n"
            "    if t['a'] >= 8: meet.wait(); os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return t['a']\n"
            "s.optimize(f, parallel=3, lease=2)\n"
        ) % (PACKAGE, self.home.home)
        p = subprocess.run(["/usr/bin/python3", "-c", code], env=self.home.env)
        self.assertEqual(p.returncode, -9)
        study = berth.Study("grid", client=self.client())
        late = [t for t in study.trials if t.state != "done"]  # running, or their leases have ended by now
        left = [t.params for t in late]
        self.assertEqual(len(left), 3)
        again = []
        study.optimize(lambda t: again.append(t.params) or t["a"], parallel=2, lease=2)
        self.assertEqual([t.state for t in study.trials], ["done"] * 20)
        self.assertEqual(sorted(t["a"] for t in study.trials), list(range(1, 21)))
        self.assertTrue(all(again.count(p) == 1 for p in left), again)
        with self.assertRaisesRegex(berth.BerthError, "another client"):
            study.tell(late[0], 3.0)

    def test_many_clients(self):
        """Eight clients on one grid: every point once."""
        space = {"a": {"int": [1, 20]}, "b": {"int": [1, 10]}}
        lock, seen, troubles = threading.Lock(), [], []

        def work():
            try:
                study = self.study("grid", space, engine="grid", trials=200)

                def objective(t):
                    with lock:
                        seen.append((t["a"], t["b"]))
                    return t["a"] * t["b"]

                study.optimize(objective)
            except BaseException as e:
                troubles.append(e)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(troubles, [])
        self.assertEqual(sorted(seen), [(a, b) for a in range(1, 21) for b in range(1, 11)])


class Optuna(Case):
    def test_sampler(self):
        try:
            import optuna
        except ImportError as e:
            self.skipTest("Optuna is not installed (%s)" % e)
        from berth.integrations.optuna import BerthSampler

        optuna.logging.set_verbosity(optuna.logging.ERROR)

        def objective(t):
            return loss({
                "x": t.suggest_float("x", 0, 1),
                "y": t.suggest_float("y", 1e-3, 10, log=True),
                "kind": t.suggest_categorical("kind", ["a", "b"]),
            })

        study = optuna.create_study(study_name="o", sampler=BerthSampler(seed=2, client=self.client()))
        study.optimize(objective, n_trials=40)
        self.assertLess(study.best_value, 0.3)
        kept = self.client().call("GET", "/v1/studies")["items"]
        self.assertEqual([(s["counts"]["done"], s["counts"]["running"]) for s in kept], [(40, 0)])
        self.assertEqual(kept[0]["best"]["value"], study.best_value)


if __name__ == "__main__":
    unittest.main()
