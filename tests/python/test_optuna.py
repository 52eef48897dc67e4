"""berth.integrations.optuna with Debian's Optuna: proposals come from the study, results go there."""

import os
import pickle
import shutil
import sys
import tempfile
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [PACKAGE, HERE]

import berth  # noqa: E402
from fake_daemon import FakeDaemon  # noqa: E402
from fake_study import FakeStudy  # noqa: E402

try:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    from berth.integrations import optuna as ours
except ImportError as e:
    ours, WHY = None, "Optuna is not installed (%s)" % e
else:
    WHY = ""


@unittest.skipIf(ours is None, WHY)
class Ranges(unittest.TestCase):
    def test_both_directions(self):
        for distribution, given in (
            (FloatDistribution(0, 1), {"uniform": [0, 1]}),
            (FloatDistribution(0, 1, step=0.25), {"uniform": [0, 1], "step": 0.25}),
            (FloatDistribution(1e-5, 0.1, log=True), {"log": [1e-5, 0.1]}),
            (IntDistribution(1, 8), {"int": [1, 8]}),
            (IntDistribution(0, 8, step=2), {"int": [0, 8], "step": 2}),
            (IntDistribution(1, 1024, log=True), {"int": [1, 1024], "log": True}),
            (CategoricalDistribution(["a", 1, None]), {"choice": ["a", 1, None]}),
        ):
            self.assertEqual(ours.to_range(distribution), given)
            self.assertEqual(ours.to_distribution("x", given), distribution)
        self.assertEqual(ours.to_distribution("x", ["a", "b"]), CategoricalDistribution(["a", "b"]))
        with self.assertRaisesRegex(ValueError, "net: .* is no range"):
            ours.to_distribution("net", {"lr": {"log": [1, 2]}})


@unittest.skipIf(ours is None, WHY)
class Sampler(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="berth-py-")
        self.daemon = FakeDaemon(os.path.join(self.home, "sock")).start()
        self.fake = FakeStudy(self.daemon)  # proposes x = the number of the trial

    def tearDown(self):
        self.daemon.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def sampler(self, **options):
        return ours.BerthSampler(client=berth.Client(home=self.home, autostart=False), **options)

    def test_declared_space(self):
        study = optuna.create_study(sampler=self.sampler(space={"x": {"int": [1, 1000]}}, name="s", engine="tpe", seed=3))
        study.optimize(lambda t: (t.suggest_int("x", 1, 1000) - 4) ** 2, n_trials=10)
        self.assertEqual([t.params["x"] for t in study.trials], list(range(1, 11)))
        self.assertEqual(study.best_params, {"x": 4})
        self.assertEqual(
            self.fake.body,
            {"name": "s", "space": {"x": {"int": [1, 1000]}}, "objective": {"minimize": "value"}, "engine": "tpe", "seed": 3},
        )
        self.assertEqual([t["value"] for t in self.fake.trials.values()], [(x - 4) ** 2 for x in range(1, 11)])

    def test_space_is_learned(self):
        """The first trial makes the space; Berth gets its result, too, and proposes from then on."""
        study = optuna.create_study(study_name="mine", direction="maximize", sampler=self.sampler(seed=1))
        study.optimize(lambda t: t.suggest_int("x", 1, 1000), n_trials=5)
        first = study.trials[0].params["x"]
        self.assertEqual([t["params"]["x"] for t in self.fake.trials.values()], [first, 2, 3, 4, 5])
        self.assertEqual([t["value"] for t in self.fake.trials.values()], [first, 2, 3, 4, 5])
        self.assertTrue(self.fake.body["name"].startswith("optuna-mine-"))
        self.assertEqual(self.fake.body["objective"], {"maximize": "value"})
        self.assertEqual(self.fake.body["space"], {"x": {"int": [1, 1000]}})

    def test_all_outcomes(self):
        def objective(trial):
            x = trial.suggest_int("x", 1, 1000)
            if x == 3:
                trial.report(0.5, 1)
                raise optuna.TrialPruned()
            if x == 4:
                raise ValueError("four")
            if x == 5:
                raise optuna.TrialPruned()
            return x

        study = optuna.create_study(sampler=self.sampler(space={"x": {"int": [1, 1000]}}))
        study.enqueue_trial({"x": 900})  # Optuna's own queue: a point that Berth did not propose
        study.optimize(objective, n_trials=6, catch=(ValueError,))
        first, second = [t.params["x"] for t in study.trials][:2]
        self.assertEqual(first, 900)
        self.assertIn(second, (1, 2))  # Optuna 5 does not ask for a trial whose point is known
        states = {t["params"]["x"]: (t["state"], t["value"]) for t in self.fake.trials.values()}
        self.assertEqual((states[900], states[second]), (("done", 900), ("done", second)))
        self.assertEqual((states[3], states[4][0], states[5][0]), (("pruned", 0.5), "failed", "failed"))
        self.assertEqual(states[6], ("done", 6))
        self.assertEqual([t["state"] for t in self.fake.trials.values()].count("running"), 0)

    def test_objects_as_choices(self):
        """Choices that JSON cannot say are known to Berth by their index."""
        choices = [(1, 2), (3, 4)]
        self.fake.add({"c": 1}, "waiting")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            space = {"c": CategoricalDistribution(choices)}
            study = optuna.create_study(sampler=self.sampler(space=space))
            study.optimize(lambda t: sum(t.suggest_categorical("c", choices)), n_trials=1)
        self.assertEqual(self.fake.body["space"], {"c": {"choice": [0, 1]}})
        self.assertEqual((study.best_params["c"], self.fake.trials[1]["value"]), ((3, 4), 7))

    def test_exhausted(self):
        self.fake.limit = 3
        study = optuna.create_study(sampler=self.sampler(space={"x": {"int": [1, 1000]}}))
        study.optimize(lambda t: t.suggest_int("x", 1, 1000), n_trials=6)
        self.assertEqual(len(study.trials), 6)
        self.assertEqual([t.params["x"] for t in study.trials[:3]], [1, 2, 3])

    def test_threads_and_copies(self):
        study = optuna.create_study(sampler=self.sampler(space={"x": {"int": [1, 1000]}}))
        study.optimize(lambda t: t.suggest_int("x", 1, 1000), n_trials=40, n_jobs=4)
        self.assertEqual(sorted(t.params["x"] for t in study.trials), list(range(1, 41)))
        copy = pickle.loads(pickle.dumps(ours.BerthSampler(seed=1, space={"x": [1, 2]})))
        self.assertEqual(copy._given, {"x": [1, 2]})

    def test_two_objectives(self):
        study = optuna.create_study(directions=["minimize", "minimize"], sampler=self.sampler())
        with self.assertRaisesRegex(ValueError, "multi-objective"):
            study.optimize(lambda t: (t.suggest_float("x", 0, 1), 2), n_trials=1)


if __name__ == "__main__":
    unittest.main()
