"""A planner that thinks for seconds keeps no job waiting: reports are answered all the while.

How fast they are answered beside a busy planner is measured in tests/bench/library.py.
"""
import http.client
import time

import harness
from gpu_rig import GpuHome
from harness import Skip

PLAN_S = 8


def test_12_planner_blocked():
    if not harness.build_option("fault_points"):
        raise Skip("this build has no fault points")
    with GpuHome(BERTH_FAULT_PLAN_MS=str(PLAN_S * 1000)) as h:
        job = h.train("patient", epochs=1000, steps=20, step_ms=5, disable_gpu_sharing=True)
        waits, end = [], time.monotonic() + 1.2 * PLAN_S
        conn = http.client.HTTPConnection(*h.endpoint(job), timeout=120)
        while time.monotonic() < end:
            h.train("more", epochs=2) if len(waits) % 100 == 0 else None
            for method, path, body in (("GET", f"/has_to_stop/{job}", None),
                                       ("POST", f"/profiling/{job}", b'{"meandur": 0.005, "gpumem": 0}'),
                                       ("POST", f"/end_epoch/{job}", b'{"done": 1}')):
                began = time.monotonic()
                conn.request(method, path, body)
                assert conn.getresponse().read() is not None
                waits.append(time.monotonic() - began)
            time.sleep(0.02)
        waits.sort()
        print(f"# {len(waits)} answers, p99 {waits[int(len(waits) * 0.99)] * 1000:.1f} ms, slowest {waits[-1] * 1000:.1f} ms")
        # An answer that waited for the planner would take as long as a plan.
        assert waits[-1] < PLAN_S / 2, waits[-1]


if __name__ == "__main__":
    harness.main(__name__)
