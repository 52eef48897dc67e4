"""Real Chromium on pages of strangers attacks every port: nothing is read, nothing is changed.

Each attack is first made against a server without protection, where it succeeds; so an attack that fails
against Berth failed because of Berth.  A tap in front of each port shows that the request arrived.
"""
import http.client
import json
import os
import socket
import ssl
import subprocess
import uuid

import atlas_rig
import harness
from browser_rig import EVIL, PAGE_PATH, Browser, Plain, Tap
from gpu_rig import GpuHome
from harness import Home, wait_for
from hyper_rig import Place, free_port, live_batch, tree

NAMED = "another site, by the machine's name"  # of plain HTTP: browsers send no Sec-Fetch-Site there
MARK = "harbour-4711"  # a word in what pages must not see

# What a page can do: name → script with URL, BODY and TYPE.  The value is what the page gets to see.
LOOK = """new Promise(done => {
  const frame = document.createElement('iframe');
  frame.name = 'f' + Math.random();
  frame.onload = () => {
    const inside = frame.contentDocument; // null when it is of another origin
    if (!inside || inside.URL != 'about:blank')
      done(inside ? inside.documentElement.innerText : '');
  };
  %s
})"""
ELEMENT = """new Promise(done => {
  const x = document.createElement('%s');
  x.onload = x.onloadedmetadata = () => done('loaded ' + (x.naturalWidth || ''));
  x.onerror = () => done('');
  Object.assign(x, %s);
  document.body.append(x);
})"""
FETCH = "fetch(URL, %s).then(async r => r.type == 'opaque' ? r.type + await r.text() : r.status + ' ' + await r.text(), e => '')"
FORM = LOOK % """
  const form = document.createElement('form'), box = document.createElement('input');
  [box.name, box.value] = BODY.split('=');
  Object.assign(form, {action: URL, method: 'post', enctype: '%s', target: frame.name});
  form.append(box);
  document.body.append(frame, form);
  form.submit();"""
BEACON = "(navigator.sendBeacon(URL, %s), '')"
READS = {
    "image without Referer": ELEMENT % ("img", "{referrerPolicy: 'no-referrer', src: URL}"),
    "script without Referer": ELEMENT % ("script", "{referrerPolicy: 'no-referrer', src: URL}"),
    "frame without Referer": LOOK % "frame.referrerPolicy = 'no-referrer'; frame.src = URL; document.body.append(frame);",
    "no-cors GET without Referer": FETCH % "{mode: 'no-cors', credentials: 'include', referrerPolicy: 'no-referrer'}",
    "image": ELEMENT % ("img", "{src: URL}"),
    "script": ELEMENT % ("script", "{src: URL}"),
    "style sheet": ELEMENT % ("link", "{rel: 'stylesheet', href: URL}"),
    "video": ELEMENT % ("video", "{src: URL}"),
    "frame": LOOK % "frame.src = URL; document.body.append(frame);",
    "no-cors GET": FETCH % "{mode: 'no-cors', credentials: 'include'}",
    "cors GET": FETCH % "{credentials: 'include'}",
    "cors GET without Referer": FETCH % "{referrerPolicy: 'no-referrer'}",
    "cors GET with a token": FETCH % "{headers: {Authorization: 'Bearer x'}}",
    "events": """new Promise(done => { const s = new EventSource(URL, {withCredentials: true});
        s.onmessage = e => { s.close(); done(e.data) }; s.onopen = () => { s.close(); done('open') };
        s.onerror = () => { s.close(); done('') } })""",
    "WebSocket": """new Promise(done => { const s = new WebSocket(URL.replace('http', 'ws'));
        s.onopen = () => { s.close(); done('open') }; s.onerror = () => done('') })""",
}
WRITES = {
    "form": FORM % "application/x-www-form-urlencoded",
    "form of parts": FORM % "multipart/form-data",
    "form of text": FORM % "text/plain",
    "no-cors text": FETCH % "{method: 'POST', mode: 'no-cors', credentials: 'include', body: BODY}",
    "no-cors without a type": FETCH % "{method: 'POST', mode: 'no-cors', body: new TextEncoder().encode(BODY)}",
    "no-cors parts": FETCH % """{method: 'POST', mode: 'no-cors', credentials: 'include', body: (() => {
        const d = new FormData(); d.append('job_bundle', new Blob([BODY]), 'x.tgz'); return d })()}""",
    "no-cors and kept alive": FETCH % "{method: 'POST', mode: 'no-cors', keepalive: true, body: new URLSearchParams(BODY)}",
    "cors text": FETCH % "{method: 'POST', credentials: 'include', body: BODY}",
    "cors JSON": FETCH % "{method: 'POST', credentials: 'include', body: BODY, headers: {'Content-Type': 'application/json'}}",
    "cors DELETE": FETCH % "{method: 'DELETE', credentials: 'include'}",
    "cors PUT": FETCH % "{method: 'PUT', body: BODY}",
    "beacon": BEACON % "BODY",
    "beacon of JSON": BEACON % "new Blob([BODY], {type: 'application/json'})",
}
# These ask for leave first (OPTIONS), unless the page is of the same origin.
WITH_LEAVE = ("cors JSON", "cors DELETE", "cors PUT", "beacon of JSON", "cors GET with a token")


