"""The HTTP side: CPU per request with wrk, memory per idle event stream.

The bar is for the server with a handler that answers 1 KB of JSON, beside a bare epoll loop that
parses nothing and, where it is installed, nginx.  What the daemon's own answers cost on top (rights, a
query of the store, JSON) is shown without a bar.
"""

import os
import re
import socket
import subprocess
import sys
import time

import http_bench
from rig import Daemon, installed, proc_cpu_s, proc_memory

BAR_REQUEST_US, BAR_STREAM_KB, BAR_CHECKS_US = 6.0, 8.0, 2.0


def server(rig, table):
    """The server by itself, in turns with the floor and with nginx; best of each."""
    programs = [rig.find(name) for name in ("http_server_bench", "http_floor", "libunix_connect.so")]
    words = ["--rounds", str(rig.repeats), "--seconds", str(rig.n(3, 1))]
    out = subprocess.run([sys.executable, http_bench.__file__, *programs, *words],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    best = {(transport, name): (float(cpu), rate) for transport, name, cpu, rate in map(str.split, out.splitlines())}
    for transport, what in (("socket", "HTTP, 1 KB JSON, 64 connections, unix socket"), ("tcp", "HTTP, the same over TCP")):
        (cpu, rate), (floor, _) = best[transport, "ours"], best[transport, "floor"]
        peer = "bare epoll loop %.1f µs" % floor
        table.row(what, "%.1f µs CPU" % cpu, peer, "%.2f" % (cpu / floor), "≤ %.0f µs" % BAR_REQUEST_US, cpu <= BAR_REQUEST_US)
        if (transport, "nginx") in best:
            cpu_nginx = best[transport, "nginx"][0]
            table.row("  nginx, the same answer", "", "%.1f µs CPU" % cpu_nginx, "%.2f" % (cpu / cpu_nginx))
        table.row("  requests per second", rate)


def requests(rig, table):
    port = http_bench.free_port()
    daemon = Daemon(rig, "http", "--listen", "127.0.0.1:%d" % port)
    with open(os.path.join(daemon.home, "token")) as f:
        token = f.read().strip()
    for _ in range(3):
        daemon.submit(command=["/bin/true"], params={"lr": 0.1})
    daemon.wait_drained()
    for path in ("/healthz", "/v1", "/v1/jobs/1"):
        best, rate = None, 0.0
        for _ in range(rig.repeats):
            cpu = proc_cpu_s(daemon.pid)
            out = subprocess.run(
                ["wrk", "-t1", "-c64", "-d%ds" % rig.n(4, 1), "-H", "Authorization: Bearer " + token]
                + ["http://127.0.0.1:%d%s" % (port, path)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            cpu = proc_cpu_s(daemon.pid) - cpu
            count = int(re.search(r"(\d+) requests in", out).group(1))
            if "Non-2xx" in out:
                raise SystemExit("bench: wrk got errors from %s:\n%s" % (path, out))
            per = cpu * 1e6 / count
            if best is None or per < best:
                best, rate = per, float(re.search(r"Requests/sec:\s+(\S+)", out).group(1))
        what = "GET %s, %d bytes, of the daemon" % (path, body_size(daemon, path))
        table.row(what, "%.1f µs CPU" % best, "%.0f requests/s" % rate)
    daemon.close()


def checks(rig, table):
    """Who is calling, from where, and what may they do: everything before the handler of a request."""
    if not os.path.exists(os.path.join(rig.build, "tests", "bench", "checks_bench")):
        return  # a program from before there were any
    out = subprocess.run([rig.find("checks_bench")], check=True, stdout=subprocess.PIPE, text=True).stdout
    cost = {name: float(us) for name, us in map(str.split, out.splitlines())}
    table.at_most("checks of a request by another user", cost["user"], BAR_CHECKS_US, "%.2f µs", "the owner %.2f µs" % cost["owner"])
    for name, what in (("token", "with a token"), ("job", "with the token of a job"), ("session", "with a cookie")):
        table.row("  " + what, "%.2f µs" % cost[name])


def body_size(daemon, path):
    from berth import _http

    return len(_http.exchange(daemon.conn, "GET", path)[1])


def streams(rig, table):
    count = rig.n(2000, 200)
    daemon = Daemon(rig, "streams")
    warm = [open_stream(daemon.sock) for _ in range(10)]
    time.sleep(0.2)
    before = proc_memory(daemon.pid, "VmRSS")
    began = time.monotonic()
    open_ones = [open_stream(daemon.sock) for _ in range(count)]
    for s in open_ones:
        s.recv(64)
    took = time.monotonic() - began
    time.sleep(0.5)
    each = (proc_memory(daemon.pid, "VmRSS") - before) / count / 1024
    table.row("%d idle event streams" % count, "%.1f KB each" % each, "opened in %.2f s" % took, "", "≤ %.0f KB" % BAR_STREAM_KB, each <= BAR_STREAM_KB)
    for s in warm + open_ones:
        s.close()
    daemon.close()


def open_stream(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(path)  # blocks while the queue of the socket is full
    s.settimeout(20)
    s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    return s


def run(rig, table):
    checks(rig, table)
    if installed(table, "wrk"):
        server(rig, table)
        requests(rig, table)
    streams(rig, table)
