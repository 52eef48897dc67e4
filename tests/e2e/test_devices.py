"""GPUs with stand-in drivers: what `berth nodes` shows, whose memory is whose, what gets lost and comes back."""
import json
import os
import subprocess
import sys
import time

import harness
from harness import Home, wait_for

FAKES = os.path.join(harness.BUILD, "tests", "fakes")
TWO = ["driver 535.104", "gpu GPU-aaaa 40960 name=NVIDIA_A100 used=400 busy=33 power=61000", "gpu GPU-bbbb 16384 name=Tesla_T4"]
# Forks, leaves its session and its parent, and says who it is: what a launcher of training processes does.
DETACHED = """
import os, sys, time
if os.fork():
    time.sleep(60)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(60)
"""


class Gpus(Home):
    """A home whose NVML is the stand-in."""

    def __init__(self, lines=TWO, library="fake_nvml", **env):
        self.lines = list(lines)
        super().__init__(BERTH_GPU_PERIOD_MS="50", **env)
        self.env["BERTH_NVML_LIBRARY"] = os.path.join(FAKES, f"lib{library}.so")
        self.env["FAKE_NVML_STATE"] = os.path.join(self.dir, "nvml")
        self.say()

    def say(self, *more):
        """The state from now on: the devices, and these lines."""
        with open(self.env["FAKE_NVML_STATE"] + ".new", "w") as f:
            f.write("\n".join([*self.lines, *more, ""]))
        os.rename(f.name, self.env["FAKE_NVML_STATE"])


def devices(h):
    return h.api("GET", "/v1/nodes")["items"][0]["devices"]


def job(h, n):
    return h.api("GET", f"/v1/jobs/{n}")


def gpu_job(h, *command, gpus=1, **spec):
    return h.submit(*command, resources={"gpus": gpus}, **spec)["number"]


def logs(h, n):
    status, _, data = h.request("GET", f"/v1/jobs/{n}/logs")
    return data.decode() if status == 200 else ""


def running(h, n):
    wait_for(f"job {n} running", lambda: job(h, n)["state"] == "running")
    return n


def cancel(h, n):
    h.api("POST", f"/v1/jobs/{n}/cancel")
    wait_for("the end", lambda: job(h, n)["state"] == "cancelled")


def test_nodes_show_devices():
    h = Gpus()
    try:
        h.start()
        wait_for("a look", lambda: devices(h)[0]["seen"])
        a, b = devices(h)
        assert (a["index"], a["uuid"], a["kind"], a["state"], a["reason"]) == (0, "GPU-aaaa", "NVIDIA A100", "ok", None), a
        assert (a["mem_bytes"], a["used_bytes"], a["busy_percent"], a["power_w"]) == (40960 << 20, 400 << 20, 33, 61), a
        assert (a["used"], a["runs"], a["jobs"], a["foreign_bytes"]) == (False, 0, [], 0), a
        assert (b["uuid"], b["power_w"], b["used_bytes"]) == ("GPU-bbbb", None, 0), b
        table = h.berth("nodes").stdout
        assert "NVIDIA A100" in table and "400M/40G" in table and "33%" in table and "61W" in table, table
        rows = json.loads(h.berth("nodes", "-o", "json").stdout)
        assert [d["uuid"] for d in rows[0]["devices"]] == ["GPU-aaaa", "GPU-bbbb"]
        doctor = h.berth("doctor", check=False).stdout
        assert "1 × NVIDIA A100, 1 × Tesla T4" in doctor and "driver 535.104" in doctor, doctor
        assert h.stop() == 0
    finally:
        h.close()


def test_job_sees_its_devices_by_uuid():
    h = Gpus()
    try:
        h.start()
        n = gpu_job(h, "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES end; sleep 60", gpus=2)
        wait_for("its words", lambda: "end" in logs(h, n))
        assert logs(h, n).split() == ["GPU-aaaa,GPU-bbbb"] * 2 + ["end"], logs(h, n)
        assert all(d["used"] and d["runs"] == 1 and d["jobs"][0]["number"] == n for d in devices(h))
        cancel(h, n)
        assert not any(d["used"] for d in devices(h))
    finally:
        h.close()


def test_memory_of_a_run():
    """The largest device counts, over all its processes, also the one that left its session."""
    h = Gpus()
    try:
        h.start()
        n = running(h, gpu_job(h, sys.executable, "-c", DETACHED, gpus=2))
        child = int(wait_for("the child", lambda: logs(h, n).strip()))
        pid = job(h, n)["runs"][-1]["pid"]
        h.say(f"proc {pid} 0 1000", f"proc {child} 0 500", f"proc {child} 1 1200")
        wait_for("the measure", lambda: devices(h)[0]["jobs"][0]["measured_bytes"] == 1500 << 20)
        a, b = devices(h)
        assert a["foreign_bytes"] == b["foreign_bytes"] == 0, (a, b)
        assert a["used_bytes"] == 1900 << 20, a
        assert f"{n} 1.5G/" in h.berth("nodes").stdout
        cancel(h, n)
    finally:
        h.close()


