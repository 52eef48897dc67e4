"""Secrets: jobs get them, nothing shows them, and no file of a home holds them in the clear.

Each story hides a value that occurs nowhere else, and looks for it in every file below the place and in every answer.
"""
import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import BERTH, Home, wait_for  # noqa: E402

VALUE = "hunter2-9f1c-never-shown"
FINAL = ("succeeded", "failed", "cancelled", "lost")
PRINTS = ["--", "sh", "-c", 'printf %s "$HF_TOKEN" | sha256sum; echo len ${#HF_TOKEN}']


def found_in(folder, needle=VALUE, skip=()):
    """Files below the folder that hold the value."""
    found = []
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path) and path not in skip:
                with open(path, "rb") as f:
                    if needle.encode() in f.read():
                        found.append(os.path.relpath(path, folder))
    return found


def ended(home, number):
    job = wait_for(f"the end of job {number}", lambda: (j := home.api("GET", f"/v1/jobs/{number}"))["state"] in FINAL and j)
    status, _, data = home.request("GET", f"/v1/jobs/{number}/logs")
    return job, data.decode() if status == 200 else ""


def submit(home, *words, **more):
    """The number of the job."""
    out = home.berth("submit", *words, **more).stdout.split()[-1]
    return home.api("GET", f"/v1/jobs/{out}")["number"]


def got(log):
    return f"len {len(VALUE)}\n" in log


def shown(home, number):
    """Everything that can be asked about a job."""
    texts = [home.berth(*words).stdout for words in (
        ("show", str(number)), ("show", str(number), "-o", "json"), ("ls", "-a", "-o", "json"), ("explain", str(number)))]
    for path in ("", "/spec", "/events", "/explain"):
        texts.append(home.request("GET", f"/v1/jobs/{number}{path}")[2].decode())
    texts.append(home.request("GET", "/v1/jobs")[2].decode())
    return "\n".join(texts)


@contextlib.contextmanager
def serving(*args, **env):
    home = Home(**env)
    try:
        yield home.start(*args)
    finally:
        home.close()


def test_names_that_look_like_secrets_are_hidden():
    with serving() as home:
        hidden = {"HF_TOKEN": VALUE, "wandb_api_key": VALUE, "MLFLOW_TRACKING_PASSWORD": VALUE, "AWS_SECRET_ACCESS_KEY": VALUE,
                  "AWS_ACCESS_KEY_ID": VALUE, "DB_PASSWD": VALUE, "GOOGLE_APPLICATION_CREDENTIALS": VALUE}
        plain = {"KEYBOARD": "us", "SSH_AUTH_SOCK": "/tmp/agent", "XDG_SESSION_ID": "1", "TOKENIZERS_PARALLELISM": "false",
                 "MONKEY": "x", "PATHKEY": "y"}
        number = submit(home, *PRINTS, **hidden, **plain)
        job, log = ended(home, number)
        assert job["state"] == "succeeded" and got(log), (job, log)
        spec = job["spec"]
        assert set(hidden) <= set(spec["secrets"]) and not set(hidden) & set(spec["env"]), spec
        assert all(spec["env"][k] == v for k, v in plain.items()), spec["env"]
        assert not set(plain) & set(spec["secrets"]), spec["secrets"]
        assert VALUE not in shown(home, number)
        home.stop()
        assert not found_in(home.dir), found_in(home.dir)


