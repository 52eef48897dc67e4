"""Scheduled jobs of Atlas: made, fired once for every moment, paused, changed, removed; what Slack hears; servers that join.

Schedules of seconds stand for those of minutes, and recorded schedules are moved into the past.
"""
import datetime
import http.server
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from atlas_rig import ROOT, Atlas, free_ports, wait_for  # noqa: E402

NOTE = ("import os\nwith open(os.environ['OUT'], 'a') as f: f.write(os.environ['FOUNDATIONS_JOB_ID'] + '\\n')\n"
        "print('ran', open('data.txt').read())\nopen('made', 'w').write('x')\n")
EVERY = {"second": "*"}
FAR = "0 0 29 2 *"


def schedule(a, when=FAR, project="p", files=None, upload=True, job=None, **body):
    """Sends a bundle and schedules it; the id."""
    job = job or str(uuid.uuid4())
    if upload:
        a.upload(job, files or {"main.py": NOTE, "data.txt": "seven"})
    definition = {"job_id": job, "spec": {"command": ["main.py"], "environment": {"OUT": os.path.join(a.dir, "out")}},
                  "metadata": {"project_name": project, "username": "ada"}, "gpu_spec": {}, "schedule": when}
    definition.update(body)
    answer = a.http("POST", "/scheduled_jobs", {k: v for k, v in definition.items() if v is not ...})
    assert a.status == 201 and json.loads(answer) == job, answer
    return job


def entry(a, job):
    got = a.get(f"/scheduled_jobs/{job}")
    assert list(got) == [job]
    return got[job]


def runs(a, job):
    """Ids of all its runs, in the order of their moments."""
    found = [v["job_id"] for v in a.get("/queued_jobs").values()]  # in this order none slips from list to list unseen
    found += [k for path in ("/running_jobs", "/completed_jobs", "/failed_jobs") for k in a.get(path)]
    return sorted({k for k in found if k.startswith(job + "_")})


def ran(a):
    try:
        with open(os.path.join(a.dir, "out")) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def ran_once(a, run):
    return ran(a).count(run) == 1


def trees(a):
    return a.path("job_bundle_store_dir", "contents", "trees")


def kept(a):
    """The bundles of scheduled jobs."""
    return [t for t in os.listdir(trees(a)) if t.startswith("schedule-")]


def log(a):
    with open(a.path("logs", "atlas-server.log"), errors="replace") as f:
        return f.read()


def test_a_schedule_and_its_runs():
    with Atlas(TZ="CET-1CEST,M3.5.0,M10.5.0/3") as a:
        job = schedule(a, EVERY, project="iris")
        assert entry(a, job)["status"] == "active"
        wait_for("two runs", lambda: len(a.get("/completed_jobs")) >= 2)
        a.http("PUT", f"/scheduled_jobs/{job}", {"status": "paused"})
        assert a.status == 204
        assert entry(a, job) == {"next_run_time": [None] * 3, "schedule": EVERY, "status": "paused", "properties": {
            "job_id": job, "spec": {"command": ["main.py"], "environment": {"OUT": os.path.join(a.dir, "out")}},
            "metadata": {"project_name": "iris", "username": "ada"}, "gpu_spec": {}, "schedule": EVERY}}
        all_of_it = runs(a, job)
        for run in all_of_it:
            # An ordinary job under the local time of its moment: record, log, archive, listing.
            when = datetime.datetime.strptime(re.fullmatch(job + r"_(\d{8}_\d{6})", run)[1], "%Y%m%d_%H%M%S")
            when = when.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=summer_offset(when))))
            end = a.wait(run)
            assert end["status"] == "completed" and end["logs"].endswith("ran seven\n"), end
            assert 0 <= end["queued_time"] - when.timestamp() < 60, (run, end["queued_time"])
            assert a.read(run, "artifacts", "data.txt") == "seven" and a.read(run, "artifacts", "made") == "x"
            assert a.http("GET", f"/archive/{run}/artifacts/made") == b"x"
            assert a.http("GET", f"/job_bundle/{run}")
        assert sorted(ran(a)) == all_of_it
        p = subprocess.run([os.path.join(a.bin, "foundations"), "get", "logs", "scheduler", all_of_it[0]], env=a.env,
                           capture_output=True, text=True, timeout=120)
        assert p.returncode == 0 and p.stdout.endswith("ran seven\n"), p.stdout + p.stderr
        listed = {j["job_id"] for j in a.get("/api/v2beta/projects/iris/job_listing")["jobs"]}
        assert listed == set(all_of_it)
        # Paused is paused; and a run can be deleted like any other.
        time.sleep(1.5)
        assert runs(a, job) == all_of_it
        a.http("DELETE", f"/completed_jobs/{all_of_it[0]}")
        assert not os.path.exists(a.archive(all_of_it[0])) and os.path.exists(a.archive(all_of_it[1]))
        # Active again: nothing of the pause is made up for.
        a.http("PUT", f"/scheduled_jobs/{job}", {"status": "active"})
        wait_for("another run", lambda: len(runs(a, job)) >= len(all_of_it))
        a.http("DELETE", f"/scheduled_jobs/{job}")
        assert a.status == 204 and a.get("/scheduled_jobs") == {}
        left = runs(a, job)
        for run in left:  # also those that waited in the queue when it went
            assert a.wait(run)["status"] == "completed"
        assert runs(a, job) == left and kept(a) == []
        assert f"bundle-{job}" not in os.listdir(trees(a))


