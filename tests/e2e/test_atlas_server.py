"""The server of Atlas: bundles, the strict queue, the built-in worker, archives, crashes."""
import base64
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "training")]
import fake_gpu  # noqa: E402
import harness  # noqa: E402
from atlas_rig import RULE, Atlas, Refused, bundle, form, wait_for  # noqa: E402

NO_REQUIREMENTS = f"{RULE}\nNo user requirements found.\n{RULE}\n"


def test_a_job_from_bundle_to_archive():
    with Atlas() as a:
        files = {"main.py": "import sys, os\nprint('hello', sys.argv[1:])\nopen('made.txt', 'w').write('new')\n"
                            "print(os.environ['FOUNDATIONS_JOB_ID'], os.environ['FOUNDATIONS_PROJECT_NAME'])\n",
                 "data/x.csv": "1,2\n", "foundations_job_parameters.json": '{"lr": 1}'}
        job = a.submit(files, ["main.py", "--lr", "-x"], project="iris")
        end = a.wait(job)
        assert end["status"] == "completed", end
        assert end["logs"] == NO_REQUIREMENTS + f"hello ['--lr', '-x']\n{job} iris\n", end["logs"]
        assert end["return_code"] == 0 and end["start_time"] <= end["end_time"]
        assert end["metadata"] == {"project_name": "iris", "username": "ada"}
        # The archive is the source at the end of the job; the working directory is gone.
        assert a.read(job, "artifacts", "made.txt") == "new"
        assert a.read(job, "artifacts", "main.py") == files["main.py"]
        listing = ["data/x.csv", "foundations_job_parameters.json", "made.txt", "main.py"]
        with open(a.archive(job, "miscellaneous", "job_artifact_listing.pkl"), "rb") as f:
            assert sorted(pickle.load(f)) == listing
        assert sorted(json.loads(a.read(job, "miscellaneous", "job_artifact_listing.json"))) == listing
        assert os.listdir(a.path("local_docker_scheduler", "work_dir")) == []
        # It comes back as a tgz with the id on top.
        with tarfile.open(fileobj=io.BytesIO(a.http("GET", f"/job_bundle/{job}"))) as tar:
            names = sorted(m.name for m in tar if m.isfile())
        assert names == [f"{job}/{n}" for n in listing], names
        # Every port answers every path, and the daemon's own are there too.
        for port in (0, 1, 2, 4):
            assert a.get(f"/jobs/{job}", port)["status"] == "completed"
        assert list(a.get("/completed_jobs?sort=start_time:desc")) == [job]
        assert a.get(f"/completed_jobs/{job}/logs") == end["logs"]
        assert a.get(f"/jobs/{job}?logs=0") == {k: v for k, v in end.items() if k != "logs"}
        assert a.http("GET", f"/jobs/{job}/logs?offset=242") == end["logs"][242:].encode()
        assert a.http("GET", f"/{job}/artifacts/made.txt", port=3) == b"new"
        a.refused(404, "GET", f"/archive/{job}/../{job}/artifacts/made.txt")
        p = subprocess.run([harness.BERTH, "ls", "--all", "-o", "json"], env={**a.env, "BERTH_HOME": a.path("database")},
                           capture_output=True, text=True, timeout=120)
        assert p.returncode == 0 and '"iris"' in p.stdout, p.stdout + p.stderr
        # Deleted, nothing is left of it.
        a.http("DELETE", f"/completed_jobs/{job}")
        assert a.status == 204
        a.refused(404, "GET", f"/jobs/{job}")
        a.refused(404, "GET", f"/job_bundle/{job}")
        assert not os.path.exists(a.archive(job))


def test_failures_are_failed_and_archived():
    with Atlas() as a:
        bad = a.submit({"main.py": "open('left', 'w').write('x')\nraise SystemExit(3)\n"})
        end = a.wait(bad)
        assert end["status"] == "failed" and end["return_code"] == 3
        assert a.read(bad, "artifacts", "left") == "x"
        assert list(a.get("/failed_jobs")) == [bad] and a.get("/completed_jobs") == {}
        missing = a.submit({"other.py": ""})
        assert "main.py" in a.wait(missing, "failed")["logs"]
        # No GPU here: it fails in its turn with the line clients know.
        gpu = a.submit({"main.py": ""}, gpus=1)
        end = a.wait(gpu, "failed")
        assert end["logs"] == (f"Foundations ERROR: Job '{gpu}' expects to use more GPUs (1) than available (0), "
                               "removing from the queue\n"), end["logs"]
        assert os.path.exists(a.archive(gpu, "artifacts", "main.py"))


