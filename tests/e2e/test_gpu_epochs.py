"""An epoch counts when its snapshot exists: training scripts that die at every point.

The script (training/killed_standin.py) trains and saves; it dies between the calls of the library, in
the middle of a step, and in the middle of a save.  However often that happens, its weights have seen
each epoch at least once when it is finished, no attempt is told of more epochs than the checkpoint it
loads has seen, and what it is offered to load is whole.
"""
import json
import os
import re

import harness
from gpu_rig import GpuHome, wait_for

EPOCHS = 4
SCRIPT = "killed_standin.py"


def submit(h, name, kills, **more):
    return h.train(name, script=SCRIPT, epochs=EPOCHS, steps=6, est=None, max_retries=len(kills.split(",")),
                   estimated_memory=1000, env={"KILL_AT": kills, **more.pop("env", {})}, **more)


def seen_at_the_end(h, job):
    """The epochs of the final weights; the script itself compared each attempt with its checkpoint."""
    row = h.wait_state(job, "finished", "failed", "cancelled", timeout=300)
    text = h.output(job)
    assert row["state"] == "finished" and row["epochs"] == f"{EPOCHS}/{EPOCHS}", f"{row}\n{text}"
    found = re.findall(r"^trained (.*)$", text, re.M)
    assert len(found) == 1, text
    return json.loads(found[0])["seen"]


def plans():
    """For each job two deaths, one for each of its first two attempts: 52 in all, every point at every
    epoch, before and after every other point."""
    points = ("step", "reported", "half", "saved", "asked")
    for i in range(26):
        first, second = points[i % 5], points[(i + i // 5) % 5]
        epoch = i // 5 % EPOCHS
        if first == "asked":  # there is no start_epoch() after the last
            epoch = min(epoch, EPOCHS - 2)
        then = min(epoch + i % 2, EPOCHS - (2 if second == "asked" else 1))
        yield f"{first}:{epoch},{second}:{then}"


def test_weights_see_each_epoch():
    with GpuHome(gpus=4) as h:
        jobs = {submit(h, f"killed{i}", plan): plan for i, plan in enumerate(plans())}
        deaths = 0
        for i, (job, plan) in enumerate(jobs.items()):
            if i in (5, 15):  # and it is all on disk
                h.kill()
                h.serve_again()
            seen = seen_at_the_end(h, job)
            assert set(seen) == set(range(EPOCHS)), f"{plan}: the weights have seen {seen}\n{h.output(job)}"
            deaths += len(re.findall(r"^dies at", h.output(job), re.M))
        assert deaths >= 50, f"{deaths} of the deaths took place"


def training(h, job):
    return h.api("GET", f"/v1/jobs/{job}")["training"]


def dies_without_a_daemon(h, point, epoch, confirmed):
    """It dies while no daemon looks; the next one knows where it goes on."""
    waits = os.path.join(h.dir, f"wait-{point}")
    os.mkdir(waits)
    job = submit(h, point, f"{point}:{epoch}", env={"KILL_WAIT": waits})
    wait_for("the point", lambda: os.path.exists(os.path.join(waits, f"{point}-{epoch}")))
    if point == "asked":  # the confirmation is not waited for
        wait_for("the confirmation", lambda: training(h, job)["confirmed"] == confirmed)
    before = training(h, job)
    assert (before["done"], before["confirmed"]) == (epoch + 1, confirmed), before
    h.kill()
    open(os.path.join(waits, "go"), "w").close()
    h.serve_again()
    assert set(seen_at_the_end(h, job)) == set(range(EPOCHS))
    starts = re.findall(r"^start done (\d+) seen (.*)$", h.output(job), re.M)
    assert [int(done) for done, _ in starts] == [0, confirmed], starts
    assert training(h, job)["confirmed"] == EPOCHS


def test_confirmed_is_on_disk():
    with GpuHome() as h:
        dies_without_a_daemon(h, "reported", 1, confirmed=1)
        dies_without_a_daemon(h, "half", 0, confirmed=0)
        dies_without_a_daemon(h, "saved", 1, confirmed=1)
        dies_without_a_daemon(h, "asked", 1, confirmed=2)


def test_status_goes_back():
    """Counter, planner and attempts say the same after the run died."""
    with GpuHome() as h:
        waits = os.path.join(h.dir, "wait")
        os.mkdir(waits)
        job = submit(h, "back", "reported:2", env={"KILL_WAIT": waits})
        wait_for("the point", lambda: os.path.exists(os.path.join(waits, "reported-2")))
        assert h.row(job)["epochs"] == f"3/{EPOCHS}"
        h.api("POST", "/v1/queues/default/pause")
        open(os.path.join(waits, "go"), "w").close()
        row = h.wait_state(job, "pending")
        assert row["epochs"] == f"2/{EPOCHS}" and row["epochs_done"] == 2, row
        h.api("POST", "/v1/queues/default/resume")
        assert seen_at_the_end(h, job) == [0, 1, 2, 3]


if __name__ == "__main__":
    harness.main(__name__)
