"""Atlas' scheduling mode from a user's chair: every code block of its manual, against a real server.

A12-A14 with images of one's own need a container engine and are in the tests of that backend; here is
what they promise without one.
"""
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import harness
from foundations_rig import RULE, SOURCE, SUBMITTED, Atlas, wait_for

UUID = "45540b52-ffe2-44ab-9838-db467d3499c0"
SLEEPER = "import time\nprint('working', flush=True)\ntime.sleep(300)\n"

shared = None


def atlas():
    """The server most tests share; each uses projects of its own and leaves the queue empty."""
    global shared
    if shared is None:
        shared = Atlas().start()
    return shared


def lines_of_submission(directory):
    return [
        "Foundations INFO: Job submission started. Ctrl-C to cancel.",
        f"Foundations INFO: Preparing to bundle contents of {os.path.realpath(directory)} for execution. "
        "Estimating bundle size.",
        "Foundations INFO: Bundling job contents.",
    ]


def has_ended(a, job):
    return a.status(job) in ("completed", "failed")


# ---- without a server ----

def test_usage_follows_argparse():
    with Atlas() as a:
        for args, status, out, err in (
            ((), 0, "usage: foundations", ""),
            (("-h",), 0, "usage: foundations", ""),
            (("--version",), 0, "Running Foundations version ", ""),
            (("get",), 0, "usage: foundations get", ""),
            (("delete",), 0, "usage: foundations delete", ""),
            (("get", "-h"), 0, "usage: foundations get", ""),
            (("submit", "-h"), 0, "usage: foundations submit", ""),
            (("submit", "--he"), 0, "usage: foundations submit", ""),
            (("info",), 0, "usage: foundations info --env", ""),
            (("bogus",), 2, "", "invalid choice: 'bogus'"),
            (("--bogus",), 2, "", "unrecognized arguments: --bogus"),
            (("submit",), 2, "", "the following arguments are required: scheduler-config, job-directory"),
            (("submit", "scheduler"), 2, "", "the following arguments are required: job-directory"),
            (("submit", "--ram", "x", "scheduler", "."), 2, "", "argument --ram: invalid float value: 'x'"),
            (("submit", "--num-gpus", "1.5", "s", "."), 2, "", "argument --num-gpus: invalid int value: '1.5'"),
            (("submit", "--num-gpus"), 2, "", "argument --num-gpus: expected one argument"),
            (("submit", "--bogus", "s", "."), 2, "", "unrecognized arguments: --bogus"),
            (("get", "bogus"), 2, "", "invalid choice: 'bogus'"),
            (("get", "job", "scheduler"), 2, "", "the following arguments are required: job_id"),
            (("get", "logs", "a", "b", "c"), 2, "", "unrecognized arguments: c"),
            (("stop", "job"), 2, "", "the following arguments are required: job_id"),
            (("clear-queue",), 2, "", "required: scheduler-config"),
            (("init",), 2, "", "required: project_name"),
            (("login", "h", "-u", "me"), 2, "", "-p/--password is required"),
            (("get", "logs", "nothing", UUID), 1, "Could not find submission configuration with name: `nothing`\n", ""),
            (("get", "logs", "../x", UUID), 1, "Could not find submission configuration with name: `../x`\n", ""),
            (("submit", "scheduler", "/nonexistent", "x"), 1,
             "Error running command: cannot enter job directory `/nonexistent`", ""),
        ):
            p = a.run(*args)
            assert p.returncode == status, (args, p)
            assert p.stdout.startswith(out) and (bool(out) or not p.stdout), (args, p)
            assert err in p.stderr and (bool(err) or not p.stderr), (args, p)


def test_home_is_made_and_left_alone():
    with Atlas() as a:
        out = a.ok("setup")
        assert a.home + "/config/submission/scheduler.config.yaml" in out, out
        for name in ("config/submission/scheduler.config.yaml", "config/execution/default.config.yaml",
                     "job_data/archive", "job_bundle_store_dir", "local_docker_scheduler/work_dir", "database",
                     "tensorboard/work_dir", "logs", "config/local_docker_scheduler/worker_config/submission"):
            assert os.path.exists(os.path.join(a.home, name)), name
        path = os.path.join(a.home, "config/submission/scheduler.config.yaml")
        with open(path, "w") as f:
            f.write("scheduler_url: http://127.0.0.1:1\n# mine\n")
        a.ok("info", "--env")
        with open(path) as f:
            assert f.read().endswith("# mine\n")