def test_strictly_one_after_the_other():
    with Atlas() as a:
        stamp = "import time\nwith open('%s', 'a') as f: f.write(f'{time.time()} ')\ntime.sleep(0.3)\n" \
                "with open('%s', 'a') as f: f.write(f'{time.time()}\\n')\n"
        out = os.path.join(a.dir, "times")
        jobs = [a.submit({"main.py": stamp % (out, out)}, project=f"p{i}") for i in range(4)]
        queued = a.get("/queued_jobs")
        assert all(queued[k]["position"] == int(k) for k in queued)
        for j in jobs:
            assert a.wait(j)["status"] == "completed"
        with open(out) as f:
            spans = [tuple(map(float, line.split())) for line in f]
        assert len(spans) == 4 and all(x[1] <= y[0] for x, y in zip(spans, spans[1:])), spans
        ends = [a.job(j)["start_time"] for j in jobs]
        assert ends == sorted(ends)


def test_positions():
    with Atlas() as a:
        block = a.submit({"main.py": "import time\ntime.sleep(600)\n"})
        a.wait(block, "running")
        jobs = [a.submit({"main.py": ""}) for _ in range(4)]

        def order():
            q = a.get("/queued_jobs")
            return [q[str(i)]["job_id"] for i in range(len(q))]
        assert order() == jobs
        a.http("PATCH", "/queued_jobs/3", 0)
        assert a.status == 204
        assert order() == [jobs[3], jobs[0], jobs[1], jobs[2]]
        assert a.get("/queued_jobs/0")["job_id"] == jobs[3]
        a.http("DELETE", "/queued_jobs/1")
        assert order() == [jobs[3], jobs[1], jobs[2]]
        a.refused(404, "GET", f"/jobs/{jobs[0]}")
        a.refused(404, "DELETE", "/queued_jobs/3")
        a.refused(400, "PATCH", "/queued_jobs/0", {"a": 1})
        # The order survives a crash of the server, and so does the running job.
        a.kill()
        a.start()
        assert order() == [jobs[3], jobs[1], jobs[2]]
        assert a.job(block)["status"] == "running"
        # Clear the queue as clients do.
        count = 0
        while True:
            try:
                a.http("DELETE", "/queued_jobs/0")
                count += 1
            except Refused as e:
                assert e.status == 404
                break
        assert count == 3 and a.get("/queued_jobs") == {}
        assert a.job(block)["status"] == "running"
        a.http("DELETE", f"/running_jobs/{block}")
        assert a.status == 204
        end = a.wait(block, "failed", timeout=120)
        assert os.path.exists(a.archive(block, "artifacts", "main.py")), end
        a.refused(404, "DELETE", f"/running_jobs/{block}")


def test_workers_come_and_go():
    with Atlas(workers=2) as a:
        jobs = [a.submit({"main.py": "import time\ntime.sleep(600)\n"}) for _ in range(4)]
        for j in jobs[:2]:
            a.wait(j, "running")
        assert {w["job_id"] for w in a.get("/workers").values()} == set(jobs[:2])
        assert json.loads(a.http("POST", "/workers")) == 2 and a.status == 201
        a.wait(jobs[2], "running")
        assert a.job(jobs[3])["status"] == "queued"
        victim = a.get("/workers")["0"]["job_id"]
        a.http("DELETE", "/workers/0")
        a.wait(victim, "failed")
        assert sorted(a.get("/workers")) == ["1", "2"]
        a.refused(404, "DELETE", "/workers/7")
        assert a.job(jobs[3])["status"] == "queued"


