"""Hooks: messages by webhook, mail, Slack and command, with receivers that fail, vanish or are slow to come."""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import stat
import threading

import harness
from harness import Home, wait_for

SECRET = "correct horse battery staple"


class Receiver:
    """An HTTP server that keeps what it is sent; `answers` are the (status, body) of the next requests."""

    def __init__(self, port=0):
        self.got, self.answers = [], []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, reply = receiver.answers.pop(0) if receiver.answers else (200, b"ok")
                receiver.got.append((status, self.path, dict(self.headers), json.loads(body), body))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def accepted(self):
        return [g for g in self.got if g[0] == 200]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def setting(*args, **env):
    """A receiver and a home with a sendmail that writes to a file."""
    receiver, home = Receiver(), Home(**env)
    home.mails = os.path.join(home.dir, "mails")
    home.env["BERTH_SENDMAIL"] = os.path.join(home.dir, "sendmail")
    with open(home.env["BERTH_SENDMAIL"], "w") as f:
        f.write(f"#!/bin/sh\n[ -e {home.dir}/broken ] && {{ echo 'the queue is full' >&2; exit 75; }}\n"
                f"{{ echo \"ARGS $*\"; cat; echo END; }} > {home.dir}/mail.$$\ncat {home.dir}/mail.$$ >> {home.mails}\n")
    os.chmod(home.env["BERTH_SENDMAIL"], 0o755)
    try:
        home.start(*args)
        yield home, receiver
    finally:
        receiver.close()
        home.close()


def mails(home):
    try:
        with open(home.mails) as f:
            return [m for m in f.read().split("END\n") if m]
    except FileNotFoundError:
        return []


def add(home, name, do, **more):
    return home.api("POST", "/v1/hooks", dict(name=name, do=do, **more))


def hook(home, name):
    return next(h for h in home.api("GET", "/v1/hooks")["items"] if h["name"] == name)


def everything(directory):
    """All bytes of all files of the daemon that others may read or that are logs."""
    found = b""
    for root, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            if stat.S_ISREG(os.lstat(path).st_mode) and not name.startswith("berth.db"):
                with open(path, "rb") as f:
                    found += f.read()
    return found


def test_a_webhook_is_signed_and_repeated_until_it_is_accepted():
    with setting() as (home, receiver):
        receiver.answers += [(500, b""), (302, b"")]
        made = add(home, "ci", "webhook:" + receiver.url, on=["failure"], secret=SECRET + "\n")
        assert made["has_secret"] and "secret" not in made, made
        home.submit("true")
        bad = home.submit("sh", "-c", "exit 3", name="b<d")
        wait_for("the message", receiver.accepted)
        assert [g[0] for g in receiver.got] == [500, 302, 200], "a redirect is not followed"
        assert {g[1] for g in receiver.got} == {"/hook"}
        _, _, headers, message, body = receiver.got[-1]
        want = hmac.new(SECRET.encode(), headers["X-Berth-Timestamp"].encode() + b"." + body, hashlib.sha256)
        assert headers["X-Berth-Signature"] == "sha256=" + want.hexdigest()
        assert len({g[2]["X-Berth-Delivery"] for g in receiver.got}) == 1, "one id for all tries"
        assert message["event"] == "failure" and message["job"]["number"] == bad["number"]
        assert message["job"]["exit_code"] == 3 and "has failed" in message["text"]
        wait_for("the record", lambda: hook(home, "ci")["sent"] == 1)
        assert hook(home, "ci")["failed"] == 2 and hook(home, "ci")["last_error"] is None
        # A secret that was made is shown once; no listing, page or log has any.
        made = add(home, "two", "webhook:" + receiver.url)
        assert len(made["secret"]) == 48
        home.stop()
        shown = home.start().berth("hook", "ls", "-o", "json").stdout + home.berth("hook", "show", "two").stdout
        for secret in (SECRET, made["secret"]):
            assert secret not in shown and secret.encode() not in everything(home.dir)