def summer_offset(when):
    """Hours east of UTC in the zone of the test; the hours around a change are not looked at."""
    def last_sunday(month):
        day = datetime.datetime(when.year, month, 31)
        return day - datetime.timedelta(days=(day.weekday() + 1) % 7)
    return 2 if last_sunday(3) <= when < last_sunday(10) else 1


def test_times_and_lists():
    with Atlas(TZ="UTC") as a:
        now = time.time()
        job = schedule(a, "30 6 * * mon-fri", project="iris")
        times = entry(a, job)["next_run_time"]
        assert all(t > now and time.gmtime(t).tm_wday < 5 and time.gmtime(t)[3:6] == (6, 30, 0) for t in times), times
        assert times == sorted(set(times)) and len(times) == 3
        a.http("PATCH", f"/scheduled_jobs/{job}", {"schedule": {"day": "last", "hour": 23}})
        assert a.status == 204
        assert all((time.gmtime(t + 3600).tm_mday, time.gmtime(t).tm_hour) == (1, 23)
                   for t in entry(a, job)["next_run_time"])
        # Without a schedule it waits for one, and may do without metadata.
        idle = schedule(a, {}, metadata=..., gpu_spec=...)
        assert entry(a, idle)["status"] == "paused" and entry(a, idle)["next_run_time"] == [None] * 3
        assert "PATCH" in a.refused(400, "PUT", f"/scheduled_jobs/{idle}", {"status": "active"})
        a.http("PATCH", f"/scheduled_jobs/{idle}", {"schedule": "@daily"})
        assert entry(a, idle)["status"] == "active"
        assert set(a.get("/scheduled_jobs")) == {job, idle}
        assert set(a.get("/scheduled_jobs?project=iris")) == {job} and a.get("/scheduled_jobs?project=x") == {}
        assert set(a.get("/scheduled_jobs?project=default")) == {idle}
        # All of it is there after a crash.
        before = a.get("/scheduled_jobs")
        a.kill()
        a.start()
        assert a.get("/scheduled_jobs") == before