def test_requirements_are_installed_once():
    with Atlas(PIP_NO_INDEX="1") as a:
        package = os.path.join(a.dir, "pkg")
        os.makedirs(os.path.join(package, "atlas_probe"))
        with open(os.path.join(package, "setup.py"), "w") as f:
            f.write("from setuptools import setup\nsetup(name='atlas-probe', version='1', packages=['atlas_probe'])\n")
        with open(os.path.join(package, "atlas_probe", "__init__.py"), "w") as f:
            f.write("WORD = 'found'\n")
        wheel = subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-build-isolation",
                                "--no-deps", "-w", a.dir, package], capture_output=True, text=True)
        if wheel.returncode:
            raise harness.Skip("no wheel can be made here: " + wheel.stderr.strip()[-200:])
        files = {"main.py": "import atlas_probe\nprint(atlas_probe.WORD)\n",
                 "requirements.txt": f"--find-links {a.dir}\natlas-probe\n"}
        first = a.wait(a.submit(files))
        lines = first["logs"].splitlines()
        assert first["status"] == "completed", first["logs"]
        assert lines[0] == lines[2] == RULE and "requirements" in lines[1] and lines[-2] == RULE, lines
        assert lines[-1] == "found"
        again = a.wait(a.submit(files))
        assert again["status"] == "completed" and "before" in again["logs"], again["logs"]
        # What pip cannot do does not stop the job.
        broken = a.wait(a.submit({"main.py": "print('on we go')\n", "requirements.txt": "no-such-thing-1234\n"}))
        assert broken["status"] == "completed" and broken["logs"].endswith(f"{RULE}\non we go\n"), broken["logs"]


def volumes(a, mounted):
    """A job with volumes: are they there, the read-only one as such, or is each a warning?"""
    share = os.path.join(a.dir, "share")
    os.mkdir(share)
    os.chmod(share, 0o777)
    with open(os.path.join(share, "in"), "w") as f:
        f.write("from outside")
    end = a.wait(a.submit({"main.py": "import os\nprint(open('/my/path/in').read(), os.getuid(), os.path.exists('/job/job_source/main.py'))\n"
                                      "open('/my/path/out', 'w').write('x')\n"
                                      "try:\n    open('/fixed/new', 'w')\nexcept OSError as e:\n    print(e.strerror)\n"},
                          volumes={share: {"bind": "/my/path", "mode": "rw"}, a.dir: {"bind": "/fixed", "mode": "ro"}}))
    warnings = end["logs"].count("Foundations WARNING: volume")
    if mounted:
        assert end["status"] == "completed" and not warnings and os.path.exists(os.path.join(share, "out")), end["logs"]
        assert end["logs"].endswith(f"from outside {a.user.get('user', os.geteuid())} True\nRead-only file system\n"), end["logs"]
    else:
        assert end["status"] == "failed" and warnings == 2, end["logs"]
    assert not os.path.exists("/my/path") and not os.path.exists("/fixed")


def test_volumes_without_root():
    with Atlas(BERTH_NO_MOUNTS="1") as a:
        volumes(a, False)
    user = 65534 if os.geteuid() == 0 else None
    who = {"user": user, "group": user} if user else {}
    if subprocess.run(["test", "-x", harness.BERTH], **who).returncode:
        raise harness.Skip("the programs are in a directory that other users cannot enter")
    can = subprocess.run(["unshare", "--user", "--mount", "true"], stderr=subprocess.DEVNULL, **who).returncode == 0
    with Atlas(user=user) as a:
        volumes(a, can)


def test_worker_settings():
    if os.geteuid() == 0:
        harness.need_mounts()
    with Atlas() as a:
        share = os.path.join(a.dir, "share")
        os.mkdir(share)
        with open(os.path.join(share, "in"), "w") as f:
            f.write("from outside")
        job = a.submit({"main.py": "import os\nprint(os.environ['MY_ENV_VAR'], open('/my/path/in').read(), os.getcwd())\n"
                                   "open('/my/path/out', 'w').write('x')\nprint(os.path.exists('/job/job_source/main.py'))\n"},
                       image="us.gcr.io/atlas-ce/worker:latest", environment={"MY_ENV_VAR": "MY_VALUE"},
                       volumes={share: {"bind": "/my/path", "mode": "rw"}})
        end = a.wait(job)
        if os.geteuid() == 0 or "Foundations WARNING: volume" not in end["logs"]:
            assert end["status"] == "completed", end["logs"]
            assert "MY_VALUE from outside" in end["logs"] and end["logs"].endswith("True\n"), end["logs"]
            assert os.path.exists(os.path.join(share, "out"))
        # An entrypoint takes the place of the start script.
        job = a.submit({"run.sh": "echo from $1\n"}, ["run.sh", "here"], entrypoint=["/bin/sh"])
        assert a.wait(job, "completed")["logs"] == "from here\n"


