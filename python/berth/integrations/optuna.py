"""An Optuna sampler whose proposals come from a study of Berth, and a storage in its daemon.

Two lines of an Optuna program change::

    from berth.integrations.optuna import BerthSampler, BerthStorage

    study = optuna.create_study(storage=BerthStorage(), sampler=BerthSampler())

Each works without the other.

Optuna learns the parameters while the objective runs, Berth wants to know them before.  So the first
trial is drawn at random, and its parameters make the space; ``BerthSampler(space={…})`` names it up
front, as for :class:`berth.Study` or as distributions of Optuna, and then branches (``when``) are
searched jointly, too.  Parameters outside of the space are drawn at random.
"""

import hashlib
import json
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from .. import _study
from .._client import BerthError, Client

try:  # since Optuna 3.2
    from optuna.search_space import IntersectionSearchSpace
except ImportError:
    from optuna.samplers import IntersectionSearchSpace

from ._optuna_storage import BerthStorage

__all__ = ["BerthSampler", "BerthStorage"]

PROPOSED = "berth:proposed"  #: attribute of an Optuna trial: study, number and parameters as Berth proposed them

Space = Dict[str, BaseDistribution]


# ---- distributions and ranges ----


def _plain(choices: Sequence[Any]) -> bool:
    return all(c is None or isinstance(c, (bool, int, float, str)) for c in choices)


def to_range(d: BaseDistribution) -> Any:
    """A distribution of Optuna as a range of Berth.  Choices that JSON cannot say go by their index."""
    if isinstance(d, CategoricalDistribution):
        return {"choice": list(d.choices) if _plain(d.choices) else list(range(len(d.choices)))}
    if not isinstance(d, (FloatDistribution, IntDistribution)):
        raise TypeError("a distribution of the kind %s has no range in Berth" % type(d).__name__)
    if isinstance(d, FloatDistribution) and d.log:
        return {"log": [d.low, d.high]}
    found: Dict[str, Any] = {"int" if isinstance(d, IntDistribution) else "uniform": [d.low, d.high]}
    if d.log:
        found["log"] = True
    elif d.step is not None and (isinstance(d, FloatDistribution) or d.step != 1):
        found["step"] = d.step
    return found


def to_distribution(name: str, given: Any) -> BaseDistribution:
    """The other direction."""
    if isinstance(given, BaseDistribution):
        return given
    if isinstance(given, (list, tuple)):
        return CategoricalDistribution(given)
    kinds = given if isinstance(given, Mapping) else {"const": given}
    for kind in ("choice", "ordinal"):
        if kind in kinds:
            return CategoricalDistribution(kinds[kind])
    if "const" in kinds:
        return CategoricalDistribution([kinds["const"]])
    if "int" in kinds:
        low, high = kinds["int"]
        return IntDistribution(low, high, log=bool(kinds.get("log")), step=kinds.get("step", 1))
    if isinstance(kinds.get("log"), (list, tuple)):
        return FloatDistribution(*kinds["log"], log=True)
    for kind in ("uniform", "float"):
        if kind in kinds:
            return FloatDistribution(*kinds[kind], log=bool(kinds.get("log")), step=kinds.get("step"))
    raise ValueError("%s: %r is no range that Optuna could suggest a value from" % (name, given))


def _from_value(d: BaseDistribution, value: Any) -> Any:
    """A value of Berth as Optuna knows it."""
    if isinstance(d, CategoricalDistribution):
        return value if _plain(d.choices) else d.choices[value]
    return float(value) if isinstance(d, FloatDistribution) else value


def _to_value(d: BaseDistribution, value: Any) -> Any:
    if isinstance(d, CategoricalDistribution) and not _plain(d.choices):
        return list(d.choices).index(value)
    return value


# ---- the sampler ----


