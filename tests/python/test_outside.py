"""berth outside a job: submit, list, wait, logs, errors."""

import json
import os
import shutil
import socket
import stat
import sys
import tempfile
import textwrap
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [PACKAGE, HERE]

import berth  # noqa: E402
from berth import _client, _http  # noqa: E402
from fake_daemon import FakeDaemon  # noqa: E402

ID = "01h8xv5q3r000000000000abcd"


def job(**more):
    base = {"id": ID, "number": 7, "name": "a", "state": "running", "exit_code": None, "created": "2026-01-01T00:00:00.000Z"}
    base.update(more)
    return base


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="berth-py-")
        self.saved = dict(os.environ)
        for key in list(os.environ):
            if key.startswith("BERTH_"):
                del os.environ[key]
        os.environ["BERTH_HOME"] = self.home
        self.daemon = FakeDaemon(os.path.join(self.home, "sock")).start()
        _client._default = None

    def tearDown(self):
        if _client._default:
            _client._default.close()
        self.daemon.kill()
        os.environ.clear()
        os.environ.update(self.saved)
        shutil.rmtree(self.home, ignore_errors=True)

    def sent(self):
        return json.loads(self.daemon.requests[-1][3])


class Submit(Case):
    def setUp(self):
        super().setUp()
        self.daemon.routes["POST", "/v1/jobs"] = lambda body, query: (
            201,
            {"id": ID, "number": 7, "name": "a", "state": "queued"},
        )

    def test_all_options(self):
        os.environ["BERTH_JOB_TOKEN"] = "of the job we run in"
        other = _client.Job(None, job())
        j = berth.submit(
            ["python", "train.py"],
            name="a",
            project="p",
            queue="q",
            cpus=2,
            mem="4G",
            gpus=1,
            timeout=90,
            priority=5,
            retries=2,
            backoff="10s",
            after=[other, 3],
            params={"lr": 0.1},
            env={"K": "V"},
            cwd="/tmp",
            split_output=True,
        )
        self.assertEqual((j.number, j.state), (7, "queued"))
        spec = self.sent()
        env = spec.pop("env")
        self.assertEqual((env["K"], env["PATH"]), ("V", os.environ["PATH"]))
        self.assertFalse([k for k in env if k.startswith("BERTH_")])
        self.assertEqual(
            spec,
            {
                "name": "a",
                "command": ["python", "train.py"],
                "project": "p",
                "queue": "q",
                "resources": {"cpus": 2, "mem": "4G", "gpus": 1},
                "timeout": "90000ms",
                "priority": 5,
                "retries": 2,
                "backoff": "10s",
                "after": [ID, "3"],
                "params": {"lr": 0.1},
                "cwd": "/tmp",
                "split_output": True,
            },
        )

    def test_least(self):
        berth.submit("make test")
        spec = self.sent()
        spec.pop("env")
        self.assertEqual(spec, {"command": "make test", "cwd": os.getcwd()})

    def test_keys(self):
        berth.submit("x", key="once")
        self.assertEqual(self.daemon.requests[-1][2]["Idempotency-Key"], "once")
        berth.submit("x")
        one = self.daemon.requests[-1][2]["Idempotency-Key"]
        berth.submit("x")
        self.assertNotEqual(self.daemon.requests[-1][2]["Idempotency-Key"], one)

    def test_kept_connection_that_died_is_replaced_with_the_same_key(self):
        berth.submit("x")
        self.daemon.hang_up = 1
        berth.submit("y")
        keys = [r[2]["Idempotency-Key"] for r in self.daemon.requests[-2:]]
        self.assertEqual(keys[0], keys[1])

    def test_sweep(self):
        self.daemon.routes["POST", "/v1/jobs"] = {"batch": "b1", "first": 8, "count": 4, "first_id": ID}
        batch = berth.sweep("t --lr {lr}", {"lr": (0.1, 0.01), "opt": "sgd", "d": range(2)}, slots=2, cpus=1)
        self.assertEqual((len(batch), batch.id, batch.first), (4, "b1", 8))
        sent = self.sent()
        self.assertEqual(sent["params"], {"lr": [0.1, 0.01], "opt": ["sgd"], "d": [0, 1]})
        self.assertEqual((sent["slots"], sent["resources"]), (2, {"cpus": 1}))
        berth.sweep("t", [{"lr": 1}, {"lr": 2}])
        self.assertEqual(self.sent()["jobs"], [{"params": {"lr": 1}}, {"params": {"lr": 2}}])
        berth.sweep("t", array=1000)
        self.assertEqual(self.sent()["array"], 1000)
        with self.assertRaises(TypeError):
            berth.sweep("t", nmae="typo")

    def test_batch_wait_and_cancel(self):
        self.daemon.routes["POST", "/v1/jobs"] = {"batch": "b1", "first": 8, "count": 2, "first_id": ID}
        answers = [{"total": 2, "running": 1, "queued": 1}, {"total": 2, "succeeded": 1, "running": 1}]
        answers.append({"total": 2, "succeeded": 1, "failed": 1, "running": 0})
        self.daemon.routes["GET", "/v1/jobs/summary"] = lambda body, query: (200, answers.pop(0))
        self.daemon.routes["GET", "/v1/jobs"] = {"items": [job(state="succeeded"), job(state="failed")], "next": None}
        self.daemon.routes["POST", "/v1/jobs/cancel"] = {"done": 0, "already": 2, "denied": 0}
        batch = berth.sweep("t", {"a": [1, 2]})
        self.assertEqual([j.state for j in batch.wait(120)], ["succeeded", "failed"])
        self.assertIn("batch=b1", self.daemon.requests[-1][1])
        batch.cancel()
        self.assertEqual(self.sent(), {"batch": "b1"})


