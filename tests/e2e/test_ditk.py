"""ditk.scheduler with a real scheduling process: trials are jobs, from the sample to the result."""
import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import harness
from harness import PATIENCE_S, Skip, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
EXAMPLES = os.path.abspath(os.path.join(HERE, "..", "..", "examples", "ditk"))
sys.path.insert(0, PACKAGE)
os.environ["BERTH_PROGRAM"] = harness.BERTH
os.environ.pop("BERTH_HOME", None)
os.environ["XDG_DATA_HOME"] = os.path.join(HERE, "nobody")  # no daemon of a user; test_ditk_daemon.py has one

from ditk.hpo import R, hpo, randint, uniform  # noqa: E402
from ditk.scheduler import run_scheduler, run_scheduler_local  # noqa: E402
from ditk.scheduler._errors import SchedulerEnded, SchedulerGone  # noqa: E402

# What a trial does is in the sample: run, then write a result.
TEMPLATE = '''\
import json, os, pickle, sys, time

main_config = dict(exp_name="plain", policy=dict(discount_factor=0.9, other=[1, 2]), act="", x=0)


def wait_for(name):
    with open("started-%s" % main_config["x"], "w") as f:
        f.write(str(os.getpid()))
    while not os.path.exists(name):
        time.sleep(0.01)


def save(value, name="result.pkl", folder=None):
    folder = folder or main_config["exp_name"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(value if isinstance(value, bytes) else pickle.dumps(value))


if __name__ == "__main__":
    exec(main_config["act"])
    print("out", main_config["x"])
    print("err", main_config["x"], file=sys.stderr)
    save({"value": 40 * main_config["x"], "config": main_config})
'''


class Project:
    """A directory with a template; the current one meanwhile.  Schedulers that are left are ended."""

    def __init__(self):
        self.schedulers = []

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="ditk-e2e-")
        self.before = os.getcwd()
        os.chdir(self.dir)
        with open("config.py", "w") as f:
            f.write(TEMPLATE)
        return self

    def start(self, name="try", **options):
        scheduler = run_scheduler_local("config.py", name, **options)
        self.schedulers.append(scheduler)
        return scheduler

    def __exit__(self, *exc):
        try:
            open("go", "w").close()
            for s in self.schedulers:
                s.stop(kill=True, wait=True)
        finally:
            os.chdir(self.before)
            shutil.rmtree(self.dir, ignore_errors=True)


def search(scheduler, space, workers=4):
    run = hpo(scheduler.get_hpo_callable()).grid(silent=True).max_workers(workers).spaces(space)
    return run.maximize(R["value"])


def callers(scheduler, samples):
    """Threads that run one sample each, in order; (threads, outcome by place)."""
    function, outcomes, threads = scheduler.get_hpo_callable(), {}, []

    def call(i, sample):
        try:
            outcomes[i] = function(sample, i + 1)
        except Exception as e:
            outcomes[i] = e

    had = len(scheduler.task_defined_id)
    for i, sample in enumerate(samples):
        thread = threading.Thread(target=call, args=(i, sample), daemon=True)
        thread.start()
        threads.append(thread)
        wait_for("a task", lambda i=i: len(scheduler.task_defined_id) > had + i or i in outcomes)
    return threads, outcomes


def join(threads):
    for t in threads:
        t.join(PATIENCE_S)
        assert not t.is_alive(), "a caller still waits"