class BerthSampler(BaseSampler):
    """Proposals of a study of Berth (engine `auto` unless told otherwise).

    `name` is that of the study, else it is made of Optuna's name of it; the daemon keeps it, so a
    program that is started again continues with all that was learned.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        *,
        engine: Optional[str] = None,
        seed: Optional[int] = None,
        space: Optional[Mapping[str, Any]] = None,
        client: Optional[Client] = None,
    ) -> None:
        self._name = name
        self._engine = engine
        self._seed = seed
        self._given = dict(space) if space is not None else None
        self._client = client
        self._random = RandomSampler(seed=seed)
        self._seen = IntersectionSearchSpace()
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._study: Optional[_study.Study] = None
        self._of: Any = None  # the space that self._study is of
        self._spare: List[_study.Trial] = []  # trials that were asked for and not used

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        for own in ("_lock", "_study", "_of", "_spare"):
            del state[own]
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    # ---- what Optuna calls ----

    def infer_relative_search_space(self, study: "optuna.Study", trial: FrozenTrial) -> Space:
        self._raise_error_if_multi_objective(study)
        if self._given is not None:
            return {name: to_distribution(name, given) for name, given in self._given.items()}
        with self._lock:
            found = self._seen.calculate(study)
        return {name: d for name, d in sorted(found.items()) if not d.single()}

    def sample_relative(self, study: "optuna.Study", trial: FrozenTrial, search_space: Space) -> Dict[str, Any]:
        if not search_space:
            return {}
        with self._lock:
            berth = self._open(study, search_space)
            try:
                found = self._spare.pop() if self._spare else berth.ask()
            except _study.Exhausted:
                return {}  # every point was tried; Optuna goes on, at random
        study._storage.set_trial_system_attr(trial._trial_id, PROPOSED, [berth.name, found.number, found.params])
        return {k: _from_value(search_space[k], v) for k, v in found.params.items() if k in search_space}

    def sample_independent(
        self, study: "optuna.Study", trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: "optuna.Study", trial: FrozenTrial, state: TrialState, values: Optional[Sequence[float]]
    ) -> None:
        with self._lock:
            if self._study is None:
                return  # the first trial: sample_relative tells it when the space is known
            attrs = study._storage.get_trial_system_attrs(trial._trial_id)
            name, number, params = attrs.get(PROPOSED) or (None, None, {})
            used = {n: _to_value(self._of[n], v) for n, v in trial.params.items() if n in self._of}
            mine = name == self._study.name
            if mine and all(used[n] == v for n, v in params.items() if n in used):
                self._tell(self._study, number, trial, state, values)
                return
            # Another point was tried: one of enqueue_trial, or from another range.
            if mine:
                self._spare.append(_study.Trial(self._study, {"number": number, "params": params}))
            self._record(self._study, self._of, trial, state, values)

    def reseed_rng(self) -> None:
        self._random.reseed_rng()

    # ---- the study of Berth ----

    def _open(self, study: "optuna.Study", space: Space) -> _study.Study:
        """The study with this space.  A space that changed makes another one, which is told all results."""
        if self._study is not None and self._of == space:
            return self._study
        ranges = dict(self._given) if self._given is not None else {}
        ranges = {n: to_range(d) if isinstance(d, BaseDistribution) else d for n, d in (ranges or space).items()}
        name = self._name or "optuna-" + study.study_name
        if self._given is None:
            name += "-" + hashlib.sha256(json.dumps(ranges, sort_keys=True).encode()).hexdigest()[:8]
        up = study.direction == StudyDirection.MAXIMIZE
        opened = _study.Study(
            name,
            ranges,
            minimize=not up or None,
            maximize=up or None,
            engine=self._engine,
            seed=self._seed,
            client=self._client,
        )
        self._study, self._of, self._spare = opened, dict(space), []
        if not opened.counts.get("asked", len(opened.trials)):
            for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)):
                self._record(opened, space, t, t.state, t.values)
        return opened

    def _tell(
        self,
        berth: _study.Study,
        number: int,
        trial: FrozenTrial,
        state: TrialState,
        values: Optional[Sequence[float]],
    ) -> None:
        last = trial.intermediate_values.get(trial.last_step) if trial.last_step is not None else None
        if state == TrialState.COMPLETE and values:
            berth.tell(number, values[0])
        elif state == TrialState.PRUNED and last is not None:
            berth.tell(number, last, pruned=True)
        else:
            berth.tell(number, failed=True, reason="the trial %s in Optuna" % state.name.lower())

    def _record(
        self,
        berth: _study.Study,
        space: Space,
        trial: FrozenTrial,
        state: TrialState,
        values: Optional[Sequence[float]],
    ) -> None:
        """Tells a result of a trial that Berth did not propose."""
        if state not in (TrialState.COMPLETE, TrialState.PRUNED):
            return
        point = {n: _to_value(space[n], v) for n, v in trial.params.items() if n in space}
        try:
            number = berth.enqueue(point)
        except BerthError as e:
            if e.status == 400 or e.status == 422:
                return  # not a point of the space, such as one with a parameter that is missing
            raise
        got = berth.ask()
        if got.number == number:
            self._tell(berth, number, trial, state, values)
        else:
            self._spare.append(got)  # somebody else was faster; the next trial here takes this one