class Jobs(Case):
    def test_list_follows_pages(self):
        pages = {"": ([1, 2], "c1"), "c1": ([3], None)}

        def page(body, query):
            import urllib.parse

            q = dict(urllib.parse.parse_qsl(query))
            numbers, cursor = pages[q.get("cursor", "")]
            self.assertEqual((q["filter"], q["state"], q["sort"]), ("lr<0.1 and name~c&n", "failed,lost", "-created"))
            return 200, {"items": [job(number=n) for n in numbers], "next": cursor}

        self.daemon.routes["GET", "/v1/jobs"] = page
        options = {"state": ["failed", "lost"], "sort": "-created"}
        self.assertEqual([j.number for j in berth.jobs("lr<0.1 and name~c&n", **options)], [1, 2, 3])
        self.assertEqual([j.number for j in berth.jobs("lr<0.1 and name~c&n", limit=2, **options)], [1, 2])

    def test_wait_logs_cancel_retry_remove_explain(self):
        states = ["queued", "starting", "running", "succeeded"]

        def get(body, query):
            s = states.pop(0) if len(states) > 1 else states[0]
            return 200, job(state=s, exit_code=0 if s == "succeeded" else None)

        path = "/v1/jobs/" + ID
        self.daemon.routes["GET", "/v1/jobs/7"] = job()
        self.daemon.routes["GET", path] = get
        self.daemon.routes["GET", path + "/logs"] = lambda body, query: (200, b"one\ntwo\n\xff")
        self.daemon.routes["GET", path + "/explain"] = {"text": "It waits for a slot.", "remedy": "Wait."}
        for what in ("/cancel", "/retry"):
            self.daemon.routes["POST", path + what] = {"done": 1}
        self.daemon.routes["DELETE", path] = lambda body, query: (204, b"")
        j = berth.job(7)
        j.wait(120)
        self.assertEqual((j.state, j.exit_code, j.done), ("succeeded", 0, True))
        self.assertEqual(j.logs(), "one\ntwo\n\ufffd")
        self.assertEqual(list(j.follow()), ["one", "two", "\ufffd"])
        self.assertIn("follow=1", self.daemon.requests[-1][1])
        self.assertEqual(j.explain(), "It waits for a slot. Wait.")
        j.cancel()
        j.retry()
        j.remove()
        self.assertEqual(self.daemon.requests[-1][0], "DELETE")
        self.assertEqual(repr(j), "<berth.Job 7 a succeeded>")

    def test_submit_answer_fills_itself_in(self):
        self.daemon.routes["GET", "/v1/jobs/" + ID] = job(params={"lr": 1})
        j = _client.Job(_client._client(), {"id": ID, "number": 7, "name": "a", "state": "queued"})
        self.assertEqual(j.params, {"lr": 1})
        with self.assertRaises(AttributeError):
            j.nothing_of_the_kind

    def test_wait_times_out(self):
        self.daemon.routes["GET", "/v1/jobs/" + ID] = job()
        with self.assertRaises(TimeoutError):
            _client.Job(_client._client(), job()).wait(0.2)

    def test_wait_outlives_a_restart_of_the_daemon(self):
        import threading
        import time

        self.daemon.routes["GET", "/v1/jobs/" + ID] = job()
        client = berth.Client(autostart=False)
        j = _client.Job(client, job())

        def restart():
            time.sleep(0.1)
            self.daemon.kill()
            time.sleep(0.3)
            self.daemon.routes["GET", "/v1/jobs/" + ID] = job(state="failed", exit_code=3)
            self.daemon.start()

        threading.Thread(target=restart).start()
        self.assertEqual(j.wait(120).exit_code, 3)
        client.close()