def gone(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_the_documents_example():
    """A1: the users' own program, as their document has it."""
    with Project():
        run = subprocess.run([sys.executable, os.path.join(EXAMPLES, "local.py")], timeout=600, text=True,
                             env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True)
        assert run.returncode == 0, run.stderr
        cfg, ret = [eval(line) for line in run.stdout.splitlines()]
        assert cfg["policy"]["discount_factor"] in (0.95, 0.9624999999999999, 0.975, 0.9875, 1.0), cfg
        assert ret["eval_value"] == 200.0 and ret["stop"] is True, ret
        lines = set()  # workers start side by side, so task 0 need not be the first sample
        for t in range(5):
            files = set(os.listdir("cartpole_dqn_hpo-%d" % t))
            assert files == {"log.txt", "stdout.txt", "result.pkl"}, files
            with open("cartpole_dqn_hpo/%d.py" % t) as f:
                lines |= {line for line in f.read().splitlines() if line.startswith("main_config[")}
        gammas = (0.95, 0.9624999999999999, 0.975, 0.9875, 1.0)
        expected = {'main_config["policy"]["discount_factor"] = %r' % gamma for gamma in gammas}
        assert lines == expected | {'main_config["exp_name"] = "cartpole_dqn_hpo-%d"' % t for t in range(5)}, lines
        for words in ("task_defined  | [0, 1, 2, 3, 4]", "task_abnormal | []", "+===============+", "5th sample",
                      "Rank list (5 of 5 records)", "has started as process", "asked to stop",
                      "scheduling process has ended", "watcher thread has ended"):
            assert words in run.stderr, (words, run.stderr)


def test_the_program_sees_the_sample():
    """T0: the sampled value at its path, every other field unchanged."""
    with Project() as p:
        cfg, ret, metrics = search(
            p.start(), {"policy": {"discount_factor": uniform(0.95, 1)}, "x": 5}, workers=1).max_steps(3).run()
        assert ret["config"] == {"exp_name": "try-0", "policy": {"discount_factor": 0.95, "other": [1, 2]}, "act": "", "x": 5}, ret
        assert cfg["policy"] == {"discount_factor": 0.95} and metrics["time"] > 0, (cfg, metrics)
        assert len(cfg["DI-toolkit-scheduler-hpo-id"]) == 8, cfg


def test_an_unknown_path_is_said_before_anything_starts():
    with Project() as p:
        scheduler = p.start()
        try:
            search(scheduler, {"polcy": {"discount_factor": uniform(0.95, 1)}}).max_steps(5).run()
            raise AssertionError("nothing was said")
        except ValueError as e:
            assert '"polcy"' in str(e) and "policy" in str(e), e
        assert scheduler.task_defined_id == [] and not os.path.exists("try-0")


def test_the_target_is_a_field_of_the_result():
    """T2"""
    with Project() as p:
        scheduler = p.start()
        _, ret, _ = search(scheduler, {"x": randint(3, 5)}).run()
        assert ret["value"] == 200, ret
        try:
            hpo(scheduler.get_hpo_callable()).grid(silent=True).spaces({"x": 1}).maximize(R["val"]).run()
            raise AssertionError("nothing was raised")
        except KeyError as e:
            assert e.args == ("val",), e


def test_a_trial_that_fails_is_tried_three_times():
    """A2: exits 3 without a result, three times; the best comes from the others."""
    with Project() as p:
        scheduler = p.start()
        space = {"x": randint(1, 4), "act": "if main_config['x'] == 4: print('broken', file=sys.stderr); sys.exit(3)"}
        with_logs = []
        handler = logging.Handler()
        handler.emit = lambda record: with_logs.append(record.getMessage())
        logging.getLogger("ditk.hpo").addHandler(handler)
        try:
            run = hpo(scheduler.get_hpo_callable()).grid().max_workers(2).spaces(space)
            cfg, ret, _ = run.maximize(R["value"]).run()
        finally:
            logging.getLogger("ditk.hpo").removeHandler(handler)
        assert (cfg["x"], ret["value"]) == (3, 120), (cfg, ret)
        assert len(scheduler.task_defined_id) == 6 and len(scheduler.task_success_id) == 3
        assert sorted(scheduler.task_finished_id) == list(range(6))
        bad = [t for t in scheduler.task_list if t.task_id in scheduler.task_abnormal_id]
        assert [(t.hpo_id, t.status, t.exit_code) for t in bad] == [(4, "fail", 3)] * 3
        warning = next(m for m in with_logs if "(3/3)" in m)
        assert "'fail'" in warning and "exit code 3" in warning and bad[2].log in warning and "broken" in warning, warning


def test_nothing_succeeds():
    """A3"""
    with Project() as p:
        scheduler = p.start()
        assert search(scheduler, {"x": randint(1, 2), "act": "sys.exit(1)"}).max_retries(1).run() is None
        scheduler.stop()
        scheduler.monitor_thread.join(PATIENCE_S)
        assert not scheduler.monitor_thread.is_alive() and gone(scheduler.pid)


def test_a_time_out_ends_the_whole_tree():
    """A4: the trial and what it started are gone, and the status says why."""
    with Project() as p:
        scheduler = p.start(time_out=1)
        act = ("import subprocess\nsubprocess.Popen(['sh', '-c', 'echo $$ > child; exec sleep 600'])\n"
               "signal = __import__('signal')\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwait_for('never')")
        (thread,), outcome = callers(scheduler, [{"act": act}])
        join([thread])
        task = scheduler.task_list[0]
        assert isinstance(outcome[0], ValueError) and "'time out'" in str(outcome[0]), outcome
        assert (task.status, scheduler.task_abnormal_id) == ("time out", [0])
        with open("started-0") as f:
            pids = [int(f.read())]
        with open("child") as f:
            pids.append(int(f.read()))
        wait_for("the end of all its processes", lambda: all(map(gone, pids)))


def test_the_running_limit_holds():
    """A5: four in flight, two run, the others wait; and the table says so."""
    with Project() as p:
        scheduler = p.start(max_number_of_running_task=2)
        lines = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())
        logger = logging.getLogger("ditk.scheduler")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            act = "wait_for('go'); open('ended-%d' % main_config['x'], 'w').close()"
            threads, outcomes = callers(scheduler, [{"x": i, "act": act} for i in range(4)])
            wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
            shown = "| task_running  | [0, 1]       |\n+---------------+--------------+\n| task_waiting  | [2, 3]       |"
            wait_for("the table", lambda: any(shown in line for line in lines))
            assert not os.path.exists("started-2") and not os.path.exists("started-3")
            open("go", "w").close()
            join(threads)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        assert sorted(outcomes[i]["value"] for i in range(4)) == [0, 40, 80, 120], outcomes
        running = [line.split("task_running")[1].split("|")[1] for line in lines if "task_running" in line]
        assert max(len(eval(r)) for r in running) == 2, running


