"""Histories of concurrent clients under faults, held to a sequential model of the job table.

Clients submit, cancel, hold, release, retry, remove and read jobs while the daemon and the shepherd are
killed, commits are slow or fail, and connections are cut (clients.py).  What was acknowledged must be there,
reads never go back, a run has one outcome, events have no gaps, and what nobody knows of happened once or
not at all (checker.py, model.py).  The last tests show that mistakes are found.
"""

import concurrent.futures
import copy
import os
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")]

import checker  # noqa: E402
import clients  # noqa: E402
import harness  # noqa: E402
from model import Job, Op  # noqa: E402

HISTORIES = 200
os.environ.setdefault("BERTH_SHEPHERD", harness.find_program("berth-shepherd"))  # looked for once


def record(seed, **env):
    """(complaints, operations, faults)."""
    run = clients.Run(seed, **env)
    wrong = run.record()
    h = run.history
    return wrong, sum(map(len, h.ops.values())) + len(h.lists) + len(h.pages), len(run.plan.faults)


def test_histories_can_be_explained():
    ops, faults, bad = 0, 0, []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count() + 1) as pool:
        for seed, (wrong, n, f) in enumerate(pool.map(record, range(HISTORIES))):
            bad += [f"seed {seed}: {w}" for w in wrong]
            ops, faults = ops + n, faults + f
    print(f"# {HISTORIES} histories, {ops} operations, {faults} faults", flush=True)
    assert not bad, "\n".join(bad[:10])


def test_an_early_answer_is_found():
    """A daemon that answers before the commit: somebody asks at once, or it is killed, and the answer was wrong."""
    for seed in range(HISTORIES):
        wrong, _, _ = record(seed, BERTH_FAULT_ANSWER_EARLY="3", BERTH_FAULT_COMMIT_MS="10")
        if wrong:
            print(f"# found in history {seed + 1}: {wrong[0].splitlines()[0]}", flush=True)
            return
    raise AssertionError("nobody noticed answers that came before their commits")


# ---- the checker, on histories that are wrong ----

MS = 1_000_000


def event(seq, job, kind, **data):
    return {"seq": seq, "kind": "job." + kind, "job": job, "last": job, "data": data}


def small():
    """A true history of one job: submitted, read, ended, retried, ended."""
    log = [event(1, 1, "queued"), event(2, 1, "starting", run=1), event(3, 1, "running", run=1), event(4, 1, "failed", run=1, exit_code=3),
           event(5, 1, "queued"), event(6, 1, "starting", run=2), event(7, 1, "running", run=2), event(8, 1, "failed", run=2, exit_code=3)]
    ops = [Op("a", "submit", 0, 2 * MS, "done"), Op("b", "get", 3 * MS, 4 * MS, Job("running", 1, None)),
           Op("a", "get", 5 * MS, 6 * MS, Job("failed", 1, 3)), Op("b", "retry", 7 * MS, 8 * MS, "done"),
           Op("a", "get", 9 * MS, 10 * MS, Job("failed", 2, 3)), Op("a", "cancel", 11 * MS, None)]
    return checker.History(plans={"j": 3}, numbers={"j": 1}, ops={"j": ops}, lists=[("a", 12 * MS, 13 * MS, {"j": Job("failed", 2, 3)})],
                           pages=[("a", 14 * MS, 15 * MS, log)], streams=[list(log)],
                           runs=[(5 * MS, 6 * MS, "j", {1: ("exited", 3)}), (5 * MS, 7 * MS, "j", {1: ("running", None)}),  # asked at the same time
                                 (9 * MS, 10 * MS, "j", {1: ("exited", 3), 2: ("exited", 3)})],
                           marks=["1.1", "1.2"])


def lost_ack(h):
    h.lists[0] = ("a", 12 * MS, 13 * MS, {})


def state_goes_back(h):
    h.ops["j"][2] = Op("a", "get", 5 * MS, 6 * MS, Job("queued", 0, None))


def attempt_goes_back(h):
    h.ops["j"][4] = Op("a", "get", 9 * MS, 10 * MS, Job("failed", 1, 3))


def another_client_reads_the_past(h):
    h.ops["j"].append(Op("c", "get", 9 * MS, 10 * MS, Job("running", 1, None)))


def retry_of_a_running_job(h):
    h.ops["j"].append(Op("c", "retry", 3 * MS, 4 * MS, "done"))


def refused_cancel_happened(h):
    h.lists[0] = ("a", 12 * MS, 13 * MS, {"j": Job("stopping", 2, None)})


def two_outcomes(h):
    h.runs.append((10 * MS, 11 * MS, "j", {1: ("supervisor_killed", None), 2: ("exited", 3)}))


def an_ended_run_runs(h):
    h.runs.append((8 * MS, 9 * MS, "j", {1: ("running", None)}))


def two_ends_in_the_log(h):
    h.pages[0][3][3:4] = [event(4, 1, "failed", run=1, exit_code=3), event(5, 1, "failed", run=1, exit_code=3)]
    for i, e in enumerate(h.pages[0][3]):
        e["seq"] = i + 1
    h.streams = []


def wrong_exit_code(h):
    h.runs.append((10 * MS, 11 * MS, "j", {2: ("exited", 0)}))


def executed_twice(h):
    h.marks.append("1.2")


def never_executed(h):
    h.marks.remove("1.2")


def gap_in_the_log(h):
    del h.streams[0][4]


def two_logs(h):
    h.streams[0][3] = event(4, 1, "succeeded", run=1)


def the_end_is_missing_in_the_log(h):
    del h.pages[0][3][7:]


def test_the_checker_finds_mistakes():
    assert not checker.check(small()), checker.check(small())
    for wrong in (lost_ack, state_goes_back, attempt_goes_back, another_client_reads_the_past, retry_of_a_running_job, refused_cancel_happened,
                  two_outcomes, an_ended_run_runs, two_ends_in_the_log, wrong_exit_code, executed_twice, never_executed, gap_in_the_log, two_logs,
                  the_end_is_missing_in_the_log):
        h = small()
        wrong(h)
        assert checker.check(h), wrong.__name__


def test_a_mutated_history_is_found():
    """A recorded history without its acknowledged jobs, with reads of the past, and with a second outcome."""
    run = clients.Run(1)
    assert not run.record()
    true = run.history
    name = next(n for n, ops in true.ops.items() if n in true.lists[-1][3] and all(o.end for o in ops))  # nothing is unknown
    last = max(o.end or o.begin for ops in true.ops.values() for o in ops) + 1
    for value in (404, Job("queued", 0, None)):
        h = copy.deepcopy(true)
        h.ops[name].append(Op("mutant", "get", last, last + 1, value))
        assert checker.check(h), value
    h = copy.deepcopy(true)
    who, runs = next((who, runs) for _, _, who, runs in reversed(h.runs) if runs)
    h.runs.append((last, last + 1, who, {number: ("node_lost", None) for number in runs}))
    assert checker.check(h)


def test_plans_follow_from_the_seed():
    for seed in range(20):
        a, b = clients.Plan(seed), clients.Plan(seed)
        assert vars(a) == vars(b)
    assert clients.Plan(1).clients != clients.Plan(2).clients


if __name__ == "__main__":
    harness.main(__name__)