def test_no_server_is_said_with_a_remedy():
    with Atlas() as a:
        a.ok("setup")
        with open(os.path.join(a.home, "config/submission/scheduler.config.yaml"), "w") as f:
            f.write("scheduler_url: http://127.0.0.1:1\n")
        directory = a.project("p", "")
        for args in (("submit", "scheduler", directory, "main.py"), ("get", "logs", "scheduler", UUID),
                     ("clear-queue", "scheduler"), ("delete", "job", "scheduler", UUID)):
            p = a.run(*args)
            assert p.returncode == 1, p
            last = p.stdout.splitlines()[-1]
            assert last.startswith("Error running command: Cannot currently find Atlas server"), p
            assert "atlas-server start" in last, p
        p = a.run("--debug", "clear-queue", "scheduler")
        assert p.returncode == 1 and "DELETE /queued_jobs/0" in p.stdout and "unavailable: " in p.stdout, p
        with open(os.path.join(a.home, "logs/system.log")) as f:
            assert " - foundations.submit - INFO - Job submission started." in f.read()


def test_info_env():
    with Atlas() as a:
        a.ok("setup")
        with open(os.path.join(a.home, "config/submission/a_long_name.of.mine.config.yaml"), "w") as f:
            f.write("scheduler_url: http://x:1\n")
        dirs = os.path.join(a.home, "config", "submission"), os.path.join(a.home, "config", "execution")
        width = len(dirs[0]) + len("/a_long_name.of.mine.config.yaml")
        assert a.ok("info", "--env") == "\n".join([
            "", "submission configs:", "env_name     env_path", "-" * 11 + "  " + "-" * width,
            f"a_long_name  {dirs[0]}/a_long_name.of.mine.config.yaml",
            f"scheduler    {dirs[0]}/scheduler.config.yaml",
            "", "execution configs:", "env_name    env_path",
            "-" * 10 + "  " + "-" * (len(dirs[1]) + len("/default.config.yaml")),
            f"default     {dirs[1]}/default.config.yaml", ""])


# ---- A1, A2: a project and its first job ----

def test_a1_init():
    a = atlas()
    assert a.ok("init", "my_project") == "Success: New Foundations project `my_project` created!\n"
    project = os.path.join(a.work, "my_project")
    assert sorted(os.listdir(project)) == ["README.txt", "data", "job.config.yaml", "main.py"]
    assert os.listdir(os.path.join(project, "data")) == [".keep"]
    before = {n: os.stat(os.path.join(project, n)).st_mtime_ns for n in os.listdir(project)}
    assert a.ok("init", "my_project") == "Error: project directory for `my_project` already exists\n"
    assert before == {n: os.stat(os.path.join(project, n)).st_mtime_ns for n in os.listdir(project)}
    with open(os.path.join(project, "job.config.yaml")) as f:
        live = [line for line in f if line.strip() and not line.startswith("#")]
    assert len(live) == 1 and live[0].startswith("log_level: INFO"), live


def test_a2_the_console_sample():
    a = atlas()
    a.run("init", "my_project")
    project = os.path.join(a.work, "my_project")
    p = a.run("submit", "scheduler", ".", "main.py", cwd=project)
    assert p.returncode == 0 and p.stderr == "", p
    job = SUBMITTED.search(p.stdout).group(1)
    assert p.stdout.splitlines() == lines_of_submission(project) + [
        f"Foundations INFO: Job submitted with ID '{job}'.",
        "Foundations INFO: Job queued. Ctrl-C to stop streaming - job will not be interrupted or cancelled.",
        "Foundations INFO: Job running, streaming logs.",
        RULE, "No user requirements found.", RULE,
        f"Foundations INFO: Job '{job}' has completed.",
    ], p.stdout
    found = a.listed("my_project", job)
    assert sorted(x["name"] for x in found["job_parameters"]) == ["batch_size", "depth", "epochs", "learning_rate"], found
    assert sorted(x["name"] for x in found["output_metrics"]) == ["accuracy", "loss"], found
    assert [x["archive_key"] for x in found["artifacts"]] == ["Project_README"], found
    assert found["status"] == "completed" and found["user"] == "CE User", found
    kept = os.path.join(a.home, "job_data/archive", job, "user_artifacts/README.txt")
    with open(kept) as f, open(os.path.join(project, "README.txt")) as g:
        assert f.read() == g.read()


def test_template_runs_without_submitting():
    a = atlas()
    a.run("init", "my_project")
    project = os.path.join(a.work, "my_project")
    p = a.python("main.py", cwd=project, FOUNDATIONS_PROJECT_NAME="executed")
    assert (p.returncode, p.stdout, p.stderr) == (0, "", ""), p
    jobs = wait_for(lambda: [j for j in a.listing("executed") if j["status"] == "completed"])
    assert sorted(x["name"] for x in jobs[0]["job_parameters"]) == ["batch_size", "depth", "epochs", "learning_rate"], jobs
    archive = os.path.join(a.home, "job_data/archive", jobs[0]["job_id"])
    assert os.path.exists(os.path.join(archive, "artifacts/main.py")), os.listdir(archive)
    assert os.path.exists(os.path.join(archive, "user_artifacts/README.txt"))
    failing = a.project("failing", "import foundations\nraise SystemError('broken')\n")
    p = a.python("main.py", cwd=failing)
    assert p.returncode == 1 and "SystemError: broken" in p.stderr, p
    wait_for(lambda: [j for j in a.listing("failing") if j["status"] == "failed"])
    with Atlas() as alone:  # no server at all: one WARNING, nothing else
        p = alone.python("main.py", cwd=project)
        assert p.returncode == 0 and p.stdout == "" and p.stderr.count("Foundations WARNING") == 1, p