class Victim:
    """A port, what a page wants to read there and to change, and what must stay as it is."""

    def __init__(self, name, port, reads, writes, state, certificate=None):
        self.name, self.port, self.reads, self.writes, self.state = name, port, reads, writes, state
        self.certificate = certificate  # (certificate, key) of a port with TLS


def origins(tap, stranger):
    """Where a page of a stranger can come from, and the address by which it calls the port."""
    here = f"{tap.scheme}://127.0.0.1:{tap.port}"
    return {
        "another site": (f"http://{EVIL}:{stranger.port}/", here),
        "another site, by name": (f"http://{EVIL}:{stranger.port}/", f"{tap.scheme}://localhost:{tap.port}"),
        NAMED: (f"http://{EVIL}:{stranger.port}/", f"{tap.scheme}://{socket.gethostname()}:{tap.port}"),
        "another port": (f"http://127.0.0.1:{stranger.port}/", here),
        "no origin": ("data:text/html,<p>x", here),
        "rebinding": (f"{tap.scheme}://{EVIL}:{tap.port}{PAGE_PATH}", f"{tap.scheme}://{EVIL}:{tap.port}"),
    }


def try_one(page, tap, script, url, body=""):
    """(what the page saw, its requests as they arrived); waits until one has."""
    mark = f"?try={uuid.uuid4().hex}"
    seen = page.run(f"(() => {{ const URL = {json.dumps(url + mark)}, BODY = {json.dumps(body)}; return {script} }})()")
    return seen, wait_for(f"a request to {url} by {script}", lambda: tap.heard(mark))


def attack(browser, victim, stranger, check):
    """Every trick from every origin; check(origin, trick, seen, requests) after each."""
    with Tap(victim.port, victim.certificate) as tap:
        for origin, (address, target) in origins(tap, stranger).items():
            page = browser.page(address)
            for trick, script in READS.items():
                for path in victim.reads:
                    check(origin, trick, *try_one(page, tap, script, target + path))
            for trick, script in WRITES.items():
                for path, body in victim.writes:
                    assert body.count("=") == 1, body  # a form sends name=value
                    check(origin, trick, *try_one(page, tap, script, target + path, body))
            page.close()
        return tap.heard()


def refuses(browser, victim):
    """No attack on this port reads or changes anything."""
    def check(origin, trick, seen, requests):
        where = (victim.name, origin, trick, seen, requests)
        assert MARK not in seen, where
        if origin == NAMED and not victim.certificate and trick in READS and trick.endswith(" without Referer"):
            # Nothing tells this request from that of a user who typed the address.  It changes nothing, and the page does
            # not even learn whether the answer was 200 or 404.
            assert seen == "" and all(method == "GET" for method, *_ in requests), where
        elif origin == "rebinding":
            assert all(status in (401, 403, 421) for *_, status in requests), where
        else:
            assert seen in ("", "opaque") and all(status in (401, 403) for *_, status in requests), where

    before = victim.state()
    with Plain() as stranger:
        heard = attack(browser, victim, stranger, check)
    assert victim.state() == before, (victim.name, before, victim.state())
    assert heard
    print(f"# {victim.name}: {len(heard)} requests", flush=True)
    return heard


