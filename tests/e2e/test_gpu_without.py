"""The GPU scheduler on a machine without GPUs, and what a job may say about torch.distributed and its variables."""
import fcntl
import json
import os
import socket
import struct
import subprocess
import termios

import harness
from harness import wait_for
from test_gpu_dialect import TRAINING, Scheduler, show

NO_GPUS = ("--gpus", "0", "--slots", "8")
# Three epochs with the library; killed in the second one of its first attempt, before anything of it is reported.
EPOCHS = """
import os, signal
from kubernetesdlprofile import kubeprofiler
prof = kubeprofiler.KubeProfiler()
done = prof.root_dir + "/done"
if prof.RESTARTED: assert os.path.exists(done), "there is nothing to load"
print("begins at", prof.EPOCHS_DONE, "of", prof.EPOCHS, "restarted", prof.RESTARTED, flush=True)
for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
    prof.start_epoch()
    for step in range(prof.iterationPerEpoch):
        prof.measure()
        if epoch == 2 and os.environ["SCHED_ATTEMPT"] == "1": os.kill(os.getpid(), signal.SIGKILL)
    prof.end_epoch()
    open(done, "w").close()
"""


def table_line(h, job, *args):
    return next(line for line in h.call("scheduler-state", *args).stdout.splitlines() if line.startswith(job))


# ---- words ----

def test_commands_of_berth_know_the_beginning_of_an_id():
    with Scheduler(*NO_GPUS) as h:
        job, other = (h.submit(*h.script("print(1)")) for _ in range(2))
        for command in ("explain", "show", "cancel", "rm"):
            p = subprocess.run([harness.BERTH, command, job[:8]], env=h.env, capture_output=True, text=True, timeout=120)
            assert p.returncode == 0, (command, p)
        assert list(h.rows()) == [other]
        p = subprocess.run([harness.BERTH, "show", job[:8]], env=h.env, capture_output=True, text=True, timeout=120)
        assert p.returncode != 0 and job[:8] in p.stderr, p


def test_refusals_of_the_server_name_options():
    """And keys for those who send JSON."""
    with Scheduler() as h:
        taken = socket.create_server(("", 0))
        port = taken.getsockname()[1]
        for args, body, option, key in (
                (["--port_mapping", f"{port}:6006"], {"portMapping": f"{port}:6006"}, f"--port_mapping '{port}:6006'", "portMapping '"),
                (["--image_name", "i", "--launch", "gpu"], {"dockerImage": "i", "launch": "gpu"}, "--launch 'gpu'", "launch 'gpu'")):
            p = h.call("run-scheduler", *h.script("print(1)"), *args, "a")
            assert p.returncode == 4 and option in p.stderr and p.stderr.count("\n") == 1, p
            status, _, text = h.request("POST", "/submit", {"jobName": "a", "scriptPath": "t", **body})
            assert status >= 400 and key in text.decode() and "--" not in text.decode(), (status, text)
        taken.close()


def test_extended_fits_the_terminal():
    """A narrow terminal gets lines of names and values, a wide one the table."""
    with Scheduler(*NO_GPUS) as h:
        job = h.submit(*h.script("print(1)"), *TRAINING)
        for width, table in ((100, False), (2000, True)):
            out = on_a_terminal(h, width, "scheduler-state", "--extended")
            assert table == (len(out[0].split()) > 20 and out[0].startswith("JOBID ")), out
            assert all(len(line) <= width for line in out if not line.startswith("WAIT_REASON")), out
            assert any(job in line for line in out) and any("no GPU: " in line for line in out), out


def on_a_terminal(h, width, *command):
    """The lines that the command writes to a terminal of so many columns."""
    master, end = os.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {k: v for k, v in h.env.items() if k != "COLUMNS"}
    p = subprocess.Popen([os.path.join(h.bin, command[0]), *command[1:]], env=env, stdout=end, cwd=h.dir)
    os.close(end)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(master)
    assert p.wait(timeout=120) == 0
    return text.decode().replace("\r\n", "\n").splitlines()