def test_hostile_bundles_leave_nothing():
    with Atlas() as a:
        def refused(job, why, data=None, field="job_bundle", status=400, **how):
            body, kind = form(job, data if data is not None else bundle(job, {"main.py": ""}, **how), field)
            text = a.refused(status, "POST", "/job_bundle", body, {"Content-Type": kind})
            assert why in text, text
            a.refused(400, "POST", "/queued_jobs", {"job_id": job, "spec": {}, "metadata": {}, "gpu_spec": {}})
        def member(name, kind, to=""):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, to
            return info
        job = str(uuid.uuid4())
        refused(job, "", raw=[member(f"{job}/job_source/x", tarfile.CHRTYPE)])
        job = str(uuid.uuid4())
        refused(job, "link", raw=[member(f"{job}/job_source/x", tarfile.SYMTYPE, "/tmp"),
                                  member(f"{job}/job_source/x/y", tarfile.REGTYPE)])
        job = str(uuid.uuid4())
        refused(job, "", raw=[member(f"{job}/job_source/x", tarfile.LNKTYPE, "/etc/passwd")])
        # A source that is itself a link out of the tree runs nowhere.
        job = str(uuid.uuid4())
        a.upload(job, {}, raw=[member(f"{job}/job_source", tarfile.SYMTYPE, "/tmp")])
        a.enqueue(job, ["main.py"])
        assert "no job_source" in a.wait(job, "failed")["logs"]
        a.http("DELETE", f"/completed_jobs/{job}")
        job = str(uuid.uuid4())
        outside = tarfile.TarInfo(f"{job}/../../x")
        refused(job, "..", raw=[outside])
        refused(str(uuid.uuid4()), "", top="another")
        refused(str(uuid.uuid4()), "", data=b"this is no tar at all")
        refused(str(uuid.uuid4()), "", data=bundle("a", {"b": "c" * 100000})[:-20])
        refused(str(uuid.uuid4()), "job_bundle", field="file")
        refused("not-an-id", "job id")
        refused("z" * 36, "UUID")
        a.refused(400, "POST", "/job_bundle", b"x", {"Content-Type": "text/plain"})
        a.refused(400, "POST", "/job_bundle", b"", {"Content-Type": "multipart/form-data; boundary=x"})
        bomb = io.BytesIO()
        with tarfile.open(fileobj=bomb, mode="w:gz", compresslevel=9) as tar:
            job = str(uuid.uuid4())
            info = tarfile.TarInfo(f"{job}/job_source/zeros")
            info.size = 200 << 20

            class Zeros:
                def read(self, n):
                    return bytes(n)
            tar.addfile(info, Zeros())
        refused(job, "times its size", data=bomb.getvalue(), status=413)
        assert a.get("/queued_jobs") == {} and a.get("/failed_jobs") == {}
        # Missing keys and missing bundles leave the queue alone.
        job = str(uuid.uuid4())
        assert "spec" in a.refused(400, "POST", "/queued_jobs", {"job_id": job})
        assert "bundle" in a.refused(400, "POST", "/queued_jobs",
                                     {"job_id": job, "spec": {}, "metadata": {}, "gpu_spec": {}})
        a.refused(400, "POST", "/queued_jobs", b"{]")
        job = a.submit({"main.py": ""})
        body, kind = form(job, bundle(job, {"main.py": ""}))
        a.refused(400, "POST", "/job_bundle", body, {"Content-Type": kind})
        a.wait(job, "completed")
        # A bundle that was never submitted can be taken back.
        job = str(uuid.uuid4())
        a.upload(job, {"main.py": ""})
        a.http("DELETE", f"/job_bundle/{job}")
        a.refused(404, "DELETE", f"/job_bundle/{job}")