def test_the_eleventh_and_hostile_bodies():
    with Atlas() as a:
        jobs = [schedule(a) for _ in range(9)]
        good = {"job_id": str(uuid.uuid4()), "spec": {"command": ["main.py"]}, "metadata": {}, "gpu_spec": {},
                "schedule": FAR}
        assert "no bundle" in a.refused(409, "POST", "/scheduled_jobs", good)
        a.upload(good["job_id"], {"main.py": ""})
        for change in ({"job_id": "../../etc/passwd"}, {"job_id": "a/b"}, {"job_id": "x" * 5000}, {"job_id": 7},
                       {"job_id": jobs[0] + "_20260101_000000"}, {"job_id": None},
                       {"spec": []}, {"spec": None}, {"metadata": 3}, {"gpu_spec": "x"}, {"gpu_spec": {"num_gpus": -1}},
                       {"spec": {"command": {"a": 1}}}, {"spec": {"command": ["x"], "environment": 5}},
                       {"schedule": 5}, {"schedule": []}, {"schedule": "61 * * * *"}, {"schedule": "0 0 30 2 *"},
                       {"schedule": {"minute": "x" * 100000}}, {"schedule": {"minute": {"a": []}}},
                       {"schedule": {"jitter": 5, "hour": 1}}, {"spec": {"command": ["x"], "pad": "y" * 200000}}):
            text = a.refused(400, "POST", "/scheduled_jobs", {**good, **change})
            assert text.count("\n") <= 1 and len(text) < 600, text
        for body in (b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe"):
            a.refused(400, "POST", "/scheduled_jobs", body)
        assert "minute '61' is outside of 0 to 59" in a.refused(400, "POST", "/scheduled_jobs",
                                                                {**good, "schedule": "61 * * * *"})
        assert sorted(t[9:45] for t in kept(a)) == sorted(jobs), "what was refused leaves no bundle behind"
        a.refused(409, "POST", "/scheduled_jobs", {**good, "job_id": jobs[0]})
        schedule(a, upload=False, job=good["job_id"])
        text = a.refused(400, "POST", "/scheduled_jobs", {**good, "job_id": str(uuid.uuid4())})
        assert "10" in text and "delete one" in text, text
        for path in (str(uuid.uuid4()), "..", "x" * 3000):
            for method, body in (("GET", None), ("PUT", {"status": "paused"}), ("PATCH", {"schedule": FAR}),
                                 ("DELETE", None)):
                a.refused(404, method, f"/scheduled_jobs/{path}", body)
        one = f"/scheduled_jobs/{jobs[0]}"
        for body in ({}, {"status": "on"}, {"status": 1}, [], "x"):
            a.refused(400, "PUT", one, body)
        for body in ({}, {"schedule": {}}, {"schedule": None}, {"schedule": "x"}, []):
            a.refused(400, "PATCH", one, body)
        a.refused(405, "POST", one, {})
        assert entry(a, jobs[0])["status"] == "active" and len(a.get("/scheduled_jobs")) == 10
        # What happens to a bundle or a job of the same id is nothing to the schedule.
        a.upload(jobs[0], {"main.py": "raise SystemExit(9)\n"})
        a.http("DELETE", f"/job_bundle/{jobs[0]}")
        a.http("PATCH", one, {"schedule": EVERY})
        first = wait_for("a run", lambda: runs(a, jobs[0]))[0]
        a.http("DELETE", one)
        assert a.wait(first)["status"] == "completed"


def test_crashes_around_firings():
    # With fault points the server sleeps between the job and the note that it was made, so that it is killed there.
    with Atlas(workers=4, BERTH_FAULT_FIRED_MS="400") as a:
        job = schedule(a, EVERY)
        for n in range(4):
            wait_for("a run", lambda: len(runs(a, job)) > n)
            a.kill()
            a.start()
        a.http("DELETE", f"/scheduled_jobs/{job}")
        all_of_it = runs(a, job)
        for run in all_of_it:
            assert a.wait(run)["status"] == "completed"
        assert sorted(ran(a)) == all_of_it, "every moment ran once"
        assert kept(a) == []
        a.stop()
        a.start()  # a copy of a bundle whose run was never submitted is gone by now
        assert sorted(t[7:] for t in os.listdir(trees(a)) if t.startswith(f"bundle-{job}_")) == all_of_it


def settle(a, job, moment):
    """The schedule was last looked at so long ago; the server must not run."""
    with sqlite3.connect(a.path("database", "berth.db")) as db:
        assert db.execute("UPDATE schedule SET settled_s = ? WHERE name = ?", (moment, job)).rowcount == 1
    db.close()


def test_what_was_missed_does_not_pile_up():
    with Atlas(TZ="UTC") as a:
        def at(t):
            return {"hour": time.gmtime(t).tm_hour, "minute": time.gmtime(t).tm_min, "second": time.gmtime(t).tm_sec}
        now = time.time()
        long_ago = schedule(a, at(now - 1200))
        recent = schedule(a, at(now - 5))
        often = schedule(a, {"second": "*/20"})
        a.stop()
        for job in (long_ago, recent, often):
            settle(a, job, int(now) - 7200)
        # What a crash left of one that was being made.
        half = f"schedule-{uuid.uuid4()}-00000000"
        os.link(os.path.join(trees(a), [t for t in kept(a) if often in t][0]), os.path.join(trees(a), half))
        a.start()
        first = wait_for("the late run", lambda: runs(a, recent))
        assert first == [recent + time.strftime("_%Y%m%d_%H%M%S", time.gmtime(now - 5))]
        wait_for("the last of many", lambda: runs(a, often))
        a.http("PUT", f"/scheduled_jobs/{often}", {"status": "paused"})
        assert 1 <= len(runs(a, often)) <= 3, runs(a, often)  # the last one, and those that came since
        assert runs(a, long_ago) == [] and len(a.get("/scheduled_jobs")) == 3

        def skipped():
            return [line for line in log(a).splitlines() if long_ago in line and "missed and is skipped" in line]
        assert len(wait_for("the line in the log", skipped)) == 1
        assert half not in kept(a) and len(kept(a)) == 3
        a.kill()
        a.start()
        time.sleep(1)
        assert runs(a, recent) == first and runs(a, long_ago) == []


def test_definitions_of_earlier_versions():
    """Files became schedules of the store: each is imported once, with its bundle, owner, status and last moment."""
    with Atlas(TZ="UTC") as a:
        fires, sleeps = schedule(a, EVERY), schedule(a, FAR, project="iris")
        a.http("PUT", f"/scheduled_jobs/{fires}", {"status": "paused"})
        expected = a.get("/scheduled_jobs")
        definitions = {job: v["properties"] for job, v in expected.items()}
        a.stop()
        # The home as an earlier version left it.
        with sqlite3.connect(a.path("database", "berth.db")) as db:
            db.execute("DELETE FROM schedule")
        db.close()
        for tree in kept(a):
            os.rename(os.path.join(trees(a), tree), os.path.join(trees(a), tree[:45]))
        folder = a.path("scheduled_jobs")
        os.makedirs(folder, exist_ok=True)
        owner = {"uid": os.getuid(), "gid": os.getgid(), "user": "ada", "admin": True}
        for job, status in ((fires, "paused"), (sleeps, "active")):
            with open(os.path.join(folder, f"{job}.json"), "w") as f:
                json.dump({**definitions[job], "status": status, "done": int(time.time()) - 10, "owner": owner}, f)
        broken, half = f"{uuid.uuid4()}.json", str(uuid.uuid4())
        with open(os.path.join(folder, broken), "w") as f:
            f.write("{}")
        with open(os.path.join(folder, f"{half}.mark"), "w"):
            pass
        os.link(os.path.join(trees(a), f"schedule-{fires}"), os.path.join(trees(a), f"schedule-{half}"))
        a.start()
        assert a.get("/scheduled_jobs") == expected
        wait_for("the files to go", lambda: os.listdir(folder) == [broken])
        assert "a scheduled job is ignored" in log(a) and sorted(kept(a)) == sorted([f"schedule-{fires}", f"schedule-{sleeps}"])
        a.http("PUT", f"/scheduled_jobs/{fires}", {"status": "active"})
        first = wait_for("a run", lambda: runs(a, fires))[0]
        assert a.wait(first)["status"] == "completed" and a.read(first, "artifacts", "data.txt") == "seven"
        a.http("DELETE", f"/scheduled_jobs/{fires}")
        # A crash between the import and the removal of the file: the schedule counts, as it is now.
        a.http("PATCH", f"/scheduled_jobs/{sleeps}", {"schedule": "0 0 28 2 *"})
        with open(os.path.join(folder, f"{sleeps}.json"), "w") as f:
            json.dump({**definitions[sleeps], "status": "active", "done": 1, "owner": owner}, f)
        a.kill()
        a.start()
        wait_for("the file to go again", lambda: os.listdir(folder) == [broken])
        assert {job: v["schedule"] for job, v in a.get("/scheduled_jobs").items()} == {sleeps: "0 0 28 2 *"}


def test_other_doors_see_them():
    with Atlas(TZ="UTC") as a:
        job = schedule(a, "30 6 * * mon-fri")
        conn = harness.UnixHTTP(a.path("database", "sock"))

        def ask(method, path):
            conn.request(method, "/v1/schedules" + path)
            reply = conn.getresponse()
            return reply.status, json.loads(reply.read() or "null")
        status, one = ask("GET", f"/{job}")
        assert status == 200 and one["dialect"] == "atlas" and one["overlap"] == "queue" and len(one["next"]) == 5
        assert ask("POST", f"/{job}/pause")[0] == 200 and entry(a, job)["status"] == "paused"
        status, ran = ask("POST", f"/{job}/run")
        assert status == 201 and ran["count"] == 1
        run = wait_for("its run", lambda: runs(a, job))[0]
        assert a.wait(run)["status"] == "completed" and ran_once(a, run)
        assert ask("DELETE", f"/{job}")[0] == 204 and a.get("/scheduled_jobs") == {}
        a.stop()
        a.start()
        assert kept(a) == [], "the bundle is gone at the latest with the next start"


class Slack:
    """A server that takes chat.postMessage; `answers` are (status, headers, body) of the next calls."""

    def __init__(self):
        self.said, self.answers, self.tokens, self.slow = [], [], set(), 0
        self.hold, self.open = threading.Lock(), 0  # calls that are not answered yet
        slack = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with slack.hold:
                    slack.open += 1
                try:
                    self.answer(body)
                except (BrokenPipeError, ConnectionResetError):  # it was killed
                    pass
                finally:
                    with slack.hold:
                        slack.open -= 1

            def answer(self, body):
                time.sleep(slack.slow)
                status, headers, reply = slack.answers.pop(0) if slack.answers else (200, {}, {"ok": True})
                if self.path == "/api/chat.postMessage" and status == 200 and reply.get("ok"):
                    slack.tokens.add(self.headers["Authorization"])
                    slack.said.append((body["channel"], body["text"]))
                data = json.dumps(reply).encode()
                self.send_response(status)
                for k, v in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.env = {"FOUNDATIONS_SLACK_TOKEN": TOKEN,
                    "FOUNDATIONS_SLACK_URL": f"http://127.0.0.1:{self.server.server_port}/api"}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, job):
        """How the messages about a job end, in order."""
        return [re.sub(r" after .*|:.*", "", text.split(", ", 2)[2]) for _, text in self.said if f"`{job}`" in text]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


