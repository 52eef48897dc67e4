"""The same search in one Python process, against a grid with the same number of trials.

PYTHONPATH=$(berth python path) python3 compare.py [TRIALS]
"""

import sys

import berth
import train

SPACE = {"C": {"log": [1e-2, 1e4]}, "gamma": {"log": [1e-5, 10]}, "epsilon": {"log": [1e-2, 1e2]}}


def search(engine, trials):
    study = berth.Study("svr-%s-%d" % (engine, trials), SPACE, minimize="rmse", engine=engine, trials=trials)
    best = study.optimize(lambda trial: train.error(**trial))
    print("%-4s  rmse %.3f  %s" % (engine, best.value, {k: float("%.3g" % v) for k, v in best.items()}))
    return best.value


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    grid, auto = search("grid", n), search("auto", n)
    print("the search is better by %.3f" % (grid - auto))
    sys.exit(auto >= grid)