def test_archives_after_a_crash():
    """The server dies while a job runs; the job ends meanwhile; the next server archives it."""
    with Atlas() as a:
        flag = os.path.join(a.dir, "go")
        job = a.submit({"main.py": f"import os, time\nprint('up', flush=True)\nwhile not os.path.exists({flag!r}): time.sleep(0.05)\n"
                                   "open('late', 'w').write('still here')\n"})
        waiting = a.submit({"main.py": "print('second')\n"})
        wait_for("its first line", lambda: "up" in (a.job(job)["logs"] or ""))
        a.kill()
        open(flag, "w").close()
        time.sleep(1)
        a.start()
        assert a.wait(job)["status"] == "completed"
        assert a.read(job, "artifacts", "late") == "still here"
        assert a.wait(waiting, "completed")["logs"].endswith("second\n")
        # Killed with everything it started: failed, with a reason, and archived.
        job = a.submit({"main.py": "import time\nopen('half', 'w').write('x')\nprint('up', flush=True)\ntime.sleep(600)\n"})
        wait_for("its first line", lambda: "up" in (a.job(job)["logs"] or ""))
        a.kill()
        for pid in a.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        a.start()
        assert a.wait(job)["status"] == "failed"
        assert a.read(job, "artifacts", "half") == "x"
        assert os.listdir(a.path("local_docker_scheduler", "work_dir")) == []


def test_crashes_while_archiving():
    """The archive is a step of the job's end: the worker is free meanwhile, and a crash repeats the step."""
    # With fault points the server sleeps before it archives, so that it is killed there.
    with Atlas(BERTH_FAULT_END_STEP_MS="1500") as a:
        job = a.submit({"main.py": "open('kept', 'w').write('x')\nprint('done', flush=True)\n"})
        second = a.submit({"main.py": "print('second', flush=True)\n"})
        for _ in range(2):
            wait_for("its last line", lambda: "done" in (a.job(job)["logs"] or ""))
            wait_for("the second job on the worker", lambda: "second" in (a.job(second)["logs"] or ""))
            a.kill()
            a.start()
        began = time.monotonic()
        a.stop()  # does not wait for steps under way, or for the sleep alone
        assert time.monotonic() - began < 20
        a.start()
        assert a.wait(job, "completed")["return_code"] == 0
        assert a.read(job, "artifacts", "kept") == "x"
        a.wait(second, "completed")
        assert os.listdir(a.path("local_docker_scheduler", "work_dir")) == []


def test_following_a_log():
    with Atlas() as a:
        flag = os.path.join(a.dir, "go")
        job = a.submit({"main.py": f"import os, time\nprint('one', flush=True)\nwhile not os.path.exists({flag!r}): time.sleep(0.05)\nprint('two')\n"})
        p = subprocess.Popen(["curl", "-sN", a.url(f"/jobs/{job}/logs?offset=0&follow=1")], stdout=subprocess.PIPE)
        seen = b""
        while b"one\n" not in seen:
            seen += p.stdout.read1()
        open(flag, "w").close()
        seen += p.stdout.read()
        assert p.wait(120) == 0 and seen.decode() == NO_REQUIREMENTS + "one\ntwo\n", seen


def test_many_identical_directories():
    """A sweep: the same tree again and again grows the store by little more than the lists of files."""
    with Atlas() as a:
        n = int(os.environ.get("BERTH_ATLAS_SWEEP", "8"))
        blob = os.urandom(1 << 20)
        files = {f"data/{i}.bin": blob[i:] + blob[:i] for i in range(4)}
        files["main.py"] = "import json\nprint(json.load(open('foundations_job_parameters.json'))['i'])\n"
        jobs = []
        for i in range(n):
            files["foundations_job_parameters.json"] = json.dumps({"i": i})
            jobs.append(a.submit(dict(files)))
        for i, j in enumerate(jobs):
            assert a.wait(j, "completed", timeout=300)["logs"].endswith(f"{i}\n")
            assert json.loads(a.read(j, "artifacts", "foundations_job_parameters.json")) == {"i": i}
        total = sum(int(line.split()[0]) for line in subprocess.check_output(
            ["du", "-sk", a.path("job_bundle_store_dir"), a.path("job_data")], text=True).splitlines())
        assert total < 4 * 1100 * 1.5 + n * 100, f"{total} KiB for {n} jobs of 4 MiB"


