"""Real OpenSSH servers on loopback, for tests.

    rig = SshRig()                  # keys, a client configuration, a wrapper for BERTH_SSH
    a = rig.host("a")               # sshd on a free port, with a login home of its own
    b = rig.host("b", password=True)        # a user with a password (root only)
    c = rig.host("c", netns=True)           # behind a network of its own, to be cut (root only)
    d = rig.host("d", hides="/some/dir")    # has no files below that directory (root only)
    env = dict(BERTH_SSH=rig.ssh)   # `ssh a` works: port, user, key and known host key are configured
    a.url                           # ssh://user@127.0.0.1:port
    a.conf()                        # the same as the configuration of a backend
    a.cut()                         # end the sessions' server processes, as a broken network would
    a.stop(); a.start()             # the server itself; open sessions live on without it
    a.change_host_key()
    c.drop(True)                    # packets vanish until drop(False)
    rig.close()

Every host sees HOME as a directory below the rig, so two hosts share nothing but the machine.  Where
something cannot be had (no sshd, not root), SshMissing says why: the test prints it and is skipped.
"""
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import ports

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class SshMissing(Exception):
    """What a test needs is not to be had here."""


def need_sshd():
    if not SSHD:
        raise SshMissing("sshd is not installed")
    for program in ("ssh", "ssh-keygen"):
        if not shutil.which(program):
            raise SshMissing(f"{program} is not installed")


def need_root(what):
    if os.geteuid() != 0:
        raise SshMissing(f"{what} needs root")


def keygen(path, passphrase="", kind="ed25519"):
    for name in (path, path + ".pub"):
        if os.path.exists(name):
            os.unlink(name)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "rig", "-f", path], check=True)
    return path


