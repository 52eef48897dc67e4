"""Experiments: metrics through two kills of the daemon, series in buckets, files, runs that are not ours."""
import json
import os
import subprocess
import sys
import time

from harness import BERTH, Home, UnixHTTP, main

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")

WRITER = """
import os, sys, time
import berth
n, names = int(sys.argv[1]), sys.argv[2:]
for i in range(n):
    for name in names:
        berth.log_metric(name, i * 0.5 + len(name), i)
    if i % 500 == 0:
        time.sleep(0.05)
berth.log_params(lr=0.25)
berth.tag("written", str(n))
"""


def wait_until(holds, seconds):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited %d s in vain" % seconds
        time.sleep(0.03)


def job_of(home, number):
    return home.api("GET", f"/v1/jobs/{number}")


def ended(home, number, seconds=120):
    wait_until(lambda: job_of(home, number)["state"] in ("succeeded", "failed", "lost", "cancelled"), seconds)
    return job_of(home, number)


def test_no_point_is_lost_across_two_kills():
    home = Home().start("--slots", "8")
    try:
        points, names = 6000, ["loss", "acc", "a rather long name/of a metric"]
        jobs = [home.submit(sys.executable, "-c", WRITER, str(points), *names, env={"PYTHONPATH": PYTHON})["number"]
                for _ in range(8)]
        for _ in range(2):
            time.sleep(0.4)
            home.kill()
            home.start("--slots", "8")
        for job in jobs:
            record = ended(home, job, 120)
            assert record["state"] == "succeeded", record
            assert record["tags"]["written"] == str(points)
            assert record["logged_params"] == {"lr": 0.25}
            for name in names:
                assert record["metrics"][name]["points"] == points, (job, name, record["metrics"])
            series = home.api("GET", f"/v1/jobs/{job}/metrics?name=loss")["metrics"]["loss"]
            assert [p["step"] for p in series] == list(range(points))
            assert [p["value"] for p in series] == [i * 0.5 + 4 for i in range(points)]
        doctor = subprocess.run([BERTH, "doctor"], env=home.env, capture_output=True, text=True)
        assert "metric" not in doctor.stdout + doctor.stderr, doctor.stdout
        home.stop()
    finally:
        home.close()


def test_much_that_was_never_sent_is_read_at_the_end():
    """Forty megabytes of lines in the file only: the run ends when they are in, the daemon answers meanwhile."""
    home = Home().start()
    try:
        code = """
import json, os
d = os.environ["BERTH_RUN_DIR"]
os.makedirs(d, exist_ok=True)
with open(d + "/spool.jsonl", "w") as f:
    for i in range(600000):
        f.write('{"k":"m","n":"loss","v":%r,"s":%d,"t":1731700000000}\\n' % (i / 7, i))
"""
        job = home.submit(sys.executable, "-c", code)["number"]
        slowest, conn = 0.0, UnixHTTP(home.sock)
        while job_of(home, job)["state"] not in ("succeeded", "failed"):
            began = time.monotonic()
            conn.request("GET", "/healthz")
            conn.getresponse().read()
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
        assert job_of(home, job)["metrics"]["loss"]["points"] == 600000
        assert slowest < 5, slowest
        got = home.api("GET", f"/v1/jobs/{job}/metrics?name=loss&buckets=1200")["metrics"]["loss"]
        assert got["count"] == [500] * 1200 and got["value"] == 599999 / 7
        assert got["min"][3] == 1500 / 7 and got["max"][3] == got["last"][3] == 1999 / 7
        part = home.api("GET", f"/v1/jobs/{job}/metrics?name=loss&buckets=10&from=100&to=199")["metrics"]["loss"]
        assert part["x"] == list(range(109, 200, 10)), part
        home.stop()
    finally:
        home.close()


