"""requirements.txt of Atlas jobs: it adds to the worker's packages, and never gives stale ones.

Packages are made here: wheels, and directories with a build backend of their own, so nothing is
fetched and nothing but pip is needed.
"""
import functools
import http.server
import os
import subprocess
import sys
import threading
import time
import zipfile

import harness
from foundations_rig import Atlas, wait_for

PRINT = "import berthsmall\nprint('GOT', berthsmall.WORD)\n"
# What this machine tells pip is none of these tests' business.
NO_NETWORK = {**{k: "" for k in os.environ if k.startswith("PIP_")}, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
DAY = 24 * 3600
BACKEND = '''
import os, zipfile
INFO = "berthsmall-{version}.dist-info/"
META = "Metadata-Version: 2.1\\nName: berthsmall\\nVersion: {version}\\n"
def write(directory, files):
    name = "berthsmall-{version}-py3-none-any.whl"
    files[INFO + "METADATA"] = META
    files[INFO + "WHEEL"] = "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[INFO + "RECORD"] = "".join(n + ",,\\n" for n in [*files, INFO + "RECORD"])
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        for n, text in files.items():
            z.writestr(n, text)
    return name
def build_wheel(directory, settings=None, metadata=None):
    return write(directory, {{"berthsmall.py": open("berthsmall.py").read()}})
def build_editable(directory, settings=None, metadata=None):
    return write(directory, {{"berthsmall_here.pth": os.getcwd() + "\\n"}})
'''


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def make_wheel(directory, version, word=None, name="berthsmall", needs=""):
    """The smallest package pip installs, without building anything; its path."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{name}-{version}-py3-none-any.whl")
    info = f"{name}-{version}.dist-info/"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(f"{name}.py", f"WORD = {word or version!r}\n")
        z.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", f"{name}.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
    return path


def make_source(directory, word, version="1"):
    """A directory that pip builds without fetching anything."""
    os.makedirs(directory, exist_ok=True)
    for name, text in (("pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
                        'backend-path = ["."]\n'),
                       ("backend.py", BACKEND.format(version=version)), ("berthsmall.py", f"WORD = {word!r}\n")):
        with open(os.path.join(directory, name), "w") as f:
            f.write(text)
    return directory


def need_venv():
    if subprocess.run([sys.executable, "-c", "import venv, pip"], stderr=subprocess.DEVNULL).returncode:
        raise harness.Skip("needs pip and venv")


shared = None


def atlas():
    global shared
    need_venv()
    if shared is None:
        shared = Atlas(**NO_NETWORK).start()
    return shared


def write(directory, name, text):
    with open(os.path.join(directory, name), "w") as f:
        f.write(text)


def log_of(a, directory):
    out = a.ok("submit", "scheduler", directory, "main.py").splitlines()
    return out[out.index("Foundations INFO: Job running, streaming logs.") + 1:]


def got(a, directory):
    """The word of the package that the job imported, and whether an older environment was used."""
    log = log_of(a, directory)
    words = [line for line in log if line.startswith("GOT ")]
    assert len(words) == 1, log
    return words[0][4:], any(line.startswith("Using the environment made") for line in log)


def environments(a, kind="env-"):
    root = os.path.join(a.home, "local_docker_scheduler/environments")
    return [os.path.join(root, n) for n in os.listdir(root) if n.startswith(kind) and not n.endswith(".lock")]


def test_files_named_by_files_count():
    a = atlas()
    one, two = (make_wheel(os.path.join(a.work, "files-wheels"), v) for v in ("1", "2"))
    directory = a.project("files", PRINT, **{"requirements.txt": "-r more.txt\n"})
    write(directory, "more.txt", f"--requirement=last.txt # and so on\n")
    write(directory, "last.txt", one + "\n")
    assert got(a, directory) == ("1", False)
    assert got(a, directory) == ("1", True)
    write(directory, "last.txt", two + "\n")
    assert got(a, directory) == ("2", False)


def test_constraints_count():
    a = atlas()
    wheels = os.path.join(a.work, "constraint-wheels")
    for v in ("1", "2"):
        make_wheel(wheels, v)
    directory = a.project("constrained", PRINT, **{
        "requirements.txt": f"--find-links {wheels}\n-c limits.txt\nberthsmall\n", "limits.txt": "berthsmall<2\n"})
    assert got(a, directory)[0] == "1"
    write(directory, "limits.txt", "berthsmall>=2\n")
    assert got(a, directory)[0] == "2"


def test_a_wheel_of_the_bundle_counts_by_its_content():
    a = atlas()
    directory = a.project("content", PRINT, **{"requirements.txt": "./berthsmall-1-py3-none-any.whl\n"})
    make_wheel(directory, "1", "first")
    assert got(a, directory) == ("first", False)
    assert got(a, directory) == ("first", True)
    make_wheel(directory, "1", "second")
    assert got(a, directory) == ("second", False)


def test_a_directory_counts_by_its_content():
    a = atlas()
    directory = a.project("tree", PRINT, **{"requirements.txt": "./pkg\n"})
    make_source(os.path.join(directory, "pkg"), "first")
    assert got(a, directory) == ("first", False)
    assert got(a, directory) == ("first", True)
    make_source(os.path.join(directory, "pkg"), "second")
    assert got(a, directory) == ("second", False)


def test_a_directory_in_place_is_that_of_the_job():
    a = atlas()
    directory = a.project("place", "import os, berthsmall\nprint('GOT', berthsmall.WORD, "
                          "os.path.dirname(berthsmall.__file__) == os.path.join(os.getcwd(), 'pkg'))\n",
                          **{"requirements.txt": "-e ./pkg\n"})
    for word in ("first", "second"):
        make_source(os.path.join(directory, "pkg"), word)
        assert got(a, directory)[0] == word + " True"
    assert len(environments(a, "job-")) <= 1  # that of the last job goes with the next


def test_unpinned_names_are_resolved_each_time():
    a = atlas()
    wheels = os.path.join(a.work, "index")
    make_wheel(wheels, "1")
    directory = a.project("bare", PRINT, **{"requirements.txt": f"--find-links {wheels}\nberthsmall\n"})
    assert got(a, directory) == ("1", False)
    assert got(a, directory) == ("1", True)
    make_wheel(wheels, "2")
    assert got(a, directory) == ("2", False)
    os.unlink(os.path.join(wheels, "berthsmall-2-py3-none-any.whl"))
    assert got(a, directory) == ("1", True)


def test_what_a_pinned_package_needs_is_resolved_each_time():
    a = atlas()
    top = os.path.join(a.work, "web")  # an index as pip wants it: a directory per package
    make_wheel(os.path.join(top, "berthsmall"), "1")
    make_wheel(os.path.join(top, "berthlarge"), "1", name="berthlarge", needs="Requires-Dist: berthsmall\n")
    handler = functools.partial(QuietHandler, directory=top)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index = f"--index-url http://127.0.0.1:{server.server_port}/\n"
        directory = a.project("pinned", PRINT, **{
            "requirements.txt": index + "berthlarge==1\n",
            "job.config.yaml": "worker:\n  environment:\n    PIP_NO_INDEX: 'false'\n    PIP_NO_CACHE_DIR: 'true'\n"})
        assert got(a, directory) == ("1", False)
        assert got(a, directory) == ("1", True)
        make_wheel(os.path.join(top, "berthsmall"), "2")
        assert got(a, directory) == ("2", False)
        write(directory, "requirements.txt", index + "berthlarge==1\nberthsmall==1\n")
        assert got(a, directory) == ("1", False)
        server.shutdown()
    assert got(a, directory) == ("1", True)  # all of it is exact: nobody has to be asked


def test_version_control_is_resolved_each_time():
    a = atlas()
    if subprocess.run(["git", "--version"], stdout=subprocess.DEVNULL).returncode:
        raise harness.Skip("needs git")
    repository = os.path.join(a.work, "repository")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", repository]
    directory = a.project("vcs", PRINT, **{"requirements.txt": f"git+file://{repository}@main\n"})
    for i, word in enumerate(("first", "second")):
        make_source(repository, word)
        if i == 0:
            subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", word], check=True)
        assert got(a, directory) == (word, False)
    assert got(a, directory) == ("second", True)


def test_settings_of_pip_count():
    a = atlas()
    for v in ("1", "2"):
        make_wheel(os.path.join(a.work, "settings-" + v), v)
    directory = a.project("settings", PRINT, **{"requirements.txt": "berthsmall\n"})
    for v in ("1", "2"):
        write(directory, "job.config.yaml",
              f"worker:\n  environment:\n    PIP_FIND_LINKS: {a.work}/settings-{v}\n")
        assert got(a, directory)[0] == v


def test_requirements_add_to_the_packages_of_the_worker():
    need_venv()
    with Atlas(**NO_NETWORK) as a:
        venv = os.path.join(a.dir, "venv")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = os.path.join(venv, "bin/python")
        wheels = os.path.join(a.work, "wheels")
        theirs = make_wheel(wheels, "1", name="berthworker")
        older = make_wheel(wheels, "1")
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", theirs, older], check=True)
        # a package that the worker's Python has through a .pth file, as editable ones
        os.mkdir(os.path.join(a.dir, "beside"))
        write(os.path.join(a.dir, "beside"), "berthbeside.py", "")
        site = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()
        write(site, "beside.pth", os.path.join(a.dir, "beside") + "\n")
        a.start("--python", python)
        both = "import berthworker, berthbeside, berthsmall\nprint('GOT', berthsmall.WORD)\n"
        directory = a.project("adds", both)
        assert got(a, directory)[0] == "1"
        write(directory, "requirements.txt", make_wheel(wheels, "2") + "\n")
        assert got(a, directory) == ("2", False)  # its own before the worker's
        assert got(a, directory) == ("2", True)
        # another version of a package that the worker has decides too
        write(directory, "requirements.txt", "berthsmall\n")
        assert got(a, directory)[0] == "1"
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", make_wheel(wheels, "3")], check=True)
        assert got(a, directory)[0] == "3"


def test_an_interpreter_without_pip_installs_for_each_job():
    need_venv()
    with Atlas(**NO_NETWORK) as a:
        venv = os.path.join(a.dir, "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        a.start("--python", os.path.join(venv, "bin/python"))
        wheel = make_wheel(a.work, "1", "first")
        directory = a.project("bare", PRINT, **{"requirements.txt": wheel + "\n"})
        assert got(a, directory) == ("first", False)
        make_wheel(a.work, "1", "second")
        assert got(a, directory) == ("second", False)


def test_what_pip_cannot_do_is_said_and_the_job_runs():
    a = atlas()
    directory = a.project("cannot", "import importlib.util\nprint('GOT', importlib.util.find_spec('berthsmall'))\n",
                          **{"requirements.txt": "berthsmall==77\n"})
    log = log_of(a, directory)
    assert any("requirements.txt could not be installed" in line for line in log), log
    assert "GOT None" in log, log


def test_environments_go_when_nobody_needs_them():
    need_venv()
    with Atlas(**NO_NETWORK, NUM_WORKERS="2").start() as a:
        wait = "import berthsmall, os, time\nprint('in', flush=True)\n" \
               "while not os.path.exists(%r): time.sleep(0.05)\nimport berthlater\nprint('GOT', berthlater.WORD)\n"
        go = os.path.join(a.dir, "go")
        uses = a.project("uses", wait % go, **{"requirements.txt": "./berthsmall-1-py3-none-any.whl\n"
                                               "./berthlater-1-py3-none-any.whl\n"})
        make_wheel(uses, "1")
        make_wheel(uses, "1", name="berthlater")
        job = a.submit(uses, "main.py")
        wait_for(lambda: b"in\n" in a.request("GET", f"/jobs/{job}?logs=1")[1] or
                 "in\n" in a.ok("get", "logs", "scheduler", job))
        used, = environments(a)
        old = time.time() - 31 * DAY
        os.utime(os.path.join(used, ".complete"), (old, old))
        root = os.path.dirname(used)
        for i in range(20):  # spare ones, the first longest unused
            os.mkdir(os.path.join(root, f"env-{i:02}"))
            write(os.path.join(root, f"env-{i:02}"), ".complete", "")
            at = time.time() - (40 - i) * 3600
            os.utime(os.path.join(root, f"env-{i:02}/.complete"), (at, at))
        os.mkdir(os.path.join(root, "env-old"))
        write(os.path.join(root, "env-old"), ".complete", "")
        os.utime(os.path.join(root, "env-old/.complete"), (old, old))
        os.mkdir(os.path.join(root, "3.11.2-of-an-earlier-version"))
        write(os.path.join(root, "3.11.2-of-an-earlier-version"), ".complete", "")
        other = a.project("other", PRINT, **{"requirements.txt": "./berthsmall-2-py3-none-any.whl\n"})
        make_wheel(other, "2")
        assert got(a, other)[0] == "2"
        left = sorted(os.path.basename(p) for p in environments(a))
        assert os.path.basename(used) in left, "an environment in use was removed"
        spare = [n for n in left if len(n) == len("env-00")]
        assert spare == [f"env-{i:02}" for i in range(5, 20)], left  # fifteen and the newest
        assert "env-old" not in left and len(left) == 17, left
        assert os.path.exists(os.path.join(root, "3.11.2-of-an-earlier-version"))
        write(a.dir, "go", "")
        a.wait_status(job, "completed")
        assert "GOT 1" in a.ok("get", "logs", "scheduler", job)
        assert got(a, other) == ("2", True)
        assert not os.path.exists(used)  # its job has ended


if __name__ == "__main__":
    try:
        harness.main(__name__)
    finally:
        if shared is not None:
            shared.close()
