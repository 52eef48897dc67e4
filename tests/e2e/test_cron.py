"""berth cron with the real daemon: added, listed, submitted on time and once, paused, replaced, removed.

The command takes cron's five fields, whose smallest step is a minute.  So the stories change the times to every second
through the API, which also knows APScheduler's named fields.
"""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import wait_for  # noqa: E402

EVERY = {"second": "*"}


class Home(harness.Home):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def say(self, *words):
        """What a command prints."""
        return self.berth(*words).stdout

    def refused(self, *words):
        """Why a command fails."""
        p = self.berth(*words, check=False)
        assert p.returncode != 0, p.stdout
        return p.stderr


def every_second(home, name, **more):
    """Changes the schedule to one of every second, with what it had."""
    was = home.api("GET", f"/v1/schedules/{name}")
    body = {"cron": EVERY, "job": was["job"], "overlap": "queue", **more}
    home.api("PUT", f"/v1/schedules/{name}", body)


def jobs(home, name):
    """The jobs of a schedule, oldest first."""
    return home.api("GET", f"/v1/jobs?filter=cron:{name}&limit=1000&sort=id")["items"]


def moments(path):
    try:
        with open(path) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def test_the_life_of_a_schedule():
    with Home() as home:
        home.start("--slots", "4")
        out = os.path.join(home.dir, "out")
        home.say("cron", "add", "tick", "0 4 * * *", "--timezone", "CET-1CEST,M3.5.0,M10.5.0/3", "--env", "GREETING=hello",
                   "--cwd", home.dir, "--", "sh", "-c", 'echo "$GREETING" >> out')
        one = json.loads(home.say("cron", "show", "tick", "-o", "json"))
        assert one["cron"] == "0 4 * * *" and len(one["next"]) == 5 and one["job"]["name"] == "tick", one
        table = home.say("cron")
        assert "SCHEDULE" in table and "0 4 * * *" in table and "sh -c" in table, table
        assert [s["name"] for s in json.loads(home.say("cron", "ls", "-o", "json"))] == ["tick"]
        assert home.say("cron", "next", "tick").count("\n") == 5
        assert json.loads(home.say("cron", "next", "tick", "-o", "json")) == one["next"]
        page = home.say("cron", "show", "tick")
        assert "schedule tick  active" in page and "overlap     skip" in page and home.dir in page, page
        # By hand, with the environment and directory of its definition.
        ran = home.say("cron", "run", "tick").strip()
        home.say("wait", ran)
        assert moments(out) == ["hello"]
        assert "schedule    tick" in home.say("show", ran)
        # By the clock.
        every_second(home, "tick")
        wait_for("two more jobs", lambda: len(jobs(home, "tick")) >= 3)
        home.say("cron", "pause", "tick")
        assert "paused" in home.say("cron", "show", "tick")
        count = len(jobs(home, "tick"))
        time.sleep(1.5)
        assert len(jobs(home, "tick")) == count, "paused is paused"
        home.say("cron", "resume", "tick")
        wait_for("another job", lambda: len(jobs(home, "tick")) > count)
        home.say("cron", "rm", "tick")
        assert json.loads(home.say("cron", "ls", "-o", "json")) == []
        assert len(jobs(home, "tick")) > count, "its jobs stay"
        for bad, word in ((("cron", "add", "x", "61 * * * *", "--", "true"), "minute"), (("cron", "show", "tick"), "no schedule"),
                          (("cron", "add", "x", "* * * * *"), "command"), (("cron", "frobnicate", "x"), "actions"),
                          (("cron", "add", "x", "@daily", "--timezone", "Mars/Base", "--", "true"), "Mars/Base")):
            assert word in home.refused(*bad), bad


def test_each_time_runs_once_around_kills():
    # With fault points the worker sleeps when the submission is made and not yet taken, so that the daemon dies there.
    with Home(BERTH_FAULT_FIRED_MS="300") as home:
        home.start("--slots", "8")
        out = os.path.join(home.dir, "out")
        home.say("cron", "add", "tick", "0 4 * * *", "--cwd", home.dir, "--", "sh", "-c", "echo $BERTH_JOB_NUMBER >> out")
        every_second(home, "tick", catch_up="all")
        began = int(time.time()) + 1
        for n in (1, 3, 5):
            wait_for("a job", lambda: len(jobs(home, "tick")) >= n)
            home.kill()
            if n == 5:
                del home.env["BERTH_FAULT_FIRED_MS"]
            home.start("--slots", "8")
        wait_for("what was missed", lambda: len(jobs(home, "tick")) >= int(time.time()) - began)
        home.say("cron", "pause", "tick")
        ended = int(time.time())
        made = jobs(home, "tick")
        for job in made:
            home.say("wait", str(job["number"]))
        # Every second has one job, but for those at the two ends of the story.
        assert ended - began - 2 <= len(made) <= ended - began + 2, (len(made), ended - began)
        assert sorted(map(int, moments(out))) == [j["number"] for j in made], "every job ran once"


def test_overlap():
    with Home() as home:
        home.start("--slots", "4")
        for rule in ("skip", "replace"):
            home.say("cron", "add", rule, "0 4 * * *", "--overlap", rule, "--grace", "1s", "--", "sleep", "600")
            every_second(home, rule, overlap=rule)
        wait_for("the skipped time", lambda: "has not ended" in (home.api("GET", "/v1/schedules/skip")["trouble"] or ""))
        assert len(jobs(home, "skip")) == 1
        assert "was skipped" in home.say("cron", "show", "skip")
        replaced = wait_for("replaced jobs", lambda: [j for j in jobs(home, "replace") if j["state"] == "cancelled"])
        home.say("cron", "pause", "skip", "replace")
        last = home.api("GET", "/v1/schedules/replace")["last_job"]
        assert last > replaced[-1]["number"]
        wait_for("one left", lambda: [j["number"] for j in jobs(home, "replace") if j["state"] != "cancelled"] == [last])
        home.say("cancel", "--all", "--yes")


def test_a_daemon_in_the_background_stays_for_its_schedules():
    with Home() as home:
        home.start("--auto", "--idle", "300ms")
        home.say("cron", "add", "far", "0 0 29 2 *", "--", "true")
        home.disconnect()
        time.sleep(1.5)
        assert home.daemon.poll() is None
        home.say("cron", "rm", "far")
        home.disconnect()
        assert home.daemon.wait(60) == 0


def test_a_daemon_takes_over_from_berth_run():
    """`berth run` serves the home while no daemon does; the schedules of the home need one afterwards."""
    with Home() as home:
        home.say("cron", "add", "far", "0 0 29 2 *", "--", "true")  # starts a daemon in the background
        for pid, (name, _) in home.processes().items():
            if "berth-full" in name:
                os.kill(pid, signal.SIGKILL)
        assert home.say("run", "--", "echo", "here") == "here\n"

        def answered():
            try:
                return home.api("GET", "/v1/schedules/far")
            except OSError:
                return None
        assert wait_for("a daemon", answered)["name"] == "far"
        home.say("cron", "rm", "far")


if __name__ == "__main__":
    harness.main(__name__)
