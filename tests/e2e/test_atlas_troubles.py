"""What an Atlas user sees when a job cannot start, and when the disk is full."""
import json
import os
import subprocess

import harness
from foundations_rig import SUBMITTED, Atlas, wait_for


def said(a, directory, *options):
    """What the client printed, the log and the answer of /jobs/ID of a job that fails."""
    p = a.run("submit", *options, "scheduler", directory, "main.py")
    assert p.returncode == 0 and "has failed." in p.stdout.splitlines()[-1], p
    job = SUBMITTED.search(p.stdout).group(1)
    return p.stdout, a.ok("get", "logs", "scheduler", job), a.json("GET", f"/jobs/{job}")


def test_why_a_job_could_not_start_is_said_everywhere():
    with Atlas(DOCKER_HOST="unix:///nonexistent/engine.sock").start() as a:
        missing = os.path.join(a.dir, "no-such-data")
        cases = [
            ("gpus", "num_gpus: 1\nworker:\n  image: mine:1\n", "expects to use more GPUs (1) than available (0)", None),
            ("image", "worker:\n  image: mine:1\n", "image mine:1 cannot be used", None)]
        try:
            harness.need_mounts()
            cases.append(("volume", f"worker:\n  volumes:\n    {missing}:\n      bind: /data\n      mode: rw\n",
                          "no-such-data", "could not be started: cannot mount"))
        except harness.Skip:
            pass
        for name, conf, words, more in cases:
            directory = a.project(name, "print('hi')\n", **{"job.config.yaml": conf})
            client, log, answer = said(a, directory)
            for text in (client, log, answer["logs"]):
                assert words in text and (more or words) in text, (name, text)
            assert answer["status"] == "failed" and answer["reason"], answer
            if more:
                assert words in answer["reason"], answer


def test_an_ordinary_failure_has_no_further_lines():
    with Atlas().start() as a:
        client, log, answer = said(a, a.project("fails", "print('hi')\nraise SystemExit(3)\n"))
        assert client.splitlines()[-2:][0] == "hi", client
        assert answer["reason"] == "exit status 3" and answer["return_code"] == 3, answer


def fill(path):
    """Takes all the space that is left."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 1 << 16, 4096):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError:
                pass


class SmallDisk:
    """A home of Atlas on a tmpfs of so many megabytes."""

    def __init__(self, megabytes):
        if os.geteuid() != 0:
            raise harness.Skip("mounting a small tmpfs needs root")
        self.atlas = Atlas()
        os.mkdir(self.atlas.home)
        p = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", self.atlas.home],
                           capture_output=True, text=True)
        if p.returncode:
            self.atlas.close()
            raise harness.Skip(f"cannot mount a tmpfs here: {p.stderr.strip()}")
        self.filler = os.path.join(self.atlas.home, "filler")

    def __enter__(self):
        return self.atlas.start()

    def __exit__(self, *args):
        try:
            self.atlas.stop()
        finally:
            subprocess.run(["umount", "-l", self.atlas.home], check=False)
            self.atlas.close()


def test_a_job_is_not_shown_as_ended_without_its_archive():
    disk = SmallDisk(64)
    with disk as a:
        go = os.path.join(a.dir, "go")
        directory = a.project("full", "import os, time\nopen('result', 'wb').write(os.urandom(1 << 20))\n"
                              "print('in', flush=True)\n"
                              f"while not os.path.exists({go!r}): time.sleep(0.05)\n")
        p = a.start_process("submit", "scheduler", directory, "main.py")
        job = None
        out = []
        for line in p.stdout:
            out.append(line)
            job = job or SUBMITTED.search(line)
            if line == "in\n":
                break
        job = job.group(1)
        fill(disk.filler)
        with open(go, "w"):
            pass
        wait_for(lambda: "waits for space" in (a.json("GET", f"/jobs/{job}?logs=0").get("reason") or ""),
                 why="for the archive to wait")
        assert a.status(job) == "running"
        line = next(x for x in p.stdout if job in x)  # from the client that waits for the job
        assert "WARNING" in line and "its archive waits for space on the disk" in line, line
        assert "its archive waits for space on the disk" in a.ok("get", "logs", "scheduler", job)
        archive = os.path.join(a.home, "job_data/archive", job)
        assert not os.path.exists(os.path.join(archive, "miscellaneous/job_artifact_listing.json"))
        os.unlink(disk.filler)  # and without a restart:
        a.wait_status(job, "completed")
        with open(os.path.join(archive, "miscellaneous/job_artifact_listing.json")) as f:
            assert json.load(f) == ["main.py", "result"]
        assert os.path.getsize(os.path.join(archive, "artifacts/result")) == 1 << 20
        assert a.json("GET", f"/jobs/{job}")["reason"] is None
        rest = p.stdout.read()
        assert p.wait(60) == 0 and f"Job '{job}' has completed." in rest, (out, rest)


if __name__ == "__main__":
    harness.main(__name__)