def test_stop_lets_running_trials_end():
    """A6"""
    with Project() as p:
        scheduler = p.start(max_number_of_running_task=2)
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(5)])
        wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
        scheduler.stop()
        scheduler.stop()
        join(threads[2:])
        assert all(isinstance(outcomes[i], SchedulerEnded) for i in (2, 3, 4)), outcomes
        assert scheduler.monitor_thread.is_alive()
        open("go", "w").close()
        join(threads)
        scheduler.monitor_thread.join(PATIENCE_S)
        assert not scheduler.monitor_thread.is_alive()
        assert [outcomes[i]["value"] for i in (0, 1)] == [0, 40]
        assert not any(os.path.exists("started-%d" % i) for i in (2, 3, 4))
        assert search(scheduler, {"x": randint(1, 1000)}).run() is None  # ends at once, no thousand refusals


def test_stop_can_kill_and_wait():
    with Project() as p:
        scheduler = p.start()
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('never')"} for i in range(3)])
        wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
        scheduler.stop(kill=True, wait=True)
        join(threads)
        assert gone(scheduler.pid) and all(isinstance(o, Exception) for o in outcomes.values()), outcomes


def test_a_result_that_would_run_a_command():
    """A7"""
    with Project() as p:
        scheduler = p.start()
        act = ("class Evil:\n    def __reduce__(self): return os.system, ('touch owned',)\n"
               "save(Evil()); os._exit(0)")
        threads, outcomes = callers(scheduler, [{"act": act}])
        join(threads)
        assert "unsafe result" in str(outcomes[0]) and "posix.system" in str(outcomes[0]), outcomes
        assert not os.path.exists("owned") and scheduler.task_abnormal_id == [0]


def test_broken_results_hurt_one_trial_only():
    with Project() as p:
        scheduler = p.start(max_number_of_running_task=4)
        acts = ["save(b'garbage'); os._exit(0)", "save({'v': 1}); open(main_config['exp_name'] + '/results.txt', 'w')"
                ".write('{\"status\": \"diverged\"}'); os._exit(0)", "save({'v': 2}); os._exit(7)",
                "save(json.dumps({'v': 3}).encode(), 'result.json'); os._exit(0)",
                "save({'v': 4}, folder=main_config['exp_name'] + '/hpo'); os._exit(0)"]
        threads, outcomes = callers(scheduler, [{"act": act} for act in acts])
        join(threads)
        assert "no complete pickle" in str(outcomes[0]) and "'diverged'" in str(outcomes[1]), outcomes
        assert [outcomes[i] for i in (2, 3, 4)] == [{"v": 2}, {"v": 3}, {"v": 4}], outcomes
        strict = p.start("strict", strict=True)
        threads, outcomes = callers(strict, [{"act": acts[2]}])
        join(threads)
        assert isinstance(outcomes[0], ValueError) and "exit code 7" in str(outcomes[0]), outcomes


