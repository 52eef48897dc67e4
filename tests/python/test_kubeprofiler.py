"""kubernetesdlprofile: the attributes, the messages and their order, the moment of stopping, faults."""

import contextlib
import copy
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
import zipfile
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
sys.path[:0] = [HERE, PYTHON]

from fake_daemon import wait_for  # noqa: E402
from fake_scheduler import FakeScheduler  # noqa: E402
from kubernetesdlprofile import _gpumem, _snapshot, _wire, kubeprofiler  # noqa: E402

_wire.EXIT_S = 0.2  # the tests leave owed messages behind on purpose

ID = "0194c1d2-3e4f-7a5b-8c6d-7e8f90a1b2c3"
JOB = {
    "JOB_UUID": ID,
    "JOB_RESTARTED": "FALSE",
    "NODE_RANK": "0",
    "EPOCHS_DONE": "0",
    "HEARTBEAT_FREQ": "4",
    "NODELIST": "node-a",
    "NUM_GPUS": "1",
    "NUM_NODES": "1",
    "BATCH_SIZE": "10",
    "EPOCHS_TO_BE_DONE": "3",
    "TRAINING_SET_SIZE": "60",
}


def write(path, text="x", age_s=0.0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="berth-prof-")
        self.snapshots = os.path.join(self.tmp, "snap", "shots")
        self.scheduler = FakeScheduler()
        self.said = io.StringIO()
        quiet = contextlib.redirect_stderr(self.said)
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        self.addCleanup(self.scheduler.close)
        self.addCleanup(shutil.rmtree, self.tmp, True)

    def env(self, **more):
        """The environment of a job; None leaves a variable out."""
        env = {"PATH": "/nonexistent", "SCHED_ROOT_SNAPSHOTS": self.snapshots, "SCHED_ENDPOINT": self.scheduler.endpoint}
        env.update(JOB)
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def profiler(self, *args, **more):
        options = {k: more.pop(k) for k in ("job_manager_hostname", "db_hostname") if k in more}
        with mock.patch.dict(os.environ, self.env(**more), clear=True):
            return kubeprofiler.KubeProfiler(*args, **options)

    def train(self, prof, epochs, steps):
        for _ in range(epochs):
            prof.start_epoch()
            for _ in range(steps):
                prof.measure()
            prof.end_epoch()


class Attributes(Case):
    def test_of_a_job(self):
        prof = self.profiler(NODE_RANK="2", NUM_GPUS="2", NUM_NODES="3", EPOCHS_DONE="1", TRAINING_SET_SIZE="1000")
        self.assertEqual((prof.JOBID, prof.RANK, prof.NUM_GPUS, prof.NUM_NODES), (ID, 2, 2, 3))
        self.assertEqual((prof.EPOCHS, prof.EPOCHS_DONE, prof.epoch), (3, 1, 1))
        self.assertEqual((prof.BATCH_SIZE, prof.TRAINING_SET_SIZE, prof.PROFILE_EACH), (10, 1000, 4))
        self.assertEqual((prof.iterationPerEpoch, prof.maxIterations), (16, 48))  # 1000 // (10 * 2 * 3)
        self.assertEqual((prof.NODE_LIST, prof.LOCAL_RANK, prof.RESTARTED, prof.has_to_stop), ("node-a", -1, False, False))

    def test_local_rank(self):
        self.assertEqual(self.profiler(LOCAL_RANK="3").LOCAL_RANK, 3)

    def test_restarted_is_anything_but_false(self):
        for value, expected in (("FALSE", False), ("TRUE", True), ("false", True), ("", True), (None, True)):
            with self.subTest(value):
                self.assertIs(self.profiler(JOB_RESTARTED=value).RESTARTED, expected)

    def test_bad_number_is_told_and_replaced(self):
        self.assertEqual(self.profiler(NUM_GPUS="two").NUM_GPUS, 1)
        self.assertIn("NUM_GPUS is 'two'", self.said.getvalue())

    def test_no_samples_per_step(self):
        self.assertEqual(self.profiler(BATCH_SIZE="0").maxIterations, 0)

    def test_alone_without_a_job(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, {"SCHED_ENDPOINT": self.scheduler.endpoint}, clear=True))
            stack.callback(os.chdir, os.getcwd())
            os.chdir(self.tmp)
            with mock.patch.object(os, "makedirs", side_effect=self.no_root(os.makedirs)):
                prof = kubeprofiler.KubeProfiler()
        self.assertEqual((prof.EPOCHS, prof.EPOCHS_DONE, prof.RESTARTED, prof.ckpt_path), (1, 0, False, None))
        self.assertEqual(prof.root_dir, os.path.join(os.path.realpath(self.tmp), "snapshots", prof.JOBID))
        self.train(prof, 2, 3)
        prof.end()
        self.assertEqual(prof.epoch, 2)
        self.assertEqual(self.scheduler.requests, [])
        self.assertIn("JOB_UUID is not set", self.said.getvalue())

    @staticmethod
    def no_root(real):
        def makedirs(path, **options):
            if path.startswith("/snapshots"):
                raise PermissionError(13, "Permission denied", path)
            return real(path, **options)

        return makedirs


