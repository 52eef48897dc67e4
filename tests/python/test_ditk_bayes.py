"""ditk.hpo's bayes with the real `berth tune`."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.abspath(os.path.join(HERE, "..", "..", "python")), os.path.join(HERE, "..", "e2e")]

import harness  # noqa: E402

os.environ["BERTH_PROGRAM"] = harness.BERTH

from ditk.hpo import R, choice, hpo, quniform, randint, randn, uniform  # noqa: E402


class Bayes(unittest.TestCase):
    def search(self, function, space, steps=40, workers=1):
        run = hpo(function).bayes(silent=True).max_steps(steps).max_workers(workers).seed(3)
        return run.spaces(space)

    def test_it_finds_the_minimum(self):
        seen = []

        def valley(config):
            seen.append(config)
            return (config["a"]["x"] - 0.3) ** 2 + (config["y"] - 2) ** 2 + (config["kind"] != "good")

        space = {"a": {"x": uniform(-5, 5)}, "y": quniform(0, 4, 0.5), "kind": choice(["bad", "good", ["list"]]), "k": 1}
        cfg, ret, _ = self.search(valley, space, 60).minimize(R).run()
        self.assertEqual((cfg["y"], cfg["kind"], cfg["k"]), (2, "good", 1))
        self.assertLess(ret, 0.1)
        self.assertEqual(len(seen), 60)
        self.assertTrue(all(-5 <= s["a"]["x"] <= 5 and s["y"] * 2 == int(s["y"] * 2) for s in seen))

    def test_maximize_and_pending(self):
        cfg, ret, _ = self.search(lambda c: -abs(c["n"] - 17), {"n": randint(0, 40)}, 30, workers=4).maximize(R).run()
        self.assertGreaterEqual(ret, -2)

    def test_same_seed_same_samples(self):
        def samples():
            seen = []
            self.search(lambda c: seen.append(c["x"]) or c["x"] ** 2, {"x": uniform(-1, 1), "r": randn()}, 15).minimize(R).run()
            return seen

        self.assertEqual(samples(), samples())

    def test_failures_are_not_results(self):
        def half(config):
            if config["x"] > 0:
                raise ValueError("too large")
            return -config["x"]

        cfg, _, _ = self.search(half, {"x": uniform(-1, 1)}, 20).max_retries(1).maximize(R).init_steps(4).run()
        self.assertLess(cfg["x"], 0)

    def test_settings(self):
        search = self.search(lambda c: c["x"], {"x": uniform(0, 1)}, 3).minimize(R)
        self.assertIsNotNone(search.set_utils(acq="ei", xi=0.1).set_gp_params(alpha=1e-4).kappa(2).run())
        with self.assertRaisesRegex(ValueError, "ucb"):
            self.search(lambda c: 0, {"x": uniform(0, 1)}).minimize(R).acq("best").run()
        with self.assertRaises(TypeError):
            search.set_utils(alpha=1)

    def test_spaces_without_a_choice(self):
        for space in ({"k": 1}, {"a": randint(2, 2)}):
            seen = []
            self.search(lambda c: seen.append(c) or 0, space, 5).minimize(R).run()
            self.assertEqual(seen, [{k: 2 if k == "a" else 1 for k in space}])
        self.assertIsNone(self.search(lambda c: 0, {"x": uniform(0, 1)}, 0).minimize(R).run())

    def test_the_engine_is_missing(self):
        os.environ["PATH"], path = "/nonexistent", os.environ["PATH"]
        os.environ["BERTH_PROGRAM"] = "/nonexistent/berth"
        try:
            from berth import _client

            program, _client.__file__ = _client.__file__, "/nonexistent/python/berth/_client.py"
            with self.assertRaisesRegex(RuntimeError, "BERTH_PROGRAM"):
                self.search(lambda c: 0, {"x": uniform(0, 1)}).minimize(R).run()
        finally:
            _client.__file__ = program
            os.environ["PATH"], os.environ["BERTH_PROGRAM"] = path, harness.BERTH


if __name__ == "__main__":
    unittest.main()