def test_memory_after_restart():
    """A daemon that comes back finds the processes of runs it did not start."""
    h = Gpus()
    try:
        h.start()
        n = running(h, gpu_job(h, sys.executable, "-c", DETACHED))
        child = int(wait_for("the child", lambda: logs(h, n).strip()))
        at = next(d["index"] for d in devices(h) if d["used"])
        h.kill()
        h.say(f"proc {child} {at} 700")
        h.start()
        wait_for("the measure", lambda: devices(h)[at]["jobs"][0]["measured_bytes"] == 700 << 20)
        assert devices(h)[at]["foreign_bytes"] == 0
        cancel(h, n)
    finally:
        h.close()


def test_foreign_memory():
    h = Gpus()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        h.say(f"proc {stranger.pid} 1 2048")
        h.start()
        wait_for("the stranger", lambda: devices(h)[1]["foreign_bytes"] == 2048 << 20)
        assert devices(h)[0]["foreign_bytes"] == 0
        assert "2.0G" in h.berth("nodes").stdout
    finally:
        stranger.kill()
        stranger.wait()
        h.close()


def test_lost_and_back():
    h = Gpus()
    try:
        h.start()
        keeper = running(h, gpu_job(h, "sleep", "60", gpus=2))  # keeps the looks frequent
        h.say("error all 0 15")
        wait_for("the loss", lambda: devices(h)[0]["state"] == "lost")
        a, b = devices(h)
        assert (a["reason"], a["used_bytes"], a["mem_bytes"], a["uuid"]) == ("GPU is lost", None, 40960 << 20, "GPU-aaaa"), a
        assert b["state"] == "ok", b
        assert "GPU 0 (NVIDIA A100, GPU-aaaa) is lost: GPU is lost" in h.log_text()
        assert job(h, keeper)["state"] == "running"  # it notices by itself
        cancel(h, keeper)
        n = gpu_job(h, "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60")
        both = gpu_job(h, "sleep", "60", gpus=2)
        running(h, n)
        assert wait_for("its words", lambda: logs(h, n).strip()) == "GPU-bbbb"
        assert job(h, both)["state"] == "queued"
        h.say()
        wait_for("the return", lambda: devices(h)[0]["state"] == "ok")
        assert "GPU-aaaa) is back" in h.log_text()
        cancel(h, n)
        running(h, both)
    finally:
        h.close()


def test_lost_at_start():
    h = Gpus()
    try:
        h.say("error handle 1 15")
        h.start()
        wait_for("the notice", lambda: "GPU 1 (NVIDIA GPU, gpu-1) is lost" in h.log_text())
        running(h, gpu_job(h, "sleep", "60"))  # keeps the looks frequent
        h.say()
        wait_for("the return", lambda: devices(h)[1]["state"] == "ok")
        assert devices(h)[1]["uuid"] == "GPU-bbbb"
    finally:
        h.close()


def test_excluded():
    h = Gpus([TWO[1] + " mode=2", TWO[2], "gpu GPU-cccc 1000"])
    try:
        p = subprocess.run([harness.BERTH, "serve", "--gpu-exclude", "GPU-xx"], env=h.env, capture_output=True, text=True)
        assert p.returncode == 2 and "there is no GPU 'GPU-xx' to exclude" in p.stderr, p
        h.start("--gpu-exclude", "GPU-cccc")
        a, b, c = devices(h)
        assert (a["state"], b["state"], c["state"]) == ("excluded", "ok", "excluded"), (a, b, c)
        assert "Prohibited" in a["reason"] and "excluded by the configuration" in c["reason"], (a, c)
        n = gpu_job(h, "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60")
        assert wait_for("its words", lambda: logs(h, n).strip()) == "GPU-bbbb"
        m = gpu_job(h, "sleep", "60")
        time.sleep(0.5)
        assert job(h, m)["state"] == "queued"
    finally:
        h.close()


def test_mig():
    h = Gpus(["gpu GPU-aaaa 40960 mig=1", "mig 0 MIG-1111 4864", "mig 0 MIG-2222 9856", "gpu GPU-bbbb 16384"])
    try:
        h.start()
        assert [(d["uuid"], d["mem_bytes"] >> 20) for d in devices(h)] == [("MIG-1111", 4864), ("MIG-2222", 9856), ("GPU-bbbb", 16384)]
        n = gpu_job(h, "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60", gpus=3)
        assert wait_for("its words", lambda: logs(h, n).strip()) == "MIG-1111,MIG-2222,GPU-bbbb"
        pid = job(h, running(h, n))["runs"][-1]["pid"]  # it may speak before its start is known
        h.say(f"proc {pid} 0.1 800")
        wait_for("the measure", lambda: devices(h)[1]["jobs"][0]["measured_bytes"] == 800 << 20)
        assert devices(h)[1]["used_bytes"] == 800 << 20 and devices(h)[0]["used_bytes"] == 0
    finally:
        h.close()


