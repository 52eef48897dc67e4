"""The foundations module: configs, bundles, submissions, deployments, reports; against a stand-in server."""

import ast
import contextlib
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "python"))
sys.path[:0] = [PACKAGE, HERE]
os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"  # these tests are no job

import foundations  # noqa: E402
from fake_atlas import FakeAtlas  # noqa: E402
from foundations import _berth, _bundle, _conf, _http, _ignore, _job, _say, _state, _yaml  # noqa: E402

RULE = "=" * 120


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="foundations-py-")
        self.saved = dict(os.environ)
        for key in list(os.environ):
            if key.startswith(("BERTH_", "FOUNDATIONS_")):
                del os.environ[key]
        os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"
        os.environ["FOUNDATIONS_HOME"] = os.path.join(self.tmp, "home")
        self.cwd = os.getcwd()
        self.dir = os.path.join(self.tmp, "project")
        os.mkdir(self.dir)
        os.chdir(self.dir)
        self.atlas = None

    def tearDown(self):
        os.chdir(self.cwd)
        if self.atlas:
            self.atlas.close()
        os.environ.clear()
        os.environ.update(self.saved)
        _say.set_level("INFO")
        _job.current, _job.quiet = None, False
        _state.project_name = _state.num_gpus = _state.ram = None
        shutil.rmtree(self.tmp, ignore_errors=True)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(textwrap.dedent(text))
        return path

    def serve(self, name="scheduler"):
        self.atlas = FakeAtlas()
        self.config(name, "scheduler_url: %s\n" % self.atlas.url)
        return self.atlas

    def config(self, name, text):
        path = os.path.join(os.environ["FOUNDATIONS_HOME"], "config", "submission")
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, name + ".config.yaml"), "w") as f:
            f.write(text)

    def said(self, fn, *args, **kwargs):
        """(result, stdout, stderr)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            result = fn(*args, **kwargs)
        return result, out.getvalue(), err.getvalue()


class TestYaml(unittest.TestCase):
    GOOD = {
        "": None,
        "# nothing\n": None,
        "a: 1\nb: [1, x, \"y\"]\nc: {d: e, f: 1.5}\n": {"a": 1, "b": [1, "x", "y"], "c": {"d": "e", "f": 1.5}},
        "- a\n- b: 1\n  c: 2\n-\n  - x\n": ["a", {"b": 1, "c": 2}, ["x"]],
        "a:\n- 1\n- 2\nb: yes\n": {"a": [1, 2], "b": True},
        "a: |\n  x\n  y\n\nb: >-\n  fold\n  me\n": {"a": "x\ny\n", "b": "fold me"},
        "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n": {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}},
        "x: [\n 1,\n 2 # c\n]\ny: \"a\\n\\u00e9\"\nz: 'it''s'\n": {"x": [1, 2], "y": "a\né", "z": "it's"},
        "u: http://x:5000 # c\nh: 0x1f\no: 017\nn: ~\nm:\ni: on\nk: -0.5\ne: 1e3\n": {
            "u": "http://x:5000", "h": 31, "o": 15, "n": None, "m": None, "i": True, "k": -0.5, "e": "1e3"},
        "a: one\n  two\nb: a#b\n": {"a": "one two", "b": "a#b"},
        "--- \na: 1\n...\n": {"a": 1},
    }
    BAD = {
        "a:\n\tb: 1\n": "f:2: a tab cannot indent",
        "a: 1\na: 2\n": "f:2: key \"a\" is given twice",
        "a: b: c\n": "f:1:",
        "ok: 1\na: \"x\n": "f:2: this text has no end",
        "a: [1, 2\n": "f:1:",
        "a: 1\n b: 2\n": "f:2: this line is indented too far",
        "a: !!python/object:os.system x\n": "f:1: tags are not known",
        "a: *x\n": "f:1: alias *x names no anchor",
        "a: 1\n---\nb: 2\n": "f:2: a second document",
        "a: - b\n": "f:1: a list cannot start here",
        "[" * 100 + "]" * 100: "nested too deep",
    }

    def test_reads_what_configs_are_written_in(self):
        for text, value in self.GOOD.items():
            with self.subTest(text):
                self.assertEqual(_yaml.load(text, "f"), value)

    def test_refuses_the_rest_with_file_and_line(self):
        for text, start in self.BAD.items():
            with self.subTest(text[:40]):
                with self.assertRaises(_yaml.YamlError) as caught:
                    _yaml.load(text, "f")
                self.assertIn(start, str(caught.exception))

    def test_laughs_at_a_billion(self):
        text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
            "a%d: &a%d [%s]\n" % (i, i, ", ".join(["*a%d" % (i - 1)] * 9)) for i in range(1, 12))
        with self.assertRaises(_yaml.YamlError):
            _yaml.load(text, "f")

    def test_agrees_with_pyyaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        for text in self.GOOD:
            with self.subTest(text):
                self.assertEqual(_yaml.load(text, "f"), yaml.safe_load(text))


class TestOldPythons(unittest.TestCase):
    def test_needs_nothing_newer_than_3_6(self):
        """The worker images of old have Python 3.6; what travels in a bundle must compile there."""
        files = glob.glob(os.path.join(PACKAGE, "foundations", "*.py"))
        files += [os.path.join(PACKAGE, "berth", name) for name in ("_spool.py", "_http.py")]
        self.assertGreater(len(files), 10)
        for path in files:
            with open(path, encoding="utf-8") as f:
                ast.parse(f.read(), path, feature_version=(3, 6))


class TestIgnore(unittest.TestCase):
    def test_follows_gitignore(self):
        ig = _ignore.Ignore("# c\n*.pyc\n/build\ndata/*.bin\n!data/keep.bin\nlogs/\n**/tmp\na/**/z\n[ab]?.txt\n\\#x\n")
        for path, is_dir, out in (
            ("x.pyc", False, True), ("d/x.pyc", False, True), ("build", True, True), ("d/build", True, False),
            ("data/a.bin", False, True), ("data/keep.bin", False, False), ("data/s/a.bin", False, False),
            ("logs", True, True), ("logs", False, False), ("q/tmp", True, True), ("tmp", False, True),
            ("a/z", False, True), ("a/b/c/z", False, True), ("a1.txt", False, True), ("c1.txt", False, False),
            ("#x", False, True), ("x.py", False, False),
        ):
            with self.subTest(path):
                self.assertEqual(ig.match(path, is_dir), out)


class TestConfig(Case):
    def test_makes_the_home_and_leaves_it_alone(self):
        _conf.make_home()
        path = os.path.join(_conf.home(), "config", "submission", "scheduler.config.yaml")
        self.assertEqual(_conf.submission("scheduler", self.dir)["scheduler_url"], "http://localhost:5000")
        with open(path, "w") as f:
            f.write("scheduler_url: http://elsewhere:1\n")
        _conf.make_home()
        self.assertEqual(_conf.submission("scheduler", self.dir)["scheduler_url"], "http://elsewhere:1")

    def test_looks_beside_the_job_first(self):
        self.config("x", "scheduler_url: http://home:1\n")
        self.write("config/submission/x.config.yaml", "scheduler_url: http://here:1\n")
        self.assertEqual(_conf.submission("x", self.dir)["scheduler_url"], "http://here:1")
        self.assertEqual(_conf.submission("x", self.tmp)["scheduler_url"], "http://home:1")
        for name in ("y", "../x", ""):
            with self.assertRaises(_conf.ConfigError) as caught:
                _conf.submission(name, self.dir)
            self.assertEqual(str(caught.exception), "Could not find submission configuration with name: `%s`" % name)

    def test_reads_memory(self):
        for value, want in ((4, 4 << 30), (0.5, 1 << 29), (1048576, 1048576), ("512m", 512 << 20), ("2g", 2 << 30),
                            ("2GB", 2 << 30), ("4", 4 << 30)):
            self.assertEqual(_conf.ram_bytes(value), want)
        for bad in (0, -1, "x", "0", None, True, [], float("nan")):
            with self.assertRaises(_conf.ConfigError):
                _conf.ram_bytes(bad)

    def test_knows_the_standard_worker(self):
        for name in ("us.gcr.io/atlas-ce/worker:latest", "atlas-ce/worker", "x/dessa-atlas/worker-gpu:1.0"):
            self.assertTrue(_conf.STANDARD_IMAGE.search(name), name)
        for name in ("python:3", "my-atlas-ce/worker", "atlas-ce/worker2", "myCustomWorker:latest"):
            self.assertFalse(_conf.STANDARD_IMAGE.search(name), name)


class TestSubmit(Case):
    def submit(self, **kwargs):
        return self.said(foundations.submit, **kwargs)

    def test_sends_the_directory_as_it_is(self):
        atlas = self.serve()
        self.write("main.py", "print(1)\n")
        self.write(".hidden/.git/x", "h")
        self.write("job.config.yaml", "log_level: INFO\n")
        os.symlink("main.py", os.path.join(self.dir, "link"))
        os.symlink("/nonexistent", os.path.join(self.dir, "dangling"))
        os.mkfifo(os.path.join(self.dir, "pipe"))
        os.chmod(os.path.join(self.dir, "main.py"), 0o755)
        d, out, err = self.submit(command=["main.py", "--x", "-1"])
        files = atlas.files(d.job_name())
        top = d.job_name() + "/"
        self.assertTrue(all(n == d.job_name() or n.startswith(top) for n in files))
        self.assertEqual(files[top + "job_source/main.py"], b"print(1)\n")
        self.assertEqual(files[top + "job_source/.hidden/.git/x"], b"h")
        self.assertEqual(files[top + "job_source/link"], "main.py")
        self.assertEqual(files[top + "job_source/dangling"], "/nonexistent")
        self.assertEqual(files[top + "job.config.yaml"], b"log_level: INFO\n")
        self.assertIn(b"export FOUNDATIONS_PROJECT_NAME=project\n", files[top + "run.env"])
        self.assertIn(top + "foundations/__init__.py", files)
        self.assertIn(top + "berth/_spool.py", files)
        self.assertNotIn(top + "job_source/pipe", files)
        self.assertFalse([n for n in files if "__pycache__" in n and "/foundations/" in n])
        job = atlas.jobs[d.job_name()]
        self.assertEqual(job["spec"], {"command": ["main.py", "--x", "-1"]})
        self.assertEqual(job["metadata"], {"project_name": "project", "username": "CE User"})
        self.assertEqual(job["gpu_spec"], {"num_gpus": 0})
        lines = [line for line in out.splitlines() if "pipe" not in line]
        self.assertEqual(lines, [
            "Foundations INFO: Job submission started. Ctrl-C to cancel.",
            "Foundations INFO: Preparing to bundle contents of %s for execution. Estimating bundle size."
            % os.path.realpath(self.dir),
            "Foundations INFO: Bundling job contents.",
            "Foundations INFO: Job submitted with ID '%s'." % d.job_name(),
        ])

    def test_params_travel_in_the_bundle_only(self):
        atlas = self.serve()
        self.write("main.py", "")
        self.write("foundations_job_parameters.json", '{"old": 1}')
        d, _, _ = self.submit(command="main.py", params={"lr": 0.1, "layers": [1, 2]})
        name = d.job_name() + "/job_source/foundations_job_parameters.json"
        self.assertEqual(json.loads(atlas.files(d.job_name())[name].decode()), {"lr": 0.1, "layers": [1, 2]})
        with open("foundations_job_parameters.json") as f:
            self.assertEqual(f.read(), '{"old": 1}')
        d, _, _ = self.submit(command="main.py")
        self.assertEqual(atlas.files(d.job_name())[d.job_name() + "/job_source/foundations_job_parameters.json"],
                         b'{"old": 1}')

    def test_arguments_win_over_the_config(self):
        atlas = self.serve()
        self.config("scheduler", """scheduler_url: %s