def test_odd_values_and_several_at_once():
    home = Home().start()
    try:
        lines = [
            '{"k":"m","n":"x","v":[1,2.5,"nan"],"s":[3,4,5],"t":1731700000000}',
            '{"k":"m","n":"x","v":NaN,"s":6}',
            '{"k":"m","n":"x","v":-Infinity,"s":7}',
            '{"k":"m","n":"x","v":"better","s":8}',
            '{"k":"m","n":"x","v":[7,8],"s":20}',
            "not a line",
            '{"k":"p","n":"opt","x":{"name":"adam","betas":[0.9,0.999]}}',
            '{"k":"p","n":"opt2","v":"sgd"}',
        ]
        code = "import os\nd=os.environ['BERTH_RUN_DIR']\nos.makedirs(d,exist_ok=True)\n" \
               "open(d+'/spool.jsonl','w').write(%r)" % ("\n".join(lines) + "\n")
        record = ended(home, home.submit(sys.executable, "-c", code)["number"])
        series = home.api("GET", f"/v1/jobs/{record['number']}/metrics")["metrics"]["x"]
        assert [p["value"] for p in series] == [1, 2.5, "nan", "nan", "-inf", "better", 7, 8], series
        assert [p["step"] for p in series] == [3, 4, 5, 6, 7, 8, 20, 21]
        assert record["logged_params"] == {"opt": {"name": "adam", "betas": [0.9, 0.999]}, "opt2": "sgd"}
        got = home.api("GET", "/v1/jobs?filter=" + "opt2%3Asgd%20and%20x%3E7.5")["items"]
        assert [j["number"] for j in got] == [record["number"]]
        home.stop()
    finally:
        home.close()


def test_files_are_kept_and_served():
    home = Home().start()
    try:
        source = os.path.join(home.dir, "plot.svg")
        with open(source, "w") as f:
            f.write("<svg/>" * 1000)
        secret = os.path.join(home.home, "secret")
        code = "import berth, os\nberth.save_artifact(%r, 'plot')\nberth.artifact(%r, name='stolen')\n" \
               "os.symlink(%r, berth.artifact_dir() + '/link')\nberth.artifact(berth.artifact_dir() + '/link')" \
               % (source, secret, secret)
        job = ended(home, home.submit(sys.executable, "-c", code, env={"PYTHONPATH": PYTHON})["number"])
        os.unlink(source)
        path = f"/v1/jobs/{job['number']}"
        items = {a["name"]: a for a in home.api("GET", path + "/artifacts")["items"]}
        assert (items["plot"]["kind"], items["plot"]["bytes"]) == ("image", 6000), items
        assert items["stolen"]["bytes"] is None and items["link"]["bytes"] is None, items
        conn = UnixHTTP(home.sock)
        conn.request("GET", path + "/artifact?name=plot", headers={"Range": "bytes=6-11"})
        reply = conn.getresponse()
        assert (reply.status, reply.read()) == (206, b"<svg/>")
        for name in ("stolen", "link"):
            conn.request("GET", path + f"/artifact?name={name}")
            reply = conn.getresponse()
            assert reply.status == 404, (name, reply.status)
            reply.read()
        kept = os.path.dirname(items["plot"]["path"])
        subprocess.run([BERTH, "rm", str(job["number"])], env=home.env, check=True, stdout=subprocess.DEVNULL)
        wait_until(lambda: not os.path.exists(kept), 20)
        home.stop()
    finally:
        home.close()


TRACKED = """
import berth, sys, time
job = berth.track(project="notebooks", name="mine", params={"lr": 0.5})
berth.log(loss=1.0, step=1)
berth.flush(30)
print(job.number, flush=True)
what = sys.stdin.readline().strip() if sys.stdin else ""
if what == "raise":
    raise RuntimeError("on purpose")
"""


