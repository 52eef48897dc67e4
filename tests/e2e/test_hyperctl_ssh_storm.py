"""hyperctl, many jobs on two machines, one of which keeps losing its server."""
import os
import time

import harness
from hyper_rig import job
from test_hyperctl_ssh import Far, far_file

JOBS, RESTARTS = int(os.environ.get("HYPERCTL_TEST_FAR_JOBS", "1000")), 5


def test_a_server_that_is_killed_and_restarted():
    """Every job has exactly one outcome, every output is complete, what succeeded ran once."""
    with Far() as at:
        a, b = at.host("a"), at.host("b")
        log = os.path.join(at.dir, "ran")
        command = f"echo $HYPERCTL_JOB_NAME >> {log}; seq 1 500; seq 1 50 >&2; [ ${{HYPERCTL_JOB_NAME%7}} = $HYPERCTL_JOB_NAME ]"
        config = at.far_batch("storm", [job(f"j{i}", command) for i in range(JOBS)],
                              *[at.machine(h) for h in (a, b) for _ in range(2)])
        p = at.start(config, "--fail-exit")
        at.wait_for("storm", "j0.succeed", timeout=120)
        for i in range(RESTARTS):
            done = len(at.ended("storm"))
            a.cut()
            a.stop()
            a.cut()
            time.sleep(0.2)
            a.start()
            end = time.monotonic() + 60
            while p.poll() is None and len(at.ended("storm")) < min(done + JOBS // 10, JOBS) and time.monotonic() < end:
                time.sleep(0.05)
        out, _ = p.communicate(timeout=600)
        assert p.returncode == 1, (p.returncode, out[-3000:])
        want = {f"j{i}": "failed" if str(i).endswith("7") else "succeed" for i in range(JOBS)}
        assert at.ended("storm") == want, {n: (at.ended("storm").get(n), w) for n, w in want.items() if at.ended("storm").get(n) != w}
        assert not [f for f in os.listdir(at.path("storm")) if f.endswith(".running")]
        with open(log) as f:
            ran = sorted(f.read().split())
        assert ran == sorted(want), [n for n in set(ran) | set(want) if ran.count(n) != 1]
        out, err = ("".join(f"{i}\n" for i in range(1, n + 1)) for n in (500, 50))
        wrong = [n for n in want if at.read("storm", n, "stdout") != out or at.read("storm", n, "stderr") != err]
        assert not wrong, (len(wrong), wrong[:10])
        on = {h: sum(1 for n in want if os.path.isdir(os.path.join(h.home, "hyperctl-batches-data-dir", "storm", n))) for h in (a, b)}
        assert on[a] and on[b] and on[a] + on[b] >= JOBS, on
        assert far_file(a, "hyperctl-batches-data-dir", "storm", os.listdir(
            os.path.join(a.home, "hyperctl-batches-data-dir", "storm"))[0], "run.sh").startswith("#!/bin/sh\n")


if __name__ == "__main__":
    harness.main("__main__")
