"""A model small enough for any machine: a line fitted to noisy points, batch by batch.

It takes the place of a network in the three examples, so that they need no framework and no GPU.
"""

import json
import os
import random


def samples(count, seed=1):
    """Points of y = 3x - 2, with noise."""
    rng = random.Random(seed)
    return [(x, 3 * x - 2 + rng.gauss(0, 0.1)) for x in (rng.uniform(-1, 1) for _ in range(count))]


def batches(points, size):
    """Whole batches only."""
    return [points[i : i + size] for i in range(0, len(points) - size + 1, size)]


class Line:
    def __init__(self):
        self.slope, self.offset = 0.0, 0.0

    def step(self, batch, rate=0.05):
        """One step of gradient descent; the mean squared error before it."""
        errors = [(self.slope * x + self.offset - y, x) for x, y in batch]
        self.slope -= rate * 2 * sum(e * x for e, x in errors) / len(batch)
        self.offset -= rate * 2 * sum(e for e, _ in errors) / len(batch)
        return sum(e * e for e, _ in errors) / len(batch)

    def save(self, path, **more):
        """Whole or not at all: a job may be stopped at any time."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w") as f:
            json.dump({"slope": self.slope, "offset": self.offset, **more}, f)
        os.replace(path + ".part", path)

    def load(self, path):
        with open(path) as f:
            state = json.load(f)
        self.slope, self.offset = state["slope"], state["offset"]
        return state
