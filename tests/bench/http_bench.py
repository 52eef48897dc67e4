#!/usr/bin/env python3
"""CPU per request of the HTTP server, beside a bare epoll loop in the same minute, and the
memory of idle event streams.

    http_bench.py BUILD_DIR [--rounds N] [--seconds S] [--streams N]

Prints `name value unit`.  Needs wrk.  The floor does no parsing at all, so the difference is
what our server costs; both move together with the load of the machine.
"""
import argparse
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request

HEAD = (b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\r\n"
        b"Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(program):
    port = free_port()
    process = subprocess.Popen([program, str(port)], stdout=subprocess.PIPE, text=True)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{program} does not answer")


def figures(text):
    return {line.split()[0]: float(line.split()[1])
            for line in text.splitlines() if len(line.split()) == 3}


def load(program, seconds):
    """CPU microseconds per request, requests per second."""
    process, port = start(program)
    wrk = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}", f"http://127.0.0.1:{port}/"],
                         capture_output=True, text=True, check=True).stdout
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=10)
    rate = [line.split()[1] for line in wrk.splitlines() if line.startswith("Requests/sec")]
    return figures(out)["cpu_per_request"], float(rate[0])


def resident(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as reply:
        return figures(reply.read().decode())["resident"]


def stream_kb(program, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count + 100), hard), hard))
    process, port = start(program)
    before = resident(port)
    streams = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(HEAD)
        streams.append(s)
    for s in streams:
        s.recv(4096)
    after = resident(port)
    for s in streams:
        s.close()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    return (after - before) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--streams", type=int, default=2000)
    args = parser.parse_args()
    ours = os.path.join(args.build, "tests/bench/http_server_bench")
    floor = os.path.join(args.build, "tests/bench/http_floor")
    best = {}
    for _ in range(args.rounds):
        for name, program in (("http", ours), ("http_floor", floor)):
            cpu, rate = load(program, args.seconds)
            old = best.get(name, (cpu, rate))
            best[name] = (min(cpu, old[0]), max(rate, old[1]))
    for name, (cpu, rate) in best.items():
        print(f"{name}_cpu_per_request {cpu:.2f} us")
        print(f"{name}_rate {rate:.0f} requests/s")
    print(f"http_cpu_above_floor {best['http'][0] - best['http_floor'][0]:.2f} us")
    print(f"http_idle_stream {stream_kb(ours, args.streams):.2f} KB")


if __name__ == "__main__":
    main()