# ---- A3, A4: words, requirements ----

def test_a3_words_reach_the_script():
    a = atlas()
    words = ["--lr", "0.1", "-x", "--", "a b", "", "$HOME", "*", "--stream-job-logs", "False"]
    directory = a.project("words", "import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    out = a.ok("submit", "scheduler", directory, "main.py", *words)
    assert json.loads(out.splitlines()[-2]) == words, out


def test_a3_failure_is_told_and_not_an_exit_status():
    a = atlas()
    directory = a.project("fails", "raise RuntimeError('not today')\n")
    p = a.run("submit", "scheduler", directory, "main.py")
    assert p.returncode == 0 and "RuntimeError: not today" in p.stdout, p
    assert p.stdout.splitlines()[-1].startswith("Foundations ERROR: Job '") and "has failed." in p.stdout, p
    p = a.run("submit", "--fail-on-job-error", "scheduler", directory, "main.py")
    assert p.returncode == 1, p
    out = a.ok("submit", "scheduler", directory, "main.py", DISABLE_LOG_STREAMING="1")
    assert out.splitlines()[-1].startswith("Foundations INFO: Job submitted with ID"), out
    a.wait_status(SUBMITTED.search(out).group(1), "failed")


def test_a3_warnings_do_not_stop():
    a = atlas()
    directory = a.project("warned", "", **{"job.config.yaml": "projct_name: x\n"})
    out = a.ok("submit", "scheduler", directory, "other.py", DISABLE_LOG_STREAMING="1")
    assert "is no known key and is ignored; did you mean 'project_name'?" in out, out
    assert "Foundations WARNING: `other.py`, the first word of the command, is not a file" in out, out
    first = SUBMITTED.search(out).group(1)
    out = a.ok("submit", "scheduler", directory, DISABLE_LOG_STREAMING="1")
    assert "Foundations WARNING: No command was specified.\n" in out, out
    for job in (first, SUBMITTED.search(out).group(1)):
        wait_for(lambda: has_ended(a, job))


def test_refused_before_anything_is_sent():
    a = atlas()
    directory = a.project("refused", "")
    store = os.path.join(a.home, "job_bundle_store_dir")
    before = sorted(os.listdir(store))
    for text, words in (
        ("worker:\n\timage: x\n", "job.config.yaml:2:"),
        ("worker: {image: [x]}\n", "worker.image must be"),
        ("num_gpus: two\n", "num_gpus must be"),
        ("num_gpus: -1\n", "num_gpus"),
        ("ram: 0\n", "ram"),
        ("log_level: LOUD\n", "log_level"),
        ("worker: {volumes: {/a: /b}}\n", "worker.volumes"),
        ("worker: {environment: [x]}\n", "worker.environment"),
        ("a: [\n", "job.config.yaml:"),
    ):
        with open(os.path.join(directory, "job.config.yaml"), "w") as f:
            f.write(text)
        p = a.run("submit", "scheduler", directory, "main.py")
        last = p.stdout.splitlines()[-1]
        assert p.returncode == 1 and last.startswith("Error running command: ") and words in last, (text, p)
    os.unlink(os.path.join(directory, "job.config.yaml"))
    for options in (("--num-gpus", "-1"), ("--ram", "0"), ("--ram", "-2")):
        p = a.run("submit", *options, "scheduler", directory, "main.py")
        assert p.returncode == 1 and p.stdout.startswith("Error running command: "), p
    assert sorted(os.listdir(store)) == before and os.listdir(directory) == ["main.py"]
    assert a.json("GET", "/queued_jobs") == {}


def make_wheel(path):
    """The smallest package pip installs, without building anything."""
    info = "berthsmall-1.dist-info/"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("berthsmall.py", "WORD = 'imported'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: berthsmall\nVersion: 1\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", f"berthsmall.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")


def test_a4_requirements():
    a = atlas()
    if subprocess.run(["/usr/bin/python3", "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL).returncode:
        raise harness.Skip("needs python3-venv")
    wheel = os.path.join(a.work, "berthsmall-1-py3-none-any.whl")
    make_wheel(wheel)
    directory = a.project("needs", "import berthsmall\nprint(berthsmall.WORD)\n", **{
        "requirements.txt": f"--no-index\n{wheel}\n"})
    for _ in range(2):  # anew, and from what was kept
        out = a.ok("submit", "scheduler", directory, "main.py").splitlines()
        log = out[out.index("Foundations INFO: Job running, streaming logs.") + 1:-1]
        assert log[0] == RULE and log[2] == RULE and "requirements" in log[1], log
        assert log[-2:] == [RULE, "imported"], log


# ---- A5, A6: a search ----

def test_a5_random_search():
    a = atlas()
    p = a.python(os.path.join(SOURCE, "examples/atlas/2_random_search.py"), WAIT="1", timeout=300)
    assert p.returncode == 0 and p.stderr == "", p
    ids = SUBMITTED.findall(p.stdout)
    assert len(set(ids)) == 5, p.stdout
    jobs = {j["job_id"]: j for j in a.listing("random-search")}
    assert all(jobs[i]["status"] == "completed" for i in ids), jobs
    times = [(jobs[i]["start_time"], jobs[i]["completed_time"]) for i in ids]
    assert all(times[k][1] <= times[k + 1][0] for k in range(4)), times  # one at a time, in order
    for i in ids:
        with open(os.path.join(a.home, "job_data/archive", i, "artifacts/foundations_job_parameters.json")) as f:
            params = json.load(f)
        shown = {x["name"]: x["value"] for x in jobs[i]["job_parameters"]}
        assert shown["epochs"] == params["epochs"] and shown["layer_shapes_0"] == params["layer_shapes"][0], (shown, params)
    assert not os.path.exists(os.path.join(SOURCE, "examples/atlas/search/foundations_job_parameters.json"))


def test_a6_the_sample_parameters():
    a = atlas()
    directory = a.project("sample", "import foundations\nparams = foundations.load_parameters()\nprint(params)\n"
                          "params['learning_rate']\n", **{"foundations_job_parameters.json": """{
    "epochs": 6,
    "batch_size": 64,
    "layer_shapes": [128, 256, 192, 128],
    "early_stopping_tolerance": 0.01,
}
"""})
    out = a.ok("submit", "scheduler", directory, "main.py")
    assert "Foundations WARNING: " in out and "KeyError: 'learning_rate'" in out and "has failed." in out, out
    want = {"epochs": 6, "batch_size": 64, "layer_shapes": [128, 256, 192, 128], "early_stopping_tolerance": 0.01}
    assert str(want) in out, out
    shown = {x["name"]: x["value"] for x in a.listed("sample", SUBMITTED.search(out).group(1))["job_parameters"]}
    assert shown["layer_shapes_3"] == 128 and shown["epochs"] == 6, shown


def test_a6_submit_from_inside_a_job():
    a = atlas()
    child = a.project("child", "import foundations\nfoundations.load_parameters()\nfoundations.log_metric('m', 2.0)\n")
    directory = a.project("parent", f"""
import os, threading
import foundations
foundations.log_metric("before", 1.0)
me = os.environ["FOUNDATIONS_JOB_ID"]
made = []
def one(i):
    made.append(foundations.submit(job_directory={child!r}, command=["main.py"], params={{"i": i}}).job_name())
threads = [threading.Thread(target=one, args=(i,)) for i in range(3)]
for t in threads: t.start()
for t in threads: t.join()
foundations.log_metric("after", 1.0)
assert os.environ["FOUNDATIONS_JOB_ID"] == me and me not in made and len(set(made)) == 3
print("MADE", *made)
""")
    out = a.ok("submit", "--fail-on-job-error", "scheduler", directory, "main.py")
    made = next(line for line in out.splitlines() if line.startswith("MADE")).split()[1:]
    parent = a.listed("parent", SUBMITTED.search(out).group(1))
    assert sorted(m["name"] for m in parent["output_metrics"]) == ["after", "before"], parent
    for job in made:
        a.wait_status(job, "completed")
    assert sorted(x["value"] for j in a.listing("child") for x in j["job_parameters"]) == [0, 1, 2]


# ---- A7, A8: logs and archives ----

def test_a7_logs_are_exact():
    a = atlas()
    directory = a.project("bytes", "import sys\nsys.stdout.buffer.write(bytes(range(1, 256)) * 3 + b'no end')\n"
                          "sys.stdout.flush()\nsys.stderr.write('|err')\n")
    job = a.submit(directory, "main.py")
    a.wait_status(job, "completed")
    p = a.run("get", "logs", "scheduler", job, binary=True)
    head = (RULE + "\nNo user requirements found.\n" + RULE + "\n").encode()
    assert p.returncode == 0 and p.stdout == head + bytes(range(1, 256)) * 3 + b"no end|err", p.stdout
    p = a.run("get", "logs", "scheduler", UUID)
    assert p.returncode == 1 and p.stdout.startswith(f"Error: Job `{UUID}` does not exist") and "scheduler" in p.stdout, p
    p = a.run("get", "logs", "scheduler", "no-id")
    assert p.returncode == 1 and p.stdout.startswith("Error: Job `no-id` does not exist"), p


def test_a8_the_archive_is_what_ran():
    a = atlas()
    directory = a.project("archived", "open('made', 'w').write('by the job')\nopen('data.txt', 'a').write('more')\n",
                          **{"data.txt": "some"})
    os.mkdir(os.path.join(directory, "sub"))
    with open(os.path.join(directory, "sub/x"), "w") as f:
        f.write("x")
    os.symlink("data.txt", os.path.join(directory, "link"))
    os.symlink("/usr/bin/python3", os.path.join(directory, "interpreter"))  # as in a virtual environment
    job = a.submit(directory, "main.py")
    a.wait_status(job, "completed")
    with open(os.path.join(directory, "main.py"), "w") as f:
        f.write("changed since\n")
    assert a.ok("get", "job", "scheduler", job) == f"Successfully retrieved Job {job} from archive store\n"
    got = os.path.join(a.work, job)
    assert sorted(os.listdir(got)) == ["data.txt", "interpreter", "link", "made", "main.py", "sub"], os.listdir(got)
    assert open(os.path.join(got, "data.txt")).read() == "somemore"
    assert open(os.path.join(got, "main.py")).read().startswith("open('made'")
    assert os.readlink(os.path.join(got, "link")) == "data.txt"
    assert os.path.exists(got + ".tgz")
    a.ok("get", "job", "--save_dir", "there/deep", "--source_dir", "sub", "scheduler", job)
    there = os.path.join(a.work, "there/deep")
    assert os.listdir(there) == ["sub"] and open(os.path.join(there, "sub/x")).read() == "x"
    p = a.run("get", "job", "--save_dir", "nowhere", "--source_dir", "nothing", "scheduler", job)
    assert p.returncode == 1 and p.stdout == f"Error: Could not download Job {job}\n", p
    assert not os.path.exists(os.path.join(a.work, "nowhere"))
    p = a.run("get", "job", "scheduler", UUID)
    assert p.returncode == 1 and p.stdout.startswith(f"Error: Job `{UUID}` does not exist"), p


# ---- A9, A10, A11: stop, clear, delete ----

def test_a9_a10_a11_stop_clear_delete():
    a = atlas()
    directory = a.project("sleeper", SLEEPER)
    running = a.submit(directory, "main.py")
    queued = [a.submit(directory, "main.py", options=("--project-name", f"sleeper{i % 2}")) for i in range(3)]
    wait_for(lambda: "working" in a.run("get", "logs", "scheduler", running).stdout)
    p = a.run("get", "logs", "scheduler", queued[0])
    assert p.returncode == 1 and "queued" in p.stdout and "log" in p.stdout, p
    p = a.run("stop", "job", "scheduler", queued[0])
    assert (p.returncode, p.stdout) == (1, f"Error: Job `{queued[0]}` is queued and cannot be stopped\n"), p
    p = a.run("delete", "job", "scheduler", queued[0])
    assert (p.returncode, p.stdout) == (1, f"Error: Job `{queued[0]}` has status `queued` and cannot be deleted\n"), p
    p = a.run("delete", "job", "scheduler", running)
    assert (p.returncode, p.stdout) == (1, f"Error: Job `{running}` has status `running` and cannot be deleted\n"), p

    assert a.ok("clear-queue", "scheduler") == "Removed 3 job(s) from queue\n"
    assert a.ok("clear-queue", "scheduler") == "Removed 0 job(s) from queue\n"
    assert a.status(running) == "running" and all(a.status(j) is None for j in queued)
    p = a.run("get", "logs", "scheduler", queued[0])
    assert p.returncode == 1 and p.stdout.startswith(f"Error: Job `{queued[0]}` does not exist"), p

    assert a.ok("stop", "job", "scheduler", running) == f"Stopped running job {running}\n"
    a.wait_status(running, "failed")
    p = a.run("stop", "scheduler", running)
    assert (p.returncode, p.stdout) == (1, f"Error: Job `{running}` is completed and cannot be stopped\n"), p
    assert "working" in a.ok("get", "logs", "scheduler", running)
    archive = os.path.join(a.home, "job_data/archive", running)
    assert os.path.exists(os.path.join(archive, "artifacts/main.py"))

    second = a.submit(directory, "main.py")
    wait_for(lambda: a.status(second) == "running")
    assert a.ok("stop", "scheduler", second) == f"Stopped running job {second}\n"
    a.wait_status(second, "failed")

    assert a.ok("delete", "job", "scheduler", running) == f"Job {running} successfully deleted\n"
    assert not os.path.exists(archive) and a.listed("sleeper", running) is None
    p = a.run("delete", "job", "scheduler", running)
    assert p.returncode == 1 and p.stdout.startswith(f"Error: Job `{running}` does not exist"), p


# ---- A12, A13: the job's configuration ----

def test_a12_job_config():
    a = atlas()
    p = subprocess.run(["sh", os.path.join(SOURCE, "examples/atlas/4_job_config.sh")], cwd=a.work, env=a.env, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    if "this host cannot mount it" in p.stdout:
        raise harness.Skip("no mount namespaces here; the job was told so")
    assert p.returncode == 0, p.stdout
    assert "MY_ENV_VAR is MY_VALUE" in p.stdout and "from outside" in p.stdout and "from inside" in p.stdout, p.stdout
    assert [j["status"] for j in a.listing("my-atlas-project")] == ["completed"]
    directory = a.project("greedy", "", **{"job.config.yaml": "num_gpus: 1\n"})
    out = a.ok("submit", "scheduler", directory, "main.py")
    job = SUBMITTED.search(out).group(1)
    assert f"Foundations ERROR: Job '{job}' expects to use more GPUs (1) than available (0), removing from the queue" in out, out
    assert out.splitlines()[-1] == f"Foundations ERROR: Job '{job}' has failed.", out


def test_a13_an_image_without_an_engine_says_so():
    a = atlas()
    if os.path.exists("/var/run/docker.sock") or os.path.exists("/run/podman/podman.sock"):
        raise harness.Skip("an engine runs here")
    directory = a.project("imaged", "print('bare')\n", **{"job.config.yaml": "worker:\n  image: myCustomWorker:latest\n"})
    out = a.ok("submit", "scheduler", directory, "main.py")
    assert "myCustomWorker" in out and "has failed." in out and "bare" not in out, out


def test_entrypoint_replaces_the_start_script():
    a = atlas()
    directory = a.project("entry", "import sys\nprint('argv', sys.argv[1:])\n", **{"requirements.txt": "nothing-to-install\n"})
    out = a.ok("submit", "--entrypoint", "python3 -u", "scheduler", directory, "main.py", "-v")
    assert RULE not in out and "argv ['-v']" in out, out


# ---- A15: another machine ----

def test_a15_a_second_server():
    a = atlas()
    with Atlas() as other:
        other.start()
        with open(os.path.join(a.home, "config/submission/aws.config.yaml"), "w") as f:
            f.write(f"""cache_config:
  end_point: /cache_end_point
container_config_root: {other.home}/config/local_docker_scheduler/worker_config
job_deployment_env: local_docker_scheduler_plugin
job_results_root: {other.home}/job_data
scheduler_url: {other.url}
working_dir_root: {other.home}/local_docker_scheduler/work_dir
""")
        out = a.ok("info", "--env")
        assert "aws " in out and "scheduler " in out, out
        directory = a.project("remote", "print('hello from afar')\n")
        out = a.ok("submit", "aws", directory, "main.py")
        job = SUBMITTED.search(out).group(1)
        assert "hello from afar" in out and out.splitlines()[-1] == f"Foundations INFO: Job '{job}' has completed.", out
        assert "hello from afar" in a.ok("get", "logs", "aws", job)
        assert a.status(job) is None and other.status(job) == "completed"
        script = a.project("sdk", f"""import os
os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"
import foundations
d = foundations.submit(scheduler_config="aws", job_directory={directory!r}, command=["main.py"])
d.wait_for_deployment_to_complete(wait_seconds=0.2, log_output=False)
print(d.job_name(), d.get_true_job_status(), "hello from afar" in d.get_job_logs())
""")
        p = a.python(os.path.join(script, "main.py"))
        assert p.stdout.splitlines()[-1].split()[1:] == ["completed", "True"], p
        os.unlink(os.path.join(a.home, "config/submission/aws.config.yaml"))


def test_execution_mode_on_another_machine():
    """A home without a server: reports and files go over HTTP, with the token of the server's home."""
    a = atlas()
    other = os.path.join(a.dir, "elsewhere")
    os.makedirs(os.path.join(other, "config/execution"))
    with open(os.path.join(other, "config/execution/default.config.yaml"), "w") as f:
        f.write(f"results_config:\n  tracker_url: {a.url}\n")
    directory = a.project("afar", """import os
import foundations
foundations.log_metric("m", 1.5)
foundations.save_artifact("main.py", key="code")
mine = foundations.create_syncable_directory("k")
if "FOUNDATIONS_JOB_ID" in os.environ:
    open(os.path.join(str(mine), "f"), "w").write("x")
    mine.upload()
    again = foundations.create_syncable_directory("k", source_job_id=os.environ["FOUNDATIONS_JOB_ID"])
    print(os.listdir(str(again)))
""")
    p = a.python("main.py", cwd=directory, FOUNDATIONS_HOME=other)
    assert p.returncode == 0 and p.stderr.count("WARNING") == 1 and "token" in p.stderr, p
    with open(os.path.join(a.home, "database/token")) as f:
        token = f.read().strip()
    p = a.python("main.py", cwd=directory, FOUNDATIONS_HOME=other, FOUNDATIONS_TOKEN=token)
    assert (p.returncode, p.stdout, p.stderr) == (0, "['f']\n", ""), p
    job = wait_for(lambda: [j for j in a.listing("afar") if j["status"] == "completed"])[0]
    assert [m["value"] for m in job["output_metrics"]] == [1.5] and job["artifacts"][0]["archive_key"] == "code", job
    archive = os.path.join(a.home, "job_data/archive", job["job_id"])
    for name in ("user_artifacts/main.py", "synced_directories/k/f", "artifacts/main.py"):
        assert os.path.exists(os.path.join(archive, name)), name


def test_login():
    with Atlas() as a:
        a.ok("setup")
        users = os.path.join(a.home, "config/users.yaml")
        with open(users, "w") as f:
            f.write("ada: lovelace\n")
        os.chmod(users, 0o600)
        a.start("-p", ready=lambda: a.request("GET", "/")[0] in (200, 401))
        with open(os.path.join(a.home, "config/submission/scheduler.config.yaml"), "w") as f:
            f.write(f"scheduler_url: {a.url}\n")
        directory = a.project("guarded", "")
        p = a.run("submit", "scheduler", directory, "main.py")
        assert p.returncode == 1 and "Error running command: " in p.stdout and "foundations login" in p.stdout, p
        p = a.run("login", a.url, "-u", "ada", "-p", "wrong")
        assert p.returncode == 1 and p.stdout.startswith("\nLogin Failed!\n"), p
        assert not os.path.exists(os.path.join(a.home, "credentials.yaml"))
        p = a.run("login", a.url, input="ada\nlovelace\n")
        assert p.returncode == 0 and p.stdout == "Username: Password: \nLogin Succeeded!\n", p
        assert os.stat(os.path.join(a.home, "credentials.yaml")).st_mode & 0o777 == 0o600
        out = a.ok("submit", "--fail-on-job-error", "scheduler", directory, "main.py")
        job = SUBMITTED.search(out).group(1)
        assert "No user requirements" in a.ok("get", "logs", "scheduler", job)
        os.unlink(os.path.join(a.home, "credentials.yaml"))
        p = a.run("get", "logs", "scheduler", job)
        assert p.returncode == 1 and "foundations login" in p.stdout, p


# ---- A16: Ctrl-C ----

def test_a16_ctrl_c_before_the_job_is_submitted():
    a = atlas()
    directory = a.project("large", "")
    with open(os.path.join(directory, "noise"), "wb") as f:
        for _ in range(55):
            f.write(os.urandom(1 << 20))
    store = os.path.join(a.home, "job_bundle_store_dir")
    before = sorted(os.listdir(store))
    p = a.start_process("submit", "scheduler", directory, "main.py")
    out = []
    for line in p.stdout:
        out.append(line)
        if "Bundling job contents" in line:
            p.send_signal(signal.SIGINT)
    text = "".join(out)
    if "Job submitted" in text:  # the machine was faster than the key
        job = SUBMITTED.search(text).group(1)
        assert p.wait(120) == 0
        wait_for(lambda: has_ended(a, job))
        raise harness.Skip("the bundle was there before Ctrl-C")
    assert p.wait(120) == 130, text
    assert "Directory size is larger than 50MB!" in text, text
    assert a.json("GET", "/queued_jobs") == {} and a.json("GET", "/running_jobs") == {}
    wait_for(lambda: sorted(os.listdir(store)) == before, why=f"for {os.listdir(store)}")
    os.unlink(os.path.join(directory, "noise"))


def test_a16_ctrl_c_while_streaming():
    a = atlas()
    directory = a.project("streamed", "import time\nprint('working', flush=True)\nwhile not __import__('os').path.exists("
                          f"{os.path.join(a.work, 'go')!r}):\n    time.sleep(0.05)\nprint('done')\n")
    p = a.start_process("submit", "scheduler", directory, "main.py")
    text = ""
    for line in p.stdout:
        text += line
        if line == "working\n":
            p.send_signal(signal.SIGINT)
    assert p.wait(120) == 0, text
    job = SUBMITTED.search(text).group(1)
    assert a.status(job) == "running"
    queued = a.start_process("submit", "scheduler", directory, "main.py")  # this one waits behind it
    second = ""
    for line in queued.stdout:
        second += line
        if "Job queued." in line:
            queued.send_signal(signal.SIGINT)
    assert queued.wait(120) == 0 and "streaming logs" not in second, second
    open(os.path.join(a.work, "go"), "w").close()
    for i in (job, SUBMITTED.search(second).group(1)):
        a.wait_status(i, "completed")
        assert a.ok("get", "logs", "scheduler", i).endswith("working\ndone\n")


def test_a_restart_does_not_end_a_stream():
    a = atlas()
    directory = a.project("through", "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.05)\n")
    p = a.start_process("submit", "scheduler", directory, "main.py")
    text = ""
    for line in p.stdout:
        text += line
        if line == "5\n":
            a.kill()
            a.start()
    assert p.wait(120) == 0
    lines = text.splitlines()
    at = lines.index("0")
    assert lines[at:at + 40] == [str(i) for i in range(40)] and lines[-1].endswith("has completed."), text


# ---- A17: GPUs ----

def test_a17_gpus_block_in_order():
    from gpu_rig import fake_gpu
    with Atlas() as a:
        state = os.path.join(a.dir, "gpus")
        fake_gpu.create(state, 4, 16000)
        smi = os.path.join(a.bin, "nvidia-smi")
        with open(smi, "w") as f:
            f.write("#!/bin/sh\nfor i in 0 1 2 3; do echo \"GPU $i: Pretended\"; done\n")
        os.chmod(smi, 0o755)
        a.env.update(BERTH_NVML_LIBRARY=fake_gpu.library(harness.BUILD), FAKE_NVML_STATE=state)
        a.start("-g")
        directory = a.project("queue", f"""import os, sys, time
print("ids", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["NVIDIA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists(os.path.join({a.work!r}, "go" + sys.argv[1])):
    time.sleep(0.05)
""")
        needs = (2, 2, 3, 3, 1)
        jobs = [a.submit(directory, "main.py", str(i), options=("--num-gpus", str(n))) for i, n in enumerate(needs)]

        def go(i):
            open(os.path.join(a.work, f"go{i}"), "w").close()
            a.wait_status(jobs[i], "completed")

        def states():
            return [a.status(j) for j in jobs]

        def ids(i):
            text = wait_for(lambda: a.run("get", "logs", "scheduler", jobs[i]).stdout.partition("ids ")[2])
            cuda, nvidia = (set(words.split(",")) for words in text.split()[:2])  # by name, and by number
            assert len(cuda) == len(nvidia) == needs[i] and nvidia <= set("0123"), text
            return nvidia

        wait_for(lambda: states()[:2] == ["running", "running"])
        assert not ids(0) & ids(1)
        time.sleep(1)  # nothing may pass the third, which waits for both
        assert states()[2:] == ["queued"] * 3, states()
        go(0)
        time.sleep(1)
        assert states()[1:] == ["running"] + ["queued"] * 3, states()
        go(1)
        wait_for(lambda: states()[2] == "running")
        ids(2)
        time.sleep(1)
        assert states()[3:] == ["queued"] * 2, states()
        go(2)
        wait_for(lambda: states()[3:] == ["running"] * 2)
        assert not ids(3) & ids(4)
        go(3)
        go(4)
        p = a.run("submit", "--num-gpus", "5", "scheduler", directory, "main.py", "5")
        assert "expects to use more GPUs (5) than available (4), removing from the queue" in p.stdout, p


def test_zz_the_examples_run():
    a = atlas()
    for name, words in (("1_first_job.sh", ["has completed.", "Successfully retrieved Job"]),
                        ("3_job_commands.sh", ["Removed 2 job(s) from queue", "Stopped running job", "successfully deleted"]),
                        ("5_remote.sh", ["has completed."])):
        p = subprocess.run(["sh", os.path.join(SOURCE, "examples/atlas", name)], cwd=a.work, text=True, timeout=200,
                           env=dict(a.env, REMOTE=a.url), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert p.returncode == 0 and all(w in p.stdout for w in words), (name, p.stdout)
    p = subprocess.run([sys.executable, "-m", "foundations", "info", "--env"], cwd=a.work, text=True, timeout=120,
                       env=dict(a.env, PYTHONPATH=os.path.join(SOURCE, "python")), stdout=subprocess.PIPE)
    assert p.returncode == 0 and p.stdout == a.ok("info", "--env"), p.stdout


def test_zzz_nothing_is_left():
    a = atlas()
    assert a.json("GET", "/queued_jobs") == {}
    wait_for(lambda: os.listdir(os.path.join(a.home, "local_docker_scheduler/work_dir")) == [],
             why=f"for {os.listdir(os.path.join(a.home, 'local_docker_scheduler/work_dir'))}")
    a.close()


if __name__ == "__main__":
    try:
        harness.main(__name__)
    finally:
        if shared is not None:
            shared.close()
