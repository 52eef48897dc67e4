"""What the Tab key offers in bash, zsh and fish, asked of the shells themselves."""
import os
import shutil
import subprocess
import tempfile

from harness import BERTH, Skip, main

# What is typed, and what Tab makes of it.  Where there is a job number to ask for, `berth` says 41.
CASES = [
    ("berth su", "berth submit"),
    ("berth --home /tmp su", "berth --home /tmp submit"),
    ("berth --no-start su", "berth --no-start submit"),
    ("berth --token-f", "berth --token-file"),
    ("berth submit --id", "berth submit --idempotency-key"),
    ("berth --home /tmp submit --id", "berth --home /tmp submit --idempotency-key"),
    ("berth ls --state succ", "berth ls --state succeeded"),
    ("berth ls name:x --fie", "berth ls name:x --fie"),
    ("berth ls name:x --sor", "berth ls name:x --sort"),
    ("berth ls -o js", "berth ls -o json"),
    ("berth ls --output=js", "berth ls --output=json"),
    ("berth cancel ", "berth cancel 41"),
    ("berth --home /tmp show ", "berth --home /tmp show 41"),
    ("berth completion f", "berth completion fish"),
    ("berth help expl", "berth help explain"),
    ("berth queue pa", "berth queue pause"),
    ("berth submit -- mkfif", "berth submit -- mkfifo"),
    ("berth run mkfif", "berth run mkfifo"),
    ("berth submit -- ls --idem", "berth submit -- ls --idem"),
    ("berth submit -- cat /etc/passwd.non", "berth submit -- cat /etc/passwd.non"),
    ("berth submit -- cat /etc/debian_v", "berth submit -- cat /etc/debian_version"),
    ("berth serve --tls-cert /etc/debian_v", "berth serve --tls-cert /etc/debian_version"),
]
# Where there are several, all of them are offered.
OFFERED = [
    ("berth ls -o ", {"table", "json", "csv"}),
    ("berth node", {"node", "nodes"}),
    ("berth serve --tls-cert /etc/debian_", {"/etc/debian_version"}),
]


class Shell:
    """A directory with the completion script of one shell."""

    def __init__(self, name):
        self.program = shutil.which(name)
        if not self.program:
            raise Skip(f"{name} is not installed")
        self.name = name

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="berth-e2e-")
        p = subprocess.run([BERTH, "completion", self.name], capture_output=True, text=True, check=True)
        self.script = self.write("_berth", p.stdout)
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.dir)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def run(self, text, *args):
        """The lines a script of this shell prints; that it complains about nothing is checked as well."""
        env = {"PATH": "/usr/bin:/bin", "HOME": self.dir, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        p = subprocess.run([self.program, *args, self.write("ask", text)], env=env, cwd=self.dir, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=120)
        assert p.returncode == 0 and not p.stderr, p
        return p.stdout.split("\n")[:-1]


def quoted(text):
    return "'" + text + "'"  # no case has a quote in it


def with_one_word(typed, offered, breaks=" "):
    """The line once the only word there is to offer has been taken; words end at these characters."""
    start = typed[:max(typed.rfind(c) for c in breaks) + 1]
    return start + offered[0] if len(offered) == 1 else typed


def check(lines):
    assert len(lines) == len(CASES), lines
    wrong = [(typed, got, want) for (typed, want), got in zip(CASES, lines) if got.rstrip(" =") != want]
    assert not wrong, wrong


def check_offered(lines, breaks=" "):
    """A line of words for each case, then one for each where there may be several."""
    check([with_one_word(typed, line.split(), breaks) for (typed, _), line in zip(CASES, lines)])
    several = [(typed, set(line.split())) for (typed, _), line in zip(OFFERED, lines[len(CASES):])]
    assert several == OFFERED, several


def test_bash():
    with Shell("bash") as bash:
        asks = "".join(f"ask {typed.replace('=', ' = ')}" + ("''\n" if typed[-1] == " " else "\n") for typed, _ in CASES + OFFERED)
        lines = bash.run(f"""
            berth() {{ echo 41; }}
            . {bash.script}
            compopt() {{ :; }} # there is no line to complete here
            ask() {{
                COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
                _berth
                printf '%s\\n' "${{COMPREPLY[@]}}" | sort -u | tr '\\n' ' '
                echo
            }}
            {asks}""", "--norc")
        check_offered(lines, " =")


def test_fish():
    with Shell("fish") as fish:
        asks = "".join(f"echo (complete -C {quoted(typed)} | string replace -r '\\t.*' '')\n" for typed, _ in CASES + OFFERED)
        lines = fish.run(f"""
            function berth; echo 41; end
            source {fish.script}
            {asks}""", "--no-config")
        check_offered(lines)


def test_zsh():
    """Has completion only on a terminal, so it gets one; the line is printed as Tab leaves it."""
    with Shell("zsh") as zsh:
        start = zsh.write("start", f"""
            PROMPT=
            fpath=({zsh.dir} $fpath)
            autoload -Uz compinit
            compinit -D -u
            berth() {{ print 41 }}
            press-tab() {{ zle complete-word; print -r -- "<$BUFFER>" }}
            zle -N press-tab
            bindkey '^I' press-tab
            print '<ready>'
            """)
        asks = "".join(f"ask {quoted(typed)}\n" for typed, _ in CASES)
        lines = zsh.run(f"""
            zmodload zsh/zpty
            said() {{ zpty -r -m z text '*<*>*'; text=${{text##*<}}; print -r -- ${{text%%>*}} }}
            ask() {{ zpty -w -n z $'\\C-u'$1$'\\t'; said }}
            zpty z zsh -f -i
            zpty -w z 'source {start}'
            said
            {asks}
            zpty -d z""", "-f")
        assert lines[0] == "ready", lines
        check(lines[1:])


if __name__ == "__main__":
    main(__name__)