def tracked(home):
    p = subprocess.Popen([sys.executable, "-c", TRACKED], env=dict(home.env, PYTHONPATH=PYTHON), text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    number = int(p.stdout.readline())
    wait_until(lambda: job_of(home, number)["state"] == "running", 20)
    return p, number


def test_a_script_run_by_hand_is_a_job():
    home = Home().start()
    try:
        p, number = tracked(home)
        record = job_of(home, number)
        assert (record["project"], record["name"], record["params"]) == ("notebooks", "mine", {"lr": 0.5}), record
        assert record["metrics"]["loss"]["value"] == 1.0 and record["runs"][0]["pid"] == p.pid
        p.communicate("go\n")
        assert ended(home, number)["state"] == "succeeded"
        p, number = tracked(home)
        p.communicate("raise\n")
        record = ended(home, number)
        assert record["state"] == "failed" and "on purpose" in record["reason"], record
        assert all(n["name"] != "outside" for n in home.api("GET", "/v1/nodes")["items"])
        home.stop()
    finally:
        home.close()


def test_the_exit_status_of_a_script_run_by_hand():
    """However the script exits; a SystemExit that somebody caught is none."""
    ways = {"import sys; sys.exit(3)": 3, "raise SystemExit(4)": 4, "raise SystemExit('text')": 1, "raise SystemExit": 0, "exit(5)": 5,
            "try:\n  raise SystemExit(6)\nexcept SystemExit:\n  pass": 0,
            "import argparse; argparse.ArgumentParser().parse_args(['--no'])": 2,
            "import threading, sys\nt = threading.Thread(target=sys.exit, args=(7,)); t.start(); t.join()": 0}
    home = Home().start()
    try:
        for i, (way, status) in enumerate(ways.items()):
            p = subprocess.run([sys.executable, "-c", f"import berth; berth.track(name='way{i}')\n{way}"], stderr=subprocess.PIPE, text=True,
                               env=dict(home.env, PYTHONPATH=PYTHON), timeout=120)
            assert p.returncode == status, (way, p)
            number = home.api("GET", f"/v1/jobs?filter=name:way{i}")["items"][0]["number"]
            record = ended(home, number)
            assert (record["state"], record["exit_code"]) == ("failed" if status else "succeeded", status), (way, record)
        home.stop()
    finally:
        home.close()


def test_guests_survive_the_daemon_and_may_vanish():
    home = Home().start()
    try:
        stays, killed, away, told = tracked(home), tracked(home), tracked(home), tracked(home)
        home.kill()
        away[0].kill()  # while nobody watches
        away[0].wait()
        told[0].communicate("go\n")  # says so in its spool only
        home.start()
        wait_until(lambda: job_of(home, stays[1])["state"] == "running", 20)
        assert ended(home, away[1])["state"] == "lost"
        assert ended(home, told[1])["state"] == "succeeded"
        killed[0].kill()
        killed[0].wait()
        record = ended(home, killed[1])
        assert record["state"] == "lost" and "without reporting a result" in record["reason"], record
        home.api("POST", f"/v1/jobs/{stays[1]}/cancel")
        stays[0].wait(120)  # asked to by SIGTERM
        assert ended(home, stays[1])["state"] == "cancelled"
        home.stop()
    finally:
        home.close()


def test_a_guest_from_elsewhere_is_lost_after_a_silence():
    home = Home().start()
    try:
        made = home.api("POST", "/v1/outside", {"name": "far", "silence_s": 5})
        conn = UnixHTTP(home.sock)
        for _ in range(4):
            conn.request("GET", f"/v1/jobs/{made['number']}/control", headers={"Authorization": "Bearer " + made["token"]})
            assert json.loads(conn.getresponse().read()) == {"stop": False}
            time.sleep(2)
        assert job_of(home, made["number"])["state"] == "running"
        record = ended(home, made["number"])
        assert record["state"] == "lost" and "sent no report" in record["reason"], record
        home.stop()
    finally:
        home.close()


TRACKED_TWICE = """
import berth, json, os
numbers = []
one = berth.track(project="p", name="one", params={"lr": 0.1})
berth.log(loss=1.0, step=1)
two = berth.track(project="p", name="two", params={"lr": 0.2})
berth.log(loss=2.0, step=1)
two.finish()
berth.log(loss=9.0, step=9)  # belongs to nobody
with berth.track(project="p", name="outer") as outer:
    p = berth.params(width=64)
    berth.log(loss=3.0, step=1)
    with berth.track(project="p", name="inner") as inner:
        berth.log(loss=4.0, step=1)
        child = os.environ["BERTH_JOB_NUMBER"]
    plain = berth.track(project="p", name="plain")
    berth.log(loss=5.0, step=1)
    plain.finish(3)
    berth.log(loss=6.0, step=2)
    left = berth.track(project="p", name="left")
try:
    with berth.track(project="p", name="bad") as bad:
        raise ValueError("on purpose")
except ValueError:
    pass
assert "BERTH_JOB_ID" not in os.environ and child == str(inner.number)
last = berth.track(project="p", name="last")
berth.log(loss=7.0, step=1)
raise RuntimeError("at the end")
"""


def test_one_process_several_runs():
    """Each track() is a job of its own, whatever way the one before it ended."""
    home = Home().start()
    try:
        out = subprocess.run([sys.executable, "-c", TRACKED_TWICE], env=dict(home.env, PYTHONPATH=PYTHON), text=True,
                             stderr=subprocess.PIPE, timeout=120)
        assert "at the end" in out.stderr, out.stderr
        jobs = {j["name"]: ended(home, j["number"]) for j in home.api("GET", "/v1/jobs?project=p")["items"]}
        got = {name: (j["state"], j["exit_code"]) for name, j in jobs.items()}
        fine = ("succeeded", 0)
        assert got == {"one": fine, "two": fine, "outer": fine, "inner": fine, "plain": ("failed", 3), "left": fine,
                       "bad": ("failed", 1), "last": ("failed", 1)}, got
        assert "ValueError: on purpose" in jobs["bad"]["reason"] and "at the end" in jobs["last"]["reason"]
        losses = {name: [p["value"] for p in home.api("GET", f"/v1/jobs/{j['number']}/metrics")["metrics"].get("loss", [])]
                  for name, j in jobs.items()}
        assert losses == {"one": [1.0], "two": [2.0], "outer": [3.0, 6.0], "inner": [4.0], "plain": [5.0], "left": [],
                          "bad": [], "last": [7.0]}, losses
        listed = subprocess.run([BERTH, "ls", "width=64", "-o", "json"], env=home.env, text=True, capture_output=True)
        assert [j["name"] for j in json.loads(listed.stdout)] == ["outer"], listed
        listed = subprocess.run([BERTH, "ls", "'loss'>6.5", "-o", "json"], env=home.env, text=True, capture_output=True)
        assert [j["name"] for j in json.loads(listed.stdout)] == ["last"], listed
        home.stop()
    finally:
        home.close()


def test_many_runs_leave_nothing_in_the_process():
    """Threads and descriptors of runs that are over are given back."""
    home = Home().start()
    try:
        code = """
import berth, os, threading, time
def held():
    return threading.active_count(), len(os.listdir("/proc/self/fd"))
for i in range(60):
    with berth.track(project="many", params={"i": i}):
        berth.log(loss=i, step=0)
end = time.monotonic() + 100
while (held()[0] > 2 or held()[1] > 20) and time.monotonic() < end:
    time.sleep(0.05)
print(held())
"""
        out = subprocess.run([sys.executable, "-c", code], env=dict(home.env, PYTHONPATH=PYTHON), text=True,
                             capture_output=True, timeout=240)
        threads, files = eval(out.stdout)
        assert threads <= 2 and files <= 20, out
        jobs = home.api("GET", "/v1/jobs?project=many&limit=100")["items"]
        assert len(jobs) == 60 and all(ended(home, j["number"])["state"] == "succeeded" for j in jobs)
        home.stop()
    finally:
        home.close()


def test_a_cancelled_guest_that_asks_ends_by_itself():
    home = Home().start()
    try:
        code = """
import berth, time
with berth.track(project="p") as run:
    berth.should_stop()
    print(run.number, flush=True)
    while not berth.should_stop(): time.sleep(0.02)
print("saved", flush=True)
"""
        p = subprocess.Popen([sys.executable, "-c", code], env=dict(home.env, PYTHONPATH=PYTHON), text=True,
                             stdout=subprocess.PIPE)
        number = int(p.stdout.readline())
        home.api("POST", f"/v1/jobs/{number}/cancel")
        assert p.stdout.readline() == "saved\n" and p.wait(120) == 0
        p.stdout.close()
        assert ended(home, number)["state"] == "cancelled"
        home.stop()
    finally:
        home.close()


def test_outside_is_no_node_and_no_address():
    """Safety S1: each of these requests ended the daemon."""
    home = Home().start()
    try:
        p, number = tracked(home)
        status, _, body = home.request("GET", "/v1/nodes/outside")
        assert status == 404 and "there is no node 'outside'" in body.decode(), (status, body)
        for act in ("drain", "undrain", "rm"):
            out = subprocess.run([BERTH, "node", act, "outside"], env=home.env, text=True, capture_output=True)
            assert out.returncode != 0 and "there is no node 'outside'" in out.stderr, (act, out.stderr)
        for scheme in ("outside", "local", "null", "docker", "sim"):
            status, _, body = home.request("POST", "/v1/nodes", {"url": f"{scheme}://bar"})
            assert status == 400 and "not the address of a node" in body.decode(), (scheme, status, body)
        status, _, body = home.request("POST", "/v1/nodes", {"url": "ssh://127.0.0.1:9", "name": "outside"})
        assert status == 400 and "choose another" in body.decode(), (status, body)
        status, _, body = home.request("GET", "/v1/nodes/bar")
        assert status == 404, (status, body)
        home.kill()
        home.start()
        assert job_of(home, number)["state"] == "running"
        assert len(home.api("GET", "/v1/nodes")["items"]) == 1
        p.communicate("go\n")
        assert ended(home, number)["state"] == "succeeded"
        home.stop()
    finally:
        home.close()


if __name__ == "__main__":
    main(__name__)
