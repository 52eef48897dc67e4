"""hyperctl with machines whose connection breaks: runs go on, nothing starts twice, nothing is lost."""
import os
import signal
import time

import harness
from hyper_rig import free_port, job
from test_hyperctl_ssh import Far, far_file


def wait_until(what, timeout=120):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)


def test_killed_sessions_of_a_running_job():
    with Far() as at:
        a = at.host("a")
        p = at.start(at.far_batch("cut", [
            job("one", "echo x >> $HOME/count; echo before; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo after"),
            job("two", "echo y >> $HOME/count")], at.machine(a)))
        at.wait_for("cut", "one.running")
        for _ in range(3):
            wait_until(a.cut)
            time.sleep(0.3)
        open(os.path.join(a.home, "go"), "w").close()
        assert p.wait(120) == 0
        assert at.ended("cut") == {"one": "succeed", "two": "succeed"} and far_file(a, "count") == "x\ny\n"
        assert at.read("cut", "one", "stdout") == "before\nafter\n"


def test_packets_dropped_for_twenty_seconds():
    """Neither end is told; the run goes on, and its output is complete when they hear of each other again."""
    with Far() as at:
        a = at.host("a", netns=True)
        p = at.start(at.far_batch("drop", [job("long", "echo x >> $HOME/count; for i in $(seq 1 26); do echo $i; sleep 1; done"),
                                           job("next", "echo y >> $HOME/count")], at.machine(a)))
        at.wait_for("drop", "long.running")
        wait_until(lambda: "2\n" in at.read("drop", "long", "stdout"))
        a.drop(True)
        time.sleep(20)
        seen = at.read("drop", "long", "stdout").count("\n")
        a.drop(False)
        assert p.poll() is None and seen < 15, seen
        assert p.wait(180) == 0
        assert at.ended("drop") == {"long": "succeed", "next": "succeed"} and far_file(a, "count") == "x\ny\n"
        assert at.read("drop", "long", "stdout").split() == [str(i) for i in range(1, 27)]


def test_killed_scheduler_finds_its_far_jobs():
    with Far() as at:
        a = at.host("a")
        config = at.far_batch("crash", [
            job("one", "echo x >> $HOME/count; echo before; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo after"),
            job("two", "echo y >> $HOME/count")], at.machine(a))
        p = at.start(config)
        at.wait_for("crash", "one.running")
        p.kill()
        p.wait()
        time.sleep(0.3)
        open(os.path.join(a.home, "go"), "w").close()
        at.ok("run", "-c", config, timeout=120)
        assert at.ended("crash") == {"one": "succeed", "two": "succeed"} and far_file(a, "count") == "x\ny\n"
        assert at.read("crash", "one", "stdout") == "before\nafter\n"
        assert at.state("crash", "one")["ext"]["backend_type"] == "remote"


def test_a_machine_that_left_the_batch():
    """What ran there when the scheduler was killed runs on the machines that are in the batch now."""
    with Far() as at:
        a, b = at.host("a"), at.host("b")
        jobs, server = [job("one", "echo $HOME; [ -e $HOME/go ] || sleep 600"), job("two")], {"port": free_port()}
        p = at.start(at.far_batch("left", jobs, at.machine(a), server=server))
        at.wait_for("left", "one.running")
        p.kill()
        p.wait()
        a.cut()
        a.stop()
        open(os.path.join(b.home, "go"), "w").close()
        at.ok("run", "-c", at.far_batch("left", jobs, at.machine(b), server=server), timeout=120)
        assert at.ended("left") == {"one": "succeed", "two": "succeed"} and at.read("left", "one", "stdout") == b.home + "\n"


def test_interrupted_batches_end_their_far_jobs():
    with Far() as at:
        a = at.host("a")
        config = at.far_batch("sig", [job("long", "echo $$ > $HOME/pid; [ -e $HOME/go ] || exec sleep 600"), job("next")], at.machine(a))
        p = at.start(config)
        at.wait_for("sig", "long.running")
        wait_until(lambda: os.path.exists(os.path.join(a.home, "pid")) and far_file(a, "pid"))
        p.send_signal(signal.SIGTERM)
        assert p.wait(120) == 143 and at.ended("sig") == {}
        pid = int(far_file(a, "pid"))
        assert not os.path.exists(f"/proc/{pid}"), pid
        open(os.path.join(a.home, "go"), "w").close()
        at.ok("run", "-c", config, timeout=120)
        assert at.ended("sig") == {"long": "succeed", "next": "succeed"}


if __name__ == "__main__":
    harness.main("__main__")
