"""Fits a polynomial to noisy points by gradient descent: pure Python, about a second.

Runs by itself too, where the berth calls do nothing: PYTHONPATH=$(berth python path) python3 train.py
(or `berth python install` in a virtual environment, once).
"""

import argparse
import math
import random
import time

import berth


def points(n, rng):
    """Samples of a sine wave with a little noise."""
    xs = [2 * i / (n - 1) - 1 for i in range(n)]
    return [(x, math.sin(3 * x) + rng.gauss(0, 0.05)) for x in xs]


def predict(weights, x):
    value = 0.0
    for w in reversed(weights):
        value = value * x + w
    return value


def loss_of(weights, data):
    return sum((predict(weights, x) - y) ** 2 for x, y in data) / len(data)


def train_epoch(weights, data, lr):
    """One pass over the data, one step per point."""
    for x, y in data:
        error = predict(weights, x) - y
        power = 1.0
        for i in range(len(weights)):
            weights[i] -= lr * error * power
            power *= x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.03)
    args = parser.parse_args()
    p = berth.params(degree=3, epochs=20)

    rng = random.Random(7)
    data = points(200, rng)
    train, held_out = data[::2], data[1::2]
    weights = [0.0] * (p["degree"] + 1)
    for epoch in range(p["epochs"]):
        rng.shuffle(train)
        for _ in range(5):
            train_epoch(weights, train, args.lr)
        loss = loss_of(weights, held_out)
        berth.log(loss=loss, step=epoch)
        berth.epoch(epoch)
        print("epoch %2d  loss %.5f" % (epoch, loss), flush=True)
        if berth.should_stop():
            print("asked to stop")
            break
        time.sleep(0.03)  # a real epoch takes longer; leave something to watch
    berth.tag(model="polynomial of degree %d" % p["degree"])


if __name__ == "__main__":
    main()