class Hosts(Case):
    def test_named_hosts_win(self):
        other = FakeScheduler()
        self.addCleanup(other.close)
        prof = self.profiler(job_manager_hostname=other.endpoint)
        self.train(prof, 1, 1)
        self.assertEqual(other.told(), ["stop?", "done 1"])
        self.assertEqual(self.scheduler.told(), ["record 0"])

    def test_by_position_and_as_addresses(self):
        prof = self.profiler("http://manager:80/", "store:81")
        self.assertEqual((prof.job_manager_hostname, prof.db_hostname), ("manager:80", "store:81"))

    def test_positional_count_is_ignored(self):
        prof = self.profiler(500)
        self.assertEqual(prof.job_manager_hostname, self.scheduler.endpoint)

    def test_loopback_without_any(self):
        prof = self.profiler(SCHED_ENDPOINT=None)
        self.assertTrue(prof.job_manager_hostname.startswith("127.0.0.1"))
        self.assertEqual(prof.db_hostname, prof.job_manager_hostname)


class Directories(Case):
    def test_root_with_parents(self):
        prof = self.profiler()
        self.assertEqual(prof.root_dir, os.path.join(self.snapshots, ID))
        self.assertTrue(os.path.isdir(prof.root_dir))
        self.assertEqual((prof.custom_dir, prof.data_dir), ("/custom", "/data"))

    def test_other_roots(self):
        prof = self.profiler(SCHED_ROOT_CUSTOM="/a", SCHED_ROOT_DATA="/b")
        self.assertEqual((prof.custom_dir, prof.data_dir), ("/a", "/b"))

    def test_no_place_for_snapshots(self):
        blocked = write(os.path.join(self.tmp, "file"))
        with self.assertRaisesRegex(OSError, "snapshots cannot be kept"):
            self.profiler(SCHED_ROOT_SNAPSHOTS=blocked)

    def checkpoint(self, **more):
        return self.profiler(**{"JOB_RESTARTED": "TRUE", "EPOCHS_DONE": "1", **more}).ckpt_path

    def path(self, *names):
        return os.path.join(self.snapshots, ID, *names)

    def test_nothing_to_load(self):
        self.assertIsNone(self.checkpoint())

    def test_not_offered_unless_restarted(self):
        write(self.path("lightning_logs", "version_0", "checkpoints", "epoch=0-step=1.ckpt"))
        self.assertIsNone(self.checkpoint(JOB_RESTARTED="FALSE"))

    def test_newest_of_the_highest_version(self):
        write(self.path("lightning_logs", "version_9", "checkpoints", "epoch=7-step=1.ckpt"))
        write(self.path("lightning_logs", "version_10", "checkpoints", "epoch=9-step=1.ckpt"), age_s=20)
        wanted = write(self.path("lightning_logs", "version_10", "checkpoints", "epoch=10-step=1.ckpt"), age_s=10)
        self.assertEqual(self.checkpoint(), wanted)

    def test_empty_newest_version(self):
        wanted = write(self.path("lightning_logs", "version_1", "checkpoints", "epoch=3-step=1.ckpt"), age_s=10)
        write(self.path("lightning_logs", "version_0", "checkpoints", "epoch=1-step=1.ckpt"))
        os.makedirs(self.path("lightning_logs", "version_2", "checkpoints"))
        os.makedirs(self.path("lightning_logs", "version_3"))
        self.assertEqual(self.checkpoint(), wanted)

    def test_empty_and_hidden_files_are_none(self):
        folder = ("lightning_logs", "version_0", "checkpoints")
        wanted = write(self.path(*folder, "epoch=1-step=1.ckpt"), age_s=10)
        write(self.path(*folder, "epoch=2-step=1.ckpt"), text="")
        write(self.path(*folder, ".part.ckpt"))
        write(self.path(*folder, "notes.txt"))
        self.assertEqual(self.checkpoint(), wanted)

    def test_same_time_higher_epoch(self):
        folder = self.path("lightning_logs", "version_0", "checkpoints")
        paths = [write(os.path.join(folder, "epoch=%d-step=1.ckpt" % i)) for i in (9, 10)]
        for path in paths:
            os.utime(path, (1e9, 1e9))
        self.assertEqual(_snapshot.newest_file(folder), paths[1])

    def zipped(self, *names, age_s=0.0, cut=0):
        """A zip file, as torch.save writes it; `cut` bytes at its end are missing."""
        path = write(self.path(*names))
        with zipfile.ZipFile(path, "w") as f:
            for i in range(20):
                f.writestr("archive/data/%d" % i, os.urandom(2000))
        os.truncate(path, os.path.getsize(path) - cut)
        then = time.time() - age_s
        os.utime(path, (then, then))
        return path

    def test_half_written_is_never_offered(self):
        folder = ("lightning_logs", "version_1", "checkpoints")
        before = self.zipped("lightning_logs", "version_0", "checkpoints", "epoch=0-step=1.ckpt", age_s=40)
        size = os.path.getsize(before)
        for cut in (1, 22, 500, size // 2, size - 100):
            self.zipped(*folder, "epoch=2-step=1.ckpt", cut=cut)
            self.assertEqual(self.checkpoint(), before, cut)
        self.assertIn("epoch=2-step=1.ckpt is not whole", self.said.getvalue())
        older = self.zipped(*folder, "epoch=1-step=1.ckpt", age_s=20)
        self.assertEqual(self.checkpoint(), older)
        whole = self.zipped(*folder, "epoch=2-step=1.ckpt", age_s=10)
        self.assertEqual(self.checkpoint(), whole)

    def test_a_file_that_still_grows_is_not_offered(self):
        folder = ("lightning_logs", "version_0", "checkpoints")
        before = write(self.path(*folder, "epoch=1-step=1.ckpt"), age_s=40)
        growing = write(self.path(*folder, "epoch=2-step=1.ckpt"))
        over = threading.Event()

        def grow():
            with open(growing, "a") as f:
                while not over.wait(0.01):
                    print("more", file=f, flush=True)

        writer = threading.Thread(target=grow)
        writer.start()
        try:
            self.assertEqual(self.checkpoint(), before)
        finally:
            over.set()
            writer.join()
        os.utime(growing, (time.time() - 10,) * 2)
        self.assertEqual(self.checkpoint(), growing)

    def test_lightning_without_a_logger(self):
        wanted = self.zipped("checkpoints", "epoch=3-step=40.ckpt")
        self.assertEqual(self.checkpoint(), wanted)
        self.assertEqual(self.said.getvalue(), "")

    def test_restarted_with_nothing_saved_is_said(self):
        self.checkpoint()
        self.assertIn("goes on after epoch 1, but nothing is saved in " + self.path(), self.said.getvalue())

    def test_own_files_are_no_reason_to_warn(self):
        write(self.path("model.pth"))
        self.assertIsNone(self.checkpoint())
        self.assertEqual(self.said.getvalue(), "")

    def test_tensorflow(self):
        write(self.path("tf_ckpts.index"))
        self.assertEqual(self.checkpoint(), self.path("tf_ckpts"))
        write(self.path("tf_ckpt"))
        self.assertEqual(self.checkpoint(), self.path("tf_ckpt"))


class Messages(Case):
    def test_order(self):
        prof = self.profiler()
        self.train(prof, 3, 6)
        self.assertEqual(
            self.scheduler.told(),
            ["stop?", "beat 4", "record 5", "done 1", "stop?", "beat 8", "record 11", "done 2"]
            + ["stop?", "beat 12", "beat 16", "record 17", "done 3"],
        )
        prof.end()
        self.assertEqual(len(self.scheduler.requests), 13)

    def test_heartbeat(self):
        prof = self.profiler(NODE_RANK="1", NUM_GPUS="2", NUM_NODES="2", LOCAL_RANK="1", SCHED_ATTEMPT="3", SCHED_SHARE="2")
        prof.start_epoch()
        for _ in range(5):
            time.sleep(0.01)
            prof.measure()
        prof.end_epoch()
        beat, record = self.scheduler.bodies("/profiling/" + ID)
        self.assertEqual(
            set(beat),
            set("jobid timestamp iternum nodelist numgpu rank meandur gpumem epoch local_rank attempt gpus share".split()),
        )
        self.assertEqual(set(record) - set(beat), {"epochDur"})
        facts = [beat[k] for k in "jobid iternum nodelist numgpu rank gpumem epoch local_rank attempt gpus share".split()]
        self.assertEqual(facts, [ID, 4, "node-a", 2, 1, 0, 0, 1, 3, 4, 2])
        self.assertRegex(beat["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?$")
        self.assertGreaterEqual(beat["meandur"], 0.01)
        self.assertGreaterEqual(record["epochDur"], 0.05)

    def test_mean_is_of_the_steps_of_this_epoch(self):
        """Neither the pause between epochs nor older epochs count."""
        clock = [100.0]
        with mock.patch.object(kubeprofiler.time, "monotonic", lambda: clock[0]):
            prof = self.profiler(HEARTBEAT_FREQ="1000")
            for step_s in (1.0, 3.0):
                prof.start_epoch()
                clock[0] += 50.0
                for _ in range(4):
                    clock[0] += step_s
                    prof.measure()
                clock[0] += 7.0
                prof.end_epoch()
        records = self.scheduler.bodies("/profiling/" + ID)
        self.assertEqual([r["meandur"] for r in records], [1.0, 3.0])
        self.assertEqual([r["epochDur"] for r in records], [61.0, 69.0])
        self.assertEqual([r["iternum"] for r in records], [3, 7])

    def test_epoch_of_one_step(self):
        prof = self.profiler()
        self.train(prof, 2, 1)
        records = self.scheduler.bodies("/profiling/" + ID)
        self.assertEqual([r["iternum"] for r in records], [0, 1])
        self.assertEqual([r["meandur"] for r in records], [r["epochDur"] for r in records])

    def test_token(self):
        self.train(self.profiler(SCHED_TOKEN="one"), 1, 1)
        self.train(self.profiler(BERTH_JOB_TOKEN="two"), 1, 1)
        self.train(self.profiler(), 1, 1)
        shown = [headers.get("Authorization") for _, _, headers, _ in self.scheduler.requests]
        self.assertEqual(shown, ["Bearer one"] * 3 + ["Bearer two"] * 3 + [None] * 3)

    def test_one_connection(self):
        self.train(self.profiler(), 3, 6)
        self.assertEqual(len(self.scheduler.connections), 1)

    def test_no_heartbeats_wanted(self):
        self.train(self.profiler(HEARTBEAT_FREQ="0"), 1, 20)
        self.assertEqual(self.scheduler.told(), ["stop?", "record 19", "done 1"])

    def test_a_restart_counts_on(self):
        prof = self.profiler(JOB_RESTARTED="TRUE", EPOCHS_DONE="2")
        self.train(prof, 1, 1)
        self.assertEqual(self.scheduler.told()[-1], "done 3")


    def questions(self, **more):
        self.scheduler.requests.clear()
        self.train(self.profiler(**more), 2, 2)
        return [path.partition("?")[2] for method, path, _, _ in self.scheduler.requests if method == "GET"]

    def test_the_question_says_what_is_saved_and_by_whom(self):
        self.assertEqual(self.questions(), ["epoch=0&rank=0", "epoch=1&rank=0"])
        self.assertEqual(self.questions(EPOCHS_DONE="1", LOCAL_RANK="1", NUM_GPUS="2", NODE_RANK="1", NUM_NODES="2"),
                         ["epoch=1&rank=3", "epoch=2&rank=3"])
        self.assertEqual(self.questions(RANK="1", LOCAL_RANK="1", NUM_GPUS="2"), ["epoch=0&rank=1", "epoch=1&rank=1"])

    def test_a_child_that_cannot_tell_its_rank_says_nothing(self):
        with mock.patch("multiprocessing.process.parent_process", return_value=object()):
            self.assertEqual(self.questions(NUM_GPUS="2"), ["", ""])
            self.assertEqual(self.questions(), ["epoch=0&rank=0", "epoch=1&rank=0"])

    def test_torch_knows_the_rank(self):
        group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 5)
        with mock.patch.dict(sys.modules, {"torch.distributed": group}):
            self.assertEqual(self.questions(NUM_GPUS="8"), ["epoch=0&rank=5", "epoch=1&rank=5"])


class Stopping(Case):
    def test_first_measure_after_the_answer(self):
        prof = self.profiler()
        self.train(prof, 1, 2)
        self.scheduler.stop = b"1"
        prof.start_epoch()
        self.assertTrue(prof.has_to_stop)
        with self.assertRaises(SystemExit) as ended:
            prof.measure()
        self.assertEqual(ended.exception.code, 0)

    def test_only_exactly_one(self):
        prof = self.profiler()
        for body in (b"0", b"", b"1\n", b"11", b"true"):
            self.scheduler.stop = body
            prof.start_epoch()
            self.assertFalse(prof.has_to_stop, body)

    def test_not_in_the_last_epoch(self):
        self.scheduler.stop = b"1"
        prof = self.profiler(EPOCHS_DONE="2")
        self.train(prof, 1, 3)
        self.assertEqual(self.scheduler.told()[-1], "done 3")
        prof = self.profiler(EPOCHS_DONE="1")
        prof.start_epoch()
        self.assertTrue(prof.has_to_stop)

    def test_saving_comes_before_the_end(self):
        """A whole process: what follows end_epoch is done, the exit status is 0."""
        script = textwrap.dedent("""
            from kubernetesdlprofile import kubeprofiler
            prof = kubeprofiler.KubeProfiler()
            for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
                prof.start_epoch()
                for step in range(6):
                    prof.measure()
                prof.end_epoch()
                open(prof.root_dir + "/saved", "w").write(str(prof.epoch))
        """)
        self.scheduler.stop = b"1"
        env = self.env(EPOCHS_DONE="1", PYTHONPATH=PYTHON)
        ended = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(os.listdir(os.path.join(self.snapshots, ID)), [])
        self.scheduler.stop = b"0"
        subprocess.run([sys.executable, "-c", script], env=env, check=True, timeout=120)
        with open(os.path.join(self.snapshots, ID, "saved")) as f:
            self.assertEqual(f.read(), "3")
        self.assertEqual(self.scheduler.told()[-1], "done 3")


class Faults(Case):
    def test_scheduler_was_never_there(self):
        self.scheduler.close()
        began = time.monotonic()
        self.train(self.profiler(NUM_GPUS="4"), 3, 20)
        self.assertLess(time.monotonic() - began, 5.0)
        self.assertEqual(self.said.getvalue().count("does not answer"), 1)

    def test_count_is_told_later(self):
        """The scheduler is restarted: the count it missed arrives, before the next question."""
        prof = self.profiler()
        prof.start_epoch()
        port = self.scheduler.port
        self.scheduler.close()
        prof.end_epoch()
        self.scheduler = FakeScheduler(port)
        self.addCleanup(self.scheduler.close)
        prof.start_epoch()
        self.assertEqual([w for w in self.scheduler.told()][:2], ["done 1", "stop?"])
        self.assertIn("answers again", self.said.getvalue())

    def test_count_is_told_without_being_asked(self):
        with mock.patch.object(_wire, "OWED_S", 0.05):
            prof = self.profiler()
            prof.start_epoch()
            port = self.scheduler.port
            self.scheduler.close()
            prof.end_epoch()
            self.scheduler = FakeScheduler(port)
            self.addCleanup(self.scheduler.close)
            self.assertTrue(wait_for(lambda: "done 1" in self.scheduler.told()))
            prof.end()
        self.assertEqual(self.scheduler.told().count("done 1"), 1)

    def test_count_is_told_at_exit(self):
        """A script that began and ended while its scheduler restarted: the token says that it comes back."""
        port = self.scheduler.port
        self.scheduler.close()
        prof = self.profiler(SCHED_TOKEN="secret")
        self.train(prof, 1, 2)
        with mock.patch.object(_wire, "EXIT_OWED_S", 60.0):
            leaving = threading.Thread(target=prof._wire.close)
            leaving.start()
            self.scheduler = FakeScheduler(port)
            self.addCleanup(self.scheduler.close)
            leaving.join()
        self.assertIn("done 1", self.scheduler.told())

    def test_one_rank_of_several_waits(self):
        """It must not go on while its sisters were told to stop."""
        with mock.patch.object(_wire, "PATIENCE_S", 20.0):
            prof = self.profiler(NUM_GPUS="4", LOCAL_RANK="2")
            prof.start_epoch()
            prof.end_epoch()
            self.scheduler.stop = b"1"
            self.scheduler.hang_up = 5
            prof.start_epoch()
        self.assertTrue(prof.has_to_stop)

    def test_patience_ends(self):
        with mock.patch.object(_wire, "PATIENCE_S", 0.6):
            prof = self.profiler(NUM_GPUS="4")
            prof.start_epoch()
            self.scheduler.close()
            began = time.monotonic()
            prof.start_epoch()
            waited = time.monotonic() - began
            prof.start_epoch()
            again = time.monotonic() - began - waited
        self.assertGreater(waited, 0.5)
        self.assertLess(again, 0.5)

    def test_refusals_are_printed_and_ignored(self):
        self.scheduler.status = 404
        prof = self.profiler()
        self.scheduler.stop = b"1"
        self.train(prof, 1, 2)
        self.assertFalse(prof.has_to_stop)
        self.assertIn("refused /has_to_stop/", self.said.getvalue())

    def test_server_error_is_an_absence(self):
        self.scheduler.status = 503
        prof = self.profiler()
        self.train(prof, 2, 2)
        self.assertEqual(self.said.getvalue().count("does not answer"), 1)

    def test_slow_scheduler_does_not_slow_steps(self):
        self.scheduler.delay_s = 0.3
        prof = self.profiler(HEARTBEAT_FREQ="1")
        began = time.monotonic()
        for _ in range(40):
            prof.measure()
        self.assertLess(time.monotonic() - began, 0.2)

    def test_queue_is_bounded(self):
        self.scheduler.delay_s = 0.5
        prof = self.profiler(HEARTBEAT_FREQ="1")
        for _ in range(1000):
            prof.measure()
        self.assertLessEqual(len(prof._wire._tasks), _wire.QUEUE_MAX)
        self.assertEqual(self.said.getvalue().count("some are left out"), 1)
        self.scheduler.delay_s = 0.0
        prof.end_epoch()
        self.assertEqual(self.scheduler.told()[-2:], ["record 999", "done 1"])

    def test_hung_scheduler(self):
        self.scheduler.delay_s = 2.0
        with mock.patch.object(_wire, "TIMEOUT_S", 0.2):
            prof = self.profiler()
            began = time.monotonic()
            self.train(prof, 1, 20)
        self.assertLess(time.monotonic() - began, 1.5)

    def test_fork(self):
        prof = self.profiler()
        prof.start_epoch()
        pid = os.fork()
        if pid == 0:
            prof.start_epoch()
            os._exit(0 if prof._wire._known else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        prof.start_epoch()
        self.assertEqual(self.scheduler.told(), ["stop?"] * 3)

    def test_copies(self):
        """Models are copied and saved with the object inside."""
        prof = self.profiler()
        prof.start_epoch()
        for other in (copy.deepcopy(prof), pickle.loads(pickle.dumps(prof))):
            other.start_epoch()
            self.assertEqual(other.JOBID, ID)
        self.assertEqual(self.scheduler.told(), ["stop?"] * 3)


class Memory(Case):
    XML = """<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">
        <nvidia_smi_log>
          <gpu id="0"><processes>
            <process_info><pid>%(mine)d</pid><used_memory>1000 MiB</used_memory></process_info>
            <process_info><pid>%(child)d</pid><used_memory>536 MiB</used_memory></process_info>
            <process_info><pid>1</pid><used_memory>9000 MiB</used_memory></process_info>
          </processes></gpu>
          <gpu id="1"><processes>
            <process_info><pid>%(mine)d</pid><used_memory>1200 MiB</used_memory></process_info>
            <process_info><pid>%(child)d</pid><used_memory>N/A</used_memory></process_info>
          </processes></gpu>
        </nvidia_smi_log>"""

    def test_fullest_device_with_children(self):
        self.assertEqual(_gpumem.parse(self.XML % {"mine": 50, "child": 51}, {50, 51}), 1536)
        self.assertEqual(_gpumem.parse(self.XML % {"mine": 50, "child": 51}, {50}), 1200)
        self.assertEqual(_gpumem.parse(self.XML % {"mine": 50, "child": 51}, {7}), 0)

    def test_family(self):
        child = subprocess.Popen(["/bin/sleep", "60"])
        try:
            self.assertLessEqual({os.getpid(), child.pid}, _gpumem.family())
            self.assertNotIn(1, _gpumem.family() - {os.getpid()})
        finally:
            child.kill()
            child.wait()

    def smi(self, text):
        path = write(os.path.join(self.tmp, "bin", "nvidia-smi"), text)
        os.chmod(path, 0o755)
        return os.path.dirname(path)

    def test_in_the_record(self):
        xml = write(os.path.join(self.tmp, "smi.xml"), self.XML % {"mine": os.getpid(), "child": 1 << 30})
        bin_dir = self.smi('#!/bin/sh\n[ "$*" = "-q -x" ] && exec /bin/cat %s\nexit 2\n' % xml)
        self.train(self.profiler(PATH=bin_dir), 1, 1)
        self.assertEqual(self.scheduler.bodies("/profiling/" + ID)[0]["gpumem"], 1200)

    def test_broken_program(self):
        for text in ("#!/bin/sh\nexit 9\n", "#!/bin/sh\necho hello\n"):
            self.train(self.profiler(PATH=self.smi(text)), 1, 1)
        self.assertEqual([b["gpumem"] for b in self.scheduler.bodies("/profiling/" + ID)], [0, 0])


class Examples(Case):
    """examples/gpu-scheduler: stopped after one epoch, then gone on with."""

    def epochs(self, script, **more):
        env = self.env(PYTHONPATH=PYTHON, PYTHONDONTWRITEBYTECODE="1", **more)
        path = os.path.join(HERE, "..", "..", "examples", "gpu-scheduler", script)
        ended = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        return [int(line.split()[1].strip(":")) for line in ended.stdout.splitlines() if line.startswith("epoch ")]

    def test_preempted_and_resumed(self):
        for script in ("loop.py", "hooks.py", "callbacks.py"):
            with self.subTest(script):
                shutil.rmtree(self.snapshots, ignore_errors=True)
                self.scheduler.answers = [b"0", b"1"]
                first = self.epochs(script)
                second = self.epochs(script, JOB_RESTARTED="TRUE", EPOCHS_DONE="1")
                self.assertEqual((first, second), ([0], [1, 2]))


if __name__ == "__main__":
    unittest.main()