def test_nothing_is_lost_when_the_daemon_is_killed_before_the_delivery():
    with setting() as (home, receiver):
        port = receiver.port
        receiver.close()
        job = home.submit("sh", "-c", "exit 1", notify=[f"end=webhook:http://127.0.0.1:{port}/x"])
        home.wait_all()
        name = f"webhook:http://127.0.0.1:{port}/x"
        wait_for("a failed try", lambda: hook(home, name)["failed"] > 0)
        assert hook(home, name)["last_error"] and hook(home, name)["pending"] == 1
        home.kill()
        late = Receiver(port)
        try:
            home.start()
            wait_for("the message", late.accepted)
            assert late.got[0][3]["job"]["number"] == job["number"]
            wait_for("the record", lambda: hook(home, name)["pending"] == 0)
            home.kill()
            home.start()
            other = home.submit("true", notify=[f"end={name}"])
            wait_for("the next message", lambda: late.got[-1][3]["job"]["number"] == other["number"])
            assert len({g[2]["X-Berth-Delivery"] for g in late.got}) == 2
        finally:
            late.close()


def test_a_batch_is_told_once_and_mail_names_the_job():
    with setting() as (home, receiver):
        home.berth("submit", "--array", "3", "--notify", "end=mail:me@example.org", "--name", "sweep", "--", "sh", "-c",
                   "exit $BERTH_INDEX")
        home.berth("submit", "--notify", "success=mail:ada", "--name", "x\u00e4y", "--", "true")
        wait_for("two mails", lambda: len(mails(home)) == 2)
        batch = next(m for m in mails(home) if "To: me@example.org" in m)
        single = next(m for m in mails(home) if "To: ada\n" in m)
        assert "Batch 1 (sweep) of project default has ended: 1 succeeded, 2 failed" in batch, batch
        assert single.startswith("ARGS -t -i\nTo: ada\nSubject: Job 4 (x??y) of project default"), single
        # A sendmail that fails is tried again, with its words in the list.
        open(os.path.join(home.dir, "broken"), "w").close()
        home.submit("true", notify=["end=mail:ada"])
        wait_for("the error", lambda: "the queue is full" in (hook(home, "mail:ada")["last_error"] or ""))
        os.unlink(os.path.join(home.dir, "broken"))
        wait_for("the mail", lambda: len(mails(home)) == 3)
        home.wait_all()
        assert len(mails(home)) == 3


def test_the_end_of_a_study_is_told_once():
    with setting() as (home, receiver):
        for bad, word in ((["--on", "start"], "success, failure and end"), (["--on", "waiting>2h"], "studies"),
                          (["--on", "end", "--filter", "name:x"], "filter")):
            p = home.berth("hook", "add", "bad", "mail:ada", "--scope", "study", *bad, check=False)
            assert p.returncode != 0 and word in p.stderr, p.stderr
        home.berth("hook", "add", "mail", "mail:ada", "--on", "success", "--scope", "study")
        home.berth("hook", "add", "web", f"webhook:{receiver.url}", "--on", "end", "--scope", "study")
        results = {"good": {"value": 0.5}, "bad": {"failed": True}}
        for name in results:
            home.api("POST", "/v1/studies", {"name": name, "space": {"x": [1, 2]}, "objective": {"minimize": "loss"}, "trials": 1})
            home.api("POST", f"/v1/studies/{name}/ask", {"n": 1})
        home.kill()
        home.start()
        for name, told in results.items():
            home.api("POST", f"/v1/studies/{name}/tell", {"trials": [{"number": 1, **told}]})
        wait_for("three messages", lambda: len(mails(home)) == 1 and len(receiver.accepted()) == 2)
        assert "Study good of " in mails(home)[0] and "has ended: 1 done; best loss 0.5 in trial 1" in mails(home)[0], mails(home)
        good, bad = (g[3] for g in receiver.accepted())
        assert (good["event"], good["scope"], good["study"]["best"], good["study"]["done"]) == ("success", "study", 1, 1), good
        assert (bad["event"], bad["study"]["best"], bad["study"]["failed"]) == ("failure", None, 1), bad
        wait_for("the record of them", lambda: (hook(home, "mail")["sent"], hook(home, "web")["sent"]) == (1, 2))
        home.kill()
        home.start()
        home.submit("true")
        home.wait_all()
        assert len(mails(home)) == 1 and len(receiver.accepted()) == 2


def test_a_run_without_a_daemon_sends_its_messages():
    with setting() as (home, receiver):
        home.stop()
        out = os.path.join(home.dir, "out")
        p = home.berth("run", "--notify", f"end=webhook:{receiver.url}", "--notify", f"end=command:echo done > {out}",
                       "--notify", "end=mail:ada", "--", "sh", "-c", "exit 4", check=False)
        assert p.returncode == 4 and len(receiver.got) == 1 and len(mails(home)) == 1, (p, receiver.got)
        wait_for("the command, which runs on", lambda: os.path.exists(out))
        # The daemon that the run may have left behind answers, or one that this command starts.
        wait_for("no pending message", lambda: all(h["pending"] == 0 for h in json.loads(home.berth("hook", "ls", "-o", "json").stdout)))


