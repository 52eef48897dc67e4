#!/usr/bin/env python3
"""CPU per request for 1 KB of JSON: our HTTP server, nginx and a bare epoll loop, in turns.

    http_bench.py SERVER FLOOR SHIM [--rounds N] [--seconds S]

Prints `transport name microseconds requests/s`, the best round of each; the transports are the unix
socket, which our own clients use, and TCP on loopback.  Needs wrk, which knows TCP only: the shim
(unix_connect.c) takes it to the socket.  nginx is left out where it is not installed.  The floor parses
nothing, so what our server costs is the difference; all of them move with the load of the machine.  Root
measures in a network of its own, where no rule of a firewall (container engines leave many) looks at
the packets.
"""
import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

NGINX = """daemon off; master_process off; pid {top}/pid; error_log {top}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json;
  client_body_temp_path {top}/a; proxy_temp_path {top}/b; fastcgi_temp_path {top}/c; uwsgi_temp_path {top}/d; scgi_temp_path {top}/e;
  server {{ listen 127.0.0.1:{port}; listen unix:{sock}; location / {{ return 200 '{body}'; }} }}
}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(argv, port):
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            time.sleep(0.01)
    sys.exit("%s does not answer" % argv[0])


def nginx(top, port, sock):
    path = os.path.join(top, "nginx.conf")
    with open(path, "w") as f:
        f.write(NGINX.format(top=top, port=port, sock=sock, body='{"text":"%s"}' % ("x" * 1013)))
    return ["nginx", "-c", path, "-e", os.path.join(top, "errors")]


def load(argv, port, seconds, env):
    """CPU microseconds per request, requests per second."""
    process = start(argv, port)
    try:
        out = subprocess.run(["wrk", "-t1", "-c64", "-d%d" % seconds, "http://127.0.0.1:%d/" % port],
                             capture_output=True, text=True, check=True, env={**os.environ, **env}).stdout
    finally:
        process.terminate()
        _, process.returncode, usage = os.wait4(process.pid, 0)
    count, rate = re.search(r"(\d+) requests in", out), re.search(r"Requests/sec:\s+(\S+)", out)
    if "Non-2xx" in out or "Socket errors" in out or not count:
        sys.exit("wrk got errors from %s:\n%s" % (argv[0], out))
    return (usage.ru_utime + usage.ru_stime) * 1e6 / int(count.group(1)), float(rate.group(1))


def measure(args, top):
    port, sock = free_port(), os.path.join(top, "socket")
    servers = {"ours": [args.server, str(port), sock], "floor": [args.floor, str(port), sock]}
    if shutil.which("nginx"):
        servers["nginx"] = nginx(top, port, sock)
    transports = {"socket": {"LD_PRELOAD": os.path.abspath(args.shim), "CONNECT_TO": sock}, "tcp": {}}
    best = {}
    for _ in range(args.rounds):
        for transport, env in transports.items():
            for name, argv in servers.items():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(sock)
                figures = load(argv, port, args.seconds, env)
                best[transport, name] = min(best.get((transport, name), figures), figures)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("floor")
    parser.add_argument("shim")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    if os.geteuid() == 0 and "HTTP_BENCH_ALONE" not in os.environ:
        os.environ["HTTP_BENCH_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as top:
        for (transport, name), (cpu, rate) in measure(args, top).items():
            print("%s %s %.2f %.0f" % (transport, name, cpu, rate))


if __name__ == "__main__":
    main()
