"""berth.should_stop() and SIGTERM: the first one is a request, for scripts that ask."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
LIMIT_S = 120


class Stop(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="berth-stop-")
        self.started = []

    def tearDown(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def script(self, code):
        """A script in a job whose daemon is away: SIGTERM alone can tell it."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        env.update(PYTHONPATH=PACKAGE, BERTH_JOB_ID="7", BERTH_RUN="7.1", BERTH_RUN_DIR=self.tmp)
        p = subprocess.Popen(
            [sys.executable, "-c", "import berth, os, signal, sys, threading, time\n" + textwrap.dedent(code)],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(p)
        return p

    def line(self, p, expected):
        self.assertEqual(p.stdout.readline(), expected + "\n")

    def ended(self, p):
        return p.wait(LIMIT_S)

    POLLS = """
        berth.should_stop()
        print("up", flush=True)
        while not berth.should_stop():
            time.sleep(0.01)
        print("saved", flush=True)
    """

    def test_first_sigterm_is_the_answer(self):
        p = self.script(self.POLLS)
        self.line(p, "up")
        p.terminate()
        self.line(p, "saved")
        self.assertEqual(self.ended(p), 0)

    def test_sigterms_at_once_are_one_request(self):
        """A launcher passes on what its processes got from the supervisor already."""
        p = self.script(
            """
            berth.should_stop()
            for _ in range(5):
                os.kill(os.getpid(), signal.SIGTERM)
            print(berth.should_stop(), flush=True)
            """
        )
        self.line(p, "True")
        self.assertEqual(self.ended(p), 0)

    def test_second_sigterm_ends(self):
        p = self.script(self.POLLS + "\n        while True: time.sleep(0.01)")
        self.line(p, "up")
        p.terminate()
        self.line(p, "saved")
        end = time.monotonic() + LIMIT_S
        while p.poll() is None and time.monotonic() < end:
            p.terminate()
            time.sleep(0.05)
        self.assertEqual(p.poll(), -signal.SIGTERM)

    def test_who_does_not_ask_ends_as_before(self):
        for code in (
            "berth.log(loss=1)",
            "t = threading.Thread(target=berth.should_stop); t.start(); t.join()",
        ):
            p = self.script(code + "\nprint('up', flush=True)\nwhile True: time.sleep(0.01)")
            self.line(p, "up")
            p.terminate()
            self.assertEqual(self.ended(p), -signal.SIGTERM, code)

    def test_own_handlers_stay(self):
        own = "signal.signal(signal.SIGTERM, lambda *a: os._exit(3))"
        for code in (own + "\nberth.should_stop()", "berth.should_stop()\n" + own):
            p = self.script(code + "\nprint('up', flush=True)\nwhile True: time.sleep(0.01)")
            self.line(p, "up")
            p.terminate()
            self.assertEqual(self.ended(p), 3, code)

    def test_ignored_stays_ignored(self):
        p = self.script(
            """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            berth.should_stop()
            os.kill(os.getpid(), signal.SIGTERM)
            print(berth.should_stop(), flush=True)
            """
        )
        self.line(p, "False")
        self.assertEqual(self.ended(p), 0)

    def test_forked_children_die(self):
        p = self.script(
            """
            import multiprocessing
            def work(first):
                berth.should_stop()  # a child that asks is no different
                while True: time.sleep(0.01)
            if __name__ == "__main__":
                berth.should_stop()
                fork = multiprocessing.get_context("fork")
                child = fork.Process(target=work, args=(1,))
                child.start()
                child.terminate()
                child.join()
                pool = fork.Pool(2)
                pool.map_async(work, range(2))
                pool.terminate()
                pool.join()
                print(child.exitcode, berth.should_stop(), flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
                print(berth.should_stop(), flush=True)
            """
        )
        self.line(p, "-15 False")
        self.line(p, "True")
        self.assertEqual(self.ended(p), 0)

    def test_spawned_workers_die(self):
        """multiprocessing starts them as new programs, which have the job's variables too."""
        path = os.path.join(self.tmp, "main.py")
        with open(path, "w") as f:
            f.write(
                "import berth, multiprocessing, sys, time\n"
                "def work(up):\n"
                "    berth.should_stop(); up.set()\n"
                "    while True: time.sleep(0.01)\n"
                "if __name__ == '__main__':\n"
                "    berth.should_stop()\n"
                "    spawn = multiprocessing.get_context('spawn')\n"
                "    up = spawn.Event()\n"
                "    child = spawn.Process(target=work, args=(up,))\n"
                "    child.start(); up.wait(); child.terminate(); child.join()\n"
                "    print(child.exitcode, flush=True)\n"
            )
        p = self.script("os.execv(sys.executable, [sys.executable, %r])" % path)
        self.line(p, "-15")
        self.assertEqual(self.ended(p), 0)

    def test_no_sigterm_is_lost_in_a_fork(self):
        """Sent to the child before it is ready, and to the parent before it has forked: hooks that
        were registered before those of the package run there."""
        p = self.script(
            """
            del sys.modules["berth"]
            for name in [n for n in sys.modules if n.startswith("berth.")]:
                del sys.modules[name]
            to = {"child": False, "parent": False}
            def hit(who):
                if to[who]: os.kill(os.getpid(), signal.SIGTERM)
            os.register_at_fork(before=lambda: hit("parent"), after_in_child=lambda: hit("child"))
            import berth
            berth.should_stop()
            def fork():
                pid = os.fork()
                if pid == 0:
                    time.sleep(60)
                    os._exit(0)
                return pid
            to["child"] = True
            print(os.WTERMSIG(os.waitpid(fork(), 0)[1]), berth.should_stop(), flush=True)
            to["child"], to["parent"] = False, True
            pid = fork()
            print(berth.should_stop(), signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)
            os.kill(pid, signal.SIGTERM)
            print(os.WTERMSIG(os.waitpid(pid, 0)[1]), flush=True)
            """
        )
        self.line(p, "15 False")
        self.line(p, "True set()")
        self.line(p, "15")
        self.assertEqual(self.ended(p), 0)

    def test_programs_it_starts_die(self):
        """subprocess with and without a function in the child."""
        p = self.script(
            """
            import subprocess
            berth.should_stop()
            for kind in (None, os.getpid):
                child = subprocess.Popen(["sleep", "60"], preexec_fn=kind)
                child.terminate()
                print(child.wait(), flush=True)
            """
        )
        self.line(p, "-15")
        self.line(p, "-15")
        self.assertEqual(self.ended(p), 0)


if __name__ == "__main__":
    unittest.main()