def test_the_attacks_work_without_protection():
    body = '{"command":["a=b"]}'
    with Browser(socket.gethostname()) as browser, Plain(MARK.encode()) as plain, Plain() as stranger:
        def check(origin, trick, seen, requests):
            where = (origin, trick, seen, requests)
            method = requests[0][0]
            if origin == "rebinding":  # reads everything
                unseen = ("image", "script", "style sheet", "video", "events", "WebSocket", "beacon", "beacon of JSON")
                assert MARK in seen or trick.replace(" without Referer", "") in unseen, where
                assert method == ("GET" if trick in READS else {"cors DELETE": "DELETE", "cors PUT": "PUT"}.get(trick, "POST")), where
            else:  # reads nothing, but what it sends arrives
                assert MARK not in seen, where
                assert method == ("OPTIONS" if trick in WITH_LEAVE else "GET" if trick in READS else "POST"), where

        attack(browser, Victim("plain", plain.port, ["/read"], [("/write", body)], None), stranger, check)
        # A form's text is the JSON that a careless server takes.
        texts = [json.loads(data) for method, _, kind, data in plain.got if method == "POST" and kind == "text/plain"]
        assert texts and all(t == json.loads(body) for t in texts), texts


def session(h, port, certificate=None):
    """Name and value of a cookie of the owner."""
    with open(h.home + "/token") as f:
        token = f.read().strip()
    if certificate:
        c = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=ssl.create_default_context(cafile=certificate[0]))
    else:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    c.request("POST", "/v1/session", "{}", {"Authorization": "Bearer " + token})
    r = c.getresponse()
    assert r.status == 201, (r.status, r.read())
    name, value = r.getheader("Set-Cookie").split(";")[0].split("=", 1)
    c.close()
    return name, value


def test_the_daemon():
    h = Home()
    try:
        port = free_port()
        h.start("--listen", f"127.0.0.1:{port}")
        h.submit("sleep", "600", name=MARK)
        h.submit("true", name=MARK + "-waits", hold=True)

        def state():
            return [(j["number"], j["state"]) for j in h.jobs()]

        wait_for("the first job runs", lambda: (1, "running") in state())
        reads = ["/v1/jobs", "/healthz", "/v1/events", "/metrics"]
        writes = [("/v1/jobs", '{"command":["touch","a=b"]}'), ("/v1/jobs/1/cancel", '{"reason":"a=b"}'),
                  ("/v1/shutdown", '{"x":"a=b"}')]
        with Browser(socket.gethostname()) as browser:
            refuses(browser, Victim("daemon", port, reads[:2], writes[:1], state))
            # Its user has a session with the daemon: the browser sends the cookie by itself.
            browser.keep_cookie(*session(h, port), "127.0.0.1", "localhost", socket.gethostname(), EVIL)
            with Tap(port) as tap:
                own = browser.page(f"http://127.0.0.1:{tap.port}{PAGE_PATH}")
                seen, _ = try_one(own, tap, READS["cors GET"], f"http://127.0.0.1:{tap.port}/v1/jobs")
                assert seen.startswith("200 ") and MARK in seen, seen
                own.close()
            heard = refuses(browser, Victim("daemon with a session", port, reads[::2], writes[:2], state))
            assert sum("cookie" in headers for _, _, headers, _ in heard) > 100, "the browser did not send the cookie"
    finally:
        h.close()