def test_the_line_of_an_attempt_is_a_line():
    """Also behind a progress bar that did not end; of all output, of its end, and as it grows."""
    bar = "import sys; sys.stdout.write('50% [#####     ]'); sys.stdout.flush(); sys.exit(1)"
    with Scheduler() as h:
        job = h.submit(*h.script(bar), "--max_retries", "1")
        h.wait_state(job, "failed")
        for args in ((), ("--tail", "3"), ("--follow",)):
            lines = h.logs(job, *args).splitlines()
            assert sum(line.startswith("---- attempt 2") for line in lines) == 1, (args, lines)
            assert lines[-1] == "50% [#####     ]", lines


# ---- no GPU ----

def test_a_job_without_a_gpu_says_why_it_waits():
    with Scheduler(*NO_GPUS) as h:
        job = h.submit(*h.script("print(1)"), *TRAINING)
        row = wait_for("the job waits", lambda: h.rows()[job])
        assert (row["state"], row["epochs"], row["max_epochs"]) == ("pending", "0/5", 5), row
        assert row["wait_reason"].startswith("no GPU: ") and "--no_gpu" in row["wait_reason"], row
        assert "pending (no GPU)" in table_line(h, job) and " 0/5 " in table_line(h, job), table_line(h, job)
        told = subprocess.run([harness.BERTH, "explain", job], env=h.env, capture_output=True, text=True, timeout=120).stdout
        assert "has none" in told and "without GPUs" in told and "lower gpus" not in told, told


def test_no_gpu_runs_on_cpus():
    """Epochs are counted, a killed attempt resumes, and the variables fit a run on CPUs."""
    with Scheduler(*NO_GPUS) as h:
        _, seen = show(h, "--no_gpu")
        env = seen["env"]
        want = {"NUM_GPUS": "1", "NUM_NODES": "1", "WORLD_SIZE": "1", "PL_TORCH_DISTRIBUTED_BACKEND": "gloo", "RESERVED_MEM": "0",
                "CUDA_VISIBLE_DEVICES": "", "SCHED_ATTEMPT": "1"}
        assert {k: env.get(k) for k in want} == want, env
        assert int(env["MASTER_PORT"]) > 0 and json.loads(env["TF_CONFIG"])["cluster"]["worker"], env
        job = h.submit(*h.script(EPOCHS), *TRAINING, "--no_gpu", "--max_retries", "1")
        row = h.wait_state(job, "finished", "failed")
        assert (row["state"], row["epochs"], row["attempts"], row["no_gpu"]) == ("finished", "5/5", 2, True), (row, h.logs(job))
        begun = [line for line in h.logs(job).splitlines() if line.startswith("begins")]
        assert begun[0] == "begins at 0 of 5 restarted False" and begun[1].endswith("of 5 restarted True"), begun


def test_no_gpu_where_there_are_gpus():
    """The job sees none of them, and takes none: both others run beside it."""
    with Scheduler() as h:
        job = h.submit(*h.script("import os, time\nprint('sees', repr(os.environ['CUDA_VISIBLE_DEVICES']), flush=True)\ntime.sleep(600)"),
                       "--no_gpu")
        wait_for("it runs", lambda: "sees ''" in h.logs(job))
        assert h.rows()[job]["gpus"] == "0", h.rows()[job]
        others = [h.submit(*h.script("print(1)", "o.py"), "--disable_gpu_sharing", "true") for _ in range(2)]
        for other in others:
            assert h.wait_state(other, "finished", "failed")["state"] == "finished"
        assert h.rows()[job]["state"] == "running"
        assert h.call("scheduler-cancel-job", job).returncode == 0


def test_no_gpu_and_what_needs_one():
    with Scheduler(*NO_GPUS) as h:
        for args in (("--estimated_memory", "4000"), ("--launch", "gpu")):
            p = h.call("run-scheduler", *h.script("print(1)"), "--no_gpu", *args, "a")
            assert p.returncode == 2 and f"{args[0]} '{args[1]}'" in p.stderr and "--no_gpu" in p.stderr, p


