"""100 000 jobs in one request, then lists, filters, pages and a cancel; times and memory are printed.

The limits asserted here are wide enough for sanitizers and a busy machine; script/bench measures against the bars.
"""
import atexit
import json
import os
import time

import harness

N = 100000
home = None


def setup():
    global home
    if home is None:
        home = harness.Home()
        atexit.register(home.close)
        home.start("--slots", "2")
        home.api("POST", "/v1/queues/parked/pause")
    return home


def peak_mb():
    with open(f"/proc/{home.daemon.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def timed(what, fn):
    began = time.monotonic()
    value = fn()
    print(f"# {what}: {time.monotonic() - began:.3f} s, daemon at most {peak_mb():.0f} MB so far", flush=True)
    return value


def submit(specs):
    body = json.dumps(specs).encode()
    print(f"# body of {len(body) / 1e6:.1f} MB")
    got = timed(f"submit {N} jobs", lambda: home.api("POST", "/v1/jobs", body))
    assert got["count"] == N and got["batch"]
    return got


def test_one_command_many_params():
    setup()
    got = submit([{"command": ["python", "train.py", "--lr", "{lr}", "--seed", "{seed}"], "queue": "parked",
                   "project": "bulk", "name": f"trial-{i}", "cwd": "/home/ann/work",
                   "params": {"lr": i / N, "seed": i}} for i in range(N)])
    one = home.api("GET", f"/v1/jobs/{got['first'] + 77777}")
    assert one["name"] == "trial-77777" and one["params"] == {"lr": 0.77777, "seed": 77777} and one["index"] == 77777
    assert one["spec"]["cwd"] == "/home/ann/work"


def test_lists():
    setup()
    page = timed("first page of 100", lambda: home.api("GET", "/v1/jobs?project=bulk"))
    assert len(page["items"]) == 100 and page["next"]
    page = timed("page of 10 000", lambda: home.api("GET", "/v1/jobs?project=bulk&limit=10000"))
    assert len(page["items"]) == 10000
    hits = timed("filter by parameter", lambda: home.api("GET", "/v1/jobs?filter=seed%3A4242&project=bulk"))
    assert [j["name"] for j in hits["items"]] == ["trial-4242"]
    hits = timed("filter by name", lambda: home.api("GET", "/v1/jobs?filter=name~9999&limit=1000"))
    assert len(hits["items"]) == sum("9999" in str(i) for i in range(N))
    counts = timed("summary", lambda: home.api("GET", "/v1/jobs/summary?project=bulk"))
    assert counts["queued"] == N
    everything = timed("all pages", lambda: home.jobs(project="bulk"))
    assert len({j["number"] for j in everything}) == N


def test_cancel_all():
    setup()
    got = timed("cancel all", lambda: home.api("POST", "/v1/jobs/cancel", {"project": "bulk"}))
    assert got["done"] == N and got["already"] == 0, got
    assert home.api("GET", "/v1/jobs/summary?project=bulk")["cancelled"] == N


def test_remove_all():
    setup()
    done = timed("remove all", lambda: home.api("POST", "/v1/jobs/remove", {"project": "bulk"}))
    assert done["done"] == N, done
    assert home.api("GET", "/v1/jobs/summary?project=bulk")["total"] == 0


def test_every_spec_its_own():
    setup()
    got = submit([{"command": ["echo", f"word-{i}", "x" * 60], "queue": "parked", "name": f"own-{i}",
                   "params": {"i": i}} for i in range(N)])
    one = home.api("GET", f"/v1/jobs/{got['first'] + 54321}")
    assert one["command"][1] == "word-54321" and one["name"] == "own-54321" and one["params"] == {"i": 54321}


def test_array():
    setup()
    got = timed("array of 100 000", lambda: home.api("POST", "/v1/jobs", {"command": "echo {index}", "array": N,
                                                                          "queue": "parked", "name": "arr"}))
    assert got["count"] == N
    assert home.api("GET", f"/v1/jobs/{got['first'] + 99999}")["index"] == 99999


def test_memory():
    """Everything above in one daemon."""
    setup()
    sanitized = b"asan" in open(f"/proc/{home.daemon.pid}/maps", "rb").read() or os.environ.get("ASAN_OPTIONS")
    print(f"# daemon at most {peak_mb():.0f} MB in all")
    if sanitized:
        raise harness.Skip("memory means nothing under sanitizers")
    assert peak_mb() < 200


if __name__ == "__main__":
    harness.main(__name__)
