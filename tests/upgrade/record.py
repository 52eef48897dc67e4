#!/usr/bin/env python3
"""Records homes made by a release: record.py BUILD NAME writes NAME.tar.gz and NAME.json beside this file.

BUILD is a Meson build directory of that release.  Needs root (a container engine of its own), docker.io and
openssh-server.  The archive holds the homes as that program left them; the JSON file holds what that program
said about them, `before` it was stopped and `after` it opened the archive again and ran what was waiting.
"""
import json
import os
import shutil
import signal
import sys
import tarfile

import old_home
from old_home import HERE, ROOT, wait_for
from engine_rig import BUSYBOX, Engine, busybox_tree

SIZE_LIMIT = 300_000
TRAIN = """
import sys
import berth
p = berth.params(lr=0.5)
for step in range(20):
    berth.log(loss=1 / (step + p["lr"]), accuracy=step / 20, step=step)
berth.log_params(optimizer="sgd", layers=3)
berth.tag("kind", "baseline")
with open("model.txt", "w") as f:
    f.write("weights %s\\n" % p["lr"])
berth.artifact("model.txt", "model", copy=True)
print("trained with", p["lr"])
sys.exit(4 if p.get("broken") else 0)
"""
SWEEP = """
name: grid
command: [python3, train.py]
project: vision
params:
  lr: [0.1, 0.01]
  broken: [false, true]
cwd: .
"""
LATER = """
name: later
command: [python3, train.py]
project: vision
queue: night
slots: 1
params:
  lr: [0.2, 0.02, 0.002]
cwd: .
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def fill_queue(q):
    """Jobs in every final state, of every kind; then jobs that wait."""
    done = q.submit("--name", "trained", "--project", "vision", "--param", "lr=0.25", "--", "python3", "train.py")
    failed = q.submit("--name", "fails", "--split-output", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    retried = q.submit("--name", "retried", "--retries", "1", "--backoff", "10ms", "--", "sh", "-c", "echo try; exit 5")
    late = q.submit("--name", "late", "--timeout", "1s", "--grace", "1s", "--", "sleep", "600")
    ends = q.submit("--name", "stopped", "--", "sh", "-c", "echo begins; exec sleep 600")
    lost = q.submit("--name", "lost", "--", "sh", "-c", "echo $PPID; exec sleep 600")
    q.command("berth", "submit", "--file", "sweep.yaml")
    q.command("berth", "submit", "--array", "3", "--name", "array", "--", "echo", "number {index}")
    q.reach(ends, "running")
    q.command("berth", "cancel", str(ends))
    supervisor = wait_for("the pid of the supervisor", lambda: (q.text(lost) or "").strip())
    os.kill(int(supervisor), signal.SIGKILL)
    outside = q.api("POST", "/v1/outside", {"name": "notebook", "project": "vision", "params": {"lr": 1}})
    q.api("POST", f"/v1/jobs/{outside['number']}/outside_end", {"exit_code": 0})

    # Two trainings that share the one GPU, and one that has it to itself.
    shared = [q.command("run-scheduler", *training(), name).split()[-1] for name in ("resnet", "vgg")]
    own = q.submit("--gpus", "1", "--no-share", "--", "sh", "-c", "echo gpu $CUDA_VISIBLE_DEVICES")
    q.command("berth", "node", "add", "ssh://far", "--slots", "2", "--reserved", "--wait", "2m")
    far = q.submit("--name", "elsewhere", "--node", "far", "--", "sh", "-c", "echo far away; exit 0")
    inside = q.submit("--name", "inside", "--image", BUSYBOX, "--", "sh", "-c", "echo contained; exit 7")
    for ref in (done, failed, retried, late, ends, lost, *shared, own, far, inside):
        q.reach(ref, *old_home.FINAL, timeout=240)
    q.home.wait_all(120)

    q.command("berth", "tag", str(done), "best", "data=v2")
    q.command("berth", "note", str(done), "keep this one: it is the baseline")
    q.command("berth", "note", "--about", "vision", "new data since Monday")
    q.api("PUT", "/v1/projects/vision", {"description": "# Vision\nSmall networks."})

    # From here on jobs wait.
    for queue in ("default", "night"):
        q.command("berth", "queue", "pause", queue)
    first = q.submit("--name", "waits", "--priority", "5", "--", "sh", "-c", "echo waited")
    q.submit("--name", "after", "--after", str(first), "--", "sh", "-c", "echo after it")
    q.submit("--name", "waits-far", "--node", "far", "--", "sh", "-c", "echo far away")
    q.submit("--name", "waits-inside", "--image", BUSYBOX, "--", "sh", "-c", "echo contained")
    dropped = q.submit("--name", "dropped", "--", "true")
    q.command("berth", "cancel", str(dropped))
    q.command("run-scheduler", *training(), "waits-gpu")
    q.command("berth", "submit", "--file", "later.yaml")


def training():
    return ["--script_path", "/custom/pytorch_standin.py", "--custom_dir", ROOT + "/work/training", "--snapshots_dir",
            ROOT + "/work/snapshots", "--batch_size", "10", "--training_set_size", "200", "--max_epochs", "2",
            "--est_nhours", "1.01", "--estimated_memory", "4000", "--env", "STANDIN_STEP_MS=5"]


ATLAS_MAIN = """
import os, time
import foundations
foundations.log_param("depth", 3)
foundations.log_metric("loss", 0.5)
foundations.set_tag("kind", "baseline")
with open("result.txt", "w") as f:
    f.write("made by the job")