TOKEN = "xoxb-not-for-any-log"
WHOLE = ["is queued", "is running", "has completed"]


def everything(path):
    """All bytes of all files below a directory."""
    out = b""
    for root, _, files in os.walk(path):
        for name in files:
            try:
                with open(os.path.join(root, name), "rb") as f:
                    out += f.read()
            except OSError:
                pass
    return out


def test_slack_hears_of_jobs():
    slack = Slack()
    try:
        with Atlas(workers=4, **slack.env) as a:
            silent = a.submit({"main.py": ""})  # nobody said in which channel
            a.wait(silent)
            with open(a.path("config", "submission", "scheduler.config.yaml"), "a") as f:
                f.write("job_notification_channel: spamity\n")
            good = a.submit({"main.py": "import os\nprint(sorted(os.environ))\n"}, project="a<b>&c")
            assert "SLACK" not in a.wait(good)["logs"]
            wait_for("three messages", lambda: slack.of(good) == WHOLE)
            assert slack.said[0] == ("spamity", f"Job `{good}` of project `a&lt;b&gt;&amp;c`, submitted by ada, is queued")
            assert slack.tokens == {"Bearer " + TOKEN} and slack.of(silent) == []
            # The channel of the job's own config wins; a busy Slack is tried again, what it refuses by name is dropped.
            slack.answers += [(429, {"Retry-After": "1"}, {"ok": False}), (200, {}, {"ok": True}),
                              (200, {}, {"ok": False, "error": "channel_not_found"})]
            bad = str(uuid.uuid4())
            a.upload(bad, {"main.py": "raise SystemExit(3)\n"})
            a.http("POST", "/queued_jobs", {"job_id": bad, "spec": {"command": ["main.py"]}, "gpu_spec": {}, "metadata": {
                "project_name": "p", "username": "ada", "job_notification_channel": "#own"}})
            assert a.wait(bad)["status"] == "failed"
            wait_for("what is left", lambda: slack.of(bad) == ["is queued", "has failed"])
            assert slack.said[-1][0] == "#own" and "Slack refuses the message: channel_not_found" in log(a)
            # A dead Slack delays nothing, and what it missed while the server was away is told; only the message that was
            # on its way when the server was killed is sent again.
            slack.slow = 3
            begun = time.monotonic()
            late = a.submit({"main.py": ""})
            assert a.wait(late)["status"] == "completed"
            assert time.monotonic() - begun < 30
            a.kill()
            slack.slow = 0
            wait_for("the end of the call it had begun", lambda: slack.open == 0)
            a.start()
            wait_for("the rest", lambda: slack.of(late)[-1:] == WHOLE[-1:])
            assert list(dict.fromkeys(slack.of(late))) == WHOLE and len(slack.of(late)) <= len(WHOLE) + 1, slack.said
            count = len(slack.said)
            a.stop()
            a.start()
            last = a.submit({"main.py": ""})
            wait_for("the last job", lambda: slack.of(last) == WHOLE)
            assert len(slack.said) == count + 3, "nothing is said twice"
            # The command line sends the channel of its config along.
            source = os.path.join(a.dir, "source")
            os.mkdir(source)
            with open(os.path.join(source, "main.py"), "w"):
                pass
            p = subprocess.run([os.path.join(a.bin, "foundations"), "submit", "--stream-job-logs", "False", "scheduler",
                                source, "main.py"], env={**a.env, "BERTH_PYTHON": os.path.join(ROOT, "python")},
                               capture_output=True, text=True, timeout=120)
            assert p.returncode == 0, p.stdout + p.stderr
            sent = re.search(r"ID '(.*)'", p.stdout)[1]
            assert a.job(sent)["metadata"]["job_notification_channel"] == "spamity"
            wait_for("the job of the command line", lambda: slack.of(sent) == WHOLE)
            # Without a token nothing is said, and nothing remembered.
            a.stop()
            a.env.pop("FOUNDATIONS_SLACK_TOKEN")
            a.start()
            quiet = a.submit({"main.py": ""})
            assert a.wait(quiet)["status"] == "completed"
            a.stop()
            a.env["FOUNDATIONS_SLACK_TOKEN"] = TOKEN
            a.start()
            told = a.submit({"main.py": ""})
            wait_for("the job after it", lambda: slack.of(told) == WHOLE)
            assert slack.of(quiet) == []
            assert TOKEN.encode() not in everything(a.dir), "the token is in no file and no log"
    finally:
        slack.close()


