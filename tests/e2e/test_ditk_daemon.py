"""ditk with the user's daemon: trials are jobs of the one queue, the search is a study, and both outlive a restart."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import PATIENCE_S, wait_for  # noqa: E402
from test_ditk import Project, callers, gone, join, search  # noqa: E402

from ditk.hpo import R, choice, hpo, quniform, randint, uniform  # noqa: E402
from ditk.scheduler import _shared, run_scheduler_local  # noqa: E402
from ditk.scheduler._errors import SchedulerEnded, SchedulerGone  # noqa: E402


class UsersDaemon(Project):
    """A project and a daemon that BERTH_HOME names."""

    def __init__(self, slots="4"):
        super().__init__()
        self.home, self.slots = harness.Home(), slots

    def __enter__(self):
        self.home.start("--slots", self.slots)
        os.environ["BERTH_HOME"] = self.home.home
        return super().__enter__()

    def __exit__(self, *exc):
        try:
            super().__exit__(*exc)
        finally:
            del os.environ["BERTH_HOME"]
            self.home.close()

    def trials(self, name="try"):
        return self.home.api("GET", "/v1/studies/%s/trials" % name)["items"]


def test_one_queue():
    """Jobs of everybody and trials in one list; the search with its values and jobs in `berth search`."""
    with UsersDaemon() as p:
        other = p.home.submit("true")["number"]
        scheduler = p.start()
        space = {"x": randint(1, 4), "policy": {"discount_factor": 10 ** uniform(-1, 0), "other": choice([[1], [2, 3]])},
                 "act": "if main_config['x'] == 3: sys.exit(3)"}
        cfg, ret, _ = search(scheduler, space).max_steps(8).max_retries(2).run()
        scheduler.stop(wait=True)
        assert (cfg["x"], ret["value"]) == (4, 160), (cfg, ret)
        jobs = {j["number"]: j for j in p.home.jobs()}
        assert jobs[other]["project"] == "default" and not os.path.exists("try/.berth/home")
        study = p.home.api("GET", "/v1/studies/try")
        assert (study["state"], study["engine"], study["objective"]) == ("finished", "grid", {"maximize": "target"}), study
        assert study["space"] == {"policy.discount_factor.draw": {"uniform": [-1, 0]}, "policy.other": {"choice": ["0: [1]", "1: [2, 3]"]},
                                  "x": {"int": [1, 4]}}, study
        trials = p.trials()
        assert study["trials"] == len(trials) == 6 and study["best"]["value"] == 160, study
        for t in trials:
            job, x = jobs[t["job"]], t["params"]["x"]
            assert job["project"] == "try" and job["params"]["x"] == x, job
            assert abs(job["params"]["policy.discount_factor"] - 10 ** t["params"]["policy.discount_factor.draw"]) < 1e-12, job
            assert (t["state"], t["value"]) == (("failed", None) if x == 3 else ("done", 40 * x)), t
            assert x != 3 or "'fail'" in t["reason"] and "exit code 3" in t["reason"], t
        assert len(jobs) == 1 + 4 + 2 * 2, jobs  # the failing sample twice each
        # A second search of the project is a study of its own; words of `berth search` work on both.
        again = p.start()
        assert search(again, {"x": quniform(0.5, 1.5, 0.5), "act": ""}).run()[1]["value"] == 60
        assert [t["params"] for t in p.trials("try-2")] == [{"x": 0.5}, {"x": 1.0}, {"x": 1.5}]
        assert search(again, {"x": 2}).run()[1]["value"] == 80
        assert [(t["params"], t["value"]) for t in p.trials("try-3")] == [({"sample": 1}, 80)]
        for words in (["ls"], ["best", "try"], ["importance", "try"], ["export", "try"], ["plot", "try"]):
            p.home.berth("search", *words)


def test_random_and_bayes_are_studies_too():
    with UsersDaemon() as p:
        scheduler = p.start(max_number_of_running_task=4)
        function = scheduler.get_hpo_callable()
        space = {"x": uniform(0, 9), "act": ""}
        for name, run in (("try", hpo(function).random(silent=True)), ("try-2", hpo(function).bayes(silent=True))):
            cfg, ret, _ = run.seed(3).max_steps(6).max_workers(3).minimize(R["value"], "loss").spaces(space).run()
            study = p.home.api("GET", "/v1/studies/" + name)
            assert study["state"] == "finished" and study["counts"]["done"] == 6, study
            assert study["best"]["params"] == {"x": cfg["x"]} and study["best"]["value"] == ret["value"], (study, cfg)
            assert study["objective"] == {"minimize": "loss"}, study


def test_the_running_limit_holds_beside_other_jobs():
    """A5: four slots, a limit of two; no third trial is in the queue, where others would wait behind it."""
    with UsersDaemon() as p:
        scheduler = p.start(max_number_of_running_task=2)
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(5)])
        wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
        assert len(p.home.jobs()) == 2 and scheduler.task_waiting_id == [2, 3, 4], p.home.jobs()
        other = p.home.submit("true")["number"]
        wait_for("the other job", lambda: p.home.api("GET", "/v1/jobs/%d" % other)["state"] == "succeeded")
        open("go", "w").close()
        join(threads)
        assert [outcomes[i]["value"] for i in range(5)] == [0, 40, 80, 120, 160], outcomes


def test_stop():
    """A6: what runs ends, what waits never starts, in the queue or before it; the daemon goes on."""
    with UsersDaemon(slots="1") as p:
        scheduler = p.start(max_number_of_running_task=2)
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(4)])
        wait_for("one that runs", lambda: os.path.exists("started-0"))
        scheduler.stop()
        join(threads[1:])
        assert all(isinstance(outcomes[i], SchedulerEnded) for i in (1, 2, 3)), outcomes
        assert scheduler.monitor_thread.is_alive()
        open("go", "w").close()
        join(threads)
        scheduler.monitor_thread.join(PATIENCE_S)
        assert not scheduler.monitor_thread.is_alive() and outcomes[0]["value"] == 0
        assert sorted(j["state"] for j in p.home.jobs()) == ["cancelled", "succeeded"]
        killed = p.start("killed", time_out=600)
        threads, outcomes = callers(killed, [{"x": 9, "act": "wait_for('never')"}])
        wait_for("its start", lambda: os.path.exists("started-9"))
        killed.stop(kill=True, wait=True)
        join(threads)
        assert isinstance(outcomes[0], Exception), outcomes
        with open("started-9") as f:
            assert gone(int(f.read()))


def test_a_time_out():
    """A4"""
    with UsersDaemon() as p:
        threads, outcomes = callers(p.start(time_out=1), [{"act": "wait_for('never')"}])
        join(threads)
        assert "'time out'" in str(outcomes[0]), outcomes


def test_the_daemon_is_killed_and_comes_back():
    """Trials are jobs: they go on without the daemon, and the callers get their results."""
    with UsersDaemon() as p:
        scheduler = p.start(max_number_of_running_task=2)
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(3)])
        wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
        p.home.kill()
        open("go", "w").close()
        wait_for("their results", lambda: all(os.path.exists("try-%d/result.pkl" % t) for t in (0, 1)))
        p.home.start("--slots", "4")
        join(threads)
        assert [outcomes[i]["value"] for i in range(3)] == [0, 40, 80], outcomes


def test_the_daemon_is_killed_and_stays_away():
    """A11: all callers are told when the daemon was waited for in vain."""
    with UsersDaemon() as p:
        saved, _shared.PATIENCE_S = _shared.PATIENCE_S, 0.5
        try:
            scheduler = p.start(max_number_of_running_task=2)
            threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(4)])
            wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
            p.home.kill()
            join(threads)
        finally:
            _shared.PATIENCE_S = saved
        assert all(isinstance(o, SchedulerGone) for o in outcomes.values()), outcomes
        assert p.home.home in str(outcomes[0]), outcomes
        p.home.start("--slots", "4")
        try:  # the trials of before run, in the same directories
            p.start()
            raise AssertionError("it shares directories with a trial that runs")
        except RuntimeError as e:
            assert "still run" in str(e) and "try-0" in str(e), e
        open("go", "w").close()
        p.home.wait_all()
        assert search(p.start(), {"x": 1, "act": ""}).run()[1]["value"] == 40


def test_which_daemon():
    """Inside a job, with shared=False and for a daemon elsewhere the scheduler has its own; BERTH_HOME starts one."""
    with UsersDaemon() as p:
        for name, value in (("BERTH_JOB_ID", "01h8xv5q3r000000000000abcd"), ("BERTH_URL", "http://127.0.0.1:1")):
            os.environ[name] = value
            try:
                scheduler = p.start("own-" + name)
                assert scheduler.pid and search(scheduler, {"x": 1}).run()[1]["value"] == 40
                try:
                    run_scheduler_local("config.py", "must", shared=True)
                    raise AssertionError("nothing was said")
                except RuntimeError as e:
                    assert "berth serve" in str(e), e
            finally:
                del os.environ[name]
        assert p.start("own", shared=False).pid and p.home.jobs() == []
        p.home.kill()
        assert search(p.start("started", shared=True), {"x": 2}).run()[1]["value"] == 80
        assert [j["project"] for j in p.home.jobs()] == ["started"]
        p.home.berth("stop")


if __name__ == "__main__":
    harness.main(__name__)
