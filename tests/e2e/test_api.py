"""The REST interface as a client meets it: keys, pages, ETags, events, logs, and clients that leave."""
import atexit
import http.client
import json
import socket
import sqlite3
import threading
import time
from urllib.parse import quote

import harness

home = None


def setup():
    global home
    if home is None:
        home = harness.Home()
        atexit.register(home.close)
        home.start("--slots", "4")
    return home


def ask(method, path, body=None, headers=None):
    """One request on a connection of its own: (status, headers, bytes)."""
    c = harness.UnixHTTP(home.sock)
    try:
        c.request(method, path, json.dumps(body) if body is not None else None, headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def message(data):
    return json.loads(data)["error"]["message"]


# -- idempotency keys --

def test_key_answers_once():
    setup()
    spec = {"command": "true", "name": "keyed", "cwd": "/"}
    key = {"Idempotency-Key": "k1"}
    status, head, first = ask("POST", "/v1/jobs", spec, key)
    assert status == 201 and head["Location"] == f"/v1/jobs/{json.loads(first)['number']}"
    status, _, again = ask("POST", "/v1/jobs", spec, key)
    assert status == 200
    assert json.loads(again)["id"] == json.loads(first)["id"]
    assert home.api("GET", "/v1/jobs/summary?filter=name:keyed")["total"] == 1
    status, _, other = ask("POST", "/v1/jobs", spec, {"Idempotency-Key": "k2"})
    assert status == 201 and json.loads(other)["id"] != json.loads(first)["id"]
    for changed in ({"command": "false", "cwd": "/"}, [spec, spec], dict(spec, name="other"), dict(spec, priority=3),
                    dict(spec, resources={"cpus": 2}), dict(spec, cwd="/tmp")):
        status, _, data = ask("POST", "/v1/jobs", changed, key)
        assert status == 409 and "'k1'" in message(data), (status, data)
    for changed in (dict(spec, env={"A": "b"}), dict(spec, after=[1])):
        status, _, data = ask("POST", "/v1/jobs", changed, key)
        assert status == 409 and "'k1'" in message(data), (status, data)
    assert ask("POST", "/v1/jobs?batch=x", spec, key)[0] == 409
    home.kill()  # what was compared is on disk
    home.start()
    assert ask("POST", "/v1/jobs", spec, key)[0] == 200
    assert ask("POST", "/v1/jobs", dict(spec, env={"A": "b"}), key)[0] == 409


def test_key_with_a_fingerprint():
    """A client that knows what makes its request says so: the environment of another terminal, say, does not."""
    setup()
    spec = {"command": "true", "cwd": "/", "env": {"TERM": "a"}}
    key = {"Idempotency-Key": "fp", "Idempotency-Fingerprint": "one"}
    assert ask("POST", "/v1/jobs", spec, key)[0] == 201
    assert ask("POST", "/v1/jobs", dict(spec, env={"TERM": "b"}), key)[0] == 200
    assert ask("POST", "/v1/jobs", spec, dict(key, **{"Idempotency-Fingerprint": "two"}))[0] == 409
    submit = ("submit", "--idempotency-key", "cli", "-e", "LR=1", "--", "true")
    first = home.berth(*submit, OTHER="1").stdout
    assert home.berth(*submit, OTHER="2").stdout == first
    for other in (("-e", "LR=2", "--", "true"), ("-e", "LR=1", "--", "false")):
        p = home.berth(*submit[:3], *other, check=False)
        assert p.returncode != 0 and "'cli'" in p.stderr, p


def test_key_of_an_older_program():
    """It kept no fingerprint: the jobs are compared, without their variables."""
    setup()
    spec, key = {"command": "true", "cwd": "/"}, {"Idempotency-Key": "older"}
    assert ask("POST", "/v1/jobs", spec, key)[0] == 201
    home.stop()
    db = sqlite3.connect(home.home + "/berth.db")
    assert db.execute("UPDATE idempotency SET print = 0 WHERE key = 'older'").rowcount == 1
    db.commit()
    db.close()
    home.start()
    assert ask("POST", "/v1/jobs", dict(spec, env={"A": "b"}), key)[0] == 200
    assert ask("POST", "/v1/jobs", dict(spec, command="false"), key)[0] == 409


def test_key_of_a_schedule_is_not_that_of_another():
    setup()
    for name in ("nightly-a", "nightly-b"):
        ask("POST", "/v1/schedules", {"name": name, "cron": "0 0 1 1 *", "job": {"command": "true", "cwd": "/"}})
    key = {"Idempotency-Key": "by-hand"}
    assert [ask("POST", "/v1/schedules/nightly-a/run", {}, key)[0] for _ in range(2)] == [201, 200]
    status, _, data = ask("POST", "/v1/schedules/nightly-b/run", {}, key)
    assert status == 409 and "'by-hand'" in message(data), (status, data)


def test_key_of_a_list_covers_every_job():
    setup()
    specs = [{"command": "true {n}", "cwd": "/", "params": {"n": n}} for n in range(3)] + [{"command": "false", "cwd": "/"}]
    key = {"Idempotency-Key": "list"}
    assert ask("POST", "/v1/jobs", specs, key)[0] == 201
    assert ask("POST", "/v1/jobs", specs, key)[0] == 200
    for at, change in ((2, {"params": {"n": 7}}), (3, {"command": "true"}), (3, {"retries": 2})):
        changed = [dict(s, **change) if i == at else s for i, s in enumerate(specs)]
        status, _, data = ask("POST", "/v1/jobs", changed, key)
        assert status == 409 and "'list'" in message(data), (status, data)
    sweep = {"command": "true {n}", "cwd": "/", "params": {"n": [1, 2]}}
    key = {"Idempotency-Key": "sweep"}
    assert [ask("POST", "/v1/jobs", sweep, key)[0] for _ in range(2)] == [201, 200]
    assert ask("POST", "/v1/jobs", dict(sweep, params={"n": [1, 3]}), key)[0] == 409


def test_key_under_way_is_waited_for():
    """Twenty requests with one key at once make one job, and all are told the same."""
    setup()
    answers = []

    def send():
        answers.append(ask("POST", "/v1/jobs", {"command": "true", "name": "raced", "cwd": "/"},
                           {"Idempotency-Key": "race"}))

    threads = [threading.Thread(target=send) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(a[0] for a in answers) == [200] * 19 + [201], [a[0] for a in answers]
    assert len({json.loads(a[2])["id"] for a in answers}) == 1
    assert home.api("GET", "/v1/jobs/summary?filter=name:raced")["total"] == 1


def test_key_survives_a_restart():
    setup()
    spec = [{"command": "true", "cwd": "/"}] * 3
    _, _, first = ask("POST", "/v1/jobs", spec, {"Idempotency-Key": "kept"})
    home.kill()
    home.start("--slots", "4")
    status, _, again = ask("POST", "/v1/jobs", spec, {"Idempotency-Key": "kept"})
    assert status == 200 and json.loads(again) == json.loads(first)


def test_refused_key_is_free_again():
    setup()
    key = {"Idempotency-Key": "bad-then-good"}
    assert ask("POST", "/v1/jobs", {"comand": "x"}, key)[0] == 400
    assert ask("POST", "/v1/jobs", {"command": "true", "cwd": "/"}, key)[0] == 201


# -- lists --

def test_all_or_nothing():
    setup()
    before = home.api("GET", "/v1/jobs/summary")["total"]
    status, _, data = ask("POST", "/v1/jobs", [{"command": "true"}] * 50 + [{"command": "true", "cpu": 1}])
    assert status == 400 and "[50].cpu" in message(data) and "cpus" in message(data), data
    assert home.api("GET", "/v1/jobs/summary")["total"] == before


def test_pages_under_inserts():
    """Jobs that come in between two pages neither repeat nor hide others."""
    setup()
    mine = home.api("POST", "/v1/jobs", [{"command": "true", "project": "paged", "cwd": "/"}] * 50)
    for sort in ("-id", "id", "created", "-name"):
        seen, cursor = [], None
        while True:
            path = f"/v1/jobs?project=paged&limit=7&sort={sort}"
            page = home.api("GET", path + (f"&cursor={quote(cursor)}" if cursor else ""))
            seen += [j["number"] for j in page["items"]]
            cursor = page["next"]
            if not cursor:
                break
            home.submit("true", project="paged")
        assert len(seen) == len(set(seen)), f"{sort}: a job came twice"
        missing = set(range(mine["first"], mine["first"] + 50)) - set(seen)
        assert not missing, f"{sort}: missing {missing}"


def test_etag():
    setup()
    job = home.submit("true")["number"]
    home.wait_all()
    for path in (f"/v1/jobs/{job}", "/v1/jobs?limit=5", "/v1/jobs/summary", "/v1/projects", "/v1/queues"):
        status, head, body = ask("GET", path)
        tag = head["ETag"]
        assert status == 200 and tag.startswith('"'), path
        status, head, body = ask("GET", path, headers={"If-None-Match": tag})
        assert (status, body) == (304, b"") and head["ETag"] == tag, path
        status, _, _ = ask("GET", path, headers={"If-None-Match": f'"other", W/{tag}'})
        assert status == 304, path
        assert ask("GET", path, headers={"If-None-Match": '"other"'})[0] == 200
    _, head, _ = ask("GET", "/v1/jobs?limit=5")
    home.submit("true")
    assert ask("GET", "/v1/jobs?limit=5", headers={"If-None-Match": head["ETag"]})[0] == 200


def test_jobs_by_any_name():
    setup()
    job = home.submit("true")
    for name in (job["number"], job["id"], job["id"].upper(), job["id"][:-1]):
        assert home.api("GET", f"/v1/jobs/{name}")["id"] == job["id"], name
    for name in ("0", "999999", "-1", "nonsense", "zzzzzzzzzzzzzzzzzzzzzzzzzz", "%00", "..%2f"):
        assert ask("GET", f"/v1/jobs/{name}")[0] in (400, 404), name
    status, _, data = ask("GET", f"/v1/jobs/{job['id'][:3]}")
    assert status == 409 and job["id"][:3] in message(data), data


def test_wrong_paths_and_methods():
    setup()
    status, _, data = ask("GET", "/v1/job")
    assert status == 404 and "/v1/jobs" in message(data)
    status, head, _ = ask("PUT", "/v1/jobs")
    assert status == 405 and head["Allow"] == "POST, GET, HEAD"
    status, head, _ = ask("GET", "/v1/jobs/cancel")
    assert status == 405 and head["Allow"] == "POST"
    status, head, body = ask("HEAD", "/v1/jobs")
    assert status == 200 and body == b"" and int(head["Content-Length"]) > 0


def test_limits_name_themselves():
    setup()
    status, _, data = ask("POST", "/v1/jobs/cancel", {"filter": "x" * (5 << 20)})
    assert status == 413, status
    status, _, data = ask("GET", "/v1/jobs?limit=10001")
    assert status == 400 and "10000" in message(data)


def test_bytes_that_are_no_text():
    setup()
    for path in ("/v1/jobs", "/v1/jobs/cancel", "/v1/backup", "/v1/jobs/1/reports?run=1"):
        for body in (b"\0" * 3000, b'{"a":"' + b"\0" * 5000 + b'"}', b"\xff\xfe" * 2000, b"[" * 100000):
            status, _, data = home.request("POST", path, body)
            assert 400 <= status < 500, (path, status, data[:200])
            message(data)


# -- acting on many --

def test_many_by_name_and_filter():
    setup()
    home.api("POST", "/v1/queues/held/pause")
    jobs = home.api("POST", "/v1/jobs", [{"command": "true", "queue": "held", "name": f"n{i}", "cwd": "/"}
                                         for i in range(20)])
    first = jobs["first"]
    status, _, data = ask("POST", "/v1/jobs/cancel", {"jobs": [first, 999999]})
    assert status == 404 and "jobs[1]" in message(data), data
    assert home.api("GET", f"/v1/jobs/{first}")["state"] == "queued", "an unknown name must refuse the whole list"
    got = home.api("POST", "/v1/jobs/cancel", {"jobs": [first, str(first), first + 1]})
    assert got["done"] == 2, got
    got = home.api("POST", "/v1/jobs/cancel", {"filter": "name:n2,n3", "queue": "held"})
    assert got["done"] == 2, got
    got = home.api("POST", "/v1/jobs/cancel", {"batch": jobs["batch"]})
    assert got["done"] == 16, got
    got = home.api("POST", "/v1/jobs/retry", {"jobs": [first]})
    assert got["done"] == 1
    got = home.api("POST", "/v1/jobs/remove", {"queue": "held"})
    assert got["done"] == 19, got
    home.api("POST", "/v1/queues/held/resume")
    home.wait_all()
    assert home.api("GET", f"/v1/jobs/{first}")["state"] == "succeeded"


# -- events --

class Events:
    """A stream read by a thread."""

    def __init__(self, path, headers=None):
        self.conn = harness.UnixHTTP(home.sock, timeout=120)
        self.conn.request("GET", path, headers=headers or {})
        self.reply = self.conn.getresponse()
        assert self.reply.status == 200, self.reply.read()
        assert self.reply.headers["Content-Type"] == "text/event-stream"

    def next(self):
        event = {}
        while True:
            line = self.reply.readline().decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if not line:
                if event:
                    return event
                continue
            key, _, value = line.partition(": ")
            event[key] = json.loads(value) if key == "data" else value

    def until(self, kind, job=None):
        seen = []
        while True:
            e = self.next()
            seen.append(e)
            d = e["data"]
            if e["event"] == kind and (job is None or d["job"] <= job <= d["last"]):
                return seen

    def close(self):
        self.conn.sock.close()
        self.conn.close()


def test_events_as_they_happen():
    setup()
    every = Events("/v1/events")
    job = home.submit("true", name="seen")["number"]
    seen = every.until("job.succeeded", job)
    kinds = [e["event"] for e in seen if e["data"]["job"] == job]
    assert kinds == ["job.queued", "job.starting", "job.running", "job.succeeded"], kinds
    ids = [int(e["id"]) for e in seen]
    assert ids == sorted(set(ids))
    assert all(e["data"]["seq"] == int(e["id"]) and e["data"]["kind"] == e["event"] for e in seen)
    every.close()


def test_events_resume_without_gap_or_repeat():
    setup()
    start = home.api("GET", "/v1")["last_event"]
    stop, submitted = threading.Event(), []

    def busy():
        own = harness.UnixHTTP(home.sock)
        while not stop.is_set():
            own.request("POST", "/v1/jobs", json.dumps({"command": "true", "cwd": "/"}))
            submitted.append(json.loads(own.getresponse().read())["number"])
        own.close()

    t = threading.Thread(target=busy)
    t.start()
    got, last = [], start
    for i in range(12):  # a client that keeps losing its connection
        ev = Events("/v1/events", {"Last-Event-ID": str(last)}) if i % 2 else Events(f"/v1/events?after={last}")
        for _ in range(15):
            e = ev.next()
            last = int(e["id"])
            got.append(last)
        ev.close()
    stop.set()
    t.join()
    assert got == list(range(start + 1, start + 1 + len(got))), "an event was skipped or repeated"
    home.wait_all()


def test_slow_reader_is_not_cut_off():
    """Somebody who resumes from the beginning and reads slowly gets everything: pages wait for the reader."""
    setup()
    home.api("POST", "/v1/queues/slow/pause")
    for _ in range(12):
        first = home.api("POST", "/v1/jobs", [{"command": "true", "queue": "slow", "cwd": "/"}] * 500)["first"]
        home.api("POST", "/v1/jobs/cancel", {"jobs": list(range(first, first + 500, 2))})
    last = home.api("GET", "/v1")["last_event"]
    assert last > 3000, last
    ev = Events("/v1/events?after=0")
    time.sleep(0.5)
    seen = 0
    while seen < last:
        seen += 1
        assert int(ev.next()["id"]) == seen
    ev.close()
    home.api("POST", "/v1/jobs/cancel", {"queue": "slow"})
    home.api("POST", "/v1/queues/slow/resume")


def test_events_of_one_job():
    setup()
    a, b = home.submit("true")["number"], home.submit("true")["number"]
    home.wait_all()
    ev = Events(f"/v1/events?job={b}&after=0")
    seen = ev.until("job.succeeded", b)
    assert all(e["data"]["job"] <= b <= e["data"]["last"] for e in seen) and len(seen) == 4
    ev.close()
    page = home.api("GET", f"/v1/jobs/{a}/events")
    assert [e["kind"] for e in page["items"]][-1] == "job.succeeded" and not page["more"]
    page = home.api("GET", "/v1/events?follow=0&limit=3")
    assert len(page["items"]) == 3 and page["more"] and page["next"] == 3
    page = home.api("GET", f"/v1/events?follow=0&after={page['next']}&limit=2")
    assert [e["seq"] for e in page["items"]] == [4, 5]


def test_many_streams():
    """300 streams, half of them about one job; each hears what concerns it."""
    setup()
    home.api("POST", "/v1/queues/late/pause")
    job = home.submit("true", queue="late")["number"]
    every = [Events("/v1/events") for _ in range(150)]
    one = [Events(f"/v1/events?job={job}&after=0") for _ in range(150)]
    home.api("POST", "/v1/queues/late/resume")
    for ev in every + one:
        ev.until("job.succeeded", job)
        ev.close()


# -- logs --

def test_log_ranges():
    setup()
    job = home.submit("sh", "-c", "seq 1 1000")["number"]
    home.wait_all()
    path = f"/v1/jobs/{job}/logs"
    whole = ask("GET", path)[2]
    assert whole == b"".join(b"%d\n" % i for i in range(1, 1001))
    status, head, part = ask("GET", path, headers={"Range": "bytes=10-19"})
    assert status == 206 and part == whole[10:20]
    assert head["Content-Range"] == f"bytes 10-19/{len(whole)}"
    assert ask("GET", path, headers={"Range": "bytes=-5"})[2] == b"1000\n"
    assert ask("GET", path, headers={"Range": "bytes=999999-"})[0] == 416
    assert ask("GET", path + "?run=2")[0] == 404
    status, _, data = ask("GET", path + "?stream=err")
    assert status == 404 and "stream=out" in message(data)


def test_log_of_a_waiting_job():
    setup()
    home.api("POST", "/v1/queues/later/pause")
    job = home.submit("echo", "at last", queue="later")["number"]
    status, _, data = ask("GET", f"/v1/jobs/{job}/logs")
    assert status == 404 and "has not run yet" in message(data)
    got = []
    t = threading.Thread(target=lambda: got.append(ask("GET", f"/v1/jobs/{job}/logs?follow=1")))
    t.start()
    time.sleep(0.3)
    assert not got, "a followed log must wait for the run"
    home.api("POST", "/v1/queues/later/resume")
    t.join(20)
    assert got and got[0][2] == b"at last\n", got


def test_log_follow():
    """Lines arrive while the job runs, and the reply ends with it."""
    setup()
    job = home.submit("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; printf end")["number"]
    c = harness.UnixHTTP(home.sock)
    c.request("GET", f"/v1/jobs/{job}/logs?follow=1")
    r = c.getresponse()
    times, text = [], b""
    while True:
        piece = r.read1(1000)
        if not piece:
            break
        text += piece
        times.append(time.monotonic())
    assert text == b"1\n2\n3\n4\n5\nend", text
    assert len(times) >= 4 and times[-1] - times[0] > 0.6, "the pieces came all at once"
    assert home.api("GET", f"/v1/jobs/{job}")["state"] in ("running", "succeeded")
    c.close()
    home.wait_all()
    for offset, want in ((0, text), (4, text[4:]), (-3, b"end"), (1000, b"")):
        got = ask("GET", f"/v1/jobs/{job}/logs?follow=1&offset={offset}")[2]
        assert got == want, (offset, got)


def test_log_follow_ends_with_its_run():
    setup()
    job = home.submit("sh", "-c", "echo run; exit 1", retries=1, backoff="1h")["number"]
    # A retry to come does not hold the log of the run that ended.
    assert ask("GET", f"/v1/jobs/{job}/logs?follow=1")[2] == b"run\n"
    home.api("POST", f"/v1/jobs/{job}/cancel")


def test_log_follow_large():
    """50 MB through a follower that reads slowly: no byte lost, memory bounded."""
    setup()
    job = home.submit("sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x")["number"]
    c = harness.UnixHTTP(home.sock)
    c.request("GET", f"/v1/jobs/{job}/logs?follow=1")
    r = c.getresponse()
    n, peak = 0, 0
    while True:
        piece = r.read(1 << 20)
        if not piece:
            break
        assert piece.count(b"x") == len(piece)
        n += len(piece)
        if n % (8 << 20) < len(piece):
            time.sleep(0.02)
            peak = max(peak, rss_kb())
    assert n == 50000000, n
    print(f"# daemon at most {peak / 1024:.0f} MB while following")
    c.close()


def rss_kb():
    with open(f"/proc/{home.daemon.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


# -- clients that leave --

def test_clients_that_leave():
    """Connections cut at any point: the daemon goes on, and jobs it acknowledged to nobody are whole or absent."""
    setup()
    body = json.dumps([{"command": "true", "project": "left", "cwd": "/"}] * 200).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for cut in (5, len(head), len(head) + 100, len(head) + len(body)):
        for _ in range(5):
            s = socket.socket(socket.AF_UNIX)
            s.connect(home.sock)
            s.sendall((head + body)[:cut])
            s.close()
    for path in ("/v1/jobs?limit=1000", "/v1/events", "/v1/events?after=0", "/v1/jobs/1", "/v1/jobs/1/logs?follow=1"):
        for _ in range(10):
            s = socket.socket(socket.AF_UNIX)
            s.connect(home.sock)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            s.close()
    n = home.api("GET", "/v1/jobs/summary?project=left")["total"]
    assert n % 200 == 0 and n <= 1000, n
    home.wait_all()


def test_streams_end_with_the_daemon():
    setup()
    job = home.submit("sleep", "60")["number"]
    while home.api("GET", f"/v1/jobs/{job}")["state"] != "running":
        time.sleep(0.01)
    ev = Events("/v1/events")
    c = harness.UnixHTTP(home.sock)
    c.request("GET", f"/v1/jobs/{job}/logs?follow=1")
    log = c.getresponse()
    began = time.monotonic()
    code = home.stop()
    assert code == 0, f"daemon ended with {code}:\n{home.log_text()}"
    assert time.monotonic() - began < 5, "open streams must not hold up the end"
    try:
        assert log.read() == b"" and ev.reply.read() is not None
    except http.client.IncompleteRead:
        raise AssertionError("a stream was cut instead of ended")
    home.start("--slots", "4")
    home.api("POST", f"/v1/jobs/{job}/cancel")
    home.wait_all()


if __name__ == "__main__":
    harness.main(__name__)