def test_a_daemon_runs_gpu_jobs_on_cpus():
    """Those that name no GPU memory; and none while there is a GPU."""
    with Scheduler(*NO_GPUS, "--gpu-jobs-on-cpu") as h:
        job = h.submit(*h.script("print(1)"))
        assert h.wait_state(job, "finished", "failed")["state"] == "finished", h.logs(job)
        large = h.submit(*h.script("print(1)"), "--estimated_memory", "4000")
        assert h.rows()[large]["state"] == "pending" and h.rows()[large]["wait_reason"].startswith("no GPU: "), h.rows()[large]
    with Scheduler("--gpus", "1", "--slots", "8", "--gpu-replan", "50ms", "--gpu-jobs-on-cpu") as h:
        _, seen = show(h)
        assert seen["env"]["CUDA_VISIBLE_DEVICES"] == "0", seen


def test_a_job_on_cpus_that_waits_says_why():
    with Scheduler("--gpus", "0", "--slots", "1") as h:
        first = h.submit(*h.script("import time; time.sleep(600)"), "--no_gpu")
        h.wait_state(first, "running")
        second = h.submit(*h.script("print(1)", "o.py"), "--no_gpu")
        row = h.rows()[second]
        assert row["wait_reason"].startswith("the host: ") and "slot" in row["wait_reason"], row
        h.call("scheduler-cancel-job", first)
        assert h.wait_state(second, "finished", "failed")["state"] == "finished"


# ---- torch.distributed and variables ----

def backend_of(h, *args):
    return show(h, *args)[1]["env"]["PL_TORCH_DISTRIBUTED_BACKEND"]


def test_backend_of_a_job():
    """The job's own, by either way, then the daemon's, then what the machine can do: here, no driver."""
    with Scheduler() as h:
        assert backend_of(h) == "gloo"
        assert backend_of(h, "--torch_backend", "nccl") == "nccl"
        assert backend_of(h, "--torch-backend", "mpi") == "mpi"
        assert backend_of(h, "--env", "PL_TORCH_DISTRIBUTED_BACKEND=nccl") == "nccl"
    with Scheduler("--gpus", "2", "--gpu-replan", "50ms", "--torch-backend", "ucc") as h:
        assert backend_of(h) == "ucc"
        assert backend_of(h, "--torch_backend", "gloo") == "gloo"


def test_backends_that_disagree():
    with Scheduler() as h:
        for args, words in (
                (["--torch_backend", "a b"], "--torch_backend 'a b'"), (["--torch_backend", ""], "--torch_backend ''"),
                (["--torch_backend", "nccl", "--env", "PL_TORCH_DISTRIBUTED_BACKEND=gloo"], "--torch_backend 'nccl'")):
            p = h.call("run-scheduler", *h.script("print(1)"), *args, "a")
            assert p.returncode == 2 and words in p.stderr and p.stderr.count("\n") == 1, (args, p)


def test_variables_in_both_forms():
    """NAME=VALUE as often as one likes, and JSON; a refusal shows the entry, not a list in JSON."""
    with Scheduler() as h:
        env = show(h, "--env", "A=1", "--env", "B=x=y z", "--env", '{"C": "3", "D": ""}', "--env", '["E=5"]')[1]["env"]
        assert {k: env.get(k) for k in "ABCDE"} == {"A": "1", "B": "x=y z", "C": "3", "D": "", "E": "5"}, env
        for text, words in (("RANK=1", "--env 'RANK': is set by the scheduler"), ("novalue", "--env 'novalue': must be NAME=VALUE"),
                            ('{"A": 1}', "--env 'A': must have text"), ('{"A"', "--env"), ('["A"]', "--env 'A': must be NAME=VALUE")):
            p = h.call("run-scheduler", *h.script("print(1)"), "--env", text, "a")
            assert p.returncode == 2 and words in p.stderr and p.stderr.count("\n") == 1, (text, p)


if __name__ == "__main__":
    harness.main(__name__)
