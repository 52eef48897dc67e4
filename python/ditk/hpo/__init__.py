"""Search for the best hyper-parameters of a function.

    from ditk.hpo import hpo, R, uniform, choice

    @hpo
    def train(config):
        return {"loss": (config["x"] - 1) ** 2}

    cfg, ret, metrics = train.random().max_steps(50).minimize(R["loss"]).spaces({"x": uniform(0, 3)}).run()
"""

from ._algorithm import Algorithm
from ._expression import C, M, R
from ._hpo import hpo
from ._space import choice, quniform, randint, randn, uniform
from ._trial import Skip

__all__ = ["Algorithm", "C", "M", "R", "Skip", "choice", "hpo", "quniform", "randint", "randn", "uniform"]