def test_results_of_other_trials_do_not_count():
    """A result that was there before, in the trial's directory or in one that the user named, is not taken."""
    with Project() as p:
        for folder in ("try-0", "mine"):
            os.makedirs(folder)
            with open(folder + "/result.pkl", "wb") as f:
                pickle.dump({"value": "old"}, f)
        scheduler = p.start()
        for sample, expected in (({"act": "sys.exit(0)", "exp_name": "mine"}, "without a result"),
                                 ({"exp_name": "mine", "x": 2}, "'value': 80")):
            threads, outcomes = callers(scheduler, [sample])
            join(threads)
            assert expected in str(outcomes[0]), outcomes


def test_output_is_in_the_trials_directory():
    with Project() as p:
        search(p.start("a {name} b"), {"x": 7}).run()
        with open("a {name} b-0/log.txt") as err, open("a {name} b-0/stdout.txt") as out:
            assert (err.read(), out.read()) == ("err 7\n", "out 7\n")


def test_later_names():
    with Project() as p:
        scheduler = p.start(naming="late")
        cfg, _, _ = search(scheduler, {"x": randint(1, 2), "act": "if main_config['x'] == 2 and not os.path.exists('once'):"
                                       " open('once', 'w').close(); sys.exit(1)"}, workers=1).run()
        assert cfg["DI-toolkit-hpo-id"] == 2 and len(cfg["DI-toolkit-scheduler-hpo-id"]) == 8, cfg
        names = sorted(n for n in os.listdir("try") if not n.startswith("."))
        assert names == ["hpo-id-1-task-0.py", "hpo-id-2-task-1.py", "hpo-id-2-task-2.py", "once",
                         "try-hpo-id-1-task-0", "try-hpo-id-2-task-1", "try-hpo-id-2-task-2"], names


def test_the_scheduling_process_is_killed():
    """A11: four callers wait; all are told, and the search ends with the error."""
    with Project() as p:
        scheduler = p.start(max_number_of_running_task=2)
        threads, outcomes = callers(scheduler, [{"x": i, "act": "wait_for('go')"} for i in range(4)])
        wait_for("two that run", lambda: os.path.exists("started-0") and os.path.exists("started-1"))
        os.kill(scheduler.pid, signal.SIGKILL)
        join(threads)
        assert all(isinstance(o, SchedulerGone) for o in outcomes.values()), outcomes
        try:
            search(scheduler, {"x": 1}).run()
            raise AssertionError("nothing was raised")
        except SchedulerGone:
            pass
        with open("started-0") as f0, open("started-1") as f1:
            pids = [int(f0.read()), int(f1.read())]
        open("go", "w").close()
        wait_for("the end of the trials", lambda: all(map(gone, pids)))


def test_many_short_trials():
    """A12, in small: every sample once, whatever the table prints.  tests/bench/trials.py has a thousand."""
    with Project() as p:
        with open("config.py", "w") as f:
            f.write("import os, pickle\nmain_config = dict(exp_name='', x=0)\nif __name__ == '__main__':\n"
                    "    pickle.dump({'value': main_config['x']}, open(main_config['exp_name'] + '/result.pkl', 'wb'))\n")
        scheduler = p.start(max_number_of_running_task=8)
        _, ret, _ = search(scheduler, {"x": randint(1, 60)}, workers=12).run()
        assert ret == {"value": 60} and sorted(scheduler.task_success_id) == list(range(60))
        assert sorted(r["return"]["value"] for r in scheduler.task_reports) == list(range(1, 61))


def test_several_schedulers_and_a_name_in_use():
    with Project() as p:
        one, two, named = p.start("one"), p.start("two"), run_scheduler("config.py")
        p.schedulers.append(named)
        assert named.layout.project.startswith("dijob-project-") and len(named.layout.project) == 22
        assert [search(s, {"x": i}).run()[1]["value"] for i, s in enumerate((one, two, named))] == [0, 40, 80]
        try:
            p.start("one")
            raise AssertionError("two schedulers share their directories")
        except RuntimeError as e:
            assert "another scheduler" in str(e), e
        one.stop(wait=True)
        assert search(p.start("one"), {"x": 3}).run()[1]["value"] == 120


