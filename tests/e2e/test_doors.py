"""What one caller may have open: connections, streams and requests, with room kept for the owner.

The other user is uid 65534 through setpriv, which needs root; that test is skipped without it.
"""
import atexit
import http.client
import json
import os
import resource
import socket
import subprocess
import sys


import harness

OTHER = 65534
MANY = 4150  # more than the connections of a server
homes = {}

# Opens connections to an address (a path, or a port of 127.0.0.1), sends `text` on each, and says how
# many got which answer.  Keeps them open until its standard input ends.
CROWD = """
import collections, json, resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
where, many, text = json.loads(sys.argv[1])
kept, seen = [], collections.Counter()
def readable(s):
    p = select.poll()
    p.register(s, select.POLLIN)
    return p.poll(0)
for i in range(many):
    s = socket.socket(socket.AF_INET if isinstance(where, int) else socket.AF_UNIX)
    s.settimeout(20)
    try:
        s.connect(("127.0.0.1", where) if isinstance(where, int) else where)
        s.sendall(text.encode())
        if text or readable(s):
            seen[s.recv(64).decode("latin1").split(" ")[1:2][0]] += 1
        else:
            seen["open"] += 1
    except (OSError, IndexError) as e:
        seen["refused" if not isinstance(e, socket.timeout) else "time-out"] += 1
        if seen["time-out"]:
            break
    kept.append(s)
print(json.dumps(seen), flush=True)
sys.stdin.read()
"""


def home_of(kind, *args):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < MANY + 200:
        raise harness.Skip(f"needs {MANY + 200} open files")
    if kind not in homes:
        h = homes[kind] = harness.Home()
        atexit.register(h.close)
        h.port = harness.free_port()
        os.chmod(h.dir, 0o755)
        h.start("--slots", "2", "--listen", f"127.0.0.1:{h.port}", *args)
        with open(os.path.join(h.home, "token")) as f:
            h.token = f.read().strip()
    return homes[kind]


class Crowd:
    """Many connections of one process, until the end of the `with`."""

    def __init__(self, where, text, uid=None, many=MANY):
        self.argv = [sys.executable, "-c", CROWD, json.dumps([where, many, text])]
        if uid is not None:
            self.argv = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] + self.argv

    def __enter__(self):
        self.p = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        self.seen = json.loads(self.p.stdout.readline())
        return self

    def __exit__(self, *why):
        self.p.stdin.close()
        self.p.wait(60)
        self.p.stdout.close()


def owner_lists(h):
    """The owner's `berth ls`, in a process and a connection of its own."""
    p = subprocess.run([harness.BERTH, "ls"], env=h.env, capture_output=True, text=True, timeout=30)
    assert p.returncode == 0, p.stderr