def test_options_of_submit():
    with serving() as home:
        path = os.path.join(home.dir, "value")
        os.mkdir(os.path.join(home.dir, "outside"))
        path = os.path.join(home.dir, "outside", "value")
        with open(path, "w") as f:
            f.write(VALUE + "\n")
        show = ["--", "sh", "-c", "echo len ${#MINE}"]
        ways = [submit(home, "--secret", "MINE", *show, MINE=VALUE), submit(home, "--secret", "MINE=@" + path, *show),
                submit(home, "--secret", "MINE=-", *show, input=VALUE + "\nrest\n"),
                submit(home, "--clean-env", "--secret", "MINE", *show, MINE=VALUE)]
        for number in ways:
            job, log = ended(home, number)
            assert got(log) and "MINE" in job["spec"]["secrets"] and "MINE" not in job["spec"]["env"], (job["spec"], log)
        os.unlink(path)
        open_one = submit(home, "--no-secret", "HF_TOKEN", *PRINTS, HF_TOKEN="plain")
        assert ended(home, open_one)[0]["spec"]["env"]["HF_TOKEN"] == "plain"
        for words, said in ((("MINE=" + VALUE,), "every user"), (("NOT_SET_HERE",), "no such variable"),
                            (("MINE=@/does/not/exist",), "/does/not/exist")):
            p = home.berth("submit", *(x for w in words for x in ("--secret", w)), "--", "true", check=False)
            assert p.returncode == 2 or p.returncode > 60, p
            assert said in p.stderr and VALUE not in p.stderr, p.stderr
        home.stop()
        assert not found_in(home.dir)


def test_a_job_file_and_the_api():
    with serving() as home:
        with open(os.path.join(home.dir, "job.yaml"), "w") as f:
            f.write('command: "echo len ${#MINE}"\nsecrets: [MINE]\nparams: {lr: [1, 2]}\n')
        home.berth("submit", os.path.join(home.dir, "job.yaml"), MINE=VALUE)
        home.wait_all()
        for job in home.jobs():
            assert got(ended(home, job["number"])[1])
        number = home.submit("sh", "-c", "echo len ${#MINE}", env={"MINE": VALUE, "B": 1}, secrets=["MINE"])["number"]
        job, log = ended(home, number)
        assert got(log) and job["spec"]["env"] == {"B": "1"} and job["spec"]["secrets"] == ["MINE"], job
        status, _, data = home.request("POST", "/v1/jobs", {"command": ["true"], "cwd": "/", "secrets": ["MINE"]})
        assert status == 400 and b"env has no variable MINE" in data, data
        status, _, data = home.request("POST", "/v1/jobs", {"command": ["true"], "cwd": "/", "secrets": [f"MINE={VALUE}"]})
        assert status == 400 and VALUE.encode() not in data, data
        home.stop()
        assert not found_in(home.dir)


def test_arrays_retries_and_restarts():
    with serving() as home:
        out = home.berth("submit", "--array", "3", "--retries", "1", "--backoff", "10ms", "--", "sh", "-c",
                         'echo len ${#HF_TOKEN}; [ "$BERTH_ATTEMPT" = 2 ]', HF_TOKEN=VALUE)
        assert out.returncode == 0
        home.wait_all()
        assert all(got(ended(home, j["number"])[1]) and j["attempt"] == 2 for j in home.jobs())
        home.berth("queue", "pause", "default")
        number = submit(home, *PRINTS, HF_TOKEN=VALUE)
        home.kill()
        home.start()
        home.berth("queue", "resume", "default")
        assert got(ended(home, number)[1])
        home.berth("retry", "1")
        assert got(ended(home, 1)[1])
        home.stop()
        assert not found_in(home.dir)


def test_the_list_can_be_changed():
    with serving("--secret-names", "LICENSE_*,!SORT_KEY") as home:
        job, _ = ended(home, submit(home, *PRINTS, LICENSE_A=VALUE, SORT_KEY="x", HF_TOKEN=VALUE))
        assert {"LICENSE_A", "HF_TOKEN"} <= set(job["spec"]["secrets"]) and job["spec"]["env"]["SORT_KEY"] == "x", job["spec"]
        p = subprocess.run([BERTH, "serve", "--secret-names", "a=b"], env={**home.env, "BERTH_HOME": home.dir + "/other"},
                           capture_output=True, text=True, timeout=60)
        assert p.returncode != 0 and "names of secrets" in p.stderr, p