def test_the_largest_number_of_tasks():
    with Project() as p:
        scheduler = p.start(max_number_of_tasks=3)
        cfg, ret, _ = search(scheduler, {"x": randint(1, 50)}, workers=1).run()
        assert ret["value"] == 120, ret  # the best of the three
        scheduler.monitor_thread.join(PATIENCE_S)
        assert not scheduler.monitor_thread.is_alive() and len(scheduler.task_list) == 3


def test_leaving_without_stop():
    """The interpreter does not hang, the running trial goes on, the waiting one never starts."""
    with Project():
        code = ("import threading\nfrom ditk.scheduler import run_scheduler_local\n"
                "s = run_scheduler_local('config.py', 'left', max_number_of_running_task=1)\nf = s.get_hpo_callable()\n"
                "for i in range(2):\n"
                "    threading.Thread(target=f, args=({'x': i, 'act': \"wait_for('go')\"},), daemon=True).start()\n"
                "    while len(s.task_list) <= i or not (s.task_running_id): pass\n"
                "import os\nwhile not os.path.exists('started-0'): pass\nprint(s.pid)\n")
        run = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, env=dict(os.environ, PYTHONPATH=PACKAGE),
                             capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        try:
            run_scheduler_local("config.py", "left")
            raise AssertionError("it shares directories with a trial that runs")
        except RuntimeError as e:
            assert "still run" in str(e) and "left-0" in str(e), e
        open("go", "w").close()
        wait_for("the result", lambda: os.path.exists("left-0/result.pkl"))
        wait_for("the end of the scheduling process", lambda: gone(int(run.stdout)))
        assert not os.path.exists("started-1")


def genuine():
    """A Python with the original LightTuner 0.0.1, named by DITK_GENUINE (script/test makes none)."""
    python = os.environ.get("DITK_GENUINE")
    if not python:
        raise Skip("DITK_GENUINE names no Python with lighttuner 0.0.1 installed")
    return python


def both_ways(code):
    with Project():
        with open("config.py", "w") as f:
            f.write(TEMPLATE)
        env = dict(os.environ, BERTH_PACKAGE=PACKAGE)
        run = subprocess.run([genuine(), "-c", code], timeout=600, env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout.splitlines()[-1])


def test_the_originals_search_drives_our_scheduler():
    code = """
import json, os, sys
from lighttuner.hpo import hpo, R, uniform
sys.path.insert(0, os.environ["BERTH_PACKAGE"])
for name in [n for n in sys.modules if n.split(".")[0] == "ditk"]:
    del sys.modules[name]
from ditk.scheduler import run_scheduler_local
import lighttuner
assert "site-packages" in lighttuner.__file__
scheduler = run_scheduler_local("config.py", "try")
opt = hpo(scheduler.get_hpo_callable())
cfg, ret, metrics = opt.grid().max_steps(3).max_workers(2).maximize(R["value"]).spaces({"x": uniform(1, 3)}).run()
scheduler.stop(wait=True)
print(json.dumps([cfg["x"], ret["value"], scheduler.task_success_id]))
"""
    x, value, done = both_ways(code)
    assert (x, value, sorted(done)) == (3, 120, [0, 1, 2]), (x, value, done)


def test_our_search_drives_the_originals_scheduler():
    code = """
import json, os, sys
import lighttuner.scheduler
sys.path.insert(0, os.environ["BERTH_PACKAGE"])
for name in [n for n in sys.modules if n.split(".")[0] == "ditk"]:
    del sys.modules[name]
from ditk.hpo import hpo, R, choice
if __name__ == "__main__":
    scheduler = lighttuner.scheduler.run_scheduler_local("config.py", "try", max_number_of_running_task=2)
    opt = hpo(scheduler.get_hpo_callable())
    cfg, ret, metrics = opt.grid().max_workers(2).maximize(R["value"]).spaces({"x": choice([1, 2])}).run()
    scheduler.stop()
    print(json.dumps([cfg["x"], ret["value"]]))
"""
    assert both_ways(code) == [2, 80]


if __name__ == "__main__":
    harness.main(__name__)
