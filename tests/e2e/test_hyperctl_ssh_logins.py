"""hyperctl and whom it lets in: passwords, host keys, machines that are not there."""
import os
import re

import harness
from hyper_rig import job
from test_hyperctl_ssh import Far


def everything_below(path):
    for where, _, files in os.walk(path):
        for path in (os.path.join(where, f) for f in files):
            if os.path.isfile(path):  # no sockets
                with open(path, errors="replace") as text:
                    yield path, text.read()


def test_passwords():
    with Far() as at:
        a = at.host("a", password="right horse $(x)'\"")
        wrong = at.machine(a, ssh_rsa_file=None, password="wrong-word")
        config = at.far_batch("wrong", [job("j")], wrong)
        os.chmod(config, 0o644)
        p = at.call("run", "-c", config)
        assert p.returncode == 1 and "chmod 600" in p.stderr and "test connection failed: " in p.stderr, p.stderr
        assert re.search("^hyperctl: error: the only machine cannot be used", p.stderr, re.M), p.stderr
        assert at.ended("wrong") == {} and os.listdir(at.path("wrong", ".hyperctl")) == ["lock"]
        # Beside a good one it is left out.
        b = at.host("b")
        p = at.call("run", "-c", at.far_batch("mixed", [job(f"j{i}") for i in range(6)], wrong, at.machine(b)))
        assert p.returncode == 0 and p.stderr.count("test connection failed") == 1, p.stderr
        assert set(at.ended("mixed").values()) == {"succeed"} and len(at.ended("mixed")) == 6
        right = at.far_batch("right", [job("j", "whoami; sleep 1"), job("slow", "sleep 2")], at.machine(a, ssh_rsa_file=None, password=a.password))
        os.chmod(right, 0o600)
        p = at.start(right)
        at.wait_for("right", "slow.running")
        for pid in at.survivors():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    assert a.password.encode() not in f.read()
            except OSError:
                pass
        assert p.wait(120) == 0
        said = p.stdout.read()
        assert "chmod 600" not in said and at.read("right", "j", "stdout") == a.user + "\n"
        by_name = at.machine(a, ssh_rsa_file=None, password_env="FAR_WORD")
        at.ok("run", "-c", at.far_batch("env", [job("j")], by_name), FAR_WORD=a.password)
        assert "FAR_WORD, which is not set" in at.fails("run", "-c", at.far_batch("env2", [job("j")], by_name))
        for path, text in everything_below(at.base):
            assert a.password not in text and "wrong-word" not in text, path
        assert a.password not in said


def test_a_dead_machine_in_the_list():
    with Far() as at:
        a, dead = at.host("a"), at.host("dead")
        dead.stop()
        p = at.call("run", "-c", at.far_batch("dead", [job(f"j{i}") for i in range(12)], at.machine(dead), at.machine(a)))
        assert p.returncode == 0 and f"test connection failed: {dead.user}@127.0.0.1 port {dead.port}: " in p.stderr, p.stderr
        assert set(at.ended("dead").values()) == {"succeed"} and len(at.ended("dead")) == 12


def test_host_keys():
    with Far() as at:
        a = at.host("a")

        def refused(name, **how):
            p = at.call("run", "-c", at.far_batch(name, [job("j")], at.machine(a, **how)))
            assert p.returncode == 1 and at.ended(name) == {}, (name, p.stdout, p.stderr)
            assert "host key" in p.stderr.lower(), p.stderr
            assert "--accept-new" not in p.stderr, p.stderr  # an option of berth, a key of the batch file
            return p.stderr

        empty = at.write("known", "")
        assert 'connection.host_keys: "accept-new"' in refused("unknown", known_hosts=empty)
        at.ok("run", "-c", at.far_batch("new", [job("j")], at.machine(a, known_hosts=empty, host_keys="accept-new")))
        key = a.known_host_line.split(" ", 1)[1]
        at.ok("run", "-c", at.far_batch("given", [job("j")], at.machine(a, known_hosts=None, host_key=key)))
        a.change_host_key()
        refused("changed")
        refused("changed2", known_hosts=empty, host_keys="accept-new")
        refused("changed3", known_hosts=None, host_key=key)


if __name__ == "__main__":
    harness.main("__main__")