def metric(h, name):
    _, _, data = h.request("GET", "/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in data.decode().splitlines() if line.startswith(name))


def refused(h, kind):
    return metric(h, f'berth_connections_refused_total{{class="{kind}"}}')


def test_streams_of_one_user_leave_room_for_the_owner():
    if os.getuid() != 0:
        raise harness.Skip("needs root to be two users")
    h = home_of("multi", "--multi-user")
    with Crowd(h.sock, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", OTHER) as crowd:
        owner_lists(h)
        assert 0 < crowd.seen["200"] <= 512, crowd.seen
        assert crowd.seen.get("429", 0) > 0, f"streams beyond the bound are told so: {crowd.seen}"
        assert refused(h, "user") > 0
        assert metric(h, "berth_http_streams ") <= 512
    lines = [x for x in h.log_text().splitlines() if f"uid {OTHER}" in x and "refused" in x]
    assert len(lines) == 1, lines
    harness.wait_for("the end of the crowd", lambda: metric(h, "berth_http_connections ") < 10)
    with Crowd(h.sock, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", OTHER, 10) as crowd:
        assert crowd.seen == {"200": 10}, crowd.seen


def test_idle_strangers_leave_room_for_the_owner():
    """Connections over TCP without a token: bounded as a whole, and closed soon."""
    h = home_of("single")
    with Crowd(h.port, "") as crowd:
        owner_lists(h)
        assert crowd.seen.get("time-out", 0) == 0, crowd.seen
        assert metric(h, "berth_http_connections ") <= 2048
        assert refused(h, "loopback") > 0
        # While the strangers stay, the owner's token gets in over TCP as well, at the latest when the
        # idle connections have been closed.
        assert harness.wait_for("an answer over TCP", lambda: over_tcp(h) == 200)
    assert sum("without a token" in x for x in h.log_text().splitlines()) >= 1


def over_tcp(h):
    c = http.client.HTTPConnection("127.0.0.1", h.port, timeout=20)
    try:
        c.request("GET", "/v1", headers={"Authorization": "Bearer " + h.token})
        return c.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        c.close()


def test_a_token_moves_a_connection_out_of_the_strangers():
    """A thousand streams with the owner's token: more than strangers may have, fewer than a token may."""
    h = home_of("token")
    text = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {h.token}\r\n\r\n"
    with Crowd(h.port, text, many=1000) as crowd:
        owner_lists(h)
        assert crowd.seen == {"200": 1000}, crowd.seen
    assert refused(h, "") == 0


# -- the cookie of a session --

def ask(h, method, path, headers=None, body=None):
    c = http.client.HTTPConnection("127.0.0.1", h.port, timeout=60)
    try:
        c.request(method, path, json.dumps(body) if body is not None else None, headers or {})
        r = c.getresponse()
        return r.status, r.getheader("Set-Cookie"), r.read().decode()
    finally:
        c.close()


def test_a_session_is_for_pages_of_this_server():
    h = home_of("session")
    job = {"command": "true", "cwd": "/"}
    bearer = {"Authorization": "bearer " + h.token}
    status, cookie, text = ask(h, "POST", "/v1/session", bearer)
    assert status == 201 and json.loads(text)["admin"], (status, text)
    value, *flags = cookie.split("; ")
    assert value.startswith("berth_session=") and h.token not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} == set(flags), cookie
    here = f"http://127.0.0.1:{h.port}"
    page = {"Cookie": "a=b; " + value, "Sec-Fetch-Site": "same-origin", "Origin": here, "User-Agent": "Mozilla/5.0"}
    assert ask(h, "GET", "/v1/jobs", page)[0] == 200
    assert ask(h, "POST", "/v1/jobs", {**page, "Content-Type": "application/json"}, job)[0] == 201
    plain = {"Cookie": value, "Referer": here + "/jobs"}  # what is left on plain HTTP beyond loopback
    assert ask(h, "GET", "/v1/jobs", plain)[0] == 200
    assert ask(h, "POST", "/v1/jobs", {**plain, "Content-Type": "application/json"}, job)[0] == 403
    assert ask(h, "GET", "/v1/jobs", {"Cookie": value, "Referer": "http://evil.example/"})[0] == 403
    typed = {"Cookie": value, "Sec-Fetch-Site": "none"}
    assert ask(h, "GET", "/v1/jobs", typed)[0] == 200
    # Not for other sites, not for other names, not for forms, not where no browser says what page it is.
    for more, want in (({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
                       ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                       ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
                       ({"Content-Type": "text/plain"}, 403)):
        status, _, text = ask(h, "POST", "/v1/jobs", {**page, "Content-Type": "application/json", **more}, job)
        assert status == want, (more, status, text)
    for headers in ({"Cookie": value}, {"Cookie": value, "Sec-Fetch-Site": "none", "Host": "evil.example"}):
        assert ask(h, "GET", "/v1/jobs", headers)[0] in (403, 421), headers
    assert ask(h, "POST", "/v1/jobs", typed, job)[0] == 403
    assert h.api("GET", "/v1/jobs/summary")["total"] == 1
    # A session makes no session, and a changed or an old cookie is none.
    assert ask(h, "POST", "/v1/session", {**page, "Content-Type": "application/json"}, {})[0] == 403
    name, text = value.split("=")
    uid, gid, end, mac = text.split(".")
    for wrong in (text[:-1], text + "0", f"{uid}.{int(gid) + 1}.{end}.{mac}", f"{uid}.{gid}.{int(end) + 1}.{mac}", f"{uid}.{gid}.1.{mac}", mac,
                  "", "...", h.token, f"{int(uid) + 1}.{gid}.{end}.{mac}", f"+{text}", f"{uid}.{gid}.{end}.{mac.upper()}"):
        status = ask(h, "GET", "/v1/jobs", {**page, "Cookie": f"{name}={wrong}"})[0]
        assert status == 401, (wrong, status)
    # On the unix socket the kernel decides, and a cookie says nothing.
    assert h.request("GET", "/v1/jobs", headers={"Cookie": "berth_session=x"})[0] == 200
    status, cookie, _ = ask(h, "DELETE", "/v1/session", page)
    assert status == 204 and "berth_session=;" in cookie and "Max-Age=0" in cookie, cookie


def test_a_token_of_a_job_makes_no_session():
    h = home_of("session")
    number = h.submit("sh", "-c", "echo $BERTH_JOB_TOKEN; exec sleep 600")["number"]
    def printed():
        status, _, text = h.request("GET", f"/v1/jobs/{number}/logs")
        return text.decode().strip() if status == 200 and text.endswith(b"\n") else None
    token = harness.wait_for("the token", printed)
    assert ask(h, "POST", "/v1/session", {"Authorization": "Bearer " + token})[0] == 403
    page = {"Sec-Fetch-Site": "same-origin", "Cookie": "berth_session=" + token}
    assert ask(h, "GET", f"/v1/jobs/{number}", page)[0] == 401


if __name__ == "__main__":
    harness.main(__name__)