foundations.save_artifact("result.txt", "result")
print("ran")
"""


def fill_atlas(a):
    """Completed, failed, one that ends while no server runs, two that wait.  The last two are all that is left to do."""
    whole = a.submit({"main.py": ATLAS_MAIN, "foundations_job_parameters.json": '{"lr": 0.1}'}, project="iris", sdk=True)
    broken = a.submit({"main.py": "open('left', 'w').write('x')\nraise SystemExit(3)\n"}, project="iris")
    gate = ROOT + "/atlas/gate"
    held = a.submit({"main.py": f"import os, time\nprint('begins', flush=True)\nwhile not os.path.exists('{gate}'): "
                                "time.sleep(0.02)\nprint('ends')\n"}, project="iris")
    assert a.wait(whole)["status"] == "completed", a.job(whole)
    a.wait(broken, "failed")
    a.wait(held, "running")
    for name in ("next", "last"):
        a.submit({"main.py": f"print('{name}')\n"}, project="wine")
    wait_for("the output of the running job", lambda: "begins" in a.job(held)["logs"])


def fill_hyper(h):
    """A batch whose scheduler is killed: succeeded, failed, running, and two that wait."""
    gate = ROOT + "/hyper/gate"
    jobs = [hyper_job("one", "echo one"), hyper_job("two", "echo two; exit 2"),
            hyper_job("three", f"echo three >> {ROOT}/hyper/ran; while [ ! -e {gate} ]; do sleep 0.02; done; echo three"),
            hyper_job("four", "echo four"), hyper_job("five", "echo five; exit 5")]
    h.write("grid.json", {"name": "grid", "jobs": jobs, "server": {"port": 28599}})
    p = h.start(ROOT + "/hyper/grid.json")
    h.wait_for("grid", "three.running")
    wait_for("the third job", lambda: os.path.exists(ROOT + "/hyper/ran"))
    p.kill()
    p.wait()


def hyper_job(name, command):
    return {"name": name, "params": {"x": name, "n": [1, 2.5, None]}, "command": command}


def open_gate(path, processes):
    """Lets the job end that ran when its server was killed, then waits until the shepherd is the only one left."""
    write(path, "")
    wait_for("the end of the running job", lambda: len(processes()) <= 1)
    old_home.leave(processes)


def pack(path):
    """ROOT without sockets, keys and links to programs: everything relative to it, owned by nobody in particular."""
    def keep(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        wanted = info.isfile() or info.isdir() or info.islnk()  # archives of Atlas are links to contents kept once
        return info if wanted and os.path.basename(info.name) != "bin" else None
    with tarfile.open(path, "w:gz", compresslevel=9) as tar:
        for name in ("queue", "atlas", "hyper", "work"):
            tar.add(os.path.join(ROOT, name), name, filter=keep)
    size = os.path.getsize(path)
    assert size <= SIZE_LIMIT, f"{path} has {size} bytes; at most {SIZE_LIMIT} go into the tree"
    return size


def lines(value, depth):
    """JSON with a line for each job, so that a change of the file can be read."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "{\n" + ",\n".join(json.dumps(k) + ":" + lines(v, depth - 1) for k, v in sorted(value.items())) + "\n}"


def check_neutral(path):
    """Nothing of the machine that recorded it may be in the archive."""
    strange = [os.path.normpath(os.path.join(HERE, "..", "..")).encode(), os.path.realpath(sys.argv[1]).encode()]
    with tarfile.open(path) as tar:
        for member in tar:
            data = tar.extractfile(member).read() if member.isfile() else b""
            for text in strange:
                at = data.find(text)
                assert at < 0, f"{member.name} names {text.decode()}: {data[max(0, at - 40):at + 80]!r}"


def main():
    build, name = sys.argv[1:]
    archive, told = os.path.join(HERE, name + ".tar.gz"), os.path.join(HERE, name + ".json")
    with Engine("docker") as engine, old_home.root():
        engine.load(BUSYBOX, busybox_tree())
        shutil.copytree(os.path.join(old_home.E2E, "training"), ROOT + "/work/training",
                        ignore=shutil.ignore_patterns("__pycache__"))
        os.mkdir(ROOT + "/work/snapshots")
        for file, text in (("train.py", TRAIN), ("sweep.yaml", SWEEP), ("later.yaml", LATER)):
            write(f"{ROOT}/work/{file}", text)
        before = {}
        q = old_home.Queue(engine)
        try:
            fill_queue(q.start())
            before["queue"] = q.facts()
        finally:
            q.close()
        a = old_home.AtlasHome()
        try:
            fill_atlas(a.start())
            before["atlas"] = a.facts()
            a.kill()
            open_gate(ROOT + "/atlas/gate", a.processes)
        finally:
            a.stop()
        h = old_home.HyperHome()
        try:
            fill_hyper(h)
            open_gate(ROOT + "/hyper/gate", h.survivors)
            before["hyper"] = h.facts("grid")
        finally:
            old_home.leave(h.survivors)
        size = pack(archive)
        check_neutral(archive)
        after = old_home.play(archive, engine)
        with open(told, "w") as f:
            f.write(lines({"before": before, "after": after["after"]}, 4) + "\n")
    print(f"{archive}: {size} bytes; {told}: {os.path.getsize(told)} bytes")


if __name__ == "__main__":
    main()