def test_a_command_is_a_job_that_fires_no_hooks():
    with setting() as (home, receiver):
        out = os.path.join(home.dir, "out")
        add(home, "log", f"command:echo $BERTH_HOOK_EVENT $BERTH_HOOK_JOB $BERTH_HOOK_EXIT_CODE >> {out}", on=["end"])
        job = home.submit("sh", "-c", "exit 7")
        wait_for("the command", lambda: os.path.exists(out) and open(out).read())
        home.wait_all()
        wait_for("no pending message", lambda: hook(home, "log")["pending"] == 0)
        assert open(out).read() == f"failure {job['number']} 7\n"
        assert [j["queue"] for j in home.jobs(sort="id")].count("hooks") == 1


def test_a_job_that_waits_too_long_is_told_with_the_reason():
    with setting("--slots", "1") as (home, receiver):
        home.submit("sleep", "1000")
        waits = home.submit("true", notify=[f"waiting>1s=webhook:{receiver.url}"])
        wait_for("the message", receiver.accepted)
        message = receiver.got[0][3]
        assert message["event"] == "waiting" and message["job"]["number"] == waits["number"]
        assert "is still waiting after" in message["text"] and "slot" in message["text"], message
        home.berth("cancel", "1")
        home.wait_all()
        assert len(receiver.got) == 1


def test_slack_gets_escaped_text_and_its_refusals_are_final():
    with setting() as (home, receiver):
        add(home, "team", "slack:#team", on="failure", secret=receiver.url + "/T/B/xyz")
        receiver.answers += [(200, b'{"ok": false, "error": "channel_not_found"}')]
        home.submit("false", name="<!channel>")
        wait_for("the refusal", lambda: "channel_not_found" in (hook(home, "team")["last_error"] or ""))
        home.submit("false", name="<!channel>")
        wait_for("the message", lambda: len(receiver.got) == 2)
        assert receiver.got[1][1] == "/hook/T/B/xyz" and receiver.got[1][3]["channel"] == "#team"
        assert "(&lt;!channel&gt;)" in receiver.got[1][3]["text"], receiver.got
        wait_for("the record", lambda: hook(home, "team")["sent"] == 1)


def test_the_command_line():
    with setting() as (home, receiver):
        secret = os.path.join(home.dir, "secret")
        with open(secret, "w") as f:
            f.write(SECRET + "\n")
        home.berth("hook", "add", "ci", "webhook:" + receiver.url, "--on", "end", "--on", "waiting>2h", "--filter",
                   "name:train", "--secret-file", secret)
        rows = json.loads(home.berth("hook", "ls", "-o", "json").stdout)
        assert [r["on"] for r in rows] == [["end", "waiting>2h"]], rows
        table = home.berth("hook").stdout
        assert "ci" in table and "name:train" in table and "end" in table and SECRET not in table, table
        assert home.berth("hook", "test", "ci").stdout == "sent\n"
        assert receiver.got[0][3]["event"] == "test" and "X-Berth-Signature" in receiver.got[0][2]
        receiver.answers += [(503, b"")]
        p = home.berth("hook", "test", "ci", check=False)
        assert p.returncode == 1 and "status 503" in p.stderr, p
        home.berth("hook", "pause", "ci")
        home.submit("true", name="train")
        home.wait_all()
        home.berth("hook", "resume", "ci")
        last = home.submit("true", name="train")
        home.submit("true", name="other")
        wait_for("the message", lambda: len(receiver.got) == 3)
        assert receiver.got[-1][3]["job"]["number"] == last["number"]
        home.wait_all()
        home.berth("hook", "rm", "ci")
        assert home.berth("hook", "show", "ci", check=False).returncode != 0
        for words, message in [(["add", "x", "pager:me"], "is no action"), (["add", "a b", "mail:me"], "name of a hook"),
                               (["add", "x", "mail:me", "--on", "over"], "is no event"), (["fly"], "the actions are")]:
            p = home.berth("hook", *words, check=False)
            assert p.returncode != 0 and message in p.stderr, (words, p)
        p = home.berth("submit", "--notify", "end=nobody", "--", "true", check=False)
        assert p.returncode != 0 and "there is no hook 'nobody'" in p.stderr, p
        assert len(receiver.got) == 3


if __name__ == "__main__":
    harness.main(__name__)
