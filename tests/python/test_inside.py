"""berth inside a job: reports, parameters, faults."""

import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [PACKAGE, HERE]

from berth import _http, _inside, _spool  # noqa: E402
import berth  # noqa: E402
from fake_daemon import FakeDaemon, wait_for  # noqa: E402

JOB = "01h8xv5q3r000000000000abcd"


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="berth-py-")
        self.sock = os.path.join(self.tmp, "sock")
        self.run_dir = os.path.join(self.tmp, "7.1")
        os.mkdir(self.run_dir)
        self.spool = os.path.join(self.run_dir, "spool.jsonl")
        self.saved = dict(os.environ)
        for key in list(os.environ):
            if key.startswith("BERTH_"):
                del os.environ[key]
        os.environ.update(self.env())
        self.daemon = None
        self.records = []
        self.handler = logging.Handler()
        self.handler.emit = self.records.append
        logging.getLogger("berth").addHandler(self.handler)
        logging.getLogger("berth").propagate = False
        self.fresh()

    def tearDown(self):
        self.fresh()
        if self.daemon:
            self.daemon.kill()
        os.environ.clear()
        os.environ.update(self.saved)
        logging.getLogger("berth").removeHandler(self.handler)
        shutil.rmtree(self.tmp, ignore_errors=True)

    def env(self):
        return {
            "BERTH_JOB_ID": JOB,
            "BERTH_JOB_NUMBER": "7",
            "BERTH_RUN": "7.1",
            "BERTH_SOCKET": self.sock,
            "BERTH_JOB_TOKEN": "secret-token",
            "BERTH_RUN_DIR": self.run_dir,
        }

    def fresh(self):
        if _inside._spool is not None and _inside._spool._fd >= 0:
            os.close(_inside._spool._fd)
        _inside._spool = None
        _inside._warned_outside = False
        _inside._kept.clear()
        _inside._not_finite.clear()

    def serve(self):
        self.daemon = FakeDaemon(self.sock).start()
        return self.daemon

    def spooled(self):
        with open(self.spool) as f:
            return [json.loads(line) for line in f]

    def child(self, code, env=None, **kw):
        """Runs a script as a job would; (exit status, stdout, stderr, seconds)."""
        full = dict(os.environ, PYTHONPATH=PACKAGE, **(env or {}))
        began = time.monotonic()
        p = subprocess.run(
            [sys.executable, "-Wignore::DeprecationWarning", "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True, timeout=120, **kw
        )
        return p.returncode, p.stdout, p.stderr, time.monotonic() - began


class Reports(Case):
    def test_lines_in_the_agreed_form(self):
        before = int(time.time() * 1000)
        berth.log(loss=0.25, step=10)
        berth.log({"val/acc": 1}, step=3)
        berth.tag("data", "v2")
        berth.tag(seed=4)
        berth.epoch(3)
        berth.artifact("/data/model.pt")
        lines = self.spooled()
        for line in lines:
            self.assertGreaterEqual(line.pop("t"), before)
        self.assertEqual(
            lines,
            [
                {"k": "m", "n": "loss", "v": 0.25, "s": 10},
                {"k": "m", "n": "val/acc", "v": 1, "s": 3},
                {"k": "t", "n": "data", "x": "v2"},
                {"k": "t", "n": "seed", "x": "4"},
                {"k": "e", "s": 3},
                {"k": "a", "n": "model.pt", "x": "/data/model.pt"},
            ],
        )

    def test_saved_artifacts_are_copies(self):
        one, two = os.path.join(self.tmp, "a", "m.pt"), os.path.join(self.tmp, "b", "m.pt")
        for path, text in ((one, "1"), (two, "2")):
            os.makedirs(os.path.dirname(path))
            with open(path, "w") as f:
                f.write(text)
        kept = [berth.save_artifact(one), berth.save_artifact(two, "other")]
        with open(one, "w") as f:
            f.write("3")
        self.assertEqual([os.path.basename(p) for p in kept], ["m.pt", "m_1.pt"])
        self.assertEqual([open(p).read() for p in kept], ["1", "2"])
        self.assertEqual(berth.save_artifact(one), kept[0])
        self.assertEqual(open(kept[0]).read(), "3")
        self.assertEqual([x["n"] for x in self.spooled()], ["m.pt", "other", "m.pt"])
        self.assertEqual(sorted(os.listdir(os.path.dirname(kept[0]))), ["m.pt", "m_1.pt"])

    def test_without_step_each_metric_counts(self):
        for _ in range(3):
            berth.log(a=1)
        berth.log(b=1)
        self.assertEqual([(x["n"], x["s"]) for x in self.spooled()], [("a", 0), ("a", 1), ("a", 2), ("b", 0)])

    def test_sent_with_token_and_offset(self):
        daemon = self.serve()
        berth.log(loss=1.0, step=1)
        self.assertTrue(berth.flush())
        berth.log(loss=0.5, step=2)
        self.assertTrue(berth.flush())
        self.assertEqual([x["v"] for x in daemon.lines()], [1.0, 0.5])
        method, path, headers, body = daemon.requests[0]
        self.assertEqual((method, path), ("POST", "/v1/jobs/7/reports?run=1&offset=0"))
        self.assertEqual(headers["Authorization"], "Bearer secret-token")
        self.assertIn("offset=%d" % len(body), daemon.requests[-1][1])

    def test_many_reports_share_requests(self):
        daemon = self.serve()
        for i in range(5000):
            berth.log(loss=i, step=i)
        self.assertTrue(berth.flush(20))
        self.assertEqual([x["s"] for x in daemon.lines()], list(range(5000)))
        self.assertLess(len(daemon.requests), 50)

    def test_a_report_costs_little(self):
        began = time.monotonic()
        for i in range(2000):
            berth.log(loss=i, step=i)
        self.assertLess((time.monotonic() - began) / 2000, 0.001)

    def test_should_stop(self):
        daemon = self.serve()
        self.assertFalse(berth.should_stop())
        daemon.stop = True
        self.assertTrue(wait_for(berth.should_stop, 5))
        daemon.stop = False
        self.assertTrue(berth.should_stop(), "once asked to stop it stays so")

    def test_long_socket_path(self):
        deep = os.path.join(self.tmp, "d" * 100)
        os.mkdir(deep)
        short = FakeDaemon(self.sock).start()
        self.daemon = short
        os.symlink(self.sock, os.path.join(deep, "sock"))
        os.environ["BERTH_SOCKET"] = os.path.join(deep, "sock")
        berth.log(a=1)
        self.assertTrue(berth.flush())
        self.assertEqual(len(short.lines()), 1)


class Values(Case):
    def logged(self, value):
        berth.log(x=value)
        return self.spooled()[-1]["v"]

    def test_not_finite(self):
        for value in ("nan", "inf", "-inf"):
            berth.log(loss=float(value), step=4)
        metrics = [x["v"] for x in self.spooled() if x["k"] == "m"]
        tags = [(x["n"], x["x"]) for x in self.spooled() if x["k"] == "t"]
        self.assertEqual(metrics, ["nan", "inf", "-inf"])
        self.assertEqual(tags, [("nonfinite.loss", "nan at step 4")])

    def test_things_that_are_numbers(self):
        import decimal
        import fractions

        class Tensor:
            def __float__(self):
                return 0.125

        self.assertEqual(self.logged(True), 1)
        self.assertEqual(self.logged(2**62), 2**62)
        self.assertEqual(self.logged(2**80), float(2**80))
        self.assertEqual(self.logged(decimal.Decimal("0.5")), 0.5)
        self.assertEqual(self.logged(fractions.Fraction(1, 4)), 0.25)
        self.assertEqual(self.logged(Tensor()), 0.125)
        self.assertEqual(self.logged(1e-320), 1e-320)

    def test_things_that_are_not(self):
        class Bad:
            def __float__(self):
                raise RuntimeError("on purpose")

            def __str__(self):
                raise RuntimeError("on purpose")

        for value in (b"1", None, [1], Bad(), 10**400, 1j):
            berth.log(x=value)
        berth.log(y=[1, 2])
        berth.tag("t", Bad())
        berth.tag(Bad())
        berth.epoch("three")
        berth.epoch(2**70)
        berth.log(x=1, step="a")
        berth.log(x=1, step=float("nan"))
        berth.log(7)
        berth.log({"": 1, "n" * 300: 1, "a\nb": 1})
        berth.artifact("/x", name="")
        self.assertFalse(os.path.exists(self.spool))
        told = [r.getMessage() for r in self.records]
        self.assertIn("berth: metric x was dropped: it needs a number or a text, got bytes", told)
        self.assertTrue(any("one number, got a list of 2 values" in line for line in told), told)

    def test_text_from_anywhere(self):
        berth.tag("näme", "väl\nue \x00 \U0001f600")
        berth.tag("long", "x" * 100000)
        berth.tag("half a surrogate", "\ud800")
        lines = self.spooled()
        self.assertEqual(lines[0]["x"], "väl\nue \x00 \U0001f600")
        self.assertEqual(len(lines[1]["x"]), _spool.TEXT_MAX)
        self.assertEqual(lines[2]["x"], "?")
        berth.tag("cut between characters", "x" + "ä" * 4000)
        self.assertEqual(self.spooled()[3]["x"], "x" + "ä" * 2047)

    def test_one_warning_per_kind(self):
        for _ in range(50):
            berth.log(x=[])
        self.assertEqual(len(self.records), 1)

    def test_texts_are_values_too(self):
        berth.log(mood="good", step=1)
        berth.log_metric("mood", "x" * 5000)
        self.assertEqual([x["v"] for x in self.spooled()], ["good", "x" * _spool.POINT_TEXT_MAX])

    def test_parameters(self):
        berth.log_params({"opt": {"name": "adam"}}, lr=0.1, deep=None, odd={1, 2}, big="x" * 40000)
        got = {x["n"]: x["x"] for x in self.spooled()}
        self.assertEqual((got["opt"], got["lr"], got["deep"], got["odd"]), ({"name": "adam"}, 0.1, None, "{1, 2}"))
        self.assertEqual(len(got["big"]), _spool.TEXT_MAX)

    def test_quick_and_careful_lines_agree(self):
        for value in (0.1, -1e-300, 5e300, 3.0, 0.1 + 0.2, float("nan"), float("-inf"), 7, True):
            berth.log_metric("näme/x", value, 3)
            berth.log({"näme/x": value}, step=3)
        lines = self.spooled()
        for line in lines:
            line.pop("t")
        lines = [x for x in lines if x["k"] == "m"]
        self.assertEqual(len(lines), 18)
        self.assertEqual(lines[::2], lines[1::2])
        self.assertEqual(lines[8]["v"], 0.1 + 0.2)

    def test_a_log_handler_that_raises(self):
        def emit(record):
            raise RuntimeError("on purpose")

        self.handler.emit = emit
        berth.log(x="a")


class Params(Case):
    def test_from_environment(self):
        os.environ["BERTH_PARAMS"] = '{"lr": 0.01, "name": "a"}'
        self.assertEqual(berth.params(lr=1, depth=3), {"lr": 0.01, "depth": 3, "name": "a"})

    def test_from_file(self):
        path = os.path.join(self.run_dir, "params.json")
        with open(path, "w") as f:
            json.dump({"big": "x" * 100000}, f)
        os.environ["BERTH_PARAMS_FILE"] = path
        self.assertEqual(len(berth.params()["big"]), 100000)

    def test_none(self):
        self.assertEqual(berth.params(), {})
        self.assertEqual(self.records, [])

    def test_unreadable(self):
        for text in ("{", "[1]", "\x00"):
            with self.subTest(text):
                os.environ["BERTH_PARAMS_FILE"] = os.path.join(self.tmp, "absent")
                if "\x00" not in text:
                    os.environ["BERTH_PARAMS"] = text
                else:
                    del os.environ["BERTH_PARAMS"]
                self.assertEqual(berth.params(a=1), {"a": 1})
        self.assertEqual(len(self.records), 1)


class Artifacts(Case):
    def test_copy(self):
        source = os.path.join(self.tmp, "model.pt")
        with open(source, "w") as f:
            f.write("one")
        kept = berth.artifact(source, copy=True)
        self.assertEqual(kept, os.path.join(self.run_dir, "artifacts", "model.pt"))
        with open(source, "w") as f:
            f.write("two")
        with open(kept) as f:
            self.assertEqual(f.read(), "one")
        self.assertEqual(self.spooled()[0]["x"], kept)
        self.assertEqual(berth.artifact(kept, copy=True), kept)

    def test_copy_of_nothing(self):
        self.assertEqual(berth.artifact("/absent/file", copy=True), "/absent/file")
        self.assertEqual(self.spooled()[0]["x"], "/absent/file")

    def test_directory(self):
        self.assertEqual(berth.artifact_dir(), os.path.join(self.run_dir, "artifacts"))
        self.assertTrue(os.path.isdir(berth.artifact_dir()))


class Faults(Case):
    def test_no_daemon(self):
        code, _, err, seconds = self.child(
            """
            import berth
            for i in range(100):
                berth.log(loss=i, step=i); berth.epoch(i); berth.should_stop()
            """
        )
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(self.spooled()), 200)
        self.assertLess(seconds, 3)

    def test_daemon_that_never_answers_delays_exit_by_a_moment_only(self):
        self.serve().delay_s = 30
        code, out, err, _ = self.child(
            """
            import atexit, berth, time
            atexit.register(lambda: print(time.monotonic() - began))   # runs after berth's own
            import berth._inside
            atexit.unregister(berth._inside._at_exit); atexit.register(berth._inside._at_exit)
            berth.log(loss=1)
            time.sleep(0.3)
            began = time.monotonic()
            """
        )
        self.assertEqual((code, err), (0, ""))
        self.assertLess(float(out), _spool.EXIT_WAIT_S + 0.15)
        self.assertEqual(len(self.spooled()), 1)

    def test_exit_sends_the_rest(self):
        daemon = self.serve()
        code, _, err, _ = self.child(
            """
            import berth
            for i in range(10): berth.log(loss=i)
            """
        )
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(daemon.lines()), 10)

    def test_daemon_comes_late(self):
        berth.log(a=1, step=1)
        self.assertFalse(berth.flush(2))
        daemon = self.serve()
        self.assertTrue(wait_for(lambda: len(daemon.spool) > 0, 5))
        self.assertEqual(len(daemon.lines()), 1)

    def test_daemon_dies_midway_and_returns(self):
        daemon = self.serve()
        berth.log(a=1, step=1)
        self.assertTrue(berth.flush())
        daemon.kill()
        berth.log(a=2, step=2)
        self.assertFalse(berth.flush(1))
        daemon.start()
        berth.log(a=3, step=3)
        self.assertTrue(wait_for(lambda: len(daemon.lines()) == 3, 8))
        self.assertEqual([x["s"] for x in daemon.lines()], [1, 2, 3])

    def test_daemon_hangs_up_in_the_middle(self):
        daemon = self.serve()
        berth.log(a=1)
        self.assertTrue(berth.flush())
        daemon.hang_up = 2
        berth.log(a=2)
        self.assertTrue(wait_for(lambda: len(daemon.lines()) == 2, 8))

    def test_500_then_well(self):
        daemon = self.serve()
        daemon.status = 500
        berth.log(a=1)
        self.assertFalse(berth.flush(1))
        daemon.status = 200
        self.assertTrue(wait_for(lambda: len(daemon.spool) > 0, 8))

    def test_refused_for_good(self):
        daemon = self.serve()
        daemon.status = 403
        berth.log(a=1)
        berth.flush(1)
        for _ in range(5):
            berth.log(a=1)
        berth.flush(1)
        self.assertEqual(len(daemon.requests), 1)
        self.assertEqual(len(self.spooled()), 6)
        self.assertEqual(len(self.records), 1)

    def test_daemon_lost_its_memory(self):
        """After a restore from a backup the daemon asks for older lines again."""
        daemon = self.serve()
        berth.log(a=1)
        self.assertTrue(berth.flush())
        daemon.spool = b""
        berth.log(a=2)
        berth.flush(2)
        daemon.answer, plain = lambda *a: (200, {"offset": 0}), daemon.answer
        berth.log(a=3)
        berth.flush(1)
        daemon.answer = plain
        self.assertEqual(len(self.spooled()), 3)

    def test_disk_full(self):
        code, out, err, _ = self.child(
            """
            import berth, resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            for i in range(100): berth.log(loss=i, step=i)
            print("trained")
            """
        )
        self.assertEqual((code, out), (0, "trained\n"))
        self.assertEqual(err.count("\n"), 1, err)
        with open(self.spool, "rb") as f:
            data = f.read()
        self.assertLessEqual(len(data), 1000)
        for line in data.split(b"\n")[:-1]:
            json.loads(line)

    def test_line_after_a_torn_one_stands_alone(self):
        berth.log(a=1)
        with open(self.spool, "ab") as f:
            f.write(b'{"k":"m","n":"a","v"')
        _inside._spool._torn = True
        berth.log(a=2)
        with open(self.spool, "rb") as f:
            lines = f.read().split(b"\n")
        self.assertEqual(json.loads(lines[2])["v"], 2)

    def test_socket_whose_queue_is_full(self):
        """A listener that accepts nothing for a while: connecting waits instead of failing."""
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(self.sock)
            listener.listen(0)
            taken = [_http.connect_unix(self.sock, 1.0)]
            with self.assertRaises(BlockingIOError):
                while True:
                    taken.append(_http.connect_unix(self.sock, 0.05))
            threading.Timer(0.2, lambda: [listener.accept()[0].close() for _ in taken]).start()
            taken.append(_http.connect_unix(self.sock, 5.0))
            for s in taken:
                s.close()

    def test_no_run_directory(self):
        shutil.rmtree(self.run_dir)
        berth.log(a=1)
        self.assertEqual(len(self.spooled()), 1)
        self.fresh()
        os.environ["BERTH_RUN_DIR"] = "/proc/self/nothing"
        berth.log(a=1)
        self.fresh()
        del os.environ["BERTH_RUN_DIR"]
        berth.log(a=1)
        self.assertEqual(len(self.records), 2)

    def test_reports_from_a_signal_handler(self):
        """A handler may interrupt a report half-way; neither may wait for the other."""
        code, out, err, _ = self.child(
            """
            import berth, signal
            signal.signal(signal.SIGALRM, lambda *a: berth.log(from_handler=1))
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for i in range(20000): berth.log(loss=i, step=i)
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("done")
            """
        )
        self.assertEqual((code, out, err), (0, "done\n", ""))


