"""What a run is called by, where its reports go: parameters, ranks, values that are no metrics."""

import os
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_inside import Case  # noqa: E402
from berth import _track  # noqa: E402
import berth  # noqa: E402


class Params(Case):
    def reported(self):
        return [(x["n"], x["x"]) for x in self.spooled() if x["k"] == "p"]

    def test_defaults_are_recorded(self):
        os.environ["BERTH_PARAMS"] = '{"depth": 5}'
        for _ in range(3):  # in a loop it is one report
            self.assertEqual(berth.params(lr=0.05, depth=3), {"lr": 0.05, "depth": 5})
        berth.params(lr=0.1)
        self.assertEqual(self.reported(), [("lr", 0.05), ("lr", 0.1)])

    def test_numbers_of_other_libraries_are_numbers(self):
        class Scalar:
            def __float__(self):
                return 0.25

        berth.params(lr=Scalar(), path=types.SimpleNamespace())
        self.assertEqual(self.reported(), [("lr", 0.25), ("path", "namespace()")])


class Misfits(Case):
    def test_a_tensor_of_three_values(self):
        class Tensor:
            shape = (3,)

            def __float__(self):
                raise ValueError("only one element tensors can be converted to Python scalars")

        berth.log(loss=Tensor())
        self.assertFalse(os.path.exists(self.spool))
        told = self.records[-1].getMessage()
        self.assertIn("metric loss was dropped: it needs one number, got a Tensor of shape (3,)", told)
        self.assertIn("log its mean", told)
        self.assertNotIn("berth.tag", told)

    def test_a_text_is_kept(self):
        berth.log(phase="warm up", step=3)
        self.assertEqual([(x["n"], x["v"]) for x in self.spooled()], [("phase", "warm up")])
        self.assertEqual(self.records, [])


class Ranks(Case):
    def names(self, **env):
        self.fresh()
        os.environ.update(env)
        try:
            berth.log(loss=0.5, step=1)
            berth.log(loss=0.25, step=2)
            berth.log_metric("n", 1)
            return [x["n"] for x in self.spooled()][-3:]
        finally:
            for name in env:
                del os.environ[name]

    def test_variables_of_launchers(self):
        plain, other = ["loss", "loss", "n"], ["rank1/loss", "rank1/loss", "rank1/n"]
        self.assertEqual(self.names(), plain)
        self.assertEqual(self.names(RANK="0", WORLD_SIZE="2"), plain)
        self.assertEqual(self.names(RANK="1", WORLD_SIZE="2"), other)
        self.assertEqual(self.names(LOCAL_RANK="1", WORLD_SIZE="2"), other)
        self.assertEqual(self.names(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="4"), other)
        self.assertEqual(self.names(PMI_RANK="1", PMI_SIZE="4"), other)
        self.assertEqual(self.names(RANK="1"), plain, "a leftover of the submitter")
        self.assertEqual(self.names(RANK="one", WORLD_SIZE="2"), plain)

    def test_torch_knows_best(self):
        torch = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 3)
        sys.modules["torch.distributed"] = torch
        try:
            self.assertEqual(self.names(RANK="1", WORLD_SIZE="2"), ["rank3/loss", "rank3/loss", "rank3/n"])
        finally:
            del sys.modules["torch.distributed"]

    def test_forked_ranks(self):
        berth.log(loss=1.0, step=0)
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK="1", WORLD_SIZE="2")
            berth.log(loss=2.0, step=0)
            os._exit(0)
        os.waitpid(pid, 0)
        berth.log(loss=3.0, step=1)
        self.assertEqual([x["n"] for x in self.spooled()], ["loss", "rank1/loss", "loss"])


class InsideAJob(Case):
    def test_track_belongs_to_the_job(self):
        before = dict(os.environ)
        with berth.track(params={"lr": 0.5}) as run:
            berth.log(loss=1, step=1)
        self.assertFalse(run)
        self.assertIsNone(run.number)
        self.assertEqual(self.records, [])
        berth.track(params={"lr": 0.25}).finish()
        self.assertIn("part of job 7", self.records[-1].getMessage())
        self.assertEqual([(x["k"], x["n"]) for x in self.spooled()], [("p", "lr"), ("m", "loss"), ("p", "lr")])
        self.assertEqual(dict(os.environ), before)

    def setUp(self):
        super().setUp()
        _track._parts = 0


class NoDaemon(Case):
    def test_the_script_goes_on(self):
        for name in self.env():
            del os.environ[name]
        client = berth.Client(home=self.tmp, autostart=False)
        with berth.track(client=client) as run:
            berth.log(loss=1)
        self.assertFalse(run)
        self.assertIsNone(run.number)
        run.finish()
        self.assertIn("not tracked", self.records[0].getMessage())


if __name__ == "__main__":
    unittest.main()
