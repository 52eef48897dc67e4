"""Who may do what: bearer tokens over TCP, job tokens, and other users on the unix socket.

A foreign user is uid 65534 through setpriv, which needs root; those tests are skipped without it.
"""
import atexit
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import time

import harness

STRANGER, OTHER = 65534, 65533
homes = {}


def home_of(kind, *args):
    if kind not in homes:
        h = homes[kind] = harness.Home()
        atexit.register(h.close)
        h.port = harness.free_port()
        os.chmod(h.dir, 0o755)
        h.start("--slots", "2", "--listen", f"127.0.0.1:{h.port}", *args)
        with open(os.path.join(h.home, "token")) as f:
            h.token = f.read().strip()
    return homes[kind]


def single():
    return home_of("single")


def multi():
    if os.getuid() != 0:
        raise harness.Skip("needs root to be two users")
    return home_of("multi", "--multi-user")


def tcp(h, method, path, body=None, headers=None):
    c = http.client.HTTPConnection("127.0.0.1", h.port, timeout=120)
    try:
        c.request(method, path, json.dumps(body) if body is not None else None, headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def bearer(token):
    return {"Authorization": "Bearer " + token}


CLIENT = """
import http.client, json, socket, sys
class C(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(sys.argv[1])
try:
    for line in sys.stdin:
        method, path, body, headers = json.loads(line)
        c = C("x")
        c.request(method, path, body, headers)
        r = c.getresponse()
        print(json.dumps([r.status, r.read().decode()]))
except OSError as e:
    print(json.dumps([0, str(e)]))
"""


def as_user(uid, h, *requests):
    """Each (method, path[, body[, headers]]) sent by that user over the unix socket: [(status, value)…]."""
    lines = ""
    for r in requests:
        method, path, body, headers = (list(r) + [None, None])[:4]
        lines += json.dumps([method, path, json.dumps(body) if body is not None else None, headers or {}]) + "\n"
    p = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c",
                        CLIENT, h.sock], input=lines, capture_output=True, text=True, timeout=120, cwd="/")
    assert p.returncode == 0, p.stderr
    out = []
    for line in p.stdout.splitlines():
        status, text = json.loads(line)
        try:
            out.append((status, json.loads(text)))
        except ValueError:
            out.append((status, text))
    return out if len(requests) > 1 else out[0]


def until(condition, timeout=120):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# -- over TCP --

def test_token_file_is_private():
    h = single()
    for name in ("token", "secret"):
        assert stat.S_IMODE(os.stat(os.path.join(h.home, name)).st_mode) == 0o600, name
    assert stat.S_IMODE(os.stat(h.sock).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(h.home).st_mode) == 0o700
    assert len(h.token) == 64


def test_tcp_needs_the_token():
    """Without a token, or with a wrong one, no route but /healthz says anything, not even whether it exists."""
    h = single()
    routes = [(r["method"], r["path"].replace("{job}", "1").replace("{name}", "x"))
              for r in h.api("GET", "/v1/routes")["items"]]
    routes += [("GET", "/nowhere"), ("PUT", "/v1/jobs"), ("GET", "/v1/jobs/999999")]
    near = h.token[:-1] + ("0" if h.token[-1] != "0" else "1")
    wrong = [{}, bearer(near), bearer(h.token[:-1]), bearer(h.token + "0"), bearer("x"), bearer(""),
             {"Authorization": h.token}, {"Authorization": "Basic " + h.token}, {"Cookie": h.token}]
    before = h.api("GET", "/v1/jobs/summary")["total"]
    for method, path in routes:
        if path == "/healthz":
            assert tcp(h, method, path)[0] == 200
            continue
        for headers in wrong:
            status, head, data = tcp(h, method, path, {"command": "true"}, headers)
            assert status == 401, f"{method} {path} {headers}: {status} {data}"
            assert "Bearer" in head["WWW-Authenticate"]
            assert h.token.encode() not in data
    assert h.api("GET", "/v1/jobs/summary")["total"] == before, "something was submitted"
    assert h.daemon.poll() is None