class Replies(unittest.TestCase):
    """The forms that HTTP allows for a reply, and those that are cut off."""

    def exchange(self, reply, path="/x"):
        home = tempfile.mkdtemp(prefix="berth-py-")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(home, "sock"))
        listener.listen(1)

        def answer():
            peer = listener.accept()[0]
            self.asked = peer.recv(65536)
            peer.sendall(reply)
            peer.close()

        server = threading.Thread(target=answer, daemon=True)
        server.start()
        conn = _http.UnixConnection(os.path.join(home, "sock"))
        try:
            return _http.exchange(conn, "POST", path, b"{}", {"A": "b"})
        finally:
            conn.close()
            listener.close()
            shutil.rmtree(home)

    def test_forms(self):
        for reply, expected in (
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", (200, b"{}")),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 \r\ncontent-length:0\r\n\r\n", (201, b"")),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", (200, b"abc0123456789")),
            (b"HTTP/1.0 404 Not Found\r\n\r\nto the end", (404, b"to the end")),
            (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        ):
            self.assertEqual(self.exchange(reply), expected)
            self.assertEqual(self.asked, b"POST /x HTTP/1.1\r\nHost: localhost\r\nA: b\r\nContent-Length: 2\r\n\r\n{}")

    def test_broken(self):
        for reply in (
            b"",
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        ):
            with self.assertRaises(ConnectionError):
                self.exchange(reply)
        for path in ("/a b", "/a\r\nX: y", ""):
            with self.assertRaises(ValueError):
                self.exchange(b"HTTP/1.1 204 No Content\r\n\r\n", path)


class Errors(Case):
    def test_kinds(self):
        for status, kind in ((404, berth.NotFound), (403, berth.Denied), (503, berth.Unavailable), (409, berth.BerthError)):
            with self.subTest(status):
                error = {"error": {"code": "some_code", "message": "one sentence"}}
                self.daemon.routes["GET", "/v1/jobs/9"] = lambda body, query: (status, error)
                with self.assertRaises(kind) as caught:
                    berth.job(9)
                self.assertEqual((str(caught.exception), caught.exception.code), ("one sentence", "some_code"))
                self.assertEqual(caught.exception.status, status)

    def test_not_json(self):
        self.daemon.routes["GET", "/v1/jobs/9"] = lambda body, query: (502, b"<html>")
        with self.assertRaises(berth.BerthError) as caught:
            berth.job(9)
        self.assertIn("502", str(caught.exception))

    def test_nobody_there(self):
        client = berth.Client(home=os.path.join(self.home, "absent"), autostart=False)
        with self.assertRaises(berth.Unavailable) as caught:
            client.job(1)
        self.assertIn("berth serve", str(caught.exception))

    def test_other_addresses(self):
        self.daemon.routes["GET", "/v1/jobs/1"] = job(number=1)
        with berth.Client(url="unix:" + os.path.join(self.home, "sock")) as client:
            self.assertEqual(client.job(1).number, 1)
        os.environ["BERTH_URL"] = "http://127.0.0.1:1"
        os.environ["BERTH_TOKEN"] = "t"
        with self.assertRaises(berth.Unavailable) as caught:
            berth.job(1)
        self.assertIn("http://127.0.0.1:1", str(caught.exception))

    def test_the_machines_daemon(self):
        """Whoever has chosen no home and runs no daemon of their own means the system's, if there is one."""
        self.daemon.routes["GET", "/v1/jobs/1"] = job(number=1)
        saved, _client.SYSTEM_SOCKET = _client.SYSTEM_SOCKET, os.path.join(self.home, "sock")
        del os.environ["BERTH_HOME"]
        os.environ["XDG_DATA_HOME"] = os.path.join(self.home, "none")
        try:
            self.assertEqual(berth.job(1).number, 1)
            with self.assertRaises(berth.Unavailable):
                berth.Client(home=os.path.join(self.home, "other"), autostart=False).job(1)
        finally:
            _client.SYSTEM_SOCKET = saved

    def test_no_program_to_start(self):
        os.environ["PATH"] = "/nonexistent"
        os.environ["BERTH_PROGRAM"] = "/nonexistent/berth"
        saved, _client._program = _client._program, lambda: None
        try:
            with self.assertRaises(berth.Unavailable) as caught:
                berth.Client(home=os.path.join(self.home, "absent")).job(1)
        finally:
            _client._program = saved
        self.assertIn("BERTH_PROGRAM", str(caught.exception))

    def test_starts_a_daemon(self):
        """The program is started with this home and waited for."""
        program = os.path.join(self.home, "berth")
        home = os.path.join(self.home, "other")
        os.mkdir(home)
        with open(program, "w") as f:
            f.write(
                textwrap.dedent(
                    """\
                    #!%s
                    import os, sys, time
                    sys.path.insert(0, %r)
                    from fake_daemon import FakeDaemon
                    assert sys.argv[1:] == ["serve", "--auto"]
                    d = FakeDaemon(os.path.join(os.environ["BERTH_HOME"], "sock"))
                    d.routes["GET", "/v1/jobs/1"] = {"id": "x", "number": 1, "name": "n", "state": "queued"}
                    d.start(); time.sleep(20)
                    """
                )
                % (sys.executable, HERE)
            )
        os.chmod(program, stat.S_IRWXU)
        os.environ["BERTH_PROGRAM"] = program
        with berth.Client(home=home) as client:
            self.assertEqual(client.job(1).name, "n")

    def test_a_program_that_fails_is_told(self):
        os.environ["BERTH_PROGRAM"] = "/bin/false"
        with self.assertRaises(berth.Unavailable) as caught:
            berth.Client(home=os.path.join(self.home, "absent")).job(1)
        self.assertIn("did not start", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
