"""DI-toolkit: the users' example, what a thousand trials of nothing cost, and how soon callers hear.

The original makes one pass every 3 s: 26 s for the five trials with one that fails.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from rig import Daemon

PROGRAM = """\
import os, pickle, sys, time
main_config = dict(exp_name="", x=0, sleep=0.0, fail=0)
if __name__ == "__main__":
    time.sleep(main_config["sleep"])
    if main_config["fail"] == main_config["x"] and not os.path.exists("failed"):
        open("failed", "w").close()
        sys.exit(3)
    with open(os.path.join(main_config["exp_name"], "result.pkl"), "wb") as f:
        pickle.dump({"value": main_config["x"]}, f)
"""
BAR_FIVE_S, BAR_FIVE_TWO_S, BAR_HEAR_S, BAR_STOP_S = 3.5, 5.0, 1.0, 1.0


def run(rig, table):
    os.environ["BERTH_PROGRAM"] = rig.berth
    before = os.getcwd()
    os.makedirs(os.path.join(rig.tmp, "ditk"))
    os.chdir(os.path.join(rig.tmp, "ditk"))
    try:
        with open("config.py", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        five(rig, table)
        five_of_a_user(rig, table)
        many(rig, table)
        ends(table)
    finally:
        os.chdir(before)


def scheduler(name, slots, **options):
    from ditk.scheduler import run_scheduler_local

    return run_scheduler_local("config.py", name, max_number_of_running_task=slots, **{"shared": False, **options})


def search(s, space, workers):
    from ditk.hpo import R, hpo

    return hpo(s.get_hpo_callable()).grid(silent=True).max_workers(workers).maximize(R["value"]).spaces(space).run()


def five(rig, table):
    """Five samples of a program that takes 1 s, one of them failing once, from nothing to the end."""
    from ditk.hpo import randint

    for slots, bar in ((4, BAR_FIVE_S), (2, BAR_FIVE_TWO_S)):
        best = None
        for i in range(rig.repeats):
            if os.path.exists("failed"):
                os.unlink("failed")
            began = time.monotonic()
            s = scheduler("five-%d-%d" % (slots, i), slots)
            space = {"x": randint(1, 5), "sleep": 1.0}
            assert search(s, dict(space, fail=1 if slots == 4 else -1), 4)[1] == {"value": 5}
            s.stop(wait=True)
            took = time.monotonic() - began
            best = took if best is None else min(best, took)
        table.at_most("five trials of 1 s, %d at once%s" % (slots, ", one fails" if slots == 4 else ""), best, bar,
                      "%.2f s", "original 26 s" if slots == 4 else "original 37 s")


def five_of_a_user(rig, table):
    """The same four at once as jobs of a daemon that runs, with the search as its study."""
    from ditk.hpo import randint

    daemon, best = Daemon(rig, "user", "--slots", "4"), None
    os.environ["BERTH_HOME"] = daemon.home
    try:
        for i in range(rig.repeats):
            if os.path.exists("failed"):
                os.unlink("failed")
            began = time.monotonic()
            s = scheduler("user-%d" % i, 4, shared=True)
            assert search(s, {"x": randint(1, 5), "sleep": 1.0, "fail": 1}, 4)[1] == {"value": 5}
            s.stop(wait=True)
            took = time.monotonic() - began
            best = took if best is None else min(best, took)
    finally:
        del os.environ["BERTH_HOME"]
        daemon.close()
    table.at_most("the same as jobs of the user's daemon", best, BAR_FIVE_S, "%.2f s")


def many(rig, table):
    """A thousand trials of nothing, eight at once, as a share of starting the same processes by hand."""
    from ditk.hpo import randint

    count = rig.n(1000, 40)
    s = scheduler("many", 8)
    began = time.monotonic()
    search(s, {"x": randint(1, count), "fail": -1}, 16)
    took = time.monotonic() - began
    assert len(s.task_success_id) == count
    s.stop(wait=True)
    # The same two processes per trial, the program and the reader of its result, and nothing else.
    began = time.monotonic()
    lock, left = threading.Lock(), [count]

    def work():
        while True:
            with lock:
                left[0] -= 1
                if left[0] < 0:
                    return
            subprocess.run([sys.executable, "many/0.py"], check=True)
            subprocess.run([sys.executable, "-I", "-S", "-c", "import json, pickle, resource, struct"], check=True)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bare = time.monotonic() - began
    table.row("%d trials of nothing, 8 at once" % count, "%.1f s" % took, "bare processes %.1f s" % bare,
              "%.2f" % (took / bare), "<= 2", took / bare <= 2)


def ends(table):
    """From the death of the scheduling process, and from stop(), to the last caller."""
    for what, bar in (("killed", BAR_HEAR_S), ("stopped", BAR_STOP_S)):
        s = scheduler(what, 2)
        function, heard = s.get_hpo_callable(), []

        def call():
            try:
                function({"sleep": 2.0, "fail": -1})
            except Exception:
                heard.append(time.monotonic())

        threads = [threading.Thread(target=call) for _ in range(4)]
        for t in threads:
            t.start()
        while len(s.task_running_id) < 2 or len(s.task_list) < 4:
            time.sleep(0.01)
        began = time.monotonic()
        if what == "killed":
            os.kill(s.pid, signal.SIGKILL)
        else:
            s.stop(kill=True)
        s.monitor_thread.join()
        for t in threads:
            t.join()
        table.at_most("scheduling process %s: the last of four callers knows" % what, max(heard) - began, bar, "%.3f s")