class Processes(Case):
    def test_forked_children_and_threads(self):
        daemon = self.serve()
        code, _, err, _ = self.child(
            """
            import berth, os, threading
            berth.log(a=0); berth.flush()
            def work(who):
                for i in range(200): berth.log({"m%d" % who: i}, step=i)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for t in threads: t.start()
            pids = []
            for n in range(4, 8):
                pid = os.fork()
                if not pid:
                    work(n); berth.should_stop(); berth.flush(1); os._exit(0)
                pids.append(pid)
            for t in threads: t.join()
            for p in pids: assert os.waitpid(p, 0)[1] == 0
            assert berth.flush(10)
            """
        )
        self.assertEqual((code, err), (0, ""))
        lines = self.spooled()
        self.assertEqual(len(lines), 1601)
        for n in range(8):
            self.assertEqual([x["s"] for x in lines if x["n"] == "m%d" % n], list(range(200)))
        self.assertEqual(daemon.lines(), lines)

    def test_ranks(self):
        """Several processes of one run: all append, one sends, nothing is sent twice."""
        daemon = self.serve()
        rank = """
            import berth, os, time
            for i in range(50):
                berth.log({"rank" + os.environ["RANK"]: i}, step=i); time.sleep(0.01)
            """
        procs = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(rank)], env=dict(os.environ, PYTHONPATH=PACKAGE, RANK=str(r))
            )
            for r in range(3)
        ]
        for p in procs:
            self.assertEqual(p.wait(120), 0)
        self.assertEqual(len(self.spooled()), 150)
        with open(self.spool, "rb") as f:
            self.assertEqual(daemon.spool, f.read()[: len(daemon.spool)])

    def test_multiprocessing(self):
        self.serve()
        for method in ("fork", "spawn"):
            with self.subTest(method):
                ctx = multiprocessing.get_context(method)
                p = ctx.Process(target=report_from_child)
                p.start()
                p.join(60)
                self.assertEqual(p.exitcode, 0)
        self.assertEqual(len(self.spooled()), 2)

    def test_sister_takes_over_when_the_sender_dies(self):
        daemon = self.serve()
        sender = subprocess.Popen(
            [sys.executable, "-c", "import berth, time; berth.log(a=1); berth.flush(); print(flush=True); time.sleep(60)"],
            env=dict(os.environ, PYTHONPATH=PACKAGE),
            stdout=subprocess.PIPE,
        )
        sender.stdout.readline()
        berth.log(b=1)
        # The sender looks for lines of its sisters.
        self.assertTrue(wait_for(lambda: len(daemon.lines()) == 2, 5))
        sender.send_signal(signal.SIGKILL)
        sender.wait()
        sender.stdout.close()
        berth.log(b=2)
        self.assertTrue(wait_for(lambda: len(daemon.lines()) == 3, 5))

    def test_many_threads_at_first_use(self):
        start = threading.Barrier(8)

        def work():
            start.wait()
            berth.log(a=1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(self.spooled()), 8)


class Outside(Case):
    def env(self):
        return {}

    def test_everything_is_harmless(self):
        berth.log(a=1)
        berth.log(7, step="x")
        berth.tag("x")
        berth.epoch(1)
        self.assertEqual(berth.artifact("x.pt"), os.path.abspath("x.pt"))
        self.assertFalse(berth.should_stop())
        self.assertTrue(berth.flush())
        self.assertEqual(berth.params(a=1), {"a": 1})
        self.assertFalse(berth.in_job())
        self.assertEqual(len(self.records), 1)
        self.assertIn("not inside a Berth job", self.records[0].getMessage())

    def test_warnings_as_errors(self):
        code, _, _, _ = self.child("import warnings; warnings.simplefilter('error'); import berth; berth.log(a=1)")
        self.assertEqual(code, 0)


def report_from_child():
    berth.log(child=1)
    berth.flush(1)


if __name__ == "__main__":
    unittest.main()
