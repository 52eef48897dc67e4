"""BerthStorage with the real daemon: durable, several processes on one study, whatever Optuna keeps.

With Debian's Optuna; the Python that BERTH_TEST_OPTUNA names runs the same with its own, such as 5.0.0.
"""

import math
import os
import pickle
import subprocess
import sys
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
sys.path[:0] = [PACKAGE, HERE, os.path.join(HERE, "..", "e2e")]

import berth  # noqa: E402
import harness  # noqa: E402
from fake_daemon import start_when_missed  # noqa: E402

try:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    from berth.integrations.optuna import BerthSampler, BerthStorage
    from optuna.trial import TrialState

    WHY = ""
except ImportError as e:
    optuna, WHY = None, "Optuna is not installed (%s)" % e

# One of several processes: evaluates trials of a study that exists.
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
import berth, optuna
from berth.integrations.optuna import BerthStorage
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(study_name="many", storage=BerthStorage(client=berth.Client(home=sys.argv[2], autostart=False)))
study.optimize(lambda t: print(t.number) or t.suggest_float("x", 0, 1), n_trials=8)
"""


def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    kind = trial.suggest_categorical("kind", ["a", None, 2])
    depth = trial.suggest_int("depth", 1, 64, log=True)
    trial.set_user_attr("note", {"depth": depth, "list": [1, None, "é"]})
    trial.report(x, 1)
    trial.report(math.nan, 2)
    if trial.number == 3:
        raise optuna.TrialPruned()
    if trial.number == 4:
        raise ValueError("four")
    return x * x + depth + (kind == "a")


@unittest.skipIf(optuna is None, WHY)
class Storage(unittest.TestCase):
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

    def storage(self, name="optuna"):
        return BerthStorage(name, client=self.client())

    def same(self, one, other):
        self.assertEqual(repr(one.trials), repr(other.trials))  # NaN equals nothing, but its text does
        self.assertEqual(one.user_attrs, other.user_attrs)
        self.assertEqual(one.directions, other.directions)

    def test_all_that_optuna_keeps(self):
        study = optuna.create_study(study_name="s", storage=self.storage(), sampler=optuna.samplers.TPESampler(seed=1))
        study.set_user_attr("data", {"rows": 3})
        study.enqueue_trial({"x": 1.5})
        study.optimize(objective, n_trials=12, catch=(ValueError,))
        states = [t.state for t in study.trials]
        self.assertEqual((states[3], states[4], states.count(TrialState.COMPLETE)), (TrialState.PRUNED, TrialState.FAIL, 10))
        self.assertEqual(study.trials[0].params["x"], 1.5)
        for _ in range(2):  # also after a restart of the daemon
            again = optuna.load_study(study_name="s", storage=self.storage())
            self.same(study, again)
            self.assertEqual(again.best_trial.number, study.best_trial.number)
            self.assertTrue(math.isnan(again.trials[1].intermediate_values[2]))
            self.home.kill()
            self.home.start()
        again.optimize(objective, n_trials=3)
        self.assertEqual([t.number for t in study.trials], list(range(15)))
        two = optuna.create_study(directions=["minimize", "maximize"], storage=self.storage())
        two.optimize(lambda t: (t.suggest_float("x", 0, 1), math.inf), n_trials=3)
        self.assertEqual([t.values[1] for t in two.trials], [math.inf] * 3)

    def test_names(self):
        optuna.create_study(study_name="s", storage=self.storage())
        with self.assertRaises(optuna.exceptions.DuplicatedStudyError):
            optuna.create_study(study_name="s", storage=self.storage())
        optuna.create_study(study_name="s", storage=self.storage("another: one"))
        with self.assertRaises(KeyError):
            optuna.load_study(study_name="t", storage=self.storage())
        logs = self.client().call("GET", "/v1/study-logs")["items"]
        self.assertEqual([log["name"] for log in logs], ["another: one", "optuna"])
        optuna.delete_study(study_name="s", storage=self.storage())
        self.assertEqual(optuna.get_all_study_summaries(self.storage()), [])
        self.client().call("DELETE", "/v1/study-logs/optuna")
        self.assertEqual(optuna.get_all_study_summaries(self.storage()), [])

    def test_many_processes(self):
        """Six processes, and points of enqueue_trial, which only one of them may take."""
        study = optuna.create_study(study_name="many", storage=self.storage())
        for i in range(12):
            study.enqueue_trial({"x": i / 16})
        words = [sys.executable, "-c", WORKER, PACKAGE, self.home.home]
        workers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(6)]
        numbers = sorted(int(n) for w in workers for n in w.communicate()[0].split())
        self.assertEqual([w.returncode for w in workers], [0] * 6)
        self.assertEqual(numbers, list(range(48)))
        self.assertEqual({t.state for t in study.trials}, {TrialState.COMPLETE})
        self.assertEqual([t.value for t in study.trials[:12]], [i / 16 for i in range(12)])

    def test_the_daemon_is_killed(self):
        """Nothing is lost and nothing is written twice."""
        study = optuna.create_study(storage=self.storage())
        client = self.clients[-1]

        def cut(trial):
            if trial.number in (2, 5):
                self.home.kill()
                start_when_missed(client, self.home.start)
            return trial.suggest_float("x", 0, 1)

        study.optimize(cut, n_trials=8)
        self.assertEqual([(t.number, t.state) for t in study.trials], [(n, TrialState.COMPLETE) for n in range(8)])

    def test_an_answer_that_was_lost(self):
        """The daemon took the lines and died before it answered: they are not appended again."""
        storage = self.storage()
        study = optuna.create_study(storage=storage)
        client, call = self.clients[-1], self.clients[-1].call
        lost = []

        def losing(method, path, body=None):
            answer = call(method, path, body)
            if method == "POST" and len(lost) < 20:
                lost.append(path)
                raise berth.Unavailable("cut", "unavailable")
            return answer

        client.call = losing
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3)
        self.assertEqual([t.number for t in study.trials], [0, 1, 2])
        lines = self.client().call("GET", "/v1/study-logs/optuna")["items"]
        self.assertEqual(len(lines), len({line["id"] for line in lines}))
        self.assertGreater(len(lost), 5)

    def test_threads_and_copies(self):
        study = optuna.create_study(study_name="s", storage=self.storage())
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=24, n_jobs=4)
        self.assertEqual(sorted(t.number for t in study.trials), list(range(24)))
        copy = pickle.loads(pickle.dumps(study))
        self.same(study, copy)
        copy._storage._backend._client.close()
        child = os.fork()
        if child == 0:  # the connection of the parent is not used by the child
            try:
                study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=2)
            finally:
                os._exit(0 if len(study.trials) == 26 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(study.trials), 26)

    def test_with_the_sampler(self):
        """Both: trials are in the storage, proposals come from a study, and a second process goes on."""
        for _ in range(2):
            sampler = BerthSampler(seed=1, client=self.client())
            study = optuna.create_study(study_name="s", storage=self.storage(), sampler=sampler, load_if_exists=True)
            study.optimize(lambda t: (t.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=10)
        self.assertEqual(len(study.trials), 20)
        (ours,) = self.client().call("GET", "/v1/studies")["items"]
        self.assertEqual((ours["counts"]["done"], ours["best"]["value"]), (20, study.best_value))


class Other(unittest.TestCase):
    def test_the_same_with_another_optuna(self):
        python = os.environ.get("BERTH_TEST_OPTUNA")
        if not python:
            self.skipTest("BERTH_TEST_OPTUNA names no Python with another Optuna, such as 5.0.0")
        env = {k: v for k, v in os.environ.items() if k != "BERTH_TEST_OPTUNA"}
        for name in ("test_optuna_storage.py", "test_optuna.py"):
            run = subprocess.run([python, os.path.join(HERE, name)], env=env, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr[-3000:])
            self.assertNotIn("Optuna is not installed", run.stderr)


if __name__ == "__main__":
    unittest.main()
