"""Bayesian search: `berth tune` proposes the samples.

Owns: the translation of a space into the engine's (docs/tune.md), and the lines to and from the process.  The engine
knows which samples are under way and does not propose their neighbours.
"""

import json
import random
import subprocess
from typing import Any, Dict, List, Optional

from berth._client import _program as berth_program

from ._algorithm import Algorithm
from ._space import Choice, Finite, Interval

ACQUISITIONS = ("ucb", "ei", "poi")
#: The inverse normal has no value at 0 and 1.
INSIDE = (2.0 ** -53, 1 - 2.0 ** -53)


class Bayes(Algorithm):
    """Samples where a model of the results so far expects the most.

    The engine chooses its acquisition by itself; acq, kappa, kappa_decay, kappa_decay_delay, xi and gp_params are
    checked and then not needed.  With init_steps the first samples are random until as many have succeeded.
    """

    name = "bayes"
    settings = {
        "seed": None, "init_steps": None, "acq": "ucb", "kappa": 2.576, "kappa_decay": 1, "kappa_decay_delay": 0,
        "xi": 0.0, "gp_params": None,
    }  # fmt: skip

    def __init__(self, space: Any, max_steps: Optional[int], **settings: Any) -> None:
        super().__init__(space, max_steps, **settings)
        if self.options["acq"] not in ACQUISITIONS:
            raise ValueError("acq is one of %s, not %r" % (", ".join(ACQUISITIONS), self.options["acq"]))
        seed = self.options["seed"]
        self._random = random.Random(seed)
        self._ids: List[int] = []  #: of the engine, by the number of the sample
        self._successes = 0
        #: dimensions that have more than one value, by the engine's name
        self._open = {"d%d" % i: d for i, d in enumerate(self.dimensions) if getattr(d, "count", 2) > 1}
        self._process: Optional["subprocess.Popen[str]"] = None
        if self._open and max_steps != 0:
            self._start(seed)

    def _start(self, seed: Any) -> None:
        program = berth_program()
        if program is None:
            raise RuntimeError(
                "bayes needs the program `berth`, which is not on the PATH; install it or set BERTH_PROGRAM"
            )
        self._process = subprocess.Popen(
            [program, "tune"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        number = random.SystemRandom().getrandbits(31) if seed is None else random.Random(seed).getrandbits(31)
        line: Dict[str, Any] = {"op": "create", "seed": number, "direction": "minimize"}
        if self.max_steps:
            line["n_trials"] = self.max_steps
        self._exchange({**line, "space": [_described(name, d) for name, d in self._open.items()]})

    def _exchange(self, line: Dict[str, Any]) -> Dict[str, Any]:
        """One line to the engine and its answer."""
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as e:
            raise RuntimeError("the search engine `berth tune` has ended (status %s)" % self._process.poll()) from e
        if "error" in answer and answer.get("code") != "not_found":
            raise RuntimeError("the search engine refused %s: %s" % (line["op"], answer["error"]))
        return answer

    def ask(self) -> Optional[List[Any]]:
        if self._process is None:  # nothing to choose from: one sample says everything
            self._ids.append(0)
            return None if len(self._ids) > 1 or self.max_steps == 0 else [d.item(0) for d in self.dimensions]
        if len(self._ids) == self.max_steps:
            return None
        if self._successes < (self.options["init_steps"] or 0):
            params = {name: self._drawn(d) for name, d in self._open.items()}
            answer = self._exchange({"op": "record", "params": params})
        else:
            answer = self._exchange({"op": "ask"})
            if "error" in answer:  # every point of a finite space has been proposed
                return None
            params = answer["params"]
        self._ids.append(answer["id"])
        return [_value(d, params.get("d%d" % i)) for i, d in enumerate(self.dimensions)]

    def _drawn(self, d: Any) -> Any:
        if isinstance(d, Interval):
            low, high = INSIDE if d.open_ends else (d.low, d.high)
            return self._random.uniform(low, high)
        at = self._random.randrange(d.count)
        return str(at) if isinstance(d, Choice) else at

    def tell(self, number: int, target: Any) -> None:
        self._successes += 1
        if self._process is not None:
            self._exchange({"op": "tell", "id": self._ids[number], "value": float(target)})

    def drop(self, number: int) -> None:
        if self._process is not None:
            self._exchange({"op": "tell", "id": self._ids[number], "value": None})

    def close(self) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate('{"op":"close"}\n')
        except (OSError, ValueError):
            self._process.wait()


def _described(name: str, d: Any) -> Dict[str, Any]:
    """The dimension in the words of `berth tune`: steps and choices go by their numbers."""
    if isinstance(d, Interval):
        low, high = INSIDE if d.open_ends else (d.low, d.high)
        return {"name": name, "type": "float", "low": low, "high": high}
    if isinstance(d, Choice):
        return {"name": name, "type": "cat", "choices": [str(i) for i in range(d.count)]}
    return {"name": name, "type": "int", "low": 0, "high": d.count - 1}


def _value(d: Any, proposed: Any) -> Any:
    return d.item(int(proposed or 0)) if isinstance(d, Finite) else float(proposed)