SCRIPT = """import sys
import foundations
foundations.log_params({"lr": float(sys.argv[1]), "net": {"depth": 3}})
for i in range(3):
    foundations.log_metric("loss", 1 / (i + 1) * float(sys.argv[1]))
foundations.log_metric("accuracy", 0.5 + float(sys.argv[1]))
foundations.set_tag("model", sys.argv[2])
with open("plot 1.png", "w") as f:
    f.write("no picture")
foundations.save_artifact("plot 1.png", "plot")
"""


def test_the_tracker():
    with Atlas() as a:
        jobs = [a.submit({"main.py": SCRIPT}, ["main.py", str(lr), f"m{lr}"], sdk=True, project="iris")
                for lr in (0.25, 0.125)]
        waiting = a.submit({"main.py": "import time\ntime.sleep(600)\n"}, project="iris")
        for j in jobs:
            end = a.wait(j)
            assert end["status"] == "completed", end["logs"]
        base = "/api/v2beta/projects"
        # Reports may arrive a moment after the end.
        listing = wait_for("the reports", lambda: (lambda x: x if all(
            len(j["output_metrics"]) == 2 for j in x["jobs"] if j["job_id"] in jobs) else None)(
                a.get(f"{base}/iris/job_listing")))
        assert listing["name"] == "iris"
        first = next(j for j in listing["jobs"] if j["job_id"] == jobs[0])
        assert first["status"] == "completed" and first["user"] == "ada" and first["project"] == "iris"
        assert first["tags"] == {"model": "m0.25"}, first["tags"]
        assert {p["name"]: p["value"] for p in first["job_parameters"]} == {"lr": 0.25, "net_depth": 3}
        metrics = {m["name"]: m["value"] for m in first["output_metrics"]}
        assert metrics["accuracy"] == 0.75 and metrics["loss"][:2] == [0.25, 0.125] and len(metrics["loss"]) == 3
        assert first["duration"].startswith("0d0h") and first["start_time"] <= first["completed_time"]
        art = first["artifacts"][0]
        assert art["archive_key"] == "plot" and art["artifact_type"] == "image" and "plot%201.png" in art["uri"], art
        assert a.http("GET", "/" + art["uri"].split("/", 3)[3], port=3) == b"no picture"
        assert a.read(jobs[0], "user_artifacts", art["filename"]) == "no picture"
        assert {n["name"] for n in listing["output_metric_names"]} == {"loss", "accuracy"}
        assert [n["name"] for n in a.get(f"{base}")] == ["iris"]

        def ids(query):
            return [j["job_id"] for j in a.get(f"{base}/iris/job_listing{query}")["jobs"]]
        assert ids("")[-1] != jobs[0] or len(ids("")) == 3
        assert ids("?status=completed&sort=lr") == [jobs[1], jobs[0]]
        assert ids("?status=completed&sort=-lr") == jobs
        assert ids("/input_params:lr/asc")[:2] == [jobs[1], jobs[0]] and ids("/parameters:lr/desc")[:2] == jobs
        assert ids("/output_metrics:accuracy/desc")[:2] == jobs
        assert ids("?lr_starts=0.2&lr_ends=0.3") == [jobs[0]]
        assert ids("?tags=m,model&accuracy_isnull=false&sort=lr") == [jobs[1], jobs[0]]
        assert ids("?accuracy_isnull=true") == [waiting]
        assert ids(f"?job_id_contains={jobs[0][:8]}") == [jobs[0]]
        assert ids("?start_time_starts=01_01_2020_00_00&start_time_ends=01_02_2020_00_00") == []
        assert set(ids("?duration_starts=0_0_0_0&duration_ends=9_0_0_0&status=completed")) == set(jobs)
        assert ids("?user=nobody") == []
        a.refused(404, "GET", f"{base}/none/job_listing")
        over = a.get(f"{base}/iris/overview_metrics?metric_name=accuracy")
        assert sorted(over["all_metric_names"]) == ["accuracy", "loss"]
        assert over["metric_query"] == [{"metric_name": "accuracy", "values": [[jobs[0], 0.75], [jobs[1], 0.625]]}], over
        # Tags, notes, description by hand.
        a.http("POST", f"{base}/iris/job_listing/{jobs[0]}/tags", {"tag": {"key": "best", "value": "yes"}})
        a.http("DELETE", f"{base}/iris/job_listing/{jobs[0]}/tags/model")
        first = next(j for j in a.get(f"{base}/iris/job_listing")["jobs"] if j["job_id"] == jobs[0])
        assert first["tags"] == {"best": "yes"}, first["tags"]
        a.refused(400, "POST", f"{base}/iris/job_listing/{jobs[0]}/tags", {"tag": {}})
        a.http("PUT", f"{base}/iris/description", {"project_description": "# Iris\n*all* of it"})
        assert a.get(f"{base}/iris/description") == {"project_description": "# Iris\n*all* of it"}
        for text in ("first", "second"):
            a.http("POST", f"{base}/iris/note_listing", {"message": text, "author": "ada"})
        notes = a.get(f"{base}/iris/note_listing")
        assert [n["message"] for n in notes] == ["second", "first"] and notes[0]["author"] == "ada"
        assert a.get(f"{base}/iris/job_listing/{jobs[0]}/logs")["log"] == a.job(jobs[0])["logs"]
        a.refused(404, "POST", "/api/v2beta/upload_to_tensorboard", {"job_ids": [jobs[0]]})
        os.makedirs(a.archive(jobs[0], "synced_directories", "__tensorboard__"))
        assert "url" in json.loads(a.http("POST", "/api/v2beta/upload_to_tensorboard", {"job_ids": [jobs[0]]}))
        assert os.path.islink(a.path("tensorboard", "work_dir", jobs[0][:8]))
        a.refused(409, "DELETE", f"{base}/iris/job_listing/{waiting}")
        assert jobs[0] in a.http("DELETE", f"{base}/iris/job_listing/{jobs[0]}").decode()
        assert jobs[0] not in ids("") and not os.path.exists(a.archive(jobs[0]))


