"""A planner that thinks for seconds keeps no job waiting: reports are answered at once all the while.

The answers are timed, so this runs beside no other test.
"""
import http.client
import time

import harness
from gpu_rig import GpuHome
from harness import Skip


def test_12_planner_blocked():
    if not harness.build_option("fault_points"):
        raise Skip("this build has no fault points")
    with GpuHome(BERTH_FAULT_PLAN_MS="5000") as h:
        job = h.train("patient", epochs=1000, steps=20, step_ms=5, disable_gpu_sharing=True)
        waits, end = [], time.monotonic() + 6
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
        assert waits[int(len(waits) * 0.99)] < 0.05, f"p99 {waits[int(len(waits) * 0.99)] * 1000:.0f} ms"


if __name__ == "__main__":
    harness.main(__name__)