def test_the_daemon_over_tls():
    """The same door behind TLS, where browsers say of every request which site it comes from."""
    h = Home()
    try:
        port, certificate = free_port(), (os.path.join(h.dir, "cert.pem"), os.path.join(h.dir, "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-out", certificate[0], "-keyout", certificate[1]], check=True, capture_output=True, timeout=60)
        h.start("--listen", f"127.0.0.1:{port}", "--tls-cert", certificate[0], "--tls-key", certificate[1])
        h.submit("true", name=MARK, hold=True)

        def state():
            return [(j["number"], j["state"]) for j in h.jobs()]

        with Browser(socket.gethostname(), options=["--ignore-certificate-errors"]) as browser:
            browser.keep_cookie(*session(h, port, certificate), "127.0.0.1", "localhost", socket.gethostname(), EVIL,
                                scheme="https")
            with Tap(port, certificate) as tap:
                own = browser.page(f"https://127.0.0.1:{tap.port}{PAGE_PATH}")
                seen, _ = try_one(own, tap, READS["cors GET"], f"https://127.0.0.1:{tap.port}/v1/jobs")
                assert seen.startswith("200 ") and MARK in seen, seen
                own.close()
            heard = refuses(browser, Victim("daemon over TLS", port, ["/v1/jobs"], [("/v1/jobs", '{"command":["touch","a=b"]}')],
                                            state, certificate))
            assert all("sec-fetch-site" in headers for _, _, headers, _ in heard if "upgrade" not in headers), "over TLS all say it"
    finally:
        h.close()


def test_the_ports_of_atlas():
    harness.need_dialect("atlas")
    a = atlas_rig.Atlas()
    try:
        a.start()
        job = a.submit({"main.py": "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"}, project=MARK)
        a.wait(job, "running")
        # Its files are in place when the script itself runs.
        harness.wait_for("the script runs", lambda: b"begun" in a.http("GET", f"/jobs/{job}/logs"))

        def state():
            files = {os.path.join(d, f) for d, dirs, names in os.walk(a.home) for f in dirs + names
                     if not d.startswith(a.path("database"))}
            return files, *(sorted(a.get(f"/{kind}_jobs")) for kind in ("queued", "running", "completed", "failed")), a.get("/scheduled_jobs")

        new = {"job_id": str(uuid.uuid4()), "spec": {"command": ["main.py", "a=b"]}, "gpu_spec": {},
               "metadata": {"project_name": "p", "username": "eve"}}
        writes = [("/queued_jobs", json.dumps(new)), ("/job_bundle", "a=b"), (f"/running_jobs/{job}", '{"x":"a=b"}')]
        reads = ["/running_jobs", f"/jobs/{job}/logs", "/api/v2beta/projects"]
        assert MARK in json.dumps(a.get(reads[2])), a.get(reads[2])
        with Browser(socket.gethostname()) as browser:
            refuses(browser, Victim("scheduler of Atlas", a.ports[0], reads, writes, state))
            for port in a.ports[1:]:  # they serve the same routes, and one attack of each kind shows that
                refuses(browser, Victim(f"port {port} of Atlas", port, reads[2:], writes[:1], state))
    finally:
        a.close()


def test_the_port_of_a_batch_of_hyperctl():
    harness.need_dialect("hyperctl")
    with Place() as at, Browser(socket.gethostname()) as browser:
        p, port = live_batch(at)
        refuses(browser, Victim("Hyperctl", port, ["/hyperctl/api/batch"],
                                [("/hyperctl/api/job/long/kill", '{"x":"a=b"}')], lambda: (p.poll(), tree(at.base))))


def test_the_address_of_the_gpu_scheduler():
    harness.need_dialect("gpu")
    with GpuHome() as h, Browser(socket.gethostname()) as browser:
        job = h.train(MARK, step_ms=600000)
        host, port = h.endpoint(job)
        assert host == "127.0.0.1", host

        def state():
            row = h.row(job)
            return row["state"], row["epochs"], len(h.jobs())

        refuses(browser, Victim("GPU scheduler", port, [f"/has_to_stop/{job}"],
                                [(f"/{word}/{job}", '{"x":"a=b"}') for word in ("end_epoch", "signal_end")], state))


if __name__ == "__main__":
    harness.main(__name__)