def test_tokens():
    with Atlas(args=["-p"]) as a:
        a.refused(401, "GET", "/queued_jobs")
        with open(a.path("config", "users.yaml"), "w") as f:
            f.write("ada: lovelace\n")

        def basic(pair):
            return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        a.refused(401, "GET", "/api/v2beta/auth/cli_login", headers=basic("ada:lovelace"))  # readable by others
        os.chmod(a.path("config", "users.yaml"), 0o600)
        a.refused(401, "GET", "/api/v2beta/auth/cli_login", headers=basic("ada:wrong"))
        token = json.loads(a.http("GET", "/api/v2beta/auth/cli_login", headers=basic("ada:lovelace")))["access_token"]
        bearer = {"Authorization": f"Bearer {token}"}
        assert json.loads(a.http("GET", "/auth/verify", headers=bearer)) == {"preferred_username": "ada"}
        assert json.loads(a.http("GET", "/queued_jobs", headers=bearer)) == {}
        a.refused(401, "GET", "/queued_jobs", headers={"Authorization": f"Bearer {token[:-2]}xx"})
        body, kind = form(str(uuid.uuid4()), b"x")
        a.refused(401, "POST", "/job_bundle", body, {"Content-Type": kind})


def test_the_gpu_queue():
    """Four GPUs and jobs that need 2, 2, 3, 3, 1: the first two run together, the third waits for both,
    the fourth for the third, and the last passes nobody."""
    a = Atlas(workers=4, args=["-g"])
    state = os.path.join(a.dir, "gpus")
    fake_gpu.create(state, 4, 16000)
    a.env.update(BERTH_NVML_LIBRARY=fake_gpu.library(harness.BUILD), FAKE_NVML_STATE=state)
    with open(os.path.join(a.bin, "nvidia-smi"), "w") as f:
        f.write("#!/bin/sh\nfor i in 0 1 2 3; do echo \"GPU $i: stand-in\"; done\n")
    os.chmod(os.path.join(a.bin, "nvidia-smi"), 0o755)
    with a:
        jobs = []
        for i, need in enumerate((2, 2, 3, 3, 1)):
            flag = os.path.join(a.dir, f"go{i}")
            jobs.append(a.submit({"main.py": "import os, time\nprint('gpus', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
                                             f"while not os.path.exists({flag!r}): time.sleep(0.05)\n"}, gpus=need))

        def states():
            return [a.job(j)["status"] for j in jobs]

        def go(i):
            open(os.path.join(a.dir, f"go{i}"), "w").close()
            a.wait(jobs[i], "completed")

        def gpus(i):
            wait_for("its line", lambda: "gpus" in (a.job(jobs[i])["logs"] or ""))
            return a.job(jobs[i])["logs"].split("gpus ")[1].split()[0].split(",")
        for i in (0, 1):
            a.wait(jobs[i], "running")
        assert len(set(gpus(0) + gpus(1))) == 4 and len(gpus(0)) == 2
        time.sleep(1.5)
        assert states()[2:] == ["queued"] * 3, states()
        go(0)
        time.sleep(1.5)
        assert states()[2:] == ["queued"] * 3, "two are free: the third wants three, the last must not pass"
        go(1)
        a.wait(jobs[2], "running")
        assert len(gpus(2)) == 3
        time.sleep(1.5)
        assert states()[3:] == ["queued"] * 2, states()
        go(2)
        a.wait(jobs[3], "running")
        a.wait(jobs[4], "running")  # one is left for it, and nobody is before it
        assert not set(gpus(3)) & set(gpus(4))
        go(3)
        go(4)
        five = a.submit({"main.py": ""}, gpus=5)
        assert "(5) than available (4)" in a.wait(five, "failed")["logs"]