def test_an_idempotency_key_does_not_ask_for_the_same_secrets():
    with serving() as home:
        first = submit(home, "--idempotency-key", "k", "--", "true", HF_TOKEN="a")
        assert submit(home, "--idempotency-key", "k", "--", "true", HF_TOKEN="b") == first
        assert submit(home, "--idempotency-key", "k", "--", "true", PLAIN="c") == first


def test_a_replaced_key_stops_only_those_jobs():
    with serving() as home:
        home.berth("queue", "pause", "default")
        number = submit(home, *PRINTS, HF_TOKEN=VALUE)
        other = submit(home, "--clean-env", "--", "echo", "fine")
        home.stop()
        with open(os.path.join(home.home, "secret"), "wb") as f:
            f.write(os.urandom(32))
        home.start()
        home.berth("queue", "resume", "default")
        job, _ = ended(home, number)
        assert job["state"] == "failed" and "HF_TOKEN" in job["reason"] and "secret" in job["reason"], job
        assert ended(home, other)[0]["state"] == "succeeded"


def test_schedules():
    with serving() as home:
        home.berth("cron", "add", "nightly", "0 3 * * *", *PRINTS, HF_TOKEN=VALUE)
        text = home.berth("cron", "show", "nightly", "-o", "json", check=False).stdout
        text += home.request("GET", "/v1/schedules/nightly")[2].decode() + home.request("GET", "/v1/schedules")[2].decode()
        assert VALUE not in text and "sealed" not in text and "HF_TOKEN" in text, text
        home.kill()
        home.start()
        home.api("POST", "/v1/schedules/nightly/run")
        home.wait_all()
        assert got(ended(home, home.jobs()[0]["number"])[1])
        home.stop()
        assert not found_in(home.dir)


def test_secrets_of_hooks():
    with serving() as home:
        home.api("POST", "/v1/hooks", {"name": "team", "do": "webhook:http://127.0.0.1:9/x", "on": ["end"], "secret": VALUE})
        assert VALUE not in home.request("GET", "/v1/hooks")[2].decode()
        home.stop()
        assert not found_in(home.dir), found_in(home.dir)


def test_what_an_older_program_stored_is_not_shown():
    with serving() as home:
        number = submit(home, *PRINTS, HF_TOKEN="x")
        ended(home, number)
        home.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(home.home, "berth.db"))) as db:
            body = json.loads(db.execute("SELECT body FROM spec").fetchone()[0])
            body["env"]["HF_TOKEN"] = VALUE
            del body["secrets"]
            db.execute("UPDATE spec SET sealed = NULL, body = ?", (json.dumps(body),))
            db.commit()
        home.start()
        text = shown(home, number)
        assert VALUE not in text and "HF_TOKEN" in text, text
        home.berth("retry", str(number))
        assert got(ended(home, number)[1])


def make_older(home, schedule, hook=None):
    """Rewrites the one schedule and the one hook as programs before sealing stored them; returns the definition."""
    with contextlib.closing(sqlite3.connect(os.path.join(home, "berth.db"))) as db:
        assert db.execute("DELETE FROM fact WHERE name = 'secrets.sealed'").rowcount == 1
        definition = json.loads(db.execute("SELECT def FROM schedule").fetchone()[0])
        schedule(definition)
        db.execute("UPDATE schedule SET def = ?", (json.dumps(definition),))
        if hook:
            db.execute("UPDATE hook SET secret = ?", (hook,))
        db.commit()


def test_schedules_and_hooks_of_an_older_program_are_sealed():
    def clear(definition):
        definition["job"]["env"]["HF_TOKEN"] = VALUE
        del definition["job"]["sealed"], definition["job"]["secrets"]

    with serving() as home:
        home.berth("cron", "add", "nightly", "0 3 * * *", *PRINTS, HF_TOKEN="x")
        home.api("POST", "/v1/hooks", {"name": "team", "do": "webhook:http://127.0.0.1:9/x", "on": ["end"], "secret": "x"})
        home.stop()
        make_older(home.home, clear, VALUE)
        assert found_in(home.dir)
        home.start()
        assert not found_in(home.dir), found_in(home.dir)
        home.api("POST", "/v1/schedules/nightly/run")
        home.wait_all()
        assert got(ended(home, home.jobs()[0]["number"])[1])
        home.stop()
        assert not found_in(home.dir), found_in(home.dir)


