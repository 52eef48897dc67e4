"""The bundle of a job: a gzip tar that is made while it is sent.

Its one top directory is the job's id; below it ``job_source/`` (the directory as it is), the configs
in the directory's root, ``run.env``, and the packages a job imports, so that any image with a Python
will do.  No temporary file; links stay links; what cannot be read is left out with a WARNING.
"""

import hashlib
import io
import json
import os
import shlex
import stat
import tarfile
import time
import zlib

from . import _http, _say
from ._ignore import Ignore

CHUNK = 256 * 1024
SMALLEST, WORTH_ASKING, ASK_MAX = 4096, 256 * 1024, 50000
CONTENT = "SCHILY.xattr.user.berth.content"
PARAMETERS = "foundations_job_parameters.json"


def walk(top, ignore, quiet=False):
    """(path, relative path, stat) of everything below `top`, parents first, in a fixed order."""
    pending = [""]
    while pending:
        inside = pending.pop()
        try:
            names = sorted(os.listdir(os.path.join(top, inside)), reverse=True)
        except OSError as e:
            if not quiet:
                _say.warning("%s was left out of the bundle: %s" % (os.path.join(top, inside), e.strerror))
            continue
        below = []
        for name in reversed(names):
            rel = inside + "/" + name if inside else name
            path = os.path.join(top, rel)
            try:
                st = os.lstat(path)
            except OSError:
                continue  # gone meanwhile
            if ignore.match(rel, stat.S_ISDIR(st.st_mode)):
                continue
            yield path, rel, st
            if stat.S_ISDIR(st.st_mode):
                below.append(rel)
        pending.extend(reversed(below))


def estimate(top):
    """Bytes of the regular files that would be sent."""
    ignore = Ignore.load(os.path.join(top, ".foundationsignore"))
    return sum(st.st_size for _, _, st in walk(top, ignore) if stat.S_ISREG(st.st_mode))


class _Gzip:
    """Bytes in, gzip out to `sink`."""

    def __init__(self, sink):
        self._sink = sink
        self._z = zlib.compressobj(1, zlib.DEFLATED, 31)

    def write(self, data):
        out = self._z.compress(data)
        if out:
            self._sink(out)
        return len(data)

    def close(self):
        self._sink(self._z.flush())


