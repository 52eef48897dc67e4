"""Logins and hosts of all kinds, with real OpenSSH servers: who gets in, what is refused and in which words."""
import json
import os
import re
import shutil
import subprocess
import tempfile

import harness
from harness import Skip
from ssh_rig import SshMissing, SshRig, keygen

TRY = harness.find_program("ssh-try")
SECRET = "right-horse-7"


class Place:
    """A rig, a home on this side, and the driver that runs one command on one host."""

    def __init__(self):
        try:
            self.rig = SshRig()
        except SshMissing as x:
            raise Skip(str(x)) from x
        self.home = tempfile.mkdtemp(prefix="berth-try-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "SSH_"))}
        self.env.update(BERTH_SSH=self.rig.ssh, BERTH_FAR=harness.find_program("berth-far"),
                        BERTH_SHEPHERD=harness.find_program("berth-shepherd"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.rig.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def host(self, name, **how):
        try:
            return self.rig.host(name, **how)
        except SshMissing as x:
            raise Skip(str(x)) from x

    def run(self, conf, command="echo hello from $(basename $HOME)", timeout=120):
        """What the driver printed."""
        conf.setdefault("start_timeout", 60)
        conf.setdefault("python_path", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
        done = subprocess.run([TRY, json.dumps(conf), self.home, command], env=self.env, capture_output=True, text=True,
                              timeout=timeout)
        text = done.stdout + "".join(x + "\n" for x in done.stderr.splitlines() if "too long" not in x)
        assert "Sanitizer" not in text and "runtime error" not in text, text
        return text

    def works(self, conf):
        text = self.run(conf)
        assert "hello from home\n" in text and "ended 0" in text, text
        return text

    def refused(self, conf, words):
        text = self.run(conf)
        assert re.search("^refused .*" + words, text, re.M), text
        assert "ended" not in text, text
        return text


def test_key():
    with Place() as p:
        a = p.host("a")
        text = p.works(a.conf())
        assert re.search(r"^node \d+ slots", text, re.M), text
        assert "node 3 slots" in p.works(a.conf(slots=3))
        # By its name in ssh_config alone: port, user, key and known host come from there.
        p.works({"url": "ssh://a"})


def test_passphrase():
    with Place() as p:
        a = p.host("a")
        key = keygen(os.path.join(p.rig.dir, "locked"), passphrase="open sesame 'x' \"y\"")
        with open(os.path.join(a.dir, "authorized_keys"), "w") as f, open(key + ".pub") as pub:
            f.write(pub.read())
        conf = {"url": a.url, "identity": key, "known_hosts": p.rig.known_hosts}
        p.works(dict(conf, passphrase="open sesame 'x' \"y\""))
        p.refused(dict(conf, passphrase="wrong"), "refused the login|passphrase")


def test_password():
    with Place() as p:
        a = p.host("a", password=SECRET, authorize=False)
        conf = {"url": a.url, "known_hosts": p.rig.known_hosts}
        # What ssh is given is written down: the password must be in none of it.
        seen = os.path.join(p.rig.dir, "seen")
        spy = os.path.join(p.rig.dir, "spy")
        with open(spy, "w") as f:
            f.write(f'#!/bin/sh\n{{ env; printf "%s\\n" "$@"; }} >> {seen}\nexec {p.rig.ssh} "$@"\n')
        os.chmod(spy, 0o755)
        p.env["BERTH_SSH"] = spy
        text = p.works(dict(conf, password=SECRET))
        assert SECRET not in text
        with open(seen) as f:
            assert "SSH_ASKPASS=" in (said := f.read()) and SECRET not in said
        for root, _, files in os.walk(p.home):
            for name in files:
                with open(os.path.join(root, name), "rb") as f:
                    assert SECRET.encode() not in f.read(), name
        p.refused(dict(conf, password="wrong-horse"), "refused the login: is the password wrong")
        p.refused(conf, "refused the login")


def test_host_keys():
    with Place() as p:
        a = p.host("a")
        mine = os.path.join(p.rig.dir, "mine")
        conf = {"url": a.url, "identity": p.rig.key, "known_hosts": mine}
        p.refused(conf, "host key of 127.0.0.1 is not known")
        p.works(dict(conf, accept_new=True))
        with open(mine) as f:
            assert "127.0.0.1" in f.read()
        p.works(conf)  # known from now on
        given = dict(conf, known_hosts=None, host_key=a.known_host_line.split(" ", 1)[1])
        p.works(given)
        a.change_host_key()
        for c in (conf, dict(conf, accept_new=True), given):
            p.refused(c, "host key of 127.0.0.1 has changed, perhaps by an attack")


def test_nobody_there():
    with Place() as p:
        a = p.host("a")
        a.stop()
        p.refused(a.conf(start_timeout=1), f"refuses connections on port {a.port}")
        p.refused({"url": "ssh://no-such-host.invalid", "start_timeout": 1}, "no-such-host.invalid")
        assert "invalid" in p.run({"host": "-oProxyCommand=touch /tmp/x"})


def test_silent_host():
    """Packets vanish: the time-out of connecting tells, not that of TCP."""
    with Place() as p:
        a = p.host("a", netns=True)
        a.drop(True)
        p.refused(a.conf(connect_timeout=2, start_timeout=1), "does not answer|no route")


def far_programs(host):
    base = os.path.join(host.home, ".cache", "berth")
    return [os.path.join(base, d, "berth-far") for d in os.listdir(base) if len(d) == 64]


def test_programs():
    with Place() as p:
        a = p.host("a")
        p.works(a.conf())
        (far,) = far_programs(a)
        before = os.stat(far)
        p.works(a.conf())
        assert os.stat(far).st_ino == before.st_ino  # sent once
        with open(far, "r+b") as f:  # as large, as new, and not ours
            f.seek(before.st_size // 2)
            f.write(b"tampered")
        os.utime(far, (before.st_atime, before.st_mtime))
        p.works(a.conf())
        assert os.stat(far).st_ino != before.st_ino
        with open(far, "rb") as f, open(p.env["BERTH_FAR"], "rb") as ours:
            assert f.read() == ours.read()
        assert sorted(os.listdir(os.path.dirname(far))) == ["berth-far", "berth-shepherd", "lib", "library"]
        assert os.path.exists(os.path.join(os.path.dirname(far), "lib", "python", "berth", "__init__.py"))


def test_what_is_left():
    """A run that is settled leaves nothing; a home that was only for a while goes as a whole."""
    with Place() as p:
        a = p.host("a")
        p.works(a.conf())
        base = os.path.join(a.home, ".local", "share", "berth", "far")
        (home,) = os.listdir(base)
        left = [f for _, _, files in os.walk(os.path.join(base, home, "runs")) for f in files]
        assert not left, left
        p.works(a.conf(name="for a while", transient=True))
        assert os.listdir(base) == [home]


def test_other_machines():
    with Place() as p:
        tools = os.path.join(p.rig.dir, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "uname"), "w") as f:
            f.write("#!/bin/sh\necho riscv64\n")
        os.chmod(f.name, 0o755)
        a = p.host("a", path=tools + ":/usr/bin:/bin")
        p.refused(a.conf(), "is a riscv64 machine")
        assert not os.path.exists(os.path.join(a.home, ".cache"))
        # A login that talks first, and tools that cannot hash.
        noisy = p.host("noisy", options=['ForceCommand echo "Welcome, BERTH-FAR friend"; eval "$SSH_ORIGINAL_COMMAND"'])
        p.works(noisy.conf())
        sparse = os.path.join(p.rig.dir, "sparse")
        os.mkdir(sparse)
        for tool in ("sh", "cat", "uname", "mkdir", "head", "tail", "chmod", "mv", "rm", "basename"):
            os.symlink(shutil.which(tool), os.path.join(sparse, tool))
        p.works(p.host("sparse", path=sparse).conf())


def test_home_not_writable():
    with Place() as p:
        a = p.host("a", password=SECRET)
        os.chmod(a.home, 0o555)
        p.refused(a.conf(), "cannot be written: permission denied")


def test_login_without_shell():
    with Place() as p:
        a = p.host("a", options=["ForceCommand echo This service allows sftp connections only. >&2; exit 1"])
        p.refused(a.conf(), "allows this user sftp only")


if __name__ == "__main__":
    harness.main(__name__)
