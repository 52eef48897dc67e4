"""Directories that live longer than one job: uploaded to its archive, downloaded by the next."""

import atexit
import os
import re
import tempfile
import threading

from . import _job, _say

TENSORBOARD = "__tensorboard__"
SYNC_S = 10.0  #: how often a TensorBoard directory is uploaded while the job runs


class SyncableDirectory:
    """A directory tied to a key of a job.  ``str()`` of it is its path."""

    def __init__(self, key, directory_path=None, source_job_id=None, download=True):
        if not isinstance(key, str) or not re.match(r"^(?!\.)[^/\0]{1,200}$", key):
            raise ValueError("the key of a syncable directory must be a name without `/`, not %r" % (key,))
        self._key = key
        self._source = source_job_id
        if directory_path is None:
            directory_path = tempfile.mkdtemp(prefix="foundations-%s-" % re.sub(r"\W", "_", key))
        self._path = os.path.abspath(os.fspath(directory_path))
        os.makedirs(self._path, exist_ok=True)
        self._sent = {}
        self._lock = threading.Lock()
        if download and _job.current is not None:
            self.download()

    def __str__(self):
        return self._path

    __fspath__ = __str__

    def upload(self):
        """Sends what is new or changed since the last time to this job's archive."""
        job = _job.current
        if job is None:
            _say.notice("Cannot upload directory `%s` outside of job." % self._key)
            return
        with self._lock:
            for folder, _, names in os.walk(self._path):
                for name in names:
                    self._upload_one(job, os.path.join(folder, name))

    def _upload_one(self, job, path):
        rel = os.path.relpath(path, self._path)
        try:
            st = os.stat(path)
            mark = (st.st_size, st.st_mtime)
            if self._sent.get(rel) == mark:
                return
            job.files.keep("synced_directories/" + self._key, rel, path)
            self._sent[rel] = mark
        except FileNotFoundError:
            pass  # gone meanwhile
        except Exception as e:
            _say.notice_once("sync " + path, "%s was not uploaded: %s" % (path, e))

    def download(self):
        """Fetches what is newer in the archive of the source job (this one, unless told otherwise)."""
        job = _job.current
        if job is None:
            _say.notice("Cannot download directory `%s` outside of job." % self._key)
            return
        try:
            found = job.files.listing(self._source, self._key)
        except Exception as e:
            _say.notice("Directory `%s` was not downloaded: %s" % (self._key, e))
            return
        with self._lock:
            for rel, (size, mtime) in sorted(found.items()):
                self._download_one(job, rel, size, mtime)

    def _download_one(self, job, rel, size, mtime):
        target = os.path.normpath(os.path.join(self._path, rel))
        if not target.startswith(self._path + os.sep):
            return  # never out of the directory
        try:
            st = os.stat(target)
            if st.st_mtime > mtime or (st.st_mtime == mtime and st.st_size == size):
                return
        except OSError:
            pass
        try:
            job.files.fetch(self._source, self._key, rel, target)
        except Exception as e:
            _say.notice_once("sync " + target, "%s was not downloaded: %s" % (target, e))
            return
        if self._source is None:
            st = os.stat(target)
            self._sent[rel] = (st.st_size, st.st_mtime)


def create_syncable_directory(key, directory_path=None, source_job_id=None):
    """A directory that is downloaded now and uploaded whenever upload() is called."""
    return SyncableDirectory(key, directory_path, source_job_id)


_boards = []


def set_tensorboard_logdir(path):
    """Keeps the TensorBoard logs of this job: uploaded while it runs and at its end."""
    if _job.current is None:
        return _job._outside()
    board = SyncableDirectory(TENSORBOARD, path, download=False)
    _job.set_tag("tf", "True")
    _boards.append(board)
    if len(_boards) == 1:
        atexit.register(finish)
        threading.Thread(target=_keep_uploading, name="foundations-tensorboard", daemon=True).start()


_ended = threading.Event()


def _keep_uploading():
    while not _ended.wait(SYNC_S):
        for board in list(_boards):
            try:
                board.upload()
            except Exception as e:
                _say.notice_once("tensorboard", "TensorBoard logs are not uploaded: %r" % (e,))


def finish():
    """At exit: what was written since."""
    _ended.set()
    for board in _boards:
        try:
            board.upload()
        except Exception as e:
            _say.notice_once("tensorboard", "TensorBoard logs are not uploaded: %r" % (e,))