def test_programs_beside_the_server():
    """TensorBoard lives as long as the server; GPUs may be named by the beginning of their UUID."""
    a = Atlas(args=["-g"])
    said, state = os.path.join(a.dir, "board"), os.path.join(a.dir, "gpus")
    fake_gpu.create(state, 3, 16000)
    for name, text in (("tensorboard", f'echo $$ "$@" >> {said}\nexec sleep 600'),
                       ("nvidia-smi", "for i in 0 1 2; do echo \"GPU $i: stand-in (UUID: GPU-${i}a1b2-c3)\"; done")):
        path = os.path.join(a.bin, name)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
    a.env.update(CUDA_VISIBLE_DEVICES="GPU-0a1,GPU-2a1b2-c3,1x", PATH=a.bin + ":" + a.env["PATH"],
                 BERTH_NVML_LIBRARY=fake_gpu.library(harness.BUILD), FAKE_NVML_STATE=state)
    a.env.pop("NUM_WORKERS", None)

    def board(n):
        """The pid of the n-th and its words."""
        wait_for("TensorBoard", lambda: os.path.exists(said) and len(open(said).readlines()) >= n)
        with open(said) as f:
            pid, *words = f.readlines()[n - 1].split()
        return int(pid), words

    def alive(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    with a:
        assert "Number of workers: 2" in a.text() and "TensorBoard is listening on " in a.text(), a.text()
        pid, words = board(1)
        assert words[:2] == ["--logdir", a.path("tensorboard", "work_dir")] and "--port" in words and alive(pid), words
        a.server.kill()
        a.server.wait()
        wait_for("the end of TensorBoard", lambda: not alive(pid))
        a.start()
        pid, _ = board(2)
        a.stop()
        assert not alive(pid)


def test_the_launcher():
    with Atlas() as a:
        text = a.text()
        for what in ("Foundations Atlas Server - INFO - ", "Number of workers: 1", "There is no GUI; `foundations list`"):
            assert what in text, text
        run = lambda *w, **e: subprocess.run([os.path.join(a.bin, "atlas-server"), *w], env={**a.env, **e},  # noqa: E731
                                             capture_output=True, text=True, timeout=120)
        p = run("frobnicate")
        assert p.returncode == 1 and "frobnicate" in p.stdout and "usage" in p.stdout
        assert run("version").returncode == 0
        p = run("start", "-g", PATH="/nonexistent")
        assert p.returncode == 1 and "ERROR" in p.stdout and "nvidia-smi" in p.stdout, p.stdout
        assert run("start", "-a", "x").returncode == 1
        # Another start takes over; stop ends it.
        first = a.server
        a.start()
        assert first.wait(120) == 0
        wait_for("the server that took over", a.answers, 60)  # the first one answered until it left
        p = run("stop")
        assert p.returncode == 0 and "stopped" in p.stdout, p.stdout
        assert a.server.wait(120) == 0
        assert "not running" in run("stop").stdout
        for name in ("config/submission/scheduler.config.yaml", "config/execution/default.config.yaml"):
            assert os.path.exists(a.path(name))


if __name__ == "__main__":
    harness.main(__name__)
