"""A program for ditk.scheduler: learns to balance a pole on a cart, in seconds and without other packages.

It runs by itself (``python cartpole_dqn_config.py``).  A scheduler writes the values of a sample into `main_config`
just above the entry line and reads ``<exp_name>/result.pkl`` when it has ended.  Replace train() by your own.
"""

import math
import os
import pickle
import random
import time

main_config = dict(
    exp_name="cartpole_dqn",
    env=dict(
        max_step=200,  # an episode that lasts as long is solved
        n_evaluator_episode=20,
        stop_value=195,
    ),
    policy=dict(
        discount_factor=0.97,
        learn=dict(learning_rate=0.2, episode=400),
        # The share of random moves falls from start to end within `decay` episodes.
        eps=dict(start=1.0, end=0.01, decay=200),
        # Cells per dimension: position, speed, angle, speed of the angle.
        model=dict(cells=[1, 1, 8, 12]),
    ),
    seed=0,
)


class CartPole:
    """The cart and the pole of Barto, Sutton and Anderson (1983), in steps of 20 ms."""

    LIMITS = (2.4, 3.0, 0.2095, 3.5)

    def __init__(self, max_step, rng):
        self.max_step, self.rng = max_step, rng

    def reset(self):
        self.step_count = 0
        self.state = [self.rng.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action else -10.0
        cos, sin = math.cos(theta), math.sin(theta)
        push = (force + 0.05 * theta_dot * theta_dot * sin) / 1.1
        theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        x_acc = push - 0.05 * theta_acc * cos / 1.1
        self.state = [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc]
        self.step_count += 1
        fallen = abs(self.state[0]) > self.LIMITS[0] or abs(self.state[2]) > self.LIMITS[2]
        return self.state, fallen, self.step_count >= self.max_step


def cell_of(state, cells):
    """The number of the cell that a state lies in."""
    number = 0
    for value, limit, n in zip(state, CartPole.LIMITS, cells):
        share = (value + limit) / (2 * limit)
        number = number * n + min(max(int(share * n), 0), n - 1)
    return number


def train(cfg):
    """Q-learning over cells; the mean length of evaluation episodes."""
    policy, rng = cfg["policy"], random.Random(cfg["seed"])
    env = CartPole(cfg["env"]["max_step"], rng)
    cells, gamma = policy["model"]["cells"], policy["discount_factor"]
    rate, eps = policy["learn"]["learning_rate"], policy["eps"]
    q = {}
    steps = 0

    def episode(explore, learn):
        nonlocal steps
        at, total = cell_of(env.reset(), cells), 0
        while True:
            values = q.setdefault(at, [0.0, 0.0])
            action = rng.randrange(2) if rng.random() < explore else int(values[1] > values[0])
            state, fallen, over = env.step(action)
            following = cell_of(state, cells)
            if learn:
                ahead = 0.0 if fallen else gamma * max(q.setdefault(following, [0.0, 0.0]))
                values[action] += rate * (1.0 + ahead - values[action])
                steps += 1
            at, total = following, total + 1
            if fallen or over:
                return total

    for i in range(policy["learn"]["episode"]):
        share = min(i / eps["decay"], 1.0)
        episode(eps["start"] + share * (eps["end"] - eps["start"]), True)
    lengths = [episode(0.0, False) for _ in range(cfg["env"]["n_evaluator_episode"])]
    mean = sum(lengths) / len(lengths)
    return {
        "stop": mean >= cfg["env"]["stop_value"],
        "env_step": steps,
        "train_iter": policy["learn"]["episode"],
        "eval_value": mean,
        "eval_value_raw": lengths,
        "finish_time": time.ctime(),
    }


def save(result, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "result.pkl"), "wb") as f:
        pickle.dump(result, f)


if __name__ == "__main__":
    outcome = train(main_config)
    save(outcome, main_config["exp_name"])
    print("mean length of %d episodes: %.1f" % (len(outcome["eval_value_raw"]), outcome["eval_value"]))