def test_token_opens_everything():
    h = single()
    status, _, data = tcp(h, "POST", "/v1/jobs", {"command": "true", "cwd": "/"}, bearer(h.token))
    assert status == 201, data
    status, _, data = tcp(h, "GET", "/v1", headers=bearer(h.token))
    assert status == 200 and json.loads(data)["you"]["admin"]
    assert tcp(h, "GET", f"/v1/jobs?token={h.token}")[0] == 401, "a token in the address is not a proof"


def test_wrong_token_on_the_socket():
    """A proof that is given must be right, also where none is needed."""
    h = single()
    assert h.request("GET", "/v1", headers=bearer("wrong"))[0] == 401
    assert h.request("GET", "/v1")[0] == 200


def test_stranger_cannot_send_a_large_body():
    """Who is not known is cut off after 64 KiB, not after 256 MiB."""
    h = single()
    s = socket.create_connection(("127.0.0.1", h.port), timeout=120)
    s.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n")
    reply = s.recv(4096)
    assert b" 413 " in reply or b" 401 " in reply, reply
    s.close()


# -- job tokens --

def job_token(h, send=None):
    """(number, token) of a job that runs until it is cancelled."""
    number = h.submit("sh", "-c", "echo $BERTH_JOB_TOKEN; exec sleep 600")["number"]
    end = time.monotonic() + 20
    while time.monotonic() < end:
        status, _, text = h.request("GET", f"/v1/jobs/{number}/logs")
        if status == 200 and text.endswith(b"\n"):
            return number, text.decode().strip()
        time.sleep(0.02)
    raise AssertionError("the job did not print its token")


