"""Other machines as people add them: berth node, jobs that go there, what comes back, what fails."""
import atexit
import json
import os
import subprocess
import tempfile
import time

import harness
import ssh_rig

home = rig = None


def setup():
    global home, rig
    if home is None:
        rig = ssh_rig.SshRig()
        atexit.register(rig.close)
        far = harness.find_program("berth-far")
        home = harness.Home(BERTH_SSH=rig.ssh, BERTH_FAR=far)
        atexit.register(home.close)
        rig.host("a")
        rig.host("b")
        home.start("--slots", "1")
        for h in rig.hosts:
            for _ in range(6):  # on a loaded machine sshd may not answer in time
                out = berth("node", "add", h.url, "--name", h.name, "--slots", "2", "--identity", rig.key,
                            "--known-hosts", rig.known_hosts)
                if out.returncode == 0:
                    break
            assert out.returncode == 0, out.stderr + home.log_text()
            assert out.stdout.startswith(f"{h.name}: 2 slots, "), out.stdout
    return home


def berth(*words, timeout=120):
    return subprocess.run([harness.BERTH, *words], env=home.env, capture_output=True, text=True, timeout=timeout)


def wait_for(answer, timeout=120):
    """The first answer that is true."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        got = answer()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError("it did not come about in time\n" + home.log_text())


def node(name):
    return home.api("GET", f"/v1/nodes/{name}")


def run(command, **spec):
    """Number of a job that was submitted, with a directory that is everywhere."""
    return home.api("POST", "/v1/jobs", {"command": command, "cwd": "/", **spec})["number"]


def ended(job, timeout=180):
    return wait_for(lambda: (j := home.api("GET", f"/v1/jobs/{job}"))["ended"] and j, timeout)


def log_of(job):
    return home.request("GET", f"/v1/jobs/{job}/logs")[2].decode()


def test_nodes_are_listed():
    setup()
    rows = {n["name"]: n for n in home.api("GET", "/v1/nodes")["items"]}
    assert rows["a"]["state"] == "up" and rows["a"]["slots"] == 2 and rows["a"]["url"] == rig.hosts[0].url
    assert rows["a"]["cpus"] > 0 and rows["a"]["mem_bytes"] > 0
    assert len(rows) == 3 and sum(n["url"] is None for n in rows.values()) == 1
    assert "a " in berth("nodes").stdout


def test_a_job_runs_where_it_may():
    setup()
    job = run("echo on $BERTH_NODE in $HOME", nodes=["a"])
    done = ended(job)
    assert done["state"] == "succeeded" and done["runs"][0]["node"] == "a", done
    assert log_of(job).startswith("on a in "), log_of(job)
    waits = run("true", nodes=["nowhere*"])
    reason = home.api("GET", f"/v1/jobs/{waits}/explain")
    assert reason["kind"] == "no_such_node" and "nowhere*" in reason["text"], reason
    home.api("POST", f"/v1/jobs/{waits}/cancel")


def test_assets_go_along():
    setup()
    with tempfile.TemporaryDirectory(prefix="berth-assets-") as here:
        os.mkdir(os.path.join(here, "data"))
        for name, text in (("main.sh", "cat in/x more/y; echo kept > out\n"), ("data/x", "one\n"), ("y", "two\n")):
            with open(os.path.join(here, name), "w") as f:
                f.write(text)
        out = subprocess.run([harness.BERTH, "submit", "--node", "b", "--asset", "main.sh", "--asset", "data:in",
                              "--asset", "y:more/y", "--", "sh", "main.sh"], cwd=here, env=home.env,
                             capture_output=True, text=True, timeout=120)
        assert out.returncode == 0, out.stderr
        job = home.api("GET", "/v1/jobs?sort=-number&limit=1")["items"][0]["number"]
        done = ended(job)
        assert done["state"] == "succeeded" and log_of(job) == "one\ntwo\n", (done, log_of(job))
        assert not os.path.exists(os.path.join(here, "out"))


def test_a_missing_asset_fails_the_job():
    """Not tried without end: once, or as often as retries ask for, with back-off; the reason names the file."""
    setup()
    job = run("true", nodes=["b"], assets=["/nonexistent/weights.bin:w"])
    done = ended(job)
    assert done["state"] == "failed" and "/nonexistent/weights.bin" in done["reason"], done
    assert len(done["runs"]) == 1, done["runs"]
    job = run("true", nodes=["b"], assets=["/nonexistent/weights.bin:w"], retries=2, backoff="200ms")
    done = ended(job)
    assert done["state"] == "failed" and "/nonexistent/weights.bin" in done["reason"], done
    assert len(done["runs"]) == 3, done["runs"]
    assert home.api("GET", "/v1/nodes/b")["state"] == "up", node("b")  # it is not the node's fault


def test_a_node_without_the_directory_is_left_out():
    """The job runs where its directory is; where it is nowhere, the job fails with a hint."""
    setup()
    ours = next(n["name"] for n in home.api("GET", "/v1/nodes")["items"] if n["url"] is None)
    with tempfile.TemporaryDirectory(prefix="berth-dir-") as top:
        try:
            bare = rig.host("bare", hides=top)
        except ssh_rig.SshMissing as x:
            raise harness.Skip(str(x)) from x
        try:
            d = os.path.join(top, "work")
            os.mkdir(d)
            out = berth("node", "add", bare.url, "--name", "bare", "--slots", "4", "--identity", rig.key, "--known-hosts",
                        rig.known_hosts, "--set", "connect_timeout=40")
            assert out.returncode == 0, out.stderr
            jobs = [run("pwd; sleep 0.2", cwd=d, nodes=[ours, "bare"]) for _ in range(6)]
            for job in jobs:
                done = ended(job)
                assert done["state"] == "succeeded" and done["runs"][-1]["node"] == ours, done
                assert log_of(job).strip() == d and done["attempt"] == len(done["runs"]) <= 2, done
            assert "bare" in [r["node"] for job in jobs for r in home.api("GET", f"/v1/jobs/{job}")["runs"]]
            assert node("bare")["state"] == "up", node("bare")  # other jobs run there
            assert ended(run("true", nodes=["bare"]))["state"] == "succeeded"
            # The only other node is drained: the job waits for it, and says why not for the free one.
            home.api("POST", f"/v1/nodes/{ours}/drain")
            job = run("pwd", cwd=d, nodes=[ours, "bare"])
            why = wait_for(lambda: (x := home.api("GET", f"/v1/jobs/{job}/explain"))["kind"] == "node_drained" and x)
            assert "node bare is left out" in why["text"], why
            home.api("POST", f"/v1/nodes/{ours}/undrain")
            assert ended(job)["runs"][-1]["node"] == ours
            done = ended(run("pwd", cwd=d, nodes=["bare"]))
            assert done["state"] == "failed" and d in done["reason"] and len(done["runs"]) == 1, done
            assert "--asset" in done["reason"] and "--cwd" in done["reason"], done
        finally:
            home.api("POST", f"/v1/nodes/{ours}/undrain")
            berth("node", "rm", "bare", "--force")
            bare.close()
            rig.hosts.remove(bare)


def test_a_dead_machine_is_not_kept():
    setup()
    port = harness.free_port()
    out = berth("node", "add", f"ssh://nobody@127.0.0.1:{port}", "--name", "dead", "--known-hosts", rig.known_hosts)
    assert out.returncode != 0 and "dead cannot be reached" in out.stderr and "--force" in out.stderr, out.stderr
    assert "dead" not in [n["name"] for n in home.api("GET", "/v1/nodes")["items"]]
    out = berth("node", "add", f"ssh://nobody@127.0.0.1:{port}", "--name", "dead", "--force")
    assert out.returncode == 0 and node("dead")["state"] == "away" and node("dead")["trouble"], out.stderr
    job = run("true", nodes=["dead"])
    assert "waits: node dead is away" in home.api("GET", f"/v1/jobs/{job}/explain")["text"]
    home.api("POST", f"/v1/jobs/{job}/cancel")
    assert berth("node", "rm", "dead").returncode == 0
    status, _, body = home.request("GET", "/v1/nodes/dead")
    assert status == 404 and "there is no node 'dead'" in body.decode()


def test_a_name_from_ssh_config_is_enough():
    setup()
    out = berth("node", "add", "b", "--name", "bare", "--set", "connect_timeout=40")
    assert out.returncode == 0 and out.stdout.startswith("bare: "), out.stderr
    assert node("bare")["url"] == "ssh://b" and node("bare")["state"] == "up", node("bare")
    job = run("exit 3", nodes=["bare"])
    assert ended(job)["exit_code"] == 3, ended(job)
    assert berth("node", "rm", "bare").returncode == 0
    out = berth("node", "add", "b", "--name", "bare", "--set", "conect_timeout=40")
    assert out.returncode != 0 and 'did you mean "connect_timeout"' in out.stderr, out.stderr


def test_bad_requests_say_what_is_wrong():
    setup()
    for body, part in (({"url": "ftp://x"}, "not the address of a node"), ({}, "with a url"),
                       ({"url": "ssh://x", "slot": 1}, "did you mean"), ({"url": "ssh://x", "password": "p"}, "secrets"),
                       ({"url": "ssh://x", "recorded": True, "stage_root": "/x"}, "stage_root: the record of a node cannot hold this key"),
                       ({"url": "ssh://x", "name": "a"}, "already"), ({"url": "ssh://-oProxyCommand=x", "name": "z"}, "dash")):
        status, _, reply = home.request("POST", "/v1/nodes", body)
        assert status in (400, 409, 422) and part in reply.decode(), (body, status, reply)


def test_a_cut_connection_costs_nothing():
    setup()
    host = rig.hosts[0]
    with tempfile.TemporaryDirectory(prefix="berth-cut-") as d:
        go = os.path.join(d, "go")
        job = run(f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo ended", nodes=["a"])
        wait_for(lambda: "begun" in log_of(job), 180)
        host.stop()
        host.cut()
        wait_for(lambda: node("a")["state"] == "away", 180)
        assert home.api("GET", f"/v1/jobs/{job}")["state"] == "running"
        other = run("true", nodes=["a", "b"])
        assert ended(other)["runs"][0]["node"] == "b"
        open(go, "w").close()
        host.start()
        done = ended(job)
        assert done["state"] == "succeeded" and len(done["runs"]) == 1 and log_of(job) == "begun\nended\n"
        wait_for(lambda: node("a")["state"] == "up", 180)


def test_nodes_and_their_runs_outlive_the_daemon():
    setup()
    with tempfile.TemporaryDirectory(prefix="berth-cut-") as d:
        go = os.path.join(d, "go")
        job = run(f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo ended", nodes=["b"])
        wait_for(lambda: "begun" in log_of(job), 180)
        home.kill()
        home.start("--slots", "1")
        assert node("b")["url"] == rig.hosts[1].url
        open(go, "w").close()
        done = ended(job)
        assert done["state"] == "succeeded" and len(done["runs"]) == 1 and log_of(job) == "begun\nended\n", (done, log_of(job))


def test_a_node_with_runs_goes_only_by_force():
    setup()
    wait_for(lambda: node("a")["state"] == "up", 180)
    job = run("sleep 600", nodes=["a"])
    wait_for(lambda: home.api("GET", f"/v1/jobs/{job}")["state"] == "running", 180)
    out = berth("node", "rm", "a")
    assert out.returncode != 0 and "a has 1 run" in out.stderr, out.stderr
    assert berth("node", "rm", "a", "--force").returncode == 0
    done = ended(job)
    assert done["state"] == "lost" and "removed" in json.dumps(done), done
    assert "a" not in [n["name"] for n in home.api("GET", "/v1/nodes")["items"]]


if __name__ == "__main__":
    try:
        ssh_rig.need_sshd()
    except ssh_rig.SshMissing as x:
        print(f"1..0 # SKIP {x}")
        raise SystemExit(0)
    harness.main(__name__)
