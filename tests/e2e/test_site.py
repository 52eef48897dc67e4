"""No page of another site can use a port of Berth, and no port answers to a stranger's name."""
import http.client
import json
import uuid

import atlas_rig
import harness
from harness import Home
from hyper_rig import Place, free_port, live_batch

# headers of a browser → status
STRANGERS = [
    ({"Host": "evil.example"}, 421),
    ({"Host": "evil.example:{port}"}, 421),
    ({"Host": "localhost.evil.example:{port}"}, 421),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://127.0.0.1:1"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
]
FRIENDS = [
    {},
    {"Host": "localhost:{port}"},
    {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]
FORMS = ("text/plain", "application/x-www-form-urlencoded; charset=utf-8", "multipart/form-data; boundary=x")


def ask(port, method, path, headers, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        c.request(method, path, body, {k: v.format(port=port) for k, v in headers.items()})
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def check(port, path, change=None):
    """Programs may GET `path`, pages of other sites may not.  change: (method, path, body), which nobody here gets through."""
    for headers, want in STRANGERS:
        status, body = ask(port, "GET", path, headers)
        assert status == want, (path, headers, status, body)
        if change:
            status, body = ask(port, change[0], change[1], {"Content-Type": "application/json", **headers}, change[2])
            assert status == want, (change, headers, status, body)
    for headers in FRIENDS:
        status, body = ask(port, "GET", path, headers)
        assert status == 200, (path, headers, status, body)
    for kind in FORMS if change else ():
        for browser in ({"Origin": "http://127.0.0.1:{port}"}, {"Referer": "http://x/"}, {"User-Agent": "Mozilla/5.0"}):
            status, body = ask(port, change[0], change[1], {"Content-Type": kind, **browser}, change[2])
            assert status == 403, (change, kind, browser, status, body)


def test_the_daemon():
    h = Home()
    try:
        port = free_port()
        h.start("--listen", f"127.0.0.1:{port}", "--public-name", "gpu.example.org,other.example")
        check(port, "/healthz")
        for name in ("gpu.example.org", "Other.Example:{port}"):
            assert ask(port, "GET", "/healthz", {"Host": name})[0] == 200
        with open(h.home + "/token") as f:
            token = {"Authorization": "Bearer " + f.read().strip()}
        # Whoever has the token may call the server what they like; a page of another site may not have it.
        assert ask(port, "GET", "/v1/jobs", {"Host": "proxy.example", **token})[0] == 200
        assert ask(port, "GET", "/v1/jobs", {"Origin": "http://evil.example", **token})[0] == 403
    finally:
        h.close()


def test_atlas():
    harness.need_dialect("atlas")
    a = atlas_rig.Atlas()
    try:
        a.start()
        body = json.dumps({"job_id": str(uuid.uuid4()), "spec": {"command": ["main.py"]}, "gpu_spec": {},
                           "metadata": {"project_name": "p", "username": "eve"}})
        check(a.ports[0], "/queued_jobs", ("POST", "/queued_jobs", body))
        upload, kind = atlas_rig.form("x", b"")
        assert ask(a.ports[0], "POST", "/job_bundle", {"Content-Type": kind, "Origin": "http://evil.example"}, upload)[0] == 403
        assert a.get("/queued_jobs") == {} and a.get("/running_jobs") == {}
        a.stop()
        a.env["BERTH_PUBLIC_NAME"] = "atlas.example.org"
        a.start()
        assert ask(a.ports[0], "GET", "/queued_jobs", {"Host": "atlas.example.org"})[0] == 200
    finally:
        a.close()


def test_a_batch_of_hyperctl():
    harness.need_dialect("hyperctl")
    with Place() as at:
        p, port = live_batch(at)
        check(port, "/hyperctl/api/batch", ("POST", "/hyperctl/api/job/long/kill", "{}"))
        assert p.poll() is None and at.exists("live", "long.running")


if __name__ == "__main__":
    harness.main(__name__)