class Bundle:
    def __init__(self, job_id, directory, project, user, params=None):
        self.job_id, self.directory, self.project, self.user = job_id, directory, project, user
        self.params = params
        self.there = {}  # path -> (stamp, hash) of files the server has: they are named, not sent

    def trees(self):
        """(directory, what of it is left out) of all that goes in."""
        yield self.directory, Ignore.load(os.path.join(self.directory, ".foundationsignore"))
        for package in package_dirs():
            yield package, Ignore("__pycache__/\n")

    def write(self, sink):
        """Hands the bundle to `sink` piece by piece."""
        z = _Gzip(sink)
        tar = tarfile.open(fileobj=z, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK)
        self._add_dir(tar, self.job_id)
        self._add_tree(tar, self.directory, self.job_id + "/job_source",
                       Ignore.load(os.path.join(self.directory, ".foundationsignore")),
                       {PARAMETERS} if self.params is not None else ())
        if self.params is not None:
            self._add_bytes(tar, "job_source/" + PARAMETERS, json.dumps(self.params).encode("utf-8"))
        for name in sorted(os.listdir(self.directory)):
            path = os.path.join(self.directory, name)
            if name.endswith(".config.yaml") and os.path.isfile(path):
                with open(path, "rb") as f:
                    self._add_bytes(tar, name, f.read())
        env = "".join("export %s=%s\n" % (k, shlex.quote(v)) for k, v in (
            ("FOUNDATIONS_JOB_ID", self.job_id), ("FOUNDATIONS_PROJECT_NAME", self.project),
            ("FOUNDATIONS_USER", self.user)))
        self._add_bytes(tar, "run.env", env.encode("utf-8"))
        for package in package_dirs():
            self._add_tree(tar, package, self.job_id + "/" + os.path.basename(package), Ignore("__pycache__/\n"))
        tar.close()
        z.close()

    def _add_dir(self, tar, name):
        member = tarfile.TarInfo(name)
        member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o755, int(time.time())
        tar.addfile(member)

    def _add_bytes(self, tar, name, data):
        member = tarfile.TarInfo(self.job_id + "/" + name)
        member.size, member.mode, member.mtime = len(data), 0o644, int(time.time())
        tar.addfile(member, io.BytesIO(data))

    def _add_tree(self, tar, top, name, ignore, but=()):
        self._add_dir(tar, name)
        for path, rel, st in walk(top, ignore):
            if rel in but:
                continue
            if not (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode) or stat.S_ISLNK(st.st_mode)):
                _say.warning("%s was left out of the bundle: it is neither a file, a directory nor a link" % path)
                continue
            try:
                self._add_path(tar, path, name + "/" + rel, st)
            except OSError as e:
                if getattr(e, "in_sink", False):
                    raise
                _say.warning("%s was left out of the bundle: %s" % (path, e.strerror))

    def _add_path(self, tar, path, name, st):
        member = tarfile.TarInfo(name)
        member.mode, member.mtime = stat.S_IMODE(st.st_mode), st.st_mtime
        if stat.S_ISDIR(st.st_mode):
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        elif stat.S_ISLNK(st.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            tar.addfile(member)
        else:
            with open(path, "rb") as f:
                now = os.fstat(f.fileno())
                stamp, digest = self.there.get(path, (None, None))
                if stamp == _stamp(now):
                    member.pax_headers = {CONTENT: digest}
                    tar.addfile(member)
                else:
                    member.size = now.st_size
                    tar.addfile(member, _Exactly(f, member.size))


class _Exactly(io.RawIOBase):
    """A file as long as it was when it was opened: one that grows is cut, one that shrinks filled up."""

    def __init__(self, f, size):
        super().__init__()
        self._f, self._left, self._short = f, size, False

    def read(self, n=-1):
        n = self._left if n is None or n < 0 else min(n, self._left)
        try:
            data = self._f.read(n)
        except OSError:
            data = b""
        if len(data) < n:
            if not self._short:
                _say.warning("%s became shorter while it was packed; the rest is zeros" % self._f.name)
            self._short = True
            data += b"\0" * (n - len(data))
        self._left -= n
        return data


def package_dirs():
    """Directories of the packages that travel with a job."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = [here]
    beside = os.path.join(os.path.dirname(here), "berth")
    if os.path.isfile(os.path.join(beside, "_spool.py")):
        found.append(beside)
    return found


def _stamp(st):
    return st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns


def _hash(path):
    """(stamp, hash) of a file, or None when it cannot be read or changes meanwhile."""
    digest = hashlib.blake2b(digest_size=32)
    try:
        with open(path, "rb", buffering=0) as f:
            before = _stamp(os.fstat(f.fileno()))
            for piece in iter(lambda: f.read(CHUNK), b""):
                digest.update(piece)
            return (before, digest.hexdigest()) if _stamp(os.fstat(f.fileno())) == before else None
    except OSError:
        return None  # whoever packs it will say so


def missing(server, contents):
    """Those of the hashes the server lacks; None: it does not say."""
    try:
        return set(server.json("POST", "/job_bundle/contents", {"contents": contents})["missing"])
    except (_http.Refused, _http.Unreachable, KeyError, TypeError):
        return None


def ask(server, bundle):
    """What the server has already; one that does not know the question gets everything."""
    found = {}
    if missing(server, []) is None:
        return {}
    for top, ignore in bundle.trees():
        for path, _, st in walk(top, ignore, quiet=True):
            if stat.S_ISREG(st.st_mode) and st.st_size >= SMALLEST and len(found) < ASK_MAX:
                found[path] = _hash(path)
    found = {path: what for path, what in found.items() if what}
    lacks = missing(server, [digest for _, digest in found.values()])
    return {} if lacks is None else {path: what for path, what in found.items() if what[1] not in lacks}


class _Cut(ConnectionError):
    in_sink = True


def upload(server, bundle, size):
    """Sends the bundle of a directory of that size, without what the server has."""
    bundle.there = ask(server, bundle) if size >= WORTH_ASKING else {}
    try:
        _send(server, bundle)
    except _http.Refused as e:
        if e.status != 409 or not bundle.there:
            raise
        bundle.there = {}  # it was removed there meanwhile
        _send(server, bundle)


def _send(server, bundle):
    """The bundle as one field of a form, in chunks."""
    boundary = "foundations-" + bundle.job_id
    conn = server.connection()
    head = (
        '--%s\r\nContent-Disposition: form-data; name="job_bundle"; filename="%s.tgz"\r\n'
        "Content-Type: application/gzip\r\n\r\n" % (boundary, bundle.job_id)
    ).encode("ascii")

    def send(data):
        try:
            conn.send(b"%x\r\n" % len(data) + data + b"\r\n")
        except OSError as e:
            raise _Cut(str(e))

    try:
        conn.putrequest("POST", server.path("/job_bundle"))
        conn.putheader("Content-Type", "multipart/form-data; boundary=" + boundary)
        conn.putheader("Transfer-Encoding", "chunked")
        for key, value in server.headers().items():
            conn.putheader(key, value)
        try:
            conn.endheaders()
        except OSError as e:
            raise server.unreachable(e.strerror or e)
        cut = None
        try:
            send(head)
            bundle.write(send)
            send(("\r\n--%s--\r\n" % boundary).encode("ascii"))
            conn.send(b"0\r\n\r\n")
        except _Cut as e:
            cut = e  # the server may have said why before it hung up
        except OSError as e:
            cut = e
        try:
            reply = conn.getresponse()
            data = reply.read()
        except Exception as e:
            raise server.unreachable(cut or e)
        if reply.status >= 400:
            raise _http.refusal(reply.status, data)
        if cut is not None:
            raise server.unreachable(cut)
    finally:
        conn.close()