def test_a_server_that_joins_another():
    with Atlas() as a:
        port = str(a.ports[0])
        with Atlas(REDIS_HOST="localhost", REDIS_PORT=port, SCHEDULER_HOST_URL="http://x") as b:
            assert f"Joined the Atlas Server at localhost:{port}" in b.text(), b.text()
            job = b.submit({"main.py": "print('there')\n"}, project="shared")
            assert b.wait(job)["status"] == "completed"
            assert a.job(job) == b.job(job) and os.path.exists(a.archive(job)) and not os.path.exists(b.archive(job))
            for n in (0, 1, 2, 4):
                assert b.get("/api/v2beta/projects", n)[0]["name"] == "shared"
            assert b.http("GET", f"/jobs/{job}/logs?follow=1").endswith(b"there\n")
            if os.geteuid() == 0:  # nobody's requests are not carried on as ours
                p = subprocess.run([sys.executable, "-c", "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=120)",
                                    b.url("/queued_jobs")], capture_output=True, text=True, timeout=120, user=65534)
                assert p.returncode != 0 and "HTTP Error" not in p.stderr, p.stderr
            # Its socket says where to ask; stop ends it alone.
            conn = harness.UnixHTTP(b.path("database", "sock"))
            conn.request("GET", "/v1/jobs")
            reply = conn.getresponse()
            assert reply.status == 503 and f"localhost:{port}".encode() in reply.read()
            conn.close()
            p = subprocess.run([os.path.join(b.bin, "atlas-server"), "stop"], env=b.env, capture_output=True, text=True,
                               timeout=120)
            assert p.returncode == 0 and "stopped" in p.stdout, p.stdout + p.stderr
            assert b.server.wait(120) == 0 and a.job(job)["status"] == "completed"
        # What is no such server is said, and nothing runs instead.
        for env, word in (({"REDIS_PORT": str(free_ports(1)[0])}, "unset REDIS_HOST"), ({"REDIS_PORT": "x"}, "not a port"),
                          ({"REDIS_HOST": "no.such.host.invalid"}, "not the address")):
            c = Atlas(**{"REDIS_HOST": "127.0.0.1", **env})
            try:
                p = subprocess.run([os.path.join(c.bin, "atlas-server"), "start"], env=c.env, capture_output=True,
                                   text=True, timeout=120)
                assert p.returncode == 1 and word in p.stdout and "REDIS" in p.stdout, p.stdout
            finally:
                c.close()


if __name__ == "__main__":
    harness.main(__name__)
