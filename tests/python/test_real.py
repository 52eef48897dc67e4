"""The Python package with the real daemon: what is reported arrives, whatever dies meanwhile."""

import os
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
sys.path[:0] = [PACKAGE, os.path.join(HERE, "..", "e2e")]

import berth  # noqa: E402
import harness  # noqa: E402

PYTHON = "/usr/bin/python3"


class Real(unittest.TestCase):
    def setUp(self):
        self.home = harness.Home(BERTH_PYTHON=PACKAGE)
        self.home.start("--slots", "4")
        self.client = berth.Client(home=self.home.home, autostart=False)

    def tearDown(self):
        self.client.close()
        self.home.close()

    def job(self, code, **options):
        return self.client.submit([PYTHON, "-c", code], cwd="/tmp", **options)

    def until(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "nothing happened in %d s" % seconds)
            time.sleep(0.02)

    def steps(self, job, name="loss"):
        """Steps of a metric in order of arrival."""
        points = job.series()["metrics"].get(name, [])
        return [p["step"] if isinstance(p, dict) else p[0] for p in points]

    def test_all_kinds(self):
        j = self.job(
            "import berth\n"
            "p = berth.params(depth=3)\n"
            "for i in range(5): berth.log(loss=p['lr'] / (i + 1), step=i); berth.epoch(i)\n"
            "berth.log(loss=float('inf'), step=5)\n"
            "berth.tag(data='v2'); berth.artifact(%r, copy=True)\n"
            "print(p)" % __file__,
            params={"lr": 0.5},
        ).wait(120)
        self.assertEqual((j.state, j.logs()), ("succeeded", "{'depth': 3, 'lr': 0.5}\n"))
        self.assertEqual(j.tags, {"data": "v2", "nonfinite.loss": "inf at step 5"})
        self.assertEqual(j.metrics["loss"]["value"], "inf")
        self.assertEqual(self.steps(j), [0, 1, 2, 3, 4, 5])
        with open(j.artifacts["test_real.py"]["path"]) as f, open(__file__) as original:
            self.assertEqual(f.read(), original.read())

    def test_seen_while_it_runs(self):
        j = self.job("import berth, time\nberth.log(loss=1, step=1)\ntime.sleep(60)")
        self.until(lambda: "loss" in j.refresh().metrics)
        self.assertEqual(j.state, "running")
        j.cancel()
        self.assertEqual(j.wait(120).state, "cancelled")

    def test_daemon_killed_meanwhile(self):
        """Reports from before, during and after an absence of the daemon: each counted once."""
        go = os.path.join(self.home.dir, "go")
        j = self.job(
            "import berth, os, time\n"
            "for i in range(20): berth.log(loss=i, step=i)\n"
            "berth.flush()\n"
            "print('first', flush=True)\n"
            "while not os.path.exists(%r): time.sleep(0.01)\n"
            "for i in range(20, 40): berth.log(loss=i, step=i)\n"
            "while os.path.exists(%r): time.sleep(0.01)\n"
            "for i in range(40, 60): berth.log(loss=i, step=i)\n" % (go, go)
        )
        self.until(lambda: "first" in j.logs())
        self.home.kill()
        open(go, "w").close()
        time.sleep(0.3)
        self.home.start("--slots", "4")
        os.unlink(go)
        self.assertEqual(j.wait(120).state, "succeeded")
        self.assertEqual(self.steps(j), list(range(60)))

    def test_daemon_away_until_the_end(self):
        j = self.job(
            "import berth, time\n"
            "print('up', flush=True)\n"
            "time.sleep(0.5)\n"
            "for i in range(500): berth.log(loss=i, step=i)\n"
            "raise SystemExit(7)"
        )
        self.until(lambda: "up" in j.logs())
        self.home.kill()
        time.sleep(1.5)
        self.home.start("--slots", "4")
        self.assertEqual((j.wait(120).state, j.exit_code), ("failed", 7))
        self.assertEqual(self.steps(j), list(range(500)))

    def test_killed_job_keeps_its_reports(self):
        j = self.job(
            "import berth, os\n"
            "for i in range(100): berth.log(loss=i, step=i)\n"
            "os.kill(os.getpid(), 9)"
        ).wait(120)
        self.assertEqual((j.state, j.exit_code), ("failed", 128 + signal.SIGKILL))
        self.assertEqual(self.steps(j), list(range(100)))

    def test_should_stop(self):
        j = self.job(
            "import berth, signal, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "print('up', flush=True)\n"
            "while not berth.should_stop(): time.sleep(0.02)\n"
            "print('asked')",
            grace=3600,
        )
        self.until(lambda: "up" in j.logs())
        j.cancel()
        self.assertEqual(j.wait(120).state, "cancelled")
        self.assertIn("asked", j.logs())

    def test_cancel_is_a_request_first(self):
        """The loop of the guide, without a handler: by itself, below a shell, as two ranks."""
        code = (
            "import berth, time\n"
            "berth.should_stop() or print('polls', flush=True)\n"
            "while not berth.should_stop(): time.sleep(0.02)\n"
            "print('saved', flush=True)"
        )
        for argv, times in (
            ([PYTHON, "-c", code], 1),
            (["sh", "-c", '"$0" -c "$1"; echo not ended', PYTHON, code], 1),
            ([harness.BERTH, "__ranks", "2", PYTHON, "-c", code], 2),
        ):
            with self.subTest(argv=argv[0]):
                j = self.client.submit(argv, cwd="/tmp", grace=3600)
                self.until(lambda: j.logs().count("polls") == times)
                j.cancel()
                self.assertEqual(j.wait(120).state, "cancelled")
                self.assertEqual(j.logs().count("saved"), times, j.logs())
                self.assertNotIn("not ended", j.logs())

    def test_workers_live_until_the_job_has_saved(self):
        """The children of a job that asks do not get the SIGTERM of a cancel: a data loader would
        fail under the script.  What it leaves behind ends all the same, long before the grace time."""
        code = (
            "import berth, multiprocessing, os, time\n"
            "def work():\n"
            "    while True: time.sleep(0.01)\n"
            "workers = [multiprocessing.get_context('fork').Process(target=work) for _ in range(2)]\n"
            "for w in workers: w.start()\n"
            "berth.should_stop() or print('polls', flush=True)\n"
            "while not berth.should_stop(): time.sleep(0.02)\n"
            "time.sleep(0.3)\n"
            "print('alive', [w.is_alive() for w in workers].count(True), flush=True)\n"
            "os._exit(0)"
        )
        for argv, times in (
            ([PYTHON, "-c", code], 1),
            (["sh", "-c", '"$0" -c "$1"; echo not ended', PYTHON, code], 1),
            ([harness.BERTH, "__ranks", "2", PYTHON, "-c", code], 2),
        ):
            with self.subTest(argv=argv[0]):
                j = self.client.submit(argv, cwd="/tmp", grace=3600)
                self.until(lambda: j.logs().count("polls") == times)
                j.cancel()
                self.assertEqual(j.wait(120).state, "cancelled")
                self.assertEqual(j.logs().count("alive 2"), times, j.logs())
                self.assertNotIn("not ended", j.logs())

    def test_every_attempt_reports_for_itself(self):
        j = self.job(
            "import berth, os\n"
            "berth.log(loss=int(os.environ['BERTH_ATTEMPT']), step=0)\n"
            "raise SystemExit(0 if os.environ['BERTH_ATTEMPT'] == '2' else 1)",
            retries=1,
            backoff=0.1,
        ).wait(120)
        self.assertEqual((j.state, j.attempt), ("succeeded", 2))
        self.assertEqual(j.metrics["loss"]["value"], 2)

    def test_a_jobs_token_opens_that_job_only(self):
        """Taken from its environment and used over the same socket, without the rights of its user."""
        other = self.job("pass").wait(120)
        j = self.job(
            "import os\n"
            "from berth import _http\n"
            "c = _http.UnixConnection(os.environ['BERTH_SOCKET'])\n"
            "h = _http.bearer(os.environ['BERTH_JOB_TOKEN'])\n"
            "for path in ('/v1/jobs/' + os.environ['BERTH_JOB_ID'], '/v1/jobs/%d', '/v1/jobs'):\n"
            "    print(_http.exchange(c, 'GET', path, None, h)[0])" % other.number
        ).wait(120)
        self.assertEqual(j.logs().split()[0], "200", j.logs())
        self.assertTrue(all(s in ("401", "403", "404") for s in j.logs().split()[1:]), j.logs())


if __name__ == "__main__":
    unittest.main()