worker:
  image: base:1
  volumes: {/a: {bind: /b, mode: rw}}
  environment: {A: 1, B: x}
""" % atlas.url)
        self.write("main.py", "")
        self.write("job.config.yaml", """\
            project_name: from-config
            num_gpus: 1
            ram: 2
            entrypoint: python
            params: {p: 1}
            worker:
              image: mine:2
              environment: {C: true, D: 5}
            """)
        d, out, _ = self.submit(command=["x", "y"])
        job = atlas.jobs[d.job_name()]
        self.assertEqual(job["metadata"]["project_name"], "from-config")
        self.assertEqual(job["gpu_spec"], {"num_gpus": 1})
        self.assertEqual(job["spec"], {
            "image": "mine:2", "volumes": {"/a": {"bind": "/b", "mode": "rw"}}, "entrypoint": ["python"],
            "environment": {"C": "True", "D": "5"}, "mem_limit": 2 << 30, "command": ["x", "y"],
        })
        self.assertNotIn("WARNING", out)  # an image of one's own may have any command
        d, _, _ = self.submit(command=["main.py"], project_name="p", num_gpus=0, ram=0.5, entrypoint=["sh", "-c"],
                              params={"q": 2})
        job = atlas.jobs[d.job_name()]
        self.assertEqual(job["metadata"]["project_name"], "p")
        self.assertEqual(job["gpu_spec"], {"num_gpus": 0})
        self.assertEqual((job["spec"]["mem_limit"], job["spec"]["entrypoint"]), (1 << 29, ["sh", "-c"]))
        foundations.set_project_name("state")
        foundations.set_job_resources(2, 3)
        d, _, _ = self.submit(command=["main.py"])
        job = atlas.jobs[d.job_name()]
        self.assertEqual((job["metadata"]["project_name"], job["gpu_spec"]["num_gpus"]), ("state", 2))

    def test_warns_and_goes_on(self):
        atlas = self.serve()
        self.write("job.config.yaml", "projct_name: x\nworker:\n  imag: y\n")
        d, out, _ = self.submit(command=["nothing.py"])
        self.assertIn("projct_name is no known key and is ignored; did you mean 'project_name'?", out)
        self.assertIn("worker.imag is no known key", out)
        self.assertIn("Foundations WARNING: `nothing.py`, the first word of the command, is not a file", out)
        d, out, _ = self.submit()
        self.assertIn("Foundations WARNING: No command was specified.\n", out)
        self.assertEqual(len(atlas.jobs), 2)

    def test_refuses_before_anything_is_sent(self):
        atlas = self.serve()
        self.write("main.py", "")
        for text, words in (
            ("worker:\n\timage: x\n", "job.config.yaml:2: a tab cannot indent"),
            ("num_gpus: many\n", "num_gpus must be a whole number"),
            ("worker: [1]\n", "worker must be an object"),
            ("worker: {volumes: {/a: /b}}\n", "worker.volumes./a needs bind"),
            ("worker: {environment: {A: [1]}}\n", "worker.environment"),
            ("ram: -1\n", "invalid RAM"),
            ("num_gpus: -1\n", "invalid number of GPUs"),
            ("a: [\n", "job.config.yaml:1:"),
            ("just text\n", "job.config.yaml:1:"),
        ):
            self.write("job.config.yaml", text)
            with self.subTest(text):
                with self.assertRaises(_conf.ConfigError) as caught:
                    self.submit(command=["main.py"])
                self.assertIn(words, str(caught.exception))
        self.write("job.config.yaml", "")
        for kwargs in ({"num_gpus": -1}, {"num_gpus": 1.5}, {"ram": 0}, {"job_directory": "/nonexistent"}):
            with self.assertRaises(_conf.ConfigError):
                self.submit(command=["main.py"], **kwargs)
        with self.assertRaises(TypeError):
            self.submit(comand=["main.py"])
        self.assertEqual((atlas.bundles, atlas.jobs), ({}, {}))
        self.assertEqual(os.listdir(self.dir), os.listdir(self.dir))

    def test_leaves_nothing_when_it_fails(self):
        atlas = self.serve()
        self.write("main.py", "")
        atlas.refuse["/queued_jobs"] = (400, "no room today")
        with self.assertRaises(_http.Refused) as caught:
            self.submit(command=["main.py"])
        self.assertIn("no room today", str(caught.exception))
        self.assertEqual(atlas.bundles, {})
        atlas.refuse = {"/job_bundle": (413, "too large")}
        with self.assertRaises(_http.Refused):
            self.submit(command=["main.py"])
        atlas.close()
        self.atlas = None
        with self.assertRaises(ConnectionError) as caught:
            self.submit(command=["main.py"])
        self.assertTrue(str(caught.exception).startswith("Cannot currently find Atlas server"))
        self.assertIn("atlas-server start", str(caught.exception))

    def test_from_many_threads(self):
        atlas = self.serve()
        ids, errors = [], []

        def one(i):
            path = os.path.join(self.tmp, "t%d" % i)
            os.mkdir(path)
            with open(os.path.join(path, "main.py"), "w") as f:
                f.write(str(i))
            try:
                for _ in range(3):
                    d = foundations.submit(job_dir=path, command=["main.py"], params={"i": i})
                    ids.append((i, d.job_name()))
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
        with contextlib.redirect_stdout(io.StringIO()):
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(errors, [])
        self.assertEqual(len(set(ids)), 24)
        for i, job_id in ids:
            files = atlas.files(job_id)
            self.assertEqual(files[job_id + "/job_source/main.py"], str(i).encode())
            self.assertEqual(json.loads(files[job_id + "/job_source/foundations_job_parameters.json"].decode()), {"i": i})

    def test_ignores_what_it_is_told_to(self):
        atlas = self.serve()
        self.write(".foundationsignore", "*.bin\n/data/\n")
        self.write("main.py", "")
        self.write("big.bin", "x" * 1000)
        self.write("data/y", "y")
        self.assertLess(_bundle.estimate(self.dir), 100)
        d, _, _ = self.submit(command=["main.py"])
        names = [n.partition("/job_source/")[2] for n in atlas.files(d.job_name()) if "/job_source/" in n]
        self.assertEqual(sorted(names), [".foundationsignore", "main.py"])

    def test_says_when_a_directory_is_large(self):
        self.serve()
        self.write("main.py", "")
        with open("big", "wb") as f:
            f.truncate(51 << 20)
        _, out, _ = self.submit(command=["main.py"])
        self.assertIn("Foundations WARNING: Directory size is larger than 50MB! ", out)
        self.assertIn("Ctrl-C", out.split("50MB!")[1])

    def test_streams_the_log(self):
        atlas = self.serve()
        self.write("main.py", "")

        def drive():
            job = atlas.wait_job()
            atlas.run(job, (RULE + "\nNo user requirements found.\n").encode())
            atlas.end(job, "completed", (RULE + "\nno newline \xff").encode("latin-1"))

        threading.Thread(target=drive, daemon=True).start()
        d, out, _ = self.submit(command=["main.py"], stream_job_logs=True)
        self.assertEqual(out.splitlines()[3:], [
            "Foundations INFO: Job submitted with ID '%s'." % d.job_name(),
            "Foundations INFO: Job queued. Ctrl-C to stop streaming - job will not be interrupted or cancelled.",
            "Foundations INFO: Job running, streaming logs.",
            RULE, "No user requirements found.", RULE, "no newline \ufffd",
            "Foundations INFO: Job '%s' has completed." % d.job_name(),
        ])
        os.environ["DISABLE_LOG_STREAMING"] = "True"
        _, out, _ = self.submit(command=["main.py"], stream_job_logs=True)
        self.assertEqual(len(out.splitlines()), 4)

    def test_says_once_that_the_archive_waits(self):
        atlas = self.serve()
        self.write("main.py", "")

        def drive():
            job = atlas.wait_job()
            atlas.run(job, b"one\n")
            with atlas.changed:
                atlas.jobs[job]["reason"] = "its archive waits for space on the disk"
                atlas.asked = 0
                atlas.changed.notify_all()
                atlas.changed.wait_for(lambda: atlas.asked > 3)  # it was told several times
                atlas.jobs[job]["reason"] = None
            atlas.end(job, "completed", b"")

        threading.Thread(target=drive, daemon=True).start()
        d, out, _ = self.submit(command=["main.py"], stream_job_logs=True)
        self.assertEqual(out.splitlines()[-3:], [
            "one", "Foundations WARNING: Job '%s': its archive waits for space on the disk" % d.job_name(),
            "Foundations INFO: Job '%s' has completed." % d.job_name(),
        ])

    def test_other_log_levels_have_another_form(self):
        self.serve()
        self.write("main.py", "")
        self.write("job.config.yaml", "log_level: WARNING\n")
        _, out, _ = self.submit(command=["main.py"])
        self.assertEqual(out, "")
        _, out, _ = self.submit(command=["nothing.py"])
        self.assertRegex(out, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - foundations - WARNING - `nothing.py`")
        with open(os.path.join(_conf.home(), "logs", "system.log")) as f:
            self.assertIn(" - INFO - Job submission started.", f.read())


class TestDeployment(Case):
    def deployed(self):
        atlas = self.serve()
        self.write("main.py", "")
        d, _, _ = self.said(foundations.submit, command=["main.py"])
        return atlas, d

    def test_tells_the_state(self):
        atlas, d = self.deployed()
        job = atlas.jobs[d.job_name()]
        for true, folded, done in (("queued", "queued", False), ("pending", "queued", False),
                                   ("running", "running", False), ("completed", "completed", True),
                                   ("failed", "completed", True)):
            job["status"] = true
            self.assertEqual((d.get_true_job_status(), d.get_job_status(), d.is_job_complete()), (true, folded, done))
        del atlas.jobs[d.job_name()]
        self.assertIsNone(d.get_job_status())

    def test_waits_and_tells_results(self):
        atlas, d = self.deployed()
        threading.Timer(0.2, lambda: atlas.run(d.job_name(), b"one\ntwo")).start()
        threading.Timer(0.4, lambda: atlas.end(d.job_name(), "failed")).start()
        _, out, _ = self.said(d.wait_for_deployment_to_complete, wait_seconds=0.05)
        self.assertIn("Foundations INFO: Job '%s' is running; waiting for it to complete." % d.job_name(), out)
        self.assertTrue(out.endswith("Foundations INFO: Job '%s' has failed.\n" % d.job_name()))
        self.assertEqual(list(d.stream_job_logs()), ["one", "two"])
        self.assertEqual(d.get_job_logs(), "one\ntwo")
        atlas.listings["project"] = [{
            "job_id": d.job_name(), "project": "project", "user": "u", "status": "failed", "start_time": "t",
            "completed_time": "t", "creation_time": "t", "tags": {"a": "b"},
            "job_parameters": [{"name": "lr", "value": 0.1, "type": "number"}],
            "output_metrics": [{"name": "loss", "value": [3, 2, 1], "type": "array"},
                               {"name": "acc", "value": 0.9, "type": "number"}],
        }]
        self.assertEqual((d.get_metric("loss"), d.get_metric("acc"), d.get_param("lr")), (1, 0.9, 0.1))
        with self.assertRaises(KeyError):
            d.get_metric("nothing")
        details = d.get_job_details()
        self.assertEqual(list(details), ["project_name", "job_id", "user", "status", "start_time", "completed_time",
                                         "creation_time", "tags", "parameters", "metrics"])
        self.assertEqual(details["tags"], ["a"])


class TestMetricsOfAllJobs(Case):
    def test_is_a_table(self):
        atlas = self.serve()
        atlas.listings["p"] = [
            {"job_id": "1", "project": "p", "tags": {"k": "v"}, "job_parameters": [{"name": "x", "value": 1}],
             "output_metrics": [{"name": "m", "value": [1, 2]}]},
            {"job_id": "2", "project": "p", "tags": {}, "job_parameters": [], "output_metrics": []},
        ]
        rows = foundations.get_metrics_for_all_jobs("p", as_dicts=True)
        self.assertEqual([(r["job_id"], r.get("x"), r.get("m"), r.get("tag_k")) for r in rows],
                         [("1", 1, 2, "v"), ("2", None, None, None)])
        with self.assertRaises(ValueError):
            foundations.get_metrics_for_all_jobs("nothing", as_dicts=True)
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaises(ImportError):
                foundations.get_metrics_for_all_jobs("p")
        else:
            self.assertEqual(list(foundations.get_metrics_for_all_jobs("p")["job_id"]), ["1", "2"])


class Spool:
    """The real one, over a file that is read back."""

    def __init__(self, tmp):
        run_dir = tempfile.mkdtemp(dir=tmp)
        self.path = os.path.join(run_dir, "spool.jsonl")
        self.real = _berth.spool_module().Spool({"BERTH_JOB_ID": "me", "BERTH_RUN": "1.1", "BERTH_RUN_DIR": run_dir})

    @property
    def lines(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as f:
            return [json.loads(line) for line in f]


class TestReports(Case):
    def setUp(self):
        super().setUp()
        self.spool = Spool(self.tmp)
        self.archive = os.path.join(self.tmp, "job_data", "archive", "me")
        _job.current = _job.Job("me", "project", self.spool.real, _job.LocalFiles(self.archive))

    def points(self):
        return [(r["n"], r["v"], r["s"]) for r in self.spool.lines if r["k"] == "m"]

    def test_metrics(self):
        foundations.log_metric("loss", 0.5)
        foundations.log_metric("loss", [1, "two", 3.5])
        foundations.log_metric("acc", 1, step=10)
        foundations.log_metric("acc", [5, 6], step=20)
        foundations.log_metric("bad", float("nan"))
        foundations.log_metric("bad", float("-inf"))
        foundations.log_metric("flag", True)
        foundations.log_metrics({"a": 1, "b": 2})
        foundations.log_metrics("c", 3)
        self.assertEqual(self.points(), [
            ("loss", 0.5, 0), ("loss", 1, 1), ("loss", "two", 2), ("loss", 3.5, 3), ("acc", 1, 10), ("acc", 5, 20),
            ("acc", 6, 21), ("bad", "nan", 0), ("bad", "-inf", 1), ("flag", 1, 0), ("a", 1, 0), ("b", 2, 0), ("c", 3, 0),
        ])

    def test_scalars_of_other_libraries(self):
        class Scalar:
            def item(self):
                return 0.25

        class Vector:
            def item(self):
                raise ValueError("more than one")

        foundations.log_metric("x", Scalar())
        self.assertEqual(self.points(), [("x", 0.25, 0)])
        with self.assertRaises(TypeError):
            foundations.log_metric("x", Vector())

    def test_what_is_wrong_is_raised(self):
        with self.assertRaises(ValueError):
            foundations.log_metric(5, 1)
        for value in ({}, None, object(), [1, {}], [[1]], b"x"):
            with self.assertRaises(TypeError) as caught:
                foundations.log_metric("key", value)
            self.assertIn('"key"', str(caught.exception))
            self.assertIn(str(type(value)), str(caught.exception))
        with self.assertRaises(TypeError) as caught:
            foundations.log_metric("key", {"x" * 100: 1})
        self.assertNotIn("x" * 31, str(caught.exception))
        self.assertEqual(self.spool.lines, [])

    def test_parameters_are_flat(self):
        foundations.log_params({"a": {"b": 1, "c": [2, {"d": 3}]}, "e": [], "f": {}, "g": None, "h": "text"})
        foundations.log_param("z", 9)
        self.assertEqual({r["n"]: r["x"] for r in self.spool.lines if r["k"] == "p"}, {
            "a_b": 1, "a_c_0": 2, "a_c_1_d": 3, "e": None, "f": None, "g": None, "h": "text", "z": 9})

    def test_tags(self):
        foundations.set_tag("a")
        foundations.set_tag("b", 1)
        _, _, err = self.said(foundations.set_tag, "b", 2)
        self.assertIn("Foundations WARNING: Tag `b` updated from `1` to `2`", err)
        foundations.set_tags(["c", "d"])
        foundations.set_tags({"e": "f"})
        self.assertEqual([(r["n"], r["x"]) for r in self.spool.lines],
                         [("a", ""), ("b", "1"), ("b", "2"), ("c", ""), ("d", ""), ("e", "f")])

    def test_artifacts_are_copied_now(self):
        self.write("plot.png", "one")
        self.write("sub/plot.png", "two")
        foundations.save_artifact("plot.png")
        foundations.save_artifact("sub/plot.png", key="other")
        self.write("plot.png", "three")
        kept = os.path.join(self.archive, "user_artifacts")
        self.assertEqual(sorted(os.listdir(kept)), ["plot.png", "plot_1.png"])
        with open(os.path.join(kept, "plot.png")) as f:
            self.assertEqual(f.read(), "one")
        _, _, err = self.said(foundations.save_artifact, "plot.png")
        self.assertIn("already exists, overwriting", err)
        with open(os.path.join(kept, "plot.png")) as f:
            self.assertEqual(f.read(), "three")
        self.assertEqual([(r["n"], os.path.basename(r["x"])) for r in self.spool.lines],
                         [("plot.png", "plot.png"), ("other", "plot_1.png"), ("plot.png", "plot.png")])
        with self.assertRaises(FileNotFoundError):
            foundations.save_artifact("nothing")

    def test_syncable_directories(self):
        self.write("out/a", "1")
        self.write("out/deep/b", "2")
        d = foundations.create_syncable_directory("results", "out")
        self.assertEqual(str(d), os.path.join(os.path.realpath(self.dir), "out")
                         if str(d).startswith("/private") else os.path.abspath("out"))
        d.upload()
        top = os.path.join(self.archive, "synced_directories", "results")
        with open(os.path.join(top, "deep", "b")) as f:
            self.assertEqual(f.read(), "2")
        _job.current = _job.Job("next", "project", self.spool.real, _job.LocalFiles(
            os.path.join(os.path.dirname(self.archive), "next")))
        there = foundations.artifacts.create_syncable_directory("results", source_job_id="me")
        with open(os.path.join(str(there), "a")) as f:
            self.assertEqual(f.read(), "1")
        with open(os.path.join(str(there), "a"), "w") as f:
            f.write("mine is newer")
        there.download()
        with open(os.path.join(str(there), "a")) as f:
            self.assertEqual(f.read(), "mine is newer")
        shutil.rmtree(str(there))
        for bad in ("../x", "", "a/b", 5, ".x"):
            with self.assertRaises(ValueError):
                foundations.create_syncable_directory(bad)

    def test_tensorboard(self):
        self.write("tb/events", "e")
        foundations.set_tensorboard_logdir("tb")
        foundations.artifacts.finish()
        self.assertTrue(os.path.exists(os.path.join(self.archive, "synced_directories", "__tensorboard__", "events")))
        self.assertEqual([(r["k"], r["n"]) for r in self.spool.lines], [("t", "tf")])
        del foundations.artifacts._boards[:]


class TestParameters(Case):
    def test_loads(self):
        self.assertEqual(foundations.load_parameters(), {})
        self.write("foundations_job_parameters.json", "")
        self.assertEqual(foundations.load_parameters(), {})
        self.write("foundations_job_parameters.json", '{"a": [1, 2], "s": "x,}"}')
        self.assertEqual(foundations.load_parameters(), {"a": [1, 2], "s": "x,}"})

    def test_overlooks_a_comma_with_a_warning(self):
        self.write("foundations_job_parameters.json", """\
            {
                "epochs": 6,
                "batch_size": 64,
                "layer_shapes": [128, 256, 192, 128],
                "text": "a, }",
                "early_stopping_tolerance": 0.01,
            }
            """)
        found, _, err = self.said(foundations.load_parameters)
        self.assertEqual(found, {"epochs": 6, "batch_size": 64, "layer_shapes": [128, 256, 192, 128], "text": "a, }",
                                 "early_stopping_tolerance": 0.01})
        self.assertIn("Foundations WARNING: ", err)
        with self.assertRaises(KeyError):
            found["learning_rate"]
        self.write("foundations_job_parameters.json", "{broken")
        with self.assertRaises(ValueError):
            foundations.load_parameters()

    def test_are_logged_when_loaded(self):
        spool = Spool(self.tmp)
        _job.current = _job.Job("me", "p", spool.real, None)
        self.write("foundations_job_parameters.json", '{"a": {"b": 1}}')
        foundations.load_parameters(log_parameters=False)
        self.assertEqual(spool.lines, [])
        foundations.load_parameters()
        self.assertEqual([(r["n"], r["x"]) for r in spool.lines], [("a_b", 1)])

    def test_draws(self):
        space = {"epochs": {"min": 5, "max": 40}, "rate": {"min": 0.1, "max": 0.2}, "tolerance": 0.01,
                 "layer_shapes": {"min": 256, "max": 768, "count_min": 1, "count_max": 3}, "batch_size": [64, 128]}
        one = foundations.parameters.sample(space, seed=3)
        self.assertEqual(one, foundations.parameters.sample(space, seed=3))
        for seed in range(50):
            p = foundations.parameters.sample(space, seed)
            self.assertIsInstance(p["epochs"], int)
            self.assertTrue(5 <= p["epochs"] <= 40 and 0.1 <= p["rate"] <= 0.2 and p["batch_size"] in (64, 128))
            self.assertTrue(1 <= len(p["layer_shapes"]) <= 3 and all(256 <= v <= 768 for v in p["layer_shapes"]))
            self.assertEqual(p["tolerance"], 0.01)
        p = foundations.parameters.generate_random_parameters(
            {"a": {"min": 1, "max": 2}, "b": {"min": 1, "max": 2, "min_count": 2, "max_count": 2}, "c": [1, 2], "d": 5})
        self.assertIsInstance(p["a"], float)
        self.assertEqual((len(p["b"]), p["c"], p["d"]), (2, [1, 2], 5))


class TestImport(Case):
    def python(self, text, *args, **env):
        self.write("script.py", text)
        full = {k: v for k, v in os.environ.items() if k != "FOUNDATIONS_COMMAND_LINE"}
        full.update(PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", TMPDIR=self.tmp, **env)
        p = subprocess.Popen([sys.executable, *(args or ("script.py",))], env=full, cwd=self.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        out, err = p.communicate(timeout=120)
        return p.returncode, out, err

    def test_command_line_mode_is_silent(self):
        for value in ("True", "true", "1"):
            code, out, err = self.python("import foundations\nprint('fine')\n", FOUNDATIONS_COMMAND_LINE=value)
            self.assertEqual((code, out, err), (0, "fine\n", ""))

    def test_outside_a_job_one_warning(self):
        code, out, err = self.python("""\
            import foundations
            for i in range(3):
                foundations.log_metric("a", i)
                foundations.log_param("b", i)
                foundations.set_tag("c")
            foundations.save_artifact("script.py")
            foundations.save_artifact("script.py")
            print("fine")
            """, FOUNDATIONS_COMMAND_LINE="True")
        self.assertEqual((code, out), (0, "fine\n"))
        self.assertEqual(err.splitlines(), ["Foundations WARNING: Script not run with Foundations."]
                         + ["Foundations WARNING: Cannot save artifact outside of job."] * 2)

    def test_without_a_server_one_warning(self):
        code, out, err = self.python("""\
            import foundations
            foundations.log_params({"a": 1})
            foundations.log_metric("b", 1)
            foundations.save_artifact("script.py")
            print("fine")
            """)
        self.assertEqual((code, out), (0, "fine\n"), err)
        self.assertEqual(len([l for l in err.splitlines() if "WARNING" in l]), 1, err)

    def tracked(self):
        atlas = self.serve()
        path = os.path.join(os.environ["FOUNDATIONS_HOME"], "config", "execution")
        os.makedirs(path)
        with open(os.path.join(path, "default.config.yaml"), "w") as f:
            f.write("results_config: {tracker_url: '%s', redis_end_point: 'redis://x:1'}\n" % atlas.url)
        return atlas

    def test_execution_mode_is_a_job(self):
        atlas = self.tracked()
        self.write("keep.txt", "k")
        self.write(".foundationsignore", "*.bin\n")
        self.write("big.bin", "b")
        atlas.files_of["other"] = {"synced_directories/s/a": b"from another"}
        code, out, err = self.python("""\
            import os, subprocess, sys
            import foundations
            foundations.log_params({"lr": 0.1})
            foundations.log_metric("loss", 0.5)
            foundations.save_artifact("keep.txt", key="K")
            d = foundations.create_syncable_directory("s", source_job_id="other")
            print(open(os.path.join(str(d), "a")).read())
            d.upload()
            subprocess.check_call([sys.executable, "-c", "import foundations; foundations.log_metric('child', 1.5)"])
            """)
        self.assertEqual((code, out, err), (0, "from another\n", ""))
        told, = atlas.outsiders
        self.assertEqual((told["project"], told["name"]), ("project", "script.py"))
        lines = [json.loads(line) for line in atlas.reported.decode().splitlines()]
        self.assertEqual([(r["k"], r.get("n")) for r in lines],
                         [("p", "lr"), ("m", "loss"), ("a", "K"), ("m", "child"), ("x", None)])
        self.assertEqual(lines[-1]["v"], 0)
        kept = atlas.files_of[told["id"]]
        self.assertEqual((kept["user_artifacts/keep.txt"], kept["synced_directories/s/a"]), (b"k", b"from another"))
        self.assertEqual(kept["artifacts/keep.txt"], b"k")
        self.assertIn("artifacts/script.py", kept)
        self.assertNotIn("artifacts/big.bin", kept)

    def test_execution_mode_tells_of_a_failure(self):
        atlas = self.tracked()
        code, _, err = self.python("import foundations\nraise ValueError('broken')\n", PROJECT_NAME="mine")
        self.assertEqual(code, 1)
        self.assertIn("ValueError: broken", err)
        self.assertNotIn("Foundations", err)
        last = json.loads(atlas.reported.decode().splitlines()[-1])
        self.assertEqual((last["k"], last["v"], last["x"]), ("x", 1, "ValueError: broken"))
        self.assertEqual(atlas.outsiders[0]["project"], "mine")

    def test_a_server_that_leaves_is_one_warning(self):
        atlas = self.tracked()
        code, out, err = self.python("""\
            import foundations, foundations._execution
            foundations._execution.FLUSH_S = 0.5

            def gone(chunk):
                raise ConnectionError("gone")

            foundations._job.current.spool._post = gone
            for i in range(1000):
                foundations.log_metric("loss", float(i))
            print("fine")
            """)
        self.assertEqual((code, out), (0, "fine\n"), err)
        self.assertIn("the last reports of this script did not reach the server", err)
        self.assertEqual(len(atlas.outsiders), 1)

    def test_dash_m_is_no_job(self):
        code, out, err = self.python("import foundations\nprint('fine')\n", "-m", "script")
        self.assertEqual((code, out, err), (0, "fine\n", ""))

    def test_in_a_scheduled_job_it_is_silent(self):
        run_dir = os.path.join(self.tmp, "1.1")
        os.mkdir(run_dir)
        archive = os.path.join(self.tmp, "archive")
        os.mkdir(archive)
        code, out, err = self.python("""\
            import foundations
            foundations.log_params({"lr": 0.1})
            for i in range(100):
                foundations.log_metric("loss", i)
            foundations.set_tag("t", "v")
            foundations.save_artifact("script.py", key="code")
            """, BERTH_JOB_ID="01h8xv5q3r000000000000abcd", BERTH_RUN="1.1", BERTH_RUN_DIR=run_dir,
            BERTH_SOCKET=os.path.join(self.tmp, "nobody"), BERTH_JOB_TOKEN="t", FOUNDATIONS_JOB_ARCHIVE=archive,
            FOUNDATIONS_JOB_ID="45540b52-ffe2-44ab-9838-db467d3499c0", FOUNDATIONS_PROJECT_NAME="p")
        self.assertEqual((code, out, err), (0, "", ""))
        lines, points = [], 0
        with open(os.path.join(run_dir, "spool.jsonl")) as f:
            lines = [json.loads(line) for line in f]
        for r in lines:
            if r["k"] == "m":
                points += len(r["v"]) if isinstance(r["v"], list) else 1
        self.assertEqual(points, 100)
        self.assertTrue(os.path.exists(os.path.join(archive, "user_artifacts", "script.py")))

    def test_it_is_cheap(self):
        """A metric costs a training loop little; the bound is generous, the figure is in the docs."""
        run_dir = os.path.join(self.tmp, "1.1")
        os.mkdir(run_dir)
        code, out, err = self.python("""\
            import time, foundations
            best = 1.0
            for _ in range(5):
                start = time.perf_counter()
                for i in range(20000):
                    foundations.log_metric("loss", 0.5)
                best = min(best, (time.perf_counter() - start) / 20000)
            print(best * 1e6)
            """, BERTH_JOB_ID="01h8xv5q3r000000000000abcd", BERTH_RUN="1.1", BERTH_RUN_DIR=run_dir,
            BERTH_SOCKET=os.path.join(self.tmp, "nobody"), FOUNDATIONS_JOB_ID="45540b52-ffe2-44ab-9838-db467d3499c0")
        self.assertEqual(code, 0, err)
        print("# log_metric: %.2f us" % float(out))
        self.assertLess(float(out), 100)


if __name__ == "__main__":
    unittest.main()