def old_driver(library):
    h = Gpus(library=library)
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        h.start()
        n = running(h, gpu_job(h, "sleep", "60"))
        pid = job(h, n)["runs"][-1]["pid"]
        at = next(d["index"] for d in devices(h) if d["used"])
        h.say(f"proc {pid} {at} 1000", f"proc {stranger.pid} {at} 300", f"proc {stranger.pid} {1 - at} 70")
        wait_for("the measure", lambda: devices(h)[at]["jobs"][0]["measured_bytes"] == 1000 << 20)
        wait_for("the stranger", lambda: [devices(h)[i]["foreign_bytes"] >> 20 for i in (at, 1 - at)] == [300, 70])
    finally:
        stranger.kill()
        stranger.wait()
        h.close()


def test_driver_with_v2_lists():
    old_driver("fake_nvml_v2")


def test_driver_with_16_byte_entries():
    old_driver("fake_nvml_v1")


def test_driver_hangs():
    """Nobody waits for a driver: not the API, not the jobs, not the shutdown."""
    h = Gpus()
    try:
        h.start()
        running(h, gpu_job(h, "sleep", "60"))
        h.say("delay 3600000")
        time.sleep(0.3)
        # Whoever waited for the driver would wait for an hour.
        for _ in range(100):
            h.api("GET", "/v1/nodes")
            n = h.submit("true")["number"]
        wait_for("the last job", lambda: job(h, n)["state"] == "succeeded")
        assert h.stop() == 0
    finally:
        h.close()


def test_driver_hangs_at_start():
    h = Gpus()
    try:
        h.say("delay 3600000")
        h.start()
        assert "the GPU driver has not answered for 5 s" in h.log_text()
        assert devices(h) == []
        assert h.stop() == 0
    finally:
        h.close()


def test_no_library():
    h = Gpus(library="nowhere")
    try:
        h.start()
        assert devices(h) == []
        doctor = h.berth("doctor", check=False).stdout
        assert "a GPU driver is there, but shows no GPU" in doctor and "libnowhere.so" in doctor, doctor
    finally:
        h.close()


def amd_card(root, n, **files):
    device = os.path.join(root, "class", "drm", f"card{n}", "device")
    os.makedirs(device)
    for name, text in dict(vendor="0x1002", uevent=f"PCI_SLOT_NAME=0000:0{n}:00.0", **files).items():
        with open(os.path.join(device, name), "w") as f:
            f.write(f"{text}\n")


def test_amd_by_sysfs():
    h = Home(BERTH_GPU_PERIOD_MS="50")
    try:
        root = os.path.join(h.dir, "sys")
        h.env.update(BERTH_SYSFS_ROOT=root, BERTH_PROC_ROOT=os.path.join(h.dir, "proc"))
        amd_card(root, 0, mem_info_vram_total=64 << 30, mem_info_vram_used=1 << 30, gpu_busy_percent=12,
                 unique_id="365628c172834d70", product_name="Instinct MI210")
        amd_card(root, 1, mem_info_vram_total=16 << 30, mem_info_vram_used=0, device="0x73bf")
        h.start()
        wait_for("a look", lambda: devices(h)[0]["seen"])
        a, b = devices(h)
        assert (a["uuid"], a["kind"], a["mem_bytes"], a["used_bytes"], a["busy_percent"]) == \
            ("GPU-365628c172834d70", "Instinct MI210", 64 << 30, 1 << 30, 12), a
        assert (b["uuid"], b["kind"], b["busy_percent"]) == ("amd-0000:01:00.0", "AMD GPU 0x73bf", None), b
        n = gpu_job(h, "/bin/sh", "-c", "echo $ROCR_VISIBLE_DEVICES; sleep 60")
        m = gpu_job(h, "/bin/sh", "-c", "echo $ROCR_VISIBLE_DEVICES; sleep 60")
        said = {wait_for("its words", lambda k=k: logs(h, k).strip()) for k in (n, m)}
        assert said == {"GPU-365628c172834d70", "1"}, said
        pid = job(h, running(h, n))["runs"][-1]["pid"]
        for sub in ("fd", "fdinfo"):
            os.makedirs(os.path.join(h.dir, "proc", str(pid), sub))
        with open(os.path.join(h.dir, "proc", str(pid), "fdinfo", "5"), "w") as f:
            f.write("drm-client-id:\t3\ndrm-pdev:\t0000:00:00.0\ndrm-memory-vram:\t2097152 KiB\n")
        os.symlink("/dev/dri/renderD128", os.path.join(h.dir, "proc", str(pid), "fd", "5"))
        wait_for("the measure", lambda: [j["measured_bytes"] for d in devices(h) for j in d["jobs"]
                                         if j["number"] == n] == [2 << 30])
    finally:
        h.close()


def test_configured_count_without_driver():
    h = Home()
    try:
        h.start("--gpus", "3")
        assert [(d["uuid"], d["state"], d["mem_bytes"]) for d in devices(h)] == [(f"gpu-{i}", "unseen", 0) for i in range(3)]
        n = gpu_job(h, "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60", gpus=2)
        assert wait_for("its words", lambda: logs(h, n).strip()) == "0,1"
    finally:
        h.close()


if __name__ == "__main__":
    harness.main(__name__)