def children_of(pid):
    """Pids of all that descend from it, nearest first."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as f:
                parents.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except (OSError, IndexError):
            continue
    found, todo = [], [pid]
    while todo:
        next_ = parents.get(todo.pop(0), [])
        found += next_
        todo += next_
    return found


def command_name(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


class Host:
    """One sshd.  Made by SshRig.host."""

    def __init__(self, rig, name, password=False, netns=False, path=None, options=(), env=None, authorize=True,
                 hides=None):
        self.rig, self.name = rig, name
        self.hides = hides
        self.dir = os.path.join(rig.dir, name)
        self.home = os.path.join(self.dir, "home")
        os.makedirs(self.home)
        self.log = os.path.join(self.dir, "sshd.log")
        self.key = keygen(os.path.join(self.dir, "host_key"))
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.password = None
        self.options, self.env = list(options), dict(env or {})
        self.env["HOME"] = self.home
        if path:
            self.env["PATH"] = path
        self.authorize = authorize
        self.address, self.netns, self.link = "127.0.0.1", None, None
        self.proc = None
        self.account = None
        if password:
            self._make_account(password if isinstance(password, str) else "right-horse-7")
        if netns:
            self._make_netns()
        self.port = ports.free_port() if not netns else 2222
        self.start()
        rig.learn(self)

    # -- what it needs --
    def _make_account(self, password):
        need_root("a user with a password")
        if not shutil.which("useradd"):
            raise SshMissing("useradd is not installed")
        name = f"brig{os.getpid()}{len(self.rig.hosts)}"
        # The account's own home is the rig's, so nothing of it is left elsewhere.
        subprocess.run(["useradd", "-M", "-d", self.home, "-s", "/bin/sh", name], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.account = name
        subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
        info = pwd.getpwnam(name)
        os.chown(self.home, info.pw_uid, info.pw_gid)
        self.user, self.password = name, password
        # The login must be able to pass through to it.
        os.chmod(self.rig.dir, 0o711)
        os.chmod(self.dir, 0o711)

    def _make_netns(self):
        need_root("a network namespace")
        if not shutil.which("ip"):
            raise SshMissing("ip is not installed")
        number = len(self.rig.hosts) + 1
        tag = f"{os.getpid() % 100000}n{number}"
        ns, out, inner = f"brig{tag}", f"bo{tag}", f"bi{tag}"
        net = f"10.{200 + os.getpid() % 50}.{number + (os.getpid() // 50) % 200}"
        try:
            subprocess.run(["ip", "netns", "add", ns], check=True, stderr=subprocess.PIPE)
            self.netns = ns
            for words in (["link", "add", out, "type", "veth", "peer", "name", inner, "netns", ns],
                          ["addr", "add", f"{net}.1/24", "dev", out], ["link", "set", out, "up"],
                          ["-n", ns, "addr", "add", f"{net}.2/24", "dev", inner],
                          ["-n", ns, "link", "set", inner, "up"], ["-n", ns, "link", "set", "lo", "up"]):
                subprocess.run(["ip", *words], check=True, stderr=subprocess.PIPE)
        except subprocess.CalledProcessError as x:
            self._drop_netns()
            raise SshMissing(f"no network namespace can be made: {x.stderr.decode().strip()}") from x
        self.link, self.inner, self.address = out, inner, f"{net}.2"

    def _drop_netns(self):
        if self.netns:
            subprocess.run(["ip", "netns", "del", self.netns], stderr=subprocess.DEVNULL)
        self.netns = None

    def _config(self):
        keys = os.path.join(self.dir, "authorized_keys")
        with open(keys, "w") as f, open(self.rig.key + ".pub") as pub:
            f.write(pub.read() if self.authorize else "")
        lines = [f"Port {self.port}", f"ListenAddress {self.address}", f"HostKey {self.key}",
                 f"PidFile {self.dir}/sshd.pid", f"AuthorizedKeysFile {keys}", "StrictModes no", "UsePAM no",
                 "PermitRootLogin yes", f"PasswordAuthentication {'yes' if self.password else 'no'}",
                 "KbdInteractiveAuthentication no", "MaxStartups 100:30:200", "PrintMotd no", "LogLevel VERBOSE",
                 "UseDNS no", "SetEnv " + " ".join(f'"{k}={v}"' for k, v in self.env.items()), *self.options]
        path = os.path.join(self.dir, "sshd_config")
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        return path

    # -- life --
    def start(self):
        """Starts the server and waits until it greets."""
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        words = [SSHD, "-D", "-e", "-f", self._config()]
        if self.netns:
            words = ["ip", "netns", "exec", self.netns, *words]
        if self.hides:  # an empty file system over it, which nobody outside sees
            need_root("a mount namespace")
            words = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.hides, *words]
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise RuntimeError(f"sshd ended with {self.proc.returncode}:\n{self.log_text()}")
            try:
                with socket.create_connection((self.address, self.port), timeout=120) as s:
                    if s.recv(4) == b"SSH-":
                        return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"sshd did not answer in 20 s:\n{self.log_text()}")

    def stop(self):
        """Ends the listening server; sessions that are open live on."""
        if self.proc:
            self.orphans = getattr(self, "orphans", []) + self.sessions()
            self.proc.terminate()
            self.proc.wait()
            self.proc = None

    def sessions(self):
        """Pids of the server processes that carry connections."""
        if not self.proc:
            return [p for p in getattr(self, "orphans", []) if command_name(p).startswith("sshd")]
        return [p for p in children_of(self.proc.pid) if command_name(p).startswith("sshd")]

    def cut(self):
        """kill -9 of every open connection's server; the number of processes ended."""
        pids = self.sessions()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(pids)

    def restart(self):
        self.cut()
        self.stop()
        return self.start()

    def drop(self, on):
        """Packets to and from the host vanish, without a word to either end (netns=True)."""
        subprocess.run(["ip", "-n", self.netns, "link", "set", self.inner, "down" if on else "up"], check=True)

    def change_host_key(self):
        """As after a reinstallation: what clients know of it is wrong from now on."""
        self.cut()
        self.stop()
        keygen(self.key)
        self.start()

    def log_text(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-4000:]

    # -- how to reach it --
    @property
    def url(self):
        return f"ssh://{self.user}@{self.address}:{self.port}"

    @property
    def known_host_line(self):
        with open(self.key + ".pub") as f:
            return f"[{self.address}]:{self.port} " + " ".join(f.read().split()[:2])

    def conf(self, **more):
        """The configuration of an ssh backend for this host."""
        c = {"host": self.address, "port": self.port, "user": self.user, "identity": self.rig.key,
             "known_hosts": self.rig.known_hosts}
        c.update(more)
        return c

    def shepherds(self):
        """Pids of the shepherds that far programs left on this host."""
        found = []
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if pid.isdigit() and b"shepherd" in words[0] and any(self.home.encode() in w for w in words[1:]):
                found.append(int(pid))
        return found

    def close(self):
        self.cut()
        self.stop()
        self.cut()
        for pid in self.shepherds():
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        self._drop_netns()
        if self.account:
            # Its processes were ended with their runs; what is left would keep userdel from working.
            subprocess.run(["userdel", "-f", self.account], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class SshRig:
    """A directory with a client key, known hosts, a client configuration, and the hosts."""

    def __init__(self):
        need_sshd()
        self.dir = tempfile.mkdtemp(prefix="berth-ssh-")
        self.hosts = []
        self.key = keygen(os.path.join(self.dir, "id"))
        self.known_hosts = os.path.join(self.dir, "known_hosts")
        self.config = os.path.join(self.dir, "ssh_config")
        open(self.known_hosts, "w").close()
        open(self.config, "w").close()
        self.ssh = os.path.join(self.dir, "ssh")
        with open(self.ssh, "w") as f:  # a name of its own, so that nothing of the caller's ~/.ssh is read
            f.write(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.config} "$@"\n')
        os.chmod(self.ssh, 0o755)

    def host(self, name, **how):
        h = Host(self, name, **how)
        self.hosts.append(h)
        return h

    def learn(self, host):
        """The client knows the host's key and how to reach it by its name."""
        with open(self.known_hosts, "a") as f:
            f.write(host.known_host_line + "\n")
        with open(self.config, "a") as f:
            f.write(f"Host {host.name}\n  HostName {host.address}\n  Port {host.port}\n  User {host.user}\n"
                    f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n")

    def forget_hosts(self):
        open(self.known_hosts, "w").close()

    def conf_file(self, host, **more):
        """The configuration of a backend as a file, for drivers that read one."""
        path = os.path.join(host.dir, "conf.json")
        with open(path, "w") as f:
            json.dump(host.conf(**more), f)
        return path

    def close(self):
        for h in self.hosts:
            h.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
