"""hyperctl: arguments, batch files and templates: what is accepted, what is refused, and with which words."""
import json
import os
import re
import shutil
from urllib.parse import quote

import harness
from hyper_rig import Place, ask, free_port, job


def test_where_batches_go():
    with Place() as at:
        def run(name, *args, env=(), **more):
            at.ok("run", "-c", at.batch(name, [job("a")], **more), *args, **dict(env))

        run("flag", "--batches-data-dir", "~/f", batches_data_dir="~/g", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("file", batches_data_dir="~/g", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("env", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("rel", "--batches-data-dir", "here")
        for path in ("home/f/flag", "home/g/file", "home/e/env", "here/rel"):
            assert os.path.exists(os.path.join(at.dir, path, "a.succeed")), path
        assert at.ok("batch", "list", "--batches-data-dir", "nowhere") == "null\n"
        os.mkdir(os.path.join(at.dir, "bare"))
        os.mkdir(os.path.join(at.dir, "bare", "foreign"))
        assert at.ok("batch", "list", "--batches-data-dir", "bare") == "empty\n"


def test_environment_of_a_job():
    with Place() as at:
        at.write("assets/dir/deep/f.txt", "deep")
        at.write("assets/one.txt", "one")
        os.makedirs(os.path.join(at.dir, "assets", "dir", "empty"))
        work = os.path.join(at.dir, "work dir")
        os.mkdir(work)
        command = "pwd; echo $SPACED; echo $PATHLIKE; echo $INJECTED; echo \"$TMP\"; test -d \"$TMP\" && echo tmp; echo $INHERITED; " \
                  "echo $NUM $YES; find \"$HYPERCTL_JOB_DATA_DIR/resources\" | sort | sed 's/.*resources//'"
        config = at.batch("env", [job("e", command, working_dir="$HOME/../work dir",
                                      assets=["assets/one.txt", "assets/dir/", "assets/missing"])],
                          backend={"type": "local", "environments": {
                              "SPACED": "two  words", "PATHLIKE": "/opt/x:$PLACE:${PLACE}", "INJECTED": "$(touch x)`touch y`;\"'\\",
                              "NUM": 1.5, "YES": True}})
        p = at.call("run", "-c", config, PLACE="pl ace", INHERITED="in herited")
        assert p.returncode == 0 and "assets/missing not exists, skip to copy" in p.stderr
        lines = at.read("env", "e", "stdout").splitlines()
        assert lines[0] == work, at.read("env", "e", "stderr")
        assert lines[1] == "two words" and lines[2] == "/opt/x:pl ace:pl ace"
        assert lines[3] == "$(touch x)`touch y`;\"'\\"
        assert lines[4] == at.path("env", "e", "tmp") and lines[5] == "tmp"
        assert lines[6] == "in herited" and lines[7] == "1.5 True"
        assert lines[8:] == ["", "/dir", "/dir/deep", "/dir/deep/f.txt", "/dir/empty", "/one.txt"]
        assert not os.path.exists(os.path.join(work, "x")) and not at.exists("env", "e", "tmp")


def test_missing_working_dir_fails_the_job():
    with Place() as at:
        at.ok("run", "-c", at.batch("wd", [job("w", "touch here", working_dir="/no/such/dir")]))
        assert at.exists("wd", "w.failed") and "/no/such/dir" in at.read("wd", "w", "stderr")
        assert not os.path.exists(os.path.join(at.dir, "here"))


def test_data_dir_of_a_job():
    with Place() as at:
        other = os.path.join(at.dir, "ot'her {x} $(id)")
        at.ok("run", "-c", at.batch("dd", [job("d", "echo hi; pwd", data_dir=other, params={"x": 1})]))
        with open(os.path.join(other, "stdout")) as f:
            assert f.read() == f"hi\n{other}\n"
        assert at.exists("dd", "d.succeed")


HELP = """\
usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] [-debug] {run,generate,batch,job} ...

hyperctl command is used to manage jobs

positional arguments:
  {run,generate,batch,job}
    run                 run jobs
    generate            generate specific jobs json file
    batch               batch operations
    job                 job operations

optional arguments:
  -h, --help            show this help message and exit

Console outputs:
  --log-level LOG_LEVEL
                        logging level, default is INFO
  -error                alias of "--log-level=ERROR"
  -warn                 alias of "--log-level=WARN"
  -info                 alias of "--log-level=INFO"
  -debug                alias of "--log-level=DEBUG"
"""
GENERATE_HELP = """\
usage: hyperctl generate [-h] -t TEMPLATE [-o OUTPUT]

optional arguments:
  -h, --help            show this help message and exit
  -t TEMPLATE, --template TEMPLATE
                        template yaml file
  -o OUTPUT, --output OUTPUT
                        output json file
"""
KILL_HELP = """\
usage: hyperctl job kill [-h] -b BATCH_NAME -j JOB_NAME [--batches-data-dir BATCHES_DATA_DIR]

optional arguments:
  -h, --help            show this help message and exit
  -b BATCH_NAME, --batch-name BATCH_NAME
                        batch name
  -j JOB_NAME, --job-name JOB_NAME
                        job name
  --batches-data-dir BATCHES_DATA_DIR
                        batches data dir, default get from environment
                        variable HYPERCTL_BATCHES_DATA_DIR
"""


def test_help_and_usage():
    with Place() as at:
        help_text = at.ok()
        assert help_text == at.ok("-h") == at.ok("--help")
        assert help_text == HELP
        lines = help_text.splitlines()
        for sub in (["run"], ["generate"], ["batch", "list"], ["job", "list"], ["job", "kill"], ["job", "describe"]):
            assert at.ok(*sub, "-h").startswith("usage: hyperctl " + " ".join(sub) + " [-h]")
        assert at.ok("generate", "-h") == GENERATE_HELP and at.ok("job", "kill", "--help") == KILL_HELP
        usage = lines[0]
        assert at.fails("x", status=2) == (f"{usage}\nhyperctl: error: argument operation: invalid choice: 'x' (choose from 'run', "
                                           "'generate', 'batch', 'job')\n")
        assert at.fails("run", status=2).endswith("hyperctl run: error: the following arguments are required: -c/--config\n")
        assert at.fails("job", "kill", status=2).endswith(
            "hyperctl job kill: error: the following arguments are required: -b/--batch-name, -j/--job-name\n")
        assert at.fails("run", "-c", "f", "more", "--strange", status=2) == \
            f"{usage}\nhyperctl: error: unrecognized arguments: more --strange\n"
        assert at.fails("run", "-c", status=2).endswith("hyperctl run: error: argument -c/--config: expected one argument\n")
        assert "unknown batch operation: None" in at.fails("batch", status=2)
        assert "invalid choice: 'x'" in at.fails("job", "x", status=2)
        assert "unrecognized" in at.fails("run", "-c", "f", "-debug", status=2)
        assert at.fails("--log-level", "loud", "run", "-c", "f", status=2)


def test_spellings_of_options():
    with Place() as at:
        config = at.batch("sp", [job("a")])
        for args in (["-c", config], ["-c" + config], ["--config=" + config], ["--conf", config], ["--c=" + config]):
            assert "batch name: sp" in at.ok("run", *args), args
        for level in (["-error"], ["--log-level=ERROR"], ["--log-level", "error"], ["-debug", "--log-level=E"], ["-warn"]):
            assert at.ok(*level, "run", "-c", config) == "", level
        assert at.ok("--version").startswith("hyperctl")


def test_names():
    with Place() as at:
        odd = ["quo'te", 'dou"ble', "$(touch pwned)", "`touch pwned`", "a b", "-dash", "ünï", "semi;colon", "star*", "{brace}",
               "back\\slash", "%41", "#hash", "q?x=1", "$HOME", "x" * 200]
        config = at.batch("od$d 'b\"", [job(n, 'printf %s "$HYPERCTL_JOB_NAME"', params={"brace": 1}) for n in odd] +
                          [{"name": 7, "params": {}, "command": "true"}])
        at.ok("run", "-c", config)
        for n in odd:
            assert at.read("od$d 'b\"", n, "stdout") == n, (n, at.read("od$d 'b\"", n, "stdout"), at.read("od$d 'b\"", n, "stderr"))
        assert at.exists("od$d 'b\"", "7.succeed")
        assert not [f for _, _, fs in os.walk(at.dir) for f in fs if f == "pwned"]
        for n, why in (("a/b", "slash"), ("", "empty"), (".", "directory"), ("..", "directory"), ("new\nline", "control"),
                       ("config", "every batch"), ("server.pid", "every batch"), ("x" * 201, "201 bytes"), (".hyperctl", "every batch")):
            assert why in at.fails("run", "-c", at.batch("bad", [job(n)])), n
            if n not in ("config", "server.pid", ".hyperctl"):
                assert why in at.fails("run", "-c", at.write("n.json", {"name": n, "jobs": []})), n
        assert "status file of job 'a'" in at.fails("run", "-c", at.batch("bad", [job("a"), job("a.succeed")]))
        assert "job a is already exists" in at.fails("run", "-c", at.batch("bad", [job("a"), job("a")]))
        assert not at.exists("bad")


def test_odd_names_over_http():
    with Place() as at:
        port = free_port()
        names = ["a b", "%41", "ünï", "q?x=1#y"]
        at.start(at.batch("http", [job(n, "sleep 600") for n in names], server={"port": port}, backend={"slots": 9}))
        for n in names:
            at.wait_for("http", n + ".running")
            assert json.loads(ask(port, "GET", "/hyperctl/api/job/" + quote(n, safe=""))[2])["data"]["name"] == n
        for n in names:
            assert at.ok("job", "kill", "-b", "http", "-j", n) == json.dumps({"msg": n + " killed"}) + "\n"


def test_mistakes_in_a_batch_file():
    with Place() as at:
        def says(config, *words):
            err = at.fails("run", "-c", at.write("m.json", config))
            assert err.startswith("hyperctl: error: ") and err.count("\n") == 1 and all(w in err for w in words), (config, err)

        good = {"name": "m", "jobs": [job("a")]}
        assert "No such file or directory: 'gone.json'" in at.fails("run", "-c", "gone.json")
        says('{"name": "m",\n "jobs": [}', "m.json:2:11")
        says("[]", "a batch is an object")
        says({"name": "m"}, "jobs is missing")
        says({"name": "m", "jobs": [], "job": []}, "both jobs and job")
        says(dict(good, jobs=[{"name": "a", "params": {}}]), "job 'a' has no command")
        says(dict(good, jobs=[job("a", colour=1)]), "job 'a'", "unexpected keyword argument 'colour'")
        says(dict(good, jobs=[dict(job("a"), params=[])]), "jobs[0].params is a list; write an object")
        says(dict(good, backend={"type": "cloud"}), "unknown backend cloud")
        says(dict(good, backend={"type": "remote"}), "backend.machines is missing")
        says(dict(good, backend={"type": "remote", "machines": [{"connection": {"hostname": "h"}}]}), "username is missing")
        says(dict(good, backend={"type": "remote", "machines": [{"connection": {"hostname": "h", "username": "u", "x": 1}}]}),
             "unexpected keyword argument 'x'")
        says(dict(good, scheduler={"interval": 0}), "must have a positive callback_time")
        says(dict(good, scheduler={"interval": "5"}), "scheduler.interval is a string")
        says(dict(good, backend={"environments": {"A B": 1}}), "'A B' is not a variable name")
        says(dict(good, backend={"environments": {"A": [1]}}), "environments.A")
        says(dict(good, server={"port": 70000}), "server.port must be a whole number from 0 to 65535")
        says(dict(good, server={"host": "192.0.2.1", "port": free_port()}), "192.0.2.1' is not an address of this machine", "server.bind")
        assert not at.exists("m", "config.json")
        p = at.call("run", "-c", at.batch("w", [job("a")], servr={}, scheduler={"intervall": 3}))
        assert p.returncode == 0 and "servr is not a known key and is ignored; did you mean server?" in p.stderr
        assert "scheduler.intervall is not a known key" in p.stderr


def test_passwords_are_kept_nowhere():
    with Place() as at:
        for machine in ({"connection": {"hostname": "no-such-host.invalid", "username": "u", "password": "secret-word"}},
                        {"hostname": "no-such-host.invalid", "username": "u", "password": "secret-word", "port": 2222}):
            config = at.batch("rem", [job("a")], backend={"type": "remote", "machines": [machine]})
            os.chmod(config, 0o644)
            p = at.call("run", "-c", config)
            assert p.returncode == 1 and "chmod 600" in p.stderr, p.stderr
            assert re.search("^hyperctl: error: the only machine cannot be used; no job was run: ", p.stderr, re.M), p.stderr
            os.chmod(config, 0o600)
            p = at.call("run", "-c", config)
            assert "chmod 600" not in p.stderr and "secret-word" not in p.stdout + p.stderr
            for where, _, files in os.walk(at.base):
                for f in files:
                    with open(os.path.join(where, f), errors="replace") as text:
                        assert "secret-word" not in text.read(), f
            shutil.rmtree(at.base)


def test_large_and_deep_files():
    with Place() as at:
        big = os.path.join(at.dir, "big.json")
        with open(big, "w") as f:
            f.write('{"name": "big", "jobs": [')
            for i in range(1000):
                f.write('{"name": "j%d", "params": {"x": "%s"}, "command": "true"},' % (i, "y" * 100_000))
            f.write('{"name": "z", "params": {}, "command": "true"}]}')
        assert os.path.getsize(big) > 100_000_000
        assert "larger than 64" in at.fails("run", "-c", big)
        assert not at.exists("big")
        deep = '{"name": "deep", "jobs": [{"name": "d", "command": "true", "params": {"x": %s}}]}' % ("[" * 100000 + "]" * 100000)
        assert "deep.json:1:" in at.fails("run", "-c", at.write("deep.json", deep))
        template = "params:\n  x: [1]\ncommand: " + "[" * 50000
        assert at.fails("generate", "-t", at.write("deep.yml", template), "-o", "o.json").startswith("hyperctl: error: ")


def test_templates():
    with Place() as at:
        def generated(text):
            out = os.path.join(at.dir, "out.json")
            if os.path.exists(out):
                os.unlink(out)
            at.ok("generate", "-t", at.write("t.yml", text), "-o", out)
            with open(out) as f:
                return f.read()

        def refused(text, *words):
            out = os.path.join(at.dir, "no.json")
            err = at.fails("generate", "-t", at.write("t.yml", text), "-o", out)
            assert all(w in err for w in words) and not os.path.exists(out), err

        text = generated("params:\n  a: [yes, 017, 1_000, 1e3, 1.0e+3, ~, 0o17, 2001-01-01, é]\ncommand: c\nname: n\n")
        batch = json.loads(text)
        assert [j["params"]["a"] for j in batch["jobs"]] == [True, 15, 1000, "1e3", 1000.0, None, "0o17", "2001-01-01", "é"]
        assert text == json.dumps(batch, indent=4) and batch["name"] == "n"
        assert [j["params"] for j in json.loads(generated("params: {}\ncommand: c\n"))["jobs"]] == [{}]
        assert json.loads(generated("params: {a: []}\ncommand: c\n"))["jobs"] == []
        full = json.loads(generated("params: {a: [1]}\ncommand: c\nworking_dir: [/w]\ndata_dir: /d\nresource: {cpu: 1}\nversion: 9\n"
                                    "server: {port: 1}\nscheduler: {interval: 5}\nbackend: {type: local}\nindependent_tmp: false\n"))
        assert list(full) == ["jobs", "name", "version", "server", "scheduler", "backend", "independent_tmp"] and full["version"] == 9
        assert list(full["jobs"][0]) == ["name", "params", "resource", "command", "data_dir", "working_dir"]
        assert full["jobs"][0]["working_dir"] == "/w"
        refused("params: {a: 1}\ncommand: c\n", "Value of param 'a' should be list")
        refused("command: c\n", "params is missing")
        refused("params: {a: [1]}\n", "command is missing")
        refused("params: {a: [.nan]}\ncommand: c\n", "NaN")
        refused("params: {a: [1]}\ncommand: !!python/object/apply:os.system ['touch pwned']\n", "t.yml:2:")
        refused("params: {a: !<tag:yaml.org,2002:python/name:os.system> [1]}\ncommand: c\n", "t.yml:1:")
        refused("params: {%s}\ncommand: c\n" % ", ".join("k%d: [1,2,3,4,5,6,7,8,9,0]" % i for i in range(7)), "more than")
        assert "No such file or directory: 'gone.yml'" in at.fails("generate", "-t", "gone.yml")
        assert not os.path.exists(os.path.join(at.dir, "pwned"))


def test_multi_line_commands_and_exit():
    with Place() as at:
        at.ok("run", "-c", at.batch("ml", [
            job("here", "cat <<X\na $HYPERCTL_JOB_NAME\nX\n# comment {\necho b"), job("exit", "echo a; exit 0; echo never"),
            job("last", "false; true"), job("first", "true; false"), job("syntax", "if then (")]))
        assert at.read("ml", "here", "stdout") == "a here\nb\n" and at.read("ml", "exit", "stdout") == "a\n"
        ended = {n: "succeed" if at.exists("ml", n + ".succeed") else "failed" for n in ("here", "exit", "last", "first", "syntax")}
        assert ended == {"here": "succeed", "exit": "succeed", "last": "succeed", "first": "failed", "syntax": "failed"}


if __name__ == "__main__":
    harness.main("__main__")