def test_job_token_opens_its_job_only():
    h = single()
    other, foreign = job_token(h)
    mine, token = job_token(h)
    assert token and token != foreign and token != h.token
    line = '{"k":"m","n":"loss","v":1,"s":1,"t":1}\n'
    auth = bearer(token)

    def ask(method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", h.port, timeout=120)
        c.request(method, path, body, auth)
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, data

    for path in ("", "/logs", "/control"):
        assert ask("GET", f"/v1/jobs/{mine}{path}")[0] == 200, path
        status, data = ask("GET", f"/v1/jobs/{other}{path}")
        assert status == 404, (path, status, data)
    identity = json.loads(ask("GET", f"/v1/jobs/{mine}")[1])["id"]
    assert ask("GET", f"/v1/jobs/{identity}")[0] == 200
    assert ask("POST", f"/v1/jobs/{mine}/reports?run=1&offset=0", line)[0] == 200
    assert ask("POST", f"/v1/jobs/{identity}/reports?run=1&offset=0", line)[0] == 200
    assert ask("POST", f"/v1/jobs/{mine}/reports?run=2&offset=0", line)[0] == 403
    assert ask("POST", f"/v1/jobs/{other}/reports?run=1&offset=0", line)[0] == 404
    assert "loss" not in h.api("GET", f"/v1/jobs/{other}")["metrics"]
    # Everything else is closed, its own job included.
    allowed = {("GET", "/v1/jobs/{job}"), ("GET", "/v1/jobs/{job}/logs"), ("GET", "/v1/jobs/{job}/control"),
               ("POST", "/v1/jobs/{job}/reports"), ("POST", "/v1/jobs/{job}/outside_end"), ("GET", "/healthz")}
    assert ask("POST", f"/v1/jobs/{mine}/outside_end", "{}")[0] == 409  # we see ourselves how it ends
    assert ask("POST", f"/v1/jobs/{other}/outside_end", "{}")[0] == 404
    for r in h.api("GET", "/v1/routes")["items"]:
        if (r["method"], r["path"]) in allowed:
            continue
        path = r["path"].replace("{job}", str(mine)).replace("{name}", "x")
        status, data = ask(r["method"], path, json.dumps({"command": "true", "all": True}))
        assert status == 403, f"{r['method']} {path}: {status} {data}"
    for broken in (token[:-1], token + "0", token.swapcase() if token.swapcase() != token else "x", token[::-1]):
        assert tcp(h, "GET", f"/v1/jobs/{mine}", headers=bearer(broken))[0] == 401, broken
    assert h.api("GET", f"/v1/jobs/{mine}")["state"] == "running"
    h.api("POST", "/v1/jobs/cancel", {"all": True})
    h.wait_all()


def test_job_token_after_its_run():
    """Reports of a run that is over are refused; the job cannot be changed through a left-over token."""
    h = single()
    number, token = job_token(h)
    h.api("POST", f"/v1/jobs/{number}/cancel")
    h.wait_all()
    status, _, _ = tcp(h, "POST", f"/v1/jobs/{number}/reports?run=1&offset=0", {}, bearer(token))
    assert status in (401, 403, 404, 409), status
    assert h.api("GET", f"/v1/jobs/{number}")["state"] == "cancelled"


# -- other users --

def test_single_user_daemon_refuses_others():
    if os.getuid() != 0:
        raise harness.Skip("needs root to be somebody else")
    h = single()
    status, _ = as_user(STRANGER, h, ("GET", "/v1"))
    assert status == 0, "the socket of a single-user daemon is reachable for others"
    # And if its directory were open, the daemon itself says no.
    os.chmod(h.home, 0o711)
    os.chmod(h.sock, 0o666)
    try:
        for method, path, body in (("GET", "/v1", None), ("GET", "/v1/jobs", None),
                                   ("POST", "/v1/jobs", {"command": "true"}), ("POST", "/v1/shutdown", None)):
            status, value = as_user(STRANGER, h, (method, path, body))
            assert status == 403, (path, status, value)
    finally:
        os.chmod(h.sock, 0o600)
        os.chmod(h.home, 0o700)


def test_others_see_their_own_jobs_only():
    h = multi()
    theirs = h.submit("sh", "-c", "echo secret; exec sleep 600", name="hidden", project="secret",
                      params={"k": "hidden"})["number"]
    h.api("POST", "/v1/jobs", [{"command": "true", "name": "b", "project": "secret", "cwd": "/"}] * 3)
    status, mine = as_user(STRANGER, h, ("POST", "/v1/jobs", {"command": "exec sleep 600", "name": "own",
                                                              "cwd": "/"}))
    assert status == 201, mine
    number = mine["number"]
    record = h.api("GET", f"/v1/jobs/{number}")
    assert record["user"] == "nobody", record["user"]
    line = '{"k":"m","n":"loss","v":1}\n'
    closed = [("GET", f"/v1/jobs/{theirs}{p}") for p in
              ("", "/spec", "/explain", "/logs", "/logs?follow=1", "/metrics", "/events", "/control")]
    closed += [("POST", f"/v1/jobs/{theirs}/cancel"), ("POST", f"/v1/jobs/{theirs}/retry"),
               ("DELETE", f"/v1/jobs/{theirs}"), ("POST", f"/v1/jobs/{theirs}/reports?run=1&offset=0", line),
               ("GET", f"/v1/events?job={theirs}&follow=0"), ("GET", f"/v1/events?job={theirs}"),
               ("POST", "/v1/jobs/cancel", {"jobs": [number, theirs]}),
               ("POST", "/v1/jobs", {"command": "true", "after": [theirs]})]
    absent = [(m, p.replace(f"/{theirs}", "/999999").replace(f"={theirs}", "=999999"), *rest)
              for m, p, *rest in closed]
    for (request, (status, value)), (_, (status2, value2)) in zip(
            zip(closed, as_user(STRANGER, h, *closed)), zip(absent, as_user(STRANGER, h, *absent))):
        assert status == 404, (request, status, value)
        if "jobs" not in str(request[2:]) and "after" not in str(request[2:]):
            assert status2 == 404
            assert str(value).replace(str(theirs), "#") == str(value2).replace("999999", "#"), \
                f"{request}: somebody else's job and none at all are told apart: {value} / {value2}"
    assert h.api("GET", f"/v1/jobs/{theirs}")["state"] == "running"
    assert h.api("GET", f"/v1/jobs/{number}")["state"] in ("queued", "starting", "running")


def test_others_lists_and_counts():
    h = multi()
    answers = as_user(STRANGER, h, ("GET", "/v1/jobs"), ("GET", "/v1/jobs/summary"), ("GET", "/v1/projects"),
                      ("GET", "/v1/batches"), ("GET", "/v1/events?follow=0"), ("GET", "/v1"),
                      ("GET", "/v1/queues"), ("GET", "/v1/jobs?user=root"), ("GET", "/v1/jobs?project=secret"),
                      ("GET", "/v1/jobs/summary?filter=name:hidden"), ("GET", "/v1/jobs?sort=name&limit=1"))
    values = [v for s, v in answers]
    assert [s for s, _ in answers] == [200] * len(answers), answers
    jobs, summary, projects, batches, events, about, queues, of_root, secret, named, page = values
    assert [j["name"] for j in jobs["items"]] == ["own"]
    assert summary["total"] == 1
    assert [p["name"] for p in projects["items"]] == ["default"] and projects["items"][0]["total"] == 1
    assert batches["items"] == []
    assert events["items"] and all(e["job"] == jobs["items"][0]["number"] == e["last"] for e in events["items"]), events
    assert sum(about["counts"].values()) == 1 and not about["you"]["admin"] and about["you"]["uid"] == STRANGER
    assert sum(v for q in queues["items"] for k, v in q.items() if isinstance(v, int) and k != "paused") == 1
    assert of_root["items"] == secret["items"] == [] and named["total"] == 0
    assert page["next"] is None
    text = json.dumps(values)
    assert "hidden" not in text and "secret" not in text


def test_others_beginnings_of_ids():
    """What begins several ids names a job when only one of them is the caller's."""
    h = multi()
    own = as_user(STRANGER, h, ("GET", "/v1/jobs"))[1]["items"][0]
    assert h.request("GET", f"/v1/jobs/{own['id'][:5]}")[0] == 409
    status, value = as_user(STRANGER, h, ("GET", f"/v1/jobs/{own['id'][:5]}"))
    assert status == 200 and value["number"] == own["number"], value
    assert as_user(OTHER, h, ("GET", f"/v1/jobs/{own['id'][:5]}"))[0] == 404


def test_others_may_not_administer():
    h = multi()
    node = h.api("GET", "/v1")["node"]["name"]
    for method, path, body in (("GET", "/metrics", None), ("POST", "/v1/shutdown", None),
                               ("POST", "/v1/backup", {"path": "/tmp/stolen.db"}),
                               ("POST", "/v1/queues/default/pause", None), ("POST", "/v1/queues/default/resume", None),
                               (f"POST", f"/v1/nodes/{node}/drain", None), ("POST", f"/v1/nodes/{node}/undrain", None)):
        status, value = as_user(STRANGER, h, (method, path, body))
        assert status == 403, (path, status, value)
    assert not os.path.exists("/tmp/stolen.db")
    assert h.daemon.poll() is None


def test_others_bulk_touches_only_their_own():
    h = multi()
    for what in ("cancel", "retry", "remove"):
        status, value = as_user(STRANGER, h, ("POST", f"/v1/jobs/{what}", {"project": "secret"}))
        assert (status, value["done"], value["denied"]) == (200, 0, 0), (what, value)
    status, value = as_user(STRANGER, h, ("POST", "/v1/jobs/cancel", {"all": True}))
    assert status == 200 and value["done"] == 1, value
    assert h.api("GET", "/v1/jobs/summary?filter=name:hidden&state=running")["total"] == 1


def test_others_events_stream():
    """A stream of somebody who is not an admin tells of their own jobs, and of nothing else."""
    h = multi()
    p = subprocess.Popen(["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "curl", "-sN", "--max-time",
                          "20", "--unix-socket", h.sock, "http://x/v1/events"], stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert p.stdout.readline().startswith(":")
        a = h.submit("true", name="of-root")["number"]
        status, own = as_user(OTHER, h, ("POST", "/v1/jobs", {"command": "true", "name": "of-other", "cwd": "/"}))
        assert status == 201
        b = h.submit("true", name="of-root-too")["number"]
        seen = []
        while not seen or seen[-1]["kind"] != "job.succeeded":
            line = p.stdout.readline()
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
        assert all(e["job"] == e["last"] == own["number"] for e in seen), seen
        assert a != own["number"] != b
    finally:
        p.kill()
        p.wait()


def test_cut_down_events():
    """An admin cancels jobs of several people in one go: each is told of their own."""
    h = multi()
    h.api("POST", "/v1/queues/mixed/pause")
    spec = {"command": "true", "queue": "mixed", "cwd": "/"}
    h.api("POST", "/v1/jobs", dict(spec, name="r1"))
    mine = [as_user(OTHER, h, ("POST", "/v1/jobs", dict(spec, name="o1")))[1]["number"]]
    h.api("POST", "/v1/jobs", dict(spec, name="r2"))
    mine += [as_user(OTHER, h, ("POST", "/v1/jobs", dict(spec, name="o2")))[1]["number"]]
    mine += [as_user(OTHER, h, ("POST", "/v1/jobs", dict(spec, name="o3")))[1]["number"]]
    after = h.api("GET", "/v1")["last_event"]
    assert h.api("POST", "/v1/jobs/cancel", {"queue": "mixed"})["done"] == 5
    whole = h.api("GET", f"/v1/events?follow=0&after={after}")["items"]
    assert sum(e["last"] - e["job"] + 1 for e in whole if e["kind"] == "job.cancelled") == 5
    _, page = as_user(OTHER, h, ("GET", f"/v1/events?follow=0&after={after}"))
    told = [n for e in page["items"] for n in range(e["job"], e["last"] + 1)]
    assert sorted(told) == sorted(mine), page
    h.api("POST", "/v1/queues/mixed/resume")


def test_events_of_studies_reach_their_owners():
    h = multi()
    study = {"space": {"x": [1, 2]}, "objective": {"minimize": "loss"}}
    after = h.api("GET", "/v1")["last_event"]
    h.api("POST", "/v1/studies", dict(study, name="of-root"))
    status, _ = as_user(OTHER, h, ("POST", "/v1/studies", dict(study, name="of-other")))
    assert status == 201
    whole = h.api("GET", f"/v1/events?follow=0&after={after}")["items"]
    assert [e["data"]["study"] for e in whole if e["kind"] == "study.created"] == ["of-root", "of-other"], whole
    _, page = as_user(OTHER, h, ("GET", f"/v1/events?follow=0&after={after}"))
    assert [e["data"]["study"] for e in page["items"]] == ["of-other"], page
    for name in ("of-root", "of-other"):
        h.api("DELETE", f"/v1/studies/{name}")


def test_jobs_run_as_their_submitter():
    h = multi()
    status, job = as_user(OTHER, h, ("POST", "/v1/jobs", {"command": "id -u; id -G; cat " + os.path.join(
        h.home, "token") + " " + os.path.join(h.home, "secret") + " " + os.path.join(h.home, "berth.db"), "cwd": "/"}))
    assert status == 201, job
    h.api("POST", "/v1/jobs/cancel", {"filter": "name:hidden"})
    h.wait_all()
    status, text = as_user(OTHER, h, ("GET", f"/v1/jobs/{job['number']}/logs"))
    lines = str(text).splitlines()
    assert status == 200 and lines[:2] == [str(OTHER), str(OTHER)], text
    assert h.token not in str(text) and "SQLite" not in str(text)
    assert sum("ermission denied" in x for x in lines) == 3, text


def test_others_schedules():
    """A schedule is its owner's: others cannot see it, and its jobs run as the owner."""
    h = multi()
    job = {"command": ["id", "-u"], "cwd": "/"}
    body = {"name": "nightly", "cron": "0 0 29 2 *", "job": job}
    h.api("POST", "/v1/schedules", body)
    one = "/v1/schedules/nightly"
    for request in (("GET", one), ("GET", one + "?user=root"), ("PUT", one, {"cron": "* * * * *", "job": job}), ("DELETE", one),
                    ("POST", one + "/pause"), ("POST", one + "/resume"), ("POST", one + "/run")):
        assert as_user(STRANGER, h, request)[0] == 404, request
    assert as_user(STRANGER, h, ("GET", "/v1/schedules"))[1]["items"] == []
    # The same name of another user is another schedule; an admin gets their own unless they name the user.
    status, theirs = as_user(STRANGER, h, ("POST", "/v1/schedules", {**body, "cron": "0 0 28 2 *"}))
    assert status == 201 and theirs["cron"] == "0 0 28 2 *"
    assert h.api("GET", one)["cron"] == "0 0 29 2 *"
    assert h.api("GET", one + f"?user={theirs['user']}")["cron"] == "0 0 28 2 *"
    assert len(h.api("GET", "/v1/schedules")["items"]) == 2
    ran = h.api("POST", one + f"/run?user={theirs['user']}")
    done = harness.wait_for("the end of the job", lambda: h.api("GET", f"/v1/jobs/{ran['first']}")["ended"] and
                            h.request("GET", f"/v1/jobs/{ran['first']}/logs")[2])
    assert done == f"{STRANGER}\n".encode(), "an admin ran it, and it ran as its owner"
    h.api("DELETE", f"/v1/jobs/{ran['first']}")
    assert as_user(STRANGER, h, ("DELETE", one))[0] == 204 and h.api("GET", one)["cron"] == "0 0 29 2 *"
    h.api("DELETE", one)


def test_users_are_limited_one_by_one():
    if os.getuid() != 0:
        raise harness.Skip("needs root to be two users")
    h = home_of("limited", "--multi-user", "--slots", "4", "--user-limit", "1")
    sleep = ("POST", "/v1/jobs", {"command": ["sleep", "60"], "cwd": "/"})
    numbers = [job["number"] for _, job in as_user(OTHER, h, sleep, sleep) + [as_user(STRANGER, h, sleep)]]
    until(lambda: [h.api("GET", f"/v1/jobs/{n}")["state"] for n in numbers] == ["running", "queued", "running"])
    assert "is limited to 1 running job" in h.api("GET", f"/v1/jobs/{numbers[1]}/explain")["text"]
    h.api("POST", "/v1/jobs/cancel", {"jobs": [str(numbers[0])]})
    until(lambda: h.api("GET", f"/v1/jobs/{numbers[1]}")["state"] == "running")
    h.api("POST", "/v1/jobs/cancel", {"filter": "state:active"})
    h.wait_all()


def test_files_of_a_job_are_its_submitters():
    h = multi()
    here = {"command": ["sh", "-c", "echo root's; echo more >&2"], "cwd": "/", "split_output": True, "params": {"lr": 1}}
    roots = h.api("POST", "/v1/jobs", here)["number"]
    _, others = as_user(OTHER, h, ("POST", "/v1/jobs", here))
    h.wait_all()
    runs = os.path.join(h.home, "runs")
    paths = [h.run_path(n, 1, end) for n in (roots, others["number"]) for end in (".log", ".err", "")]
    for path in paths:
        st = os.stat(path)
        assert st.st_mode & 0o077 == 0 and st.st_uid == (OTHER if f"/{others['number']}." in path else 0), (path, oct(st.st_mode))
    # A name that can be guessed opens nothing, and no name can be learnt.
    look = "for p; do cat $p $p/params.json && echo read $p; done; ls $0 $0/0 && echo listed"
    p = subprocess.run(["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "sh", "-c", look, runs, *paths],
                       capture_output=True, text=True, timeout=120)
    assert p.stdout == "", p.stdout


def test_files_of_an_older_program_become_private():
    """It left logs and run directories of the owner's jobs open to everybody."""
    h = harness.Home()
    try:
        h.start()
        for _ in range(3):
            h.submit("sh", "-c", "echo out; echo more >&2", params={"lr": 1}, split_output=True)
        h.wait_all()
        h.stop()
        runs = os.path.join(h.home, "runs")
        names = [h.run_path(n, 1, end) for n in (1, 2, 3) for end in (".log", ".err", "")]

        def modes():
            return {p: stat.S_IMODE(os.stat(p).st_mode) for p in names}

        for p in names:
            os.chmod(p, 0o755 if os.path.isdir(p) else 0o644)
        os.chmod(os.path.join(runs, "0"), 0o755)
        os.mkdir(os.path.join(runs, "1"), 0o755)
        h.start()
        harness.wait_for("the directories", lambda: all(stat.S_IMODE(os.stat(os.path.join(runs, d)).st_mode) == 0o711 for d in "01"))
        assert all(m == (0o700 if os.path.isdir(p) else 0o600) for p, m in modes().items()), modes()
        assert h.berth("logs", "2").stdout.startswith("out"), h.berth("logs", "2")
        assert "made 9 files of earlier runs private" in h.log_text(), h.log_text()
        # Once: what its owner opens afterwards stays open.
        os.chmod(names[0], 0o644)
        h.stop()
        h.start()
        h.submit("true")
        h.wait_all()
        h.stop()
        assert modes()[names[0]] == 0o644, modes()
    finally:
        h.close()


def test_projects_of_others_cannot_be_changed():
    h = multi()
    h.api("POST", "/v1/jobs", {"command": "true", "cwd": "/", "project": "secret"})
    h.api("PUT", "/v1/projects/secret", {"description": "ours"})
    for request in (("GET", "/v1/projects/secret"), ("PUT", "/v1/projects/secret", {"description": "theirs"}),
                    ("GET", "/v1/projects/secret/notes"), ("POST", "/v1/projects/secret/notes", {"text": "theirs"})):
        status, said = as_user(OTHER, h, request)
        assert status == 404 and "there is no project 'secret'" in said["error"]["message"], (request, status, said)
    assert h.api("GET", "/v1/projects/secret")["description"] == "ours" and h.api("GET", "/v1/projects/secret/notes")["items"] == []
    # One that nobody has may be begun, and then belongs to whoever did.
    assert as_user(OTHER, h, ("PUT", "/v1/projects/begun", {"description": "mine"}))[0] == 200
    assert as_user(OTHER, h, ("POST", "/v1/projects/begun/notes", {"text": "a note"}))[0] in (200, 201)
    assert as_user(STRANGER, h, ("PUT", "/v1/projects/begun", {"description": "no"}))[0] == 404
    # A job of one's own in it gives a part in it.
    as_user(OTHER, h, ("POST", "/v1/jobs", {"command": "true", "cwd": "/", "project": "secret"}))
    assert as_user(OTHER, h, ("PUT", "/v1/projects/secret", {"description": "both"}))[0] == 200
    h.wait_all()


def test_mounts_stay_in_the_tree_of_their_run():
    h = multi()
    for target in ("/nonexist/../../9.1.log", "/a/..", "/./x", "/x/."):
        status, said = as_user(OTHER, h, ("POST", "/v1/jobs", {"command": "true", "cwd": "/", "mounts": ["/tmp:" + target]}))
        assert status == 400 and "target without '..'" in said["error"]["message"], (target, status, said)


if __name__ == "__main__":
    harness.main(__name__)