def test_scheduled_jobs_of_an_older_atlas_server_are_sealed():
    harness.need_dialect("atlas")
    from atlas_rig import Atlas
    from test_atlas_scheduled import ran, schedule

    def clear(definition):
        definition["job"]["spec"]["environment"]["HF_TOKEN"] = VALUE
        del definition["sealed"]

    with Atlas() as a:
        main = "import os\nopen(os.environ['OUT'], 'a').write(str(len(os.environ['HF_TOKEN'])))\n"
        made = schedule(a, files={"main.py": main},
                        spec={"command": ["main.py"], "environment": {"HF_TOKEN": "x", "OUT": os.path.join(a.dir, "out")}})
        a.stop()
        make_older(a.path("database"), clear)
        assert found_in(a.dir)
        a.start()
        assert not found_in(a.dir), found_in(a.dir)
        assert VALUE not in json.dumps(a.get(f"/scheduled_jobs/{made}"))
        a.http("PATCH", f"/scheduled_jobs/{made}", {"schedule": {"second": "*"}})
        wait_for("a run of the schedule", lambda: ran(a))
        a.http("DELETE", f"/scheduled_jobs/{made}")
        assert ran(a)[0].startswith(str(len(VALUE))), ran(a)


def test_atlas():
    harness.need_dialect("atlas")
    from atlas_rig import Atlas
    from test_atlas_scheduled import ran, schedule
    main = "import os\nprint('len', len(os.environ['HF_TOKEN']))\nopen(os.environ['OUT'], 'a').write(os.environ['HF_TOKEN'][:4])\n"
    for environment in ({"HF_TOKEN": VALUE, "OUT": "/dev/null"}, [f"HF_TOKEN={VALUE}", "OUT=/dev/null"]):
        with Atlas() as a:
            job = a.submit({"main.py": main}, environment=environment)
            assert f"len {len(VALUE)}" in a.wait(job, "completed")["logs"]
            env = environment if isinstance(environment, list) else {**environment, "OUT": os.path.join(a.dir, "out")}
            made = schedule(a, when={"second": "*"}, files={"main.py": main},
                            spec={"command": ["main.py"], "environment": env})
            assert VALUE not in json.dumps(a.get(f"/scheduled_jobs/{made}")), a.get(f"/scheduled_jobs/{made}")
            a.http("PATCH", f"/scheduled_jobs/{made}", {"schedule": {"second": "*/2"}})
            wait_for("a run of the schedule", lambda: ran(a) or isinstance(env, list))
            a.http("DELETE", f"/scheduled_jobs/{made}")
            answers = json.dumps([a.get(p) for p in ("/queued_jobs", "/completed_jobs", "/failed_jobs", f"/jobs/{job}")])
            assert VALUE not in answers
            assert not found_in(a.dir), found_in(a.dir)
            check_private(a.dir)


def check_private(folder):
    """Files `token` and `secret` of every home below are their owner's alone, and nothing that others can read repeats them."""
    kept = [os.path.join(w, n) for w, _, names in os.walk(folder) for n in names if n in ("token", "secret")]
    assert len(kept) >= 2, kept
    values = []
    for path in kept:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
        with open(path, "rb") as f:
            values.append(f.read().strip())
    for path in readable(folder):
        with open(path, "rb") as f:
            data = f.read()
        assert not any(v in data for v in values) and b"BERTH_JOB_TOKEN=" not in data, path


