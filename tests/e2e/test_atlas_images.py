"""Jobs of Atlas with an image of their own, on a real engine."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import engine_rig  # noqa: E402
import harness  # noqa: E402
from atlas_rig import RULE, Atlas, wait_for  # noqa: E402


def test_images_without_an_engine():
    with Atlas(DOCKER_HOST="unix:///nonexistent/engine.sock") as a:
        job = a.submit({"main.py": ""}, image="myCustomWorker:latest")
        end = a.wait(job)
        assert end["status"] == "failed" and "myCustomWorker:latest" in end["logs"], end["logs"]
        assert os.path.exists(a.archive(job, "artifacts", "main.py"))


def test_images():
    """A plain Python image runs the job with the module of its bundle; no start script, files of ours."""
    with engine_rig.Engine("docker") as g, Atlas(DOCKER_HOST=g.url) as a:
        g.load(engine_rig.PYTHON_IMAGE, engine_rig.python_tree())
        share = os.path.join(a.dir, "share")
        os.mkdir(share)
        script = ("import os, sys, foundations\nprint(os.getcwd(), sys.argv[1:], os.environ['MY'])\n"
                  "foundations.log_metric('m', 7)\nopen('made', 'w').write('inside')\n"
                  "open('/share/out', 'w').write('x')\n")
        job = a.submit({"main.py": script}, ["main.py", "-x"], image=engine_rig.PYTHON_IMAGE,
                       entrypoint=["python"], sdk=True, project="boxes", environment={"MY": "own"},
                       volumes={share: {"bind": "/share", "mode": "rw"}})
        end = a.wait(job)
        assert end["status"] == "completed", end["logs"]
        assert "/job/job_source ['-x'] own" in end["logs"] and RULE not in end["logs"], end["logs"]
        assert a.read(job, "artifacts", "made") == "inside" and os.path.exists(os.path.join(share, "out"))
        listing = wait_for("the report", lambda: a.get("/api/v2beta/projects/boxes/job_listing")["jobs"][0]["output_metrics"])
        assert listing == [{"name": "m", "value": 7, "type": "number"}], listing
        # A stop reaches the container; a crash of the server does not.
        job = a.submit({"main.py": "import time\nprint('up', flush=True)\ntime.sleep(600)\n"}, image=engine_rig.PYTHON_IMAGE,
                       entrypoint=["python"])
        wait_for("its first line", lambda: "up" in (a.job(job)["logs"] or ""))
        a.kill()
        a.start()
        assert a.job(job)["status"] == "running"
        a.http("DELETE", f"/running_jobs/{job}")
        assert a.wait(job)["status"] == "failed"
        assert os.path.exists(a.archive(job, "artifacts", "main.py"))


if __name__ == "__main__":
    harness.main(__name__)
