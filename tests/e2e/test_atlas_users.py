"""Small things that people who work with Atlas every day met."""
import http.client
import io
import json
import os
import subprocess
import sys
import tarfile
import uuid

import harness
from foundations_rig import PYTHON, Atlas, wait_for

shared = None


def atlas():
    global shared
    if shared is None:
        shared = Atlas().start()
    return shared


def python(a, *words, cwd=None):
    return subprocess.run([sys.executable, *words], cwd=cwd or a.work, env={**a.env, "PYTHONPATH": PYTHON},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def state_of(a, project):
    """Of the one job of a project, once it has ended."""
    jobs = wait_for(lambda: [j for j in a.listing(project) if j["status"] in ("completed", "failed")])
    assert len(jobs) == 1, jobs
    return jobs[0]["status"]


# ---- what there is, and where ----

def test_the_server_announces_no_gui():
    a = atlas()
    log = a.server_log()
    assert "There is no GUI; `foundations list` shows jobs, parameters and metrics" in log, log
    assert "Atlas GUI" not in log, log


def test_list_shows_ids_parameters_and_metrics():
    with Atlas().start() as a:
        assert a.ok("list", "scheduler") == "There are no jobs yet; `foundations submit` makes one\n"
        script = "import foundations\nfoundations.log_params({'lr': 0.5, 'net': 'deep'})\n" \
                 "for x in (3.0, 0.25): foundations.log_metric('loss', x)\n"
        first = a.submit(a.project("one", script), "main.py")
        second = a.submit(a.project("two words", "raise SystemExit(1)\n"), "main.py", options=("--project-name", "two words"))
        a.wait_status(first, "completed")
        a.wait_status(second, "failed")
        lines = a.ok("list", "scheduler").splitlines()
        assert lines[0].split() == ["JOB", "PROJECT", "STATUS", "STARTED", "PARAMETERS", "METRICS"], lines
        row = next(line for line in lines if line.startswith(first))
        assert all(word in row for word in ("one", "completed", "lr=0.5", "net=deep", "loss=0.25")), row
        assert any(line.startswith(second) and "failed" in line for line in lines), lines
        only = a.ok("list", "scheduler", "two words").splitlines()
        assert len(only) == 2 and only[1].startswith(second), only
        p = a.run("list", "scheduler", "nowhere")
        assert p.returncode == 1 and p.stdout == "Error: Project `nowhere` does not exist in environment `scheduler`\n", p


def test_the_beginning_of_an_id_is_enough():
    a = atlas()
    job = a.submit(a.project("short", "print('hello')\n"), "main.py")
    a.wait_status(job, "completed")
    assert a.ok("get", "logs", "scheduler", job[:8]).splitlines()[-1] == "hello"
    assert a.ok("get", "logs", "scheduler", job[:10].upper()).splitlines()[-1] == "hello"
    assert a.run("get", "logs", "scheduler", job[:3]).returncode == 1  # too short to mean one
    p = a.run("get", "logs", "scheduler", "zzzz")
    assert p.stdout == "Error: Job `zzzz` does not exist in environment `scheduler`\n", p
    assert a.ok("get", "job", "scheduler", job[:8]) == f"Successfully retrieved Job {job} from archive store\n"
    assert os.path.isdir(os.path.join(a.work, job))
    assert a.ok("delete", "job", "scheduler", job[:8]) == f"Job {job} successfully deleted\n"


def test_links_name_the_machine_as_the_client_does():
    a = atlas()
    job = a.submit(a.project("links", "import foundations\nopen('x.txt', 'w').close()\n"
                             "foundations.save_artifact('x.txt')\n"), "main.py")
    a.wait_status(job, "completed")
    for host in ("localhost", "127.0.0.1"):
        conn = http.client.HTTPConnection(host, a.ports["api-port"], timeout=60)
        conn.request("GET", "/api/v2beta/projects/links/job_listing")
        found = json.loads(conn.getresponse().read())["jobs"][0]["artifacts"][0]["uri"]
        conn.close()
        assert found == f"http://{host}:{a.ports['archive-port']}/{job}/user_artifacts/x.txt", found


# ---- what clients send ----

def upload(a, job, files):
    """A bundle as the original's client sends it: job_source and whatever it has beside that."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as t:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{job}/{name}")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    mark = uuid.uuid4().hex
    body = (f'--{mark}\r\nContent-Disposition: form-data; name="job_bundle"; filename="{job}.tgz"\r\n'
            "Content-Type: application/gzip\r\n\r\n").encode() + data.getvalue() + f"\r\n--{mark}--\r\n".encode()
    conn = http.client.HTTPConnection("localhost", a.ports["scheduler-port"], timeout=120)
    conn.request("POST", "/job_bundle", body, {"Content-Type": f"multipart/form-data; boundary={mark}"})
    r = conn.getresponse()
    assert r.status < 300, (r.status, r.read())
    conn.close()


def test_members_that_say_nothing_may_be_null_or_missing():
    a = atlas()
    for more in ({"metadata": {"project_name": "null"}, "gpu_spec": None}, {"gpu_spec": {"num_gpus": 0}}, {}):
        job = str(uuid.uuid4())
        upload(a, job, {"job_source/main.py": "print('ran')\n"})
        a.json("POST", "/queued_jobs", {"job_id": job, "spec": {"command": ["main.py"]}, **more})
        a.wait_status(job, "completed")
    for wrong in ({"gpu_spec": []}, {"metadata": "x"}):
        status, text = a.request("POST", "/queued_jobs", {"job_id": job, "spec": {}, **wrong})
        assert status == 400 and b"must be an object" in text, (status, text)


def test_the_module_of_the_original_in_a_bundle_is_replaced():
    a = atlas()
    job = str(uuid.uuid4())
    upload(a, job, {"job_source/main.py": "import foundations\nfoundations.log_metric('loss', 0.5)\nprint('ran')\n",
                    "foundations/__init__.py": "import promise_that_nobody_has\n",
                    "foundations/job.py": "", "foundations_internal/__init__.py": ""})
    a.json("POST", "/queued_jobs", {"job_id": job, "spec": {"command": ["main.py"]},
                                    "metadata": {"project_name": "original"}, "gpu_spec": {}})
    wait_for(lambda: a.status(job) in ("completed", "failed"))
    assert a.status(job) == "completed", a.ok("get", "logs", "scheduler", job)
    metrics = wait_for(lambda: a.listed("original", job)["output_metrics"])
    assert metrics == [{"name": "loss", "value": 0.5, "type": "number"}], metrics


def test_numbers_that_are_none_are_told_apart():
    a = atlas()
    job = a.submit(a.project("odd", "import foundations\nfor name in ('nan', 'inf', '-inf'):\n"
                             "    foundations.log_metric('m' + name, float(name))\n"), "main.py")
    a.wait_status(job, "completed")
    wait_for(lambda: len(a.listed("odd", job)["output_metrics"]) == 3)
    found = {m["name"]: (m["value"], m["type"]) for m in a.listed("odd", job)["output_metrics"]}
    assert found == {"mnan": ("NaN", "number"), "minf": ("Infinity", "number"), "m-inf": ("-Infinity", "number")}, found


def test_types_and_values_of_a_listing():
    a = atlas()
    job = a.submit(a.project("kinds", "import foundations\n"
                             "foundations.log_params({'whole': 2**53 + 1, 'real': 1.0, 'yes': True, 'text': 'x', 'none': None})\n"
                             "for v in (1, 2.5): foundations.log_metric('many', v)\n"
                             "foundations.log_metric('whole', 2**53 + 1)\nfoundations.log_metric('word', 'up')\n"
                             "foundations.log_metric('one', 1.0)\n"), "main.py")
    a.wait_status(job, "completed")
    listed = wait_for(lambda: (x := a.listed("kinds", job)) and len(x["output_metrics"]) == 4 and x)
    params = {p["name"]: (p["value"], p["type"]) for p in listed["job_parameters"]}
    assert params == {"whole": (2**53 + 1, "number"), "real": (1.0, "number"), "yes": (True, "bool"), "text": ("x", "string"),
                      "none": (None, "unknown")}, params
    assert isinstance(params["real"][0], float) and params["yes"][0] is True, params
    metrics = {m["name"]: (m["value"], m["type"]) for m in listed["output_metrics"]}
    assert metrics == {"many": ([1, 2.5], "array number"), "whole": (2**53 + 1, "number"), "word": ("up", "string"),
                       "one": (1.0, "number")}, metrics
    assert [p["name"] for p in listed["job_parameters"]] == list(params) == ["whole", "real", "yes", "text", "none"], listed  # as logged


# ---- scripts run by hand ----

def test_only_a_script_is_tracked():
    a = atlas()
    directory = a.project("untracked", "")
    before = {p["name"] for p in a.json("GET", "/api/v2beta/projects")}
    for words in (("-c", "import foundations; print('used')"), ("-",), ("-m", "main")):
        p = python(a, *words, cwd=directory)
        assert p.returncode == 0, p
    assert {p["name"] for p in a.json("GET", "/api/v2beta/projects")} == before


def test_the_exit_status_of_a_script_counts():
    a = atlas()
    for name, text, status in (
            ("exits3", "import sys\nsys.exit(3)\n", 3),
            ("exits0", "import sys\nsys.exit(0)\n", 0),
            ("exitstext", "import sys\ndef main():\n    sys.exit('no data')\nmain()\n", 1),
            ("caught", "import sys\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nprint('went on')\n", 0),
            ("raises3", "raise SystemExit(3)\n", 3),
            ("raises", "def main():\n    return 4\nraise SystemExit(main())\n", 4),
            ("raises0", "raise SystemExit\n", 0),
            ("raisescaught", "try:\n    raise SystemExit(3)\nexcept SystemExit as e:\n    assert e.code == 3\n", 0),
            ("quits", "quit(5)\n", 5),
            ("thread", "import threading\ndef f():\n    raise SystemExit(3)\nt = threading.Thread(target=f)\nt.start(); t.join()\n", 0),
            ("plain", "print('hi')\n", 0)):
        directory = a.project(name, "import foundations\n" + text)
        p = python(a, "main.py", cwd=directory)
        assert p.returncode == status and "Traceback" not in p.stderr, (name, p)
        assert state_of(a, name) == ("failed" if status else "completed"), name
        answer = a.json("GET", "/jobs/" + a.listing(name)[0]["job_id"])
        assert answer["return_code"] == status, (name, answer)
    early = "from sys import exit\nimport foundations\ntry:\n    exit(2)\nexcept SystemExit:\n    exit(6)\n"
    p = python(a, "main.py", cwd=a.project("early", early))
    assert p.returncode == 6 and state_of(a, "early") == "failed", p


def test_a_file_that_vanishes_does_not_cost_the_others():
    a = atlas()
    directory = a.project("vanishes", "import os, foundations\nfrom foundations import _job\nkeep = _job.current.files.keep\n"
                          "def late(section, name, path):\n"
                          "    if name == 'a.txt': os.unlink(path)\n    return keep(section, name, path)\n"
                          "_job.current.files.keep = late\n", **{"a.txt": "x", "z.txt": "z"})
    p = python(a, "main.py", cwd=directory)
    assert p.returncode == 0 and p.stderr == "", p
    assert state_of(a, "vanishes") == "completed"
    archive = os.path.join(a.home, "job_data/archive", a.listing("vanishes")[0]["job_id"], "artifacts")
    assert sorted(os.listdir(archive)) == ["main.py", "z.txt"], os.listdir(archive)


def test_modules_and_mistakes():
    a = atlas()
    p = python(a, "-c", "import foundations.projects as p\np.set_project_name('x')\np.get_metrics_for_all_jobs\n")
    assert p.returncode == 0, p
    job = a.submit(a.project("dirs", "import foundations\nfoundations.save_artifact('.')\n"), "main.py")
    a.wait_status(job, "failed")
    log = a.ok("get", "logs", "scheduler", job)
    assert "IsADirectoryError" in log and "create_syncable_directory() keeps directories" in log, log


if __name__ == "__main__":
    try:
        harness.main(__name__)
    finally:
        if shared is not None:
            shared.close()
