"""What a search says while it runs: one observer that writes to the log.

Owns: the words.  Every message is one call of the logger, so that messages of several trials do not mix.
"""

import logging
import time
import traceback
from typing import Any, Dict, Sequence, Tuple

from ._rank import RankList
from ._space import dotted, lookup
from ._trial import Skip, Trial

logger = logging.getLogger("ditk.hpo")
RULE = 60


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 21st, …"""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return "%d%s" % (n, ending)


class Progress:
    """The log of one search."""

    def __init__(self, paths: Sequence[Tuple[Any, ...]]) -> None:
        self._paths = paths
        self._began = time.monotonic()

    def init(self, algorithm: str, settings: Dict[str, Any]) -> None:
        logger.info("Algorithm: %s", algorithm)
        for name in sorted(settings):
            logger.info("Setting %s: %r", name, settings[name])

    def init_ok(self) -> None:
        logger.info("The search is ready.")

    def run_start(self) -> None:
        self._began = time.monotonic()
        logger.info("The search has started.")

    def step(self, trial: Trial) -> None:
        lines = [(" %s sample " % ordinal(trial.number)).center(RULE, "-")]
        lines += ["%s: %r" % (dotted(p), lookup(trial.config, p)) for p in self._paths]
        logger.info("\n".join(lines))

    def try_(self, trial: Trial, attempt: int, limit: int) -> None:
        logger.info("%s sample: %s attempt", ordinal(trial.number), ordinal(attempt))

    def try_fail(self, trial: Trial, error: BaseException, attempt: int, limit: int) -> None:
        next_step = "it will be tried again" if trial.state == "running" else "it will not be tried again"
        logger.warning(
            "%s sample: the attempt failed with %r; %s (%d/%d)", ordinal(trial.number), error, next_step, attempt, limit
        )

    def step_ok(self, trial: Trial, values: Dict[str, Any]) -> None:
        lines = ["%s sample completed in %.3f s" % (ordinal(trial.number), trial.metrics["time"])]
        logger.info("\n".join(lines + ["%s: %r" % item for item in values.items()]))

    def step_fail(self, trial: Trial, error: BaseException) -> None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
        logger.error("%s sample failed:\n%s", ordinal(trial.number), text)

    def step_skip(self, trial: Trial, skip: Skip) -> None:
        logger.warning("%s sample skipped: %s", ordinal(trial.number), ", ".join(map(repr, skip.args)) or "no reason")

    def step_final(self, trial: Trial, ranks: RankList) -> None:
        logger.info("Rank list (%d of %d records):\n%s", len(ranks), ranks.total, ranks)
        logger.info("Elapsed: %.3f s", time.monotonic() - self._began)

    def run_complete(self, stopped: bool) -> None:
        logger.info("The stop condition was met." if stopped else "The iteration is exhausted.")