def test_a_node_over_ssh():
    import ssh_rig
    try:
        rig = ssh_rig.SshRig()
        rig.host("far")
    except ssh_rig.SshMissing as x:
        raise harness.Skip(str(x)) from None
    try:
        with serving(BERTH_SSH=rig.ssh, BERTH_FAR=harness.find_program("berth-far")) as home:
            home.berth("node", "add", "ssh://far", "--slots", "2", "--wait", "2m")
            job, log = ended(home, submit(home, "--node", "far", *PRINTS, HF_TOKEN=VALUE))
            assert job["state"] == "succeeded" and got(log), (job, log)
            home.stop()
            assert not found_in(home.dir) and not found_in(rig.dir), (found_in(home.dir), found_in(rig.dir))
    finally:
        rig.close()


def readable(folder):
    """Files that other users could read, were they able to enter the folder."""
    found = []
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH):
                found.append(path)
    return found


def test_no_token_in_a_file_that_others_can_read():
    with serving() as home:
        ended(home, submit(home, "--param", "lr=1", *PRINTS, HF_TOKEN=VALUE))
        check_private(home.dir)


def test_doctor_warns_of_an_open_token():
    with serving() as home:
        os.chmod(os.path.join(home.home, "token"), 0o644)
        p = home.berth("doctor", check=False)
        assert "token" in p.stdout + p.stderr and "chmod 600" in p.stdout + p.stderr, p.stdout + p.stderr


def test_python():
    with serving() as home:
        script = ("import berth, os\nc = berth.Client()\n"
                  "c.submit('echo len ${#MINE}', secrets=['MINE'])\n"
                  "c.sweep('echo len ${#MINE}', {'lr': [1, 2]}, secrets=['MINE'], env={'MINE': os.environ['MINE']})\n")
        python = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        subprocess.run([sys.executable, "-c", script], env={**home.env, "PYTHONPATH": python, "MINE": VALUE}, check=True, timeout=60)
        home.wait_all()
        assert len(home.jobs()) == 3 and all(got(ended(home, j["number"])[1]) for j in home.jobs())
        home.stop()
        assert not found_in(home.dir)


def test_hyperctl():
    """While the batch runs: its database goes with it."""
    harness.need_dialect("hyperctl")
    import hyper_rig
    with hyper_rig.Place() as at:
        at.env["HF_TOKEN"] = VALUE
        out, gate = os.path.join(at.dir, "out"), os.path.join(at.dir, "gate")
        line = f"echo len ${{#HF_TOKEN}} > {out}; until [ -e {gate} ]; do sleep 0.02; done"
        p = at.start(at.batch("grid", [hyper_rig.job("one", line)]))
        wait_for("the job", lambda: os.path.exists(out) and os.path.getsize(out))
        found = found_in(at.dir)
        check_private(at.dir)
        with open(gate, "w"):
            pass
        p.communicate(timeout=120)
        with open(out) as f:
            assert got(f.read())
        assert not found, found


def test_the_gpu_dialect():
    harness.need_dialect("gpu")
    with serving() as home:
        link = os.path.join(home.dir, "run-scheduler")
        os.symlink(BERTH, link)
        folder = os.path.join(home.dir, "custom")
        os.mkdir(folder)
        with open(os.path.join(folder, "t.py"), "w") as f:
            f.write("print(1)\n")
        p = subprocess.run([link, "--script_path", "/custom/t.py", "--custom_dir", folder, "--snapshots_dir", home.dir,
                            "--batch_size", "1", "--training_set_size", "1", "--max_epochs", "1", "--est_nhours", "1.01",
                            "--estimated_memory", "1", "--env", f"MLFLOW_TRACKING_PASSWORD={VALUE}", "x"],
                           env={**home.env, "HF_TOKEN": VALUE}, capture_output=True, text=True, timeout=60)
        assert p.returncode == 0, p.stdout + p.stderr
        text = shown(home, home.jobs()[0]["number"])
        assert VALUE not in text and "HF_TOKEN" in text
        home.stop()
        assert not found_in(home.dir), found_in(home.dir)


if __name__ == "__main__":
    harness.main(__name__)
