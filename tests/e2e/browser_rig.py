"""A real browser on pages of strangers, and a tap in front of a port that shows what the browser sent and heard.

Chromium is driven over --remote-debugging-pipe: JSON messages with a NUL after each.  Names of the test
such as evil.test point to loopback inside this browser only.
"""
import http.server
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import harness

EVIL = "evil.test"  # the stranger's name; its DNS server says 127.0.0.1
PAGE_PATH = "/page-of-the-stranger"
PAGE = b"<!doctype html><meta charset=utf-8><title>page</title><link rel=icon href=data:,><p>page"
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
           "--disable-popup-blocking", "--no-proxy-server",
           # The server must refuse by itself: a browser without this protection of its own is in use too.
           "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,HttpsUpgrades"]


def need_chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        raise harness.Skip("chromium is not installed; script/bootstrap --tests installs it")
    return found


class Browser:
    """Started when entered.  `names` point to 127.0.0.1, beside EVIL."""

    def __init__(self, *names, options=()):
        self.program, self.names, self.options = need_chromium(), (EVIL, *names), options
        self.dir = tempfile.mkdtemp(prefix="berth-browser-")
        self.n, self.unread = 0, b""

    def __enter__(self):
        theirs, self.send = os.pipe()
        self.receive, answers = os.pipe()
        rules = ", ".join(f"MAP {name} 127.0.0.1" for name in self.names)
        env = {**os.environ, "HOME": self.dir, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
        self.log = open(os.path.join(self.dir, "log"), "wb")
        # The pipes must be 3 and 4 in the browser, whatever their numbers are here.
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" 3<&{theirs} 4>&{answers}', "sh", self.program, *OPTIONS, *self.options,
             f"--user-data-dir={self.dir}/data",
             f"--host-resolver-rules={rules}", "--remote-debugging-pipe", "about:blank"],
            env=env, pass_fds=(theirs, answers), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(theirs)
        os.close(answers)
        return self

    def __exit__(self, *exc):
        os.close(self.send)  # the browser ends with its pipe
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.receive)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def call(self, method, session=None, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.send, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + harness.PATIENCE_S
        while True:
            text, mark, rest = self.unread.partition(b"\0")
            if mark:
                self.unread = rest
                reply = json.loads(text)
                if reply.get("id") != self.n:
                    continue  # an event, or a late answer
                if "error" in reply:
                    raise AssertionError((method, reply["error"]))
                return reply["result"]
            if not select.select([self.receive], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"the browser does not answer {method}")
            got = os.read(self.receive, 1 << 16)
            if not got:
                with open(os.path.join(self.dir, "log"), errors="replace") as f:
                    raise AssertionError("the browser has ended:\n" + f.read()[-2000:])
            self.unread += got

    def page(self, url):
        return Page(self, url)

    def keep_cookie(self, name, value, *hosts, scheme="http"):
        """As if the browser had got it from these hosts; sent wherever it sends cookies without further attributes."""
        self.call("Storage.setCookies", cookies=[{"name": name, "value": value, "url": f"{scheme}://{host}/", "httpOnly": True,
                                                  "secure": scheme == "https"} for host in hosts])


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.call("Network.enable", self.session)
        browser.call("Network.setCacheDisabled", self.session, cacheDisabled=True)
        error = browser.call("Page.navigate", self.session, url=url).get("errorText")
        assert not error, (url, error)
        harness.wait_for(f"the page {url}", lambda: self.run("document.readyState == 'complete' && location.href != 'about:blank'"))

    def run(self, script):
        """The value of a script, or of its promise, in the page and with its origin."""
        got = self.browser.call("Runtime.evaluate", self.session, expression=script, awaitPromise=True, returnByValue=True,
                                userGesture=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)


class Plain(http.server.ThreadingHTTPServer):
    """A server without any protection: answers every request with `text`, and keeps what was sent."""
    daemon_threads = True

    def __init__(self, text=PAGE):
        self.got, plain = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                plain.got.append((self.command, self.path, self.headers.get("Content-Type"), body))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass  # the browser has left


class Tap:
    """Forwards connections to a port and keeps their bytes.

    It is also the stranger's own server of a rebinding attack: PAGE_PATH is answered here, everything else by the
    port, as if the name of the page had begun to point to it after the page was loaded.
    """

    def __init__(self, port, certificate=None):
        """With the (certificate, key) of a server, both sides of the tap speak TLS."""
        self.to, self.lock, self.streams = port, threading.Lock(), []
        self.scheme = "https" if certificate else "http"
        self.accepting = self.calling = None
        if certificate:
            self.accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.accepting.load_cert_chain(*certificate)
            self.calling = ssl.create_default_context(cafile=certificate[0])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            if self.accepting:
                client = self.accepting.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            return
        with client:
            try:
                first = client.recv(1 << 16)
                if first.startswith(b"GET " + PAGE_PATH.encode()):
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                                   % (len(PAGE), PAGE))
                elif first:
                    server = socket.create_connection(("127.0.0.1", self.to))
                    if self.calling:
                        server = self.calling.wrap_socket(server, server_hostname="127.0.0.1")
                    with server:
                        self._pump(client, server, first)
            except OSError:
                pass  # one of the two has left

    def _pump(self, client, server, data):
        stream = (bytearray(), bytearray())  # of the browser, of the server
        with self.lock:
            self.streams.append(stream)
        source = client
        while data:
            with self.lock:
                stream[source is server].extend(data)
            (client if source is server else server).sendall(data)
            waits = [s for s in (client, server) if self.accepting and s.pending()]  # decrypted, unread
            source = (waits or select.select([client, server], [], [])[0])[0]
            data = source.recv(1 << 16)

    def heard(self, mark=""):
        """(method, path, headers, status) of every answered request whose path ends in `mark`."""
        found = []
        with self.lock:
            streams = [(bytes(a), bytes(b)) for a, b in self.streams if mark.encode() in a]
        for sent, answered in streams:
            statuses = re.findall(rb"HTTP/1\.1 (\d{3}) ", answered)
            for status in statuses:
                head, _, rest = sent.partition(b"\r\n\r\n")
                line, *fields = head.decode("latin-1").split("\r\n")
                headers = {k.lower(): v for k, v in (f.split(": ", 1) for f in fields)}
                sent = rest[int(headers.get("content-length", 0)):]
                found.append((*line.split(" ")[:2], headers, int(status)))
        return [f for f in found if f[1].endswith(mark)]
