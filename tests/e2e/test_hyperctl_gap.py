"""hyperctl: what its jobs ask while nobody serves the port of the batch, and what may start then."""
import json
import os
import subprocess

import harness
from harness import BERTH, wait_for
from hyper_rig import Place, ask, free_port, job

# Asks the port as soon as it is told to, notes the answer, and ends when it is told to.  The first run fails without an answer.
ASKS = """echo $HYPERCTL_JOB_NAME >> {dir}/ran
until [ -e {dir}/ask ]; do sleep 0.02; done
if curl -sf $HYPERCTL_SERVER_PORTAL/hyperctl/api/job/$HYPERCTL_JOB_NAME; then echo yes >> {dir}/answers; exit 0; fi
echo no >> {dir}/answers
until [ -e {dir}/end ]; do sleep 0.02; done
{end}"""


def lines(at, name):
    path = os.path.join(at.dir, name)
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return f.read().split()


def touch(at, name):
    at.write(name, "")


def serves(port):
    try:
        return ask(port, "GET", "/hyperctl")[0] == 200
    except OSError:
        return False


def start_daemon(at):
    d = subprocess.Popen([BERTH, "serve", "--slots", "4"], env=at.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    at.started.append(d)
    wait_for("the daemon", lambda: berth(at, "ls").returncode == 0)
    return d


def berth(at, *words):
    return subprocess.run([BERTH, *words], env=at.env, capture_output=True, text=True, timeout=120)


def asked_in_a_gap(at, end, *options):
    """A job that asked while nobody served the port, and ended as `end` says when it was served again: what was said."""
    port = free_port()
    config = at.batch("gap", [job("a", ASKS.format(dir=at.dir, end=end))], server={"port": port})
    p = at.start(config, *options)
    wait_for("its run", lambda: lines(at, "ran"))
    p.kill()
    p.wait()
    touch(at, "ask")
    wait_for("its question", lambda: lines(at, "answers") == ["no"])
    p = at.start(config, *options)
    wait_for("the port", lambda: serves(port))
    wait_for("the job that runs", lambda: "running" in at.call("job", "list", "-b", "gap").stdout)
    touch(at, "end")
    said = p.stdout.read()
    assert p.wait(120) == 0, said
    return said


def test_a_question_without_an_answer():
    for end in ("exit 1", "kill -9 $$"):
        with Place() as at:
            said = asked_in_a_gap(at, end, "--no-daemon")
            assert at.exists("gap", "a.succeed") and not at.exists("gap", "a.failed"), said
            assert lines(at, "answers") == ["no", "yes"] and lines(at, "ran") == ["a", "a"], said
            assert "perhaps because nobody served its port" in said, said


def test_a_question_without_an_answer_with_a_daemon():
    with Place() as at:
        start_daemon(at)
        said = asked_in_a_gap(at, "exit 1")
        assert at.exists("gap", "a.succeed") and not at.exists("gap", "a.failed"), said
        assert lines(at, "answers") == ["no", "yes"] and lines(at, "ran") == ["a", "a"], said


def test_once_for_each_gap():
    """What fails with its port served stays failed."""
    with Place() as at:
        run = f"echo x >> {at.dir}/ran; until [ -e {at.dir}/end ]; do sleep 0.02; done; exit 1"
        config = at.batch("once", [job("a", run)])
        p = at.start(config, "--no-daemon")
        wait_for("its run", lambda: lines(at, "ran"))
        p.kill()
        p.wait()
        p = at.start(config, "--no-daemon")
        wait_for("the job that runs", lambda: "running" in at.call("job", "list", "-b", "once").stdout)
        touch(at, "end")
        said = p.stdout.read()
        assert p.wait(120) == 0, said
        assert at.exists("once", "a.failed") and lines(at, "ran") == ["x", "x"], (said, lines(at, "ran"))


def queued_while_nobody_serves(at, in_the_gap):
    daemon = start_daemon(at)
    first = f"echo $HYPERCTL_JOB_NAME >> {at.dir}/ran; until [ -e {at.dir}/end ]; do sleep 0.02; done"
    other = f"echo $HYPERCTL_JOB_NAME >> {at.dir}/ran; curl -sf $HYPERCTL_SERVER_PORTAL/hyperctl/api/job/$HYPERCTL_JOB_NAME"
    config = at.batch("wait", [job("j0", first)] + [job(f"j{i}", other) for i in (1, 2, 3)], server={"port": free_port()})
    p = at.start(config)
    wait_for("the first run", lambda: lines(at, "ran") == ["j0"])
    p.kill()
    p.wait()
    daemon = in_the_gap(daemon)
    touch(at, "end")

    def states():
        return {j["name"]: j["state"] for j in json.loads(berth(at, "ls", "--project", "hyperctl", "-o", "json").stdout)}

    wait_for("the end of the first job", lambda: states().get("j0") == "succeeded")
    done = berth(at, "submit", "--wait", "--", "true")  # the daemon has started something since
    assert done.returncode == 0, done
    assert lines(at, "ran") == ["j0"] and states()["j1"] == "queued", (lines(at, "ran"), states())
    why = berth(at, "explain", "2").stdout
    assert "only while the program that submitted them runs" in why, why
    at.ok("run", "-c", config)
    assert lines(at, "ran") == ["j0", "j1", "j2", "j3"]
    assert sorted(n for n in os.listdir(at.path("wait")) if n.endswith((".succeed", ".failed", ".running"))) == \
        [f"j{i}.succeed" for i in range(4)]
    daemon.terminate()
    daemon.wait(120)


def test_nothing_starts_while_nobody_serves():
    with Place() as at:
        queued_while_nobody_serves(at, lambda daemon: daemon)


def test_nothing_starts_when_the_daemon_is_replaced_meanwhile():
    with Place() as at:
        def replace(daemon):
            daemon.kill()
            daemon.wait()
            return start_daemon(at)
        queued_while_nobody_serves(at, replace)


def test_a_kept_queue_can_be_resumed():
    """Somebody who wants the jobs to go on without hyperctl says so."""
    with Place() as at:
        start_daemon(at)
        run = f"echo $HYPERCTL_JOB_NAME >> {at.dir}/ran; until [ -e {at.dir}/end ]; do sleep 0.02; done"
        p = at.start(at.batch("free", [job("j0", run), job("j1", run)], server={"port": free_port()}))
        wait_for("the first run", lambda: lines(at, "ran") == ["j0"])
        queue = json.loads(berth(at, "ls", "-o", "json").stdout)[0]["queue"]
        p.kill()
        p.wait()
        touch(at, "end")
        assert berth(at, "queue", "resume", queue).returncode == 0
        wait_for("the other job", lambda: lines(at, "ran") == ["j0", "j1"])


if __name__ == "__main__":
    harness.main("__main__")
