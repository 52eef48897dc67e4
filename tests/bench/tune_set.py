"""Problems for tune_compare.py: 2 to 20 dimensions, rotated, many basins, noisy, tables with categories and conditions.

Engines may be changed while looking at the problems marked OPEN; the HELD ones are for judging only. A problem is a `Problem`; its
function takes the parameters and a generator for noise, and returns what the engine is told and what is true.
"""

import functools
import math
import random

OPEN, HELD = "open", "held"


class Problem:
    def __init__(self, group, space, function, optimum=0.0, corner=None):
        """`corner`: several objectives; the point below which the dominated volume counts, and `optimum` is the volume of all."""
        self.group, self.space, self.function, self.optimum, self.corner = group, space, function, optimum, corner

    def value(self, params, noise):
        found = self.function(params, noise)
        return found if isinstance(found, tuple) and self.corner is None else (found, found)


def box(n, low, high):
    return [{"name": "x%d" % i, "type": "float", "low": low, "high": high} for i in range(n)]


def number(name, low, high, log=False, when=None, kind="float"):
    item = {"name": name, "type": kind, "low": low, "high": high}
    return dict(item, **({"log": True} if log else {}), **({"when": when} if when else {}))


def choice(name, *choices):
    return {"name": name, "type": "cat", "choices": list(choices)}


def vector(params):
    return [v for _, v in sorted(params.items(), key=lambda kv: int(kv[0][1:]))]


@functools.lru_cache(None)
def rotation(n, seed):
    """An orthogonal matrix, the same in every run (Gram and Schmidt)."""
    rng, rows = random.Random(seed), []
    for _ in range(n):
        row = [rng.gauss(0, 1) for _ in range(n)]
        for other in rows:
            dot = sum(a * b for a, b in zip(row, other))
            row = [a - dot * b for a, b in zip(row, other)]
        norm = math.sqrt(sum(a * a for a in row))
        rows.append([a / norm for a in row])
    return rows


def moved(n, low, high, seed, turn, inner):
    """A function around an optimum off the middle; `turn` rotates it."""
    rng = random.Random(seed)
    at = [low + (high - low) * rng.uniform(0.2, 0.8) for _ in range(n)]

    def function(params, _noise):
        z = [x - a for x, a in zip(vector(params), at)]
        if turn:
            z = [sum(r * v for r, v in zip(row, z)) for row in rotation(n, seed)]
        return inner(z)

    return box(n, low, high), function


# ---- smooth, valleys, many basins ----
def ellipsoid(z):
    return sum(10 ** (3 * i / (len(z) - 1)) * v * v for i, v in enumerate(z))


def powers(z):
    return sum(abs(v) ** (2 + 4 * i / (len(z) - 1)) for i, v in enumerate(z))


def valley(z):
    y = [v + 1 for v in z]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(y, y[1:]))


def waves(z):
    return sum(v * v + 5 * (1 - math.cos(2 * v)) for v in z)


def crater(z):
    r = math.sqrt(sum(v * v for v in z) / len(z))
    return 10 * (1 - math.exp(-0.25 * r)) + 1 - math.exp(sum(math.cos(4 * v) - 1 for v in z) / len(z))


def steps(z):
    return sum(math.floor(2 * abs(v)) ** 2 for v in z) + 0.01 * sum(abs(v) for v in z)


def ridge(z):
    return abs(z[0]) + 3 * math.sqrt(sum(v * v for v in z[1:]))


def camel(params, _noise):
    x, y = params["x0"], params["x1"]
    return (4 - 2.1 * x * x + x ** 4 / 3) * x * x + x * y + 4 * (y * y - 1) * y * y


def holes(seed, n, count, sharp):
    rng = random.Random(seed)
    centres = [[rng.uniform(0.1, 0.9) for _ in range(n)] for _ in range(count)]
    depth = [1 - 0.5 * k / count for k in range(count)]

    def function(params, _noise):
        x = vector(params)
        return 1 - max(d * math.exp(-sharp * (1 + 0.3 * k) * sum((a - b) ** 2 for a, b in zip(x, c)))
                       for k, (c, d) in enumerate(zip(centres, depth)))

    return box(n, 0.0, 1.0), function


def noisy(inner, spread):
    space, quiet = inner

    def function(params, noise):
        true = quiet(params, noise)
        return true + spread * noise.gauss(0, 1), true

    return space, function


# ---- as tables of real training runs look: plateaus, interactions, conditions, a little noise ----
def boosting(params, noise):
    rate, trees = math.log10(params["rate"]), math.log10(params["trees"])
    fit = rate + trees - 1.2 + 0.08 * (params["depth"] - 6)  # too little, or too much
    v = 0.12 + 0.10 * math.tanh(fit * fit) + 0.02 * abs(params["depth"] - 6) / 6
    v += 0.03 * (params["rows"] - 0.8) ** 2 + {"gbtree": 0.01, "dart": 0.0, "linear": 0.09}[params["booster"]]
    v += 0.004 * (math.log10(params["l2"]) + 1) ** 2
    if params["booster"] == "dart":
        v += 0.25 * (params["drop"] - 0.15) ** 2
    return v + 0.0005 * noise.gauss(0, 1), v


BOOSTING = [choice("booster", "gbtree", "dart", "linear"), number("rate", 1e-3, 1.0, log=True),
            number("trees", 10, 2000, log=True, kind="int"), number("depth", 1, 14, kind="int"), number("rows", 0.3, 1.0),
            number("l2", 1e-5, 1e2, log=True), number("drop", 0.0, 0.6, when={"booster": ["dart"]})]


def network(params, noise):
    lr = math.log10(params["lr"]) + {"sgd": 1.3, "adam": 3.0, "lamb": 2.4}[params["opt"]]
    v = 0.05 + 0.5 * (1 - math.exp(-0.35 * lr * lr)) + {"sgd": 0.02, "adam": 0.0, "lamb": 0.03}[params["opt"]]
    if params["opt"] == "sgd":
        v += 0.3 * (params["momentum"] - 0.92) ** 2 - 0.021
    widths = [params["w%d" % i] for i in range(params["layers"])]
    v += 0.03 * abs(sum(math.log2(w) for w in widths) - 21) / 7 + 0.02 * abs(params["layers"] - 3)
    v += {"relu": 0.015, "gelu": 0.0, "tanh": 0.05, "selu": 0.03}[params["act"]] * (1 if params["layers"] > 1 else 0.3)
    v += 0.2 * (params["dropout"] - 0.2) ** 2
    return v + 0.001 * noise.gauss(0, 1), v


NETWORK = [choice("opt", "sgd", "adam", "lamb"), number("lr", 1e-6, 1.0, log=True), number("momentum", 0.0, 0.99, when={"opt": ["sgd"]}),
           choice("act", "relu", "gelu", "tanh", "selu"), number("dropout", 0.0, 0.8), number("layers", 1, 4, kind="int")]
NETWORK += [number("w%d" % i, 8, 512, log=True, when={"layers": list(range(i + 1, 5))} if i else None, kind="int") for i in range(4)]


def kernels(params, _noise):
    c = math.log10(params["c"])
    if params["kernel"] == "linear":
        return 0.09 + 0.02 * (1 - math.exp(-0.5 * (c + 1) ** 2))
    if params["kernel"] == "poly":
        return 0.07 + 0.04 * abs(params["degree"] - 3) + 0.1 * (1 - math.exp(-0.4 * (c - 0.5) ** 2))
    g = math.log10(params["gamma"])
    u, w = (c - 1.5) + 0.7 * (g + 2), (c - 1.5) - (g + 2)  # the good ones lie along a slanted ridge
    return 0.3 * (1 - math.exp(-0.6 * u * u - 0.05 * w * w))


KERNELS = [choice("kernel", "linear", "poly", "rbf"), number("c", 1e-4, 1e4, log=True),
           number("degree", 2, 6, when={"kernel": ["poly"]}, kind="int"), number("gamma", 1e-6, 1e2, log=True, when={"kernel": ["rbf"]})]


def table(seed, columns):
    """Every combination of categories has its own level, by main effects and pairs; two numbers shift with the first."""
    rng = random.Random(seed)
    main = [[rng.random() for _ in range(k)] for k in columns]
    pair = [[rng.gauss(0, 0.25) for _ in range(columns[0])] for _ in range(columns[1])]
    at = [rng.uniform(0.2, 0.8) for _ in range(columns[0])]
    space = [choice("c%d" % i, *range(k)) for i, k in enumerate(columns)] + [number("u", 0.0, 1.0), number("v", 0.0, 1.0)]

    def level(c):
        return sum(m[k] for m, k in zip(main, c)) + pair[c[1]][c[0]]

    least, grids = math.inf, [()]
    for k in columns:
        grids = [g + (i,) for g in grids for i in range(k)]
    least = min(level(g) for g in grids)

    def function(params, _noise):
        c = [params["c%d" % i] for i in range(len(columns))]
        return level(c) - least + 2 * (params["u"] - at[c[0]]) ** 2 + abs(params["v"] - 0.35)

    return space, function


# ---- several objectives (E. Zitzler et al., 2000), their optimum off the border ----
def front(n, shape):
    space = box(n, 0.0, 1.0)

    def function(params, _noise):
        x = vector(params)
        g = 1 + 9 * sum(abs(v - 0.3) for v in x[1:]) / (n - 1)
        return [x[0], g * shape(x[0], x[0] / g)]

    return space, function


def bend(f1, q):
    return 1 - math.sqrt(q)


def bulge(f1, q):
    return 1 - q * q


def pieces(f1, q):
    return 1 - math.sqrt(q) - q * math.sin(10 * math.pi * f1)


def tradeoff(params, _noise):
    """Error against cost of a model with a choice and whole numbers."""
    size = math.log2(params["width"]) * params["layers"]
    lr = math.log10(params["lr"]) + (3 if params["opt"] == "adam" else 1.5)
    error = 0.9 * math.exp(-0.08 * size) + 0.2 * (1 - math.exp(-lr * lr)) + (0.02 if params["opt"] == "sgd" else 0)
    return [error, size / 45 * (1.0 if params["opt"] == "sgd" else 1.1)]


TRADEOFF = [number("width", 4, 512, log=True, kind="int"), number("layers", 1, 5, kind="int"), number("lr", 1e-5, 1.0, log=True),
            choice("opt", "adam", "sgd")]

PROBLEMS = {
    "ellipsoid6r": Problem(OPEN, *moved(6, -4, 6, 11, True, ellipsoid)),
    "valley4r": Problem(OPEN, *moved(4, -3, 3, 12, True, valley)),
    "waves3": Problem(OPEN, *moved(3, -7, 7, 13, False, waves)),
    "crater10r": Problem(OPEN, *moved(10, -8, 8, 14, True, crater)),
    "steps5": Problem(OPEN, *moved(5, -5, 5, 15, False, steps)),
    "holes4": Problem(OPEN, *holes(16, 4, 7, 8.0)),
    "noisy5r": Problem(OPEN, *noisy(moved(5, -4, 4, 17, True, ellipsoid), 5.0)),
    "powers16": Problem(OPEN, *moved(16, -3, 3, 18, True, powers)),
    "network": Problem(OPEN, NETWORK, network, 0.049),
    "table4": Problem(OPEN, *table(19, (4, 5, 3, 3))),
    "camel2": Problem(HELD, box(2, -3.0, 2.5), camel, -1.0316284534898774),
    "ridge8r": Problem(HELD, *moved(8, -5, 5, 21, True, ridge)),
    "valley10": Problem(HELD, *moved(10, -2, 2, 22, False, valley)),
    "waves6r": Problem(HELD, *moved(6, -6, 6, 23, True, waves)),
    "crater4": Problem(HELD, *moved(4, -12, 12, 24, False, crater)),
    "powers7r": Problem(HELD, *moved(7, -3, 3, 25, True, powers)),
    "holes6": Problem(HELD, *holes(26, 6, 5, 5.0)),
    "noisy8": Problem(HELD, *noisy(moved(8, -5, 5, 27, False, waves), 2.0)),
    "ellipsoid20r": Problem(HELD, *moved(20, -4, 6, 28, True, ellipsoid)),
    "boosting": Problem(HELD, BOOSTING, boosting, 0.12),
    "kernels": Problem(HELD, KERNELS, kernels, 0.0),
    "table6": Problem(HELD, *table(29, (6, 4, 4, 2, 3))),
    "front_bend5": Problem("fronts", *front(5, bend), 0.87667, (1.1, 1.1)),
    "front_bulge5": Problem("fronts", *front(5, bulge), 0.54333, (1.1, 1.1)),
    "front_bend12": Problem("fronts", *front(12, bend), 0.87667, (1.1, 1.1)),
    "front_bulge12": Problem("fronts", *front(12, bulge), 0.54333, (1.1, 1.1)),
    "front_pieces8": Problem("fronts", *front(8, pieces), 1.3285, (1.1, 1.1)),
    "front_tradeoff": Problem("fronts", TRADEOFF, tradeoff, 0.75, (1.1, 1.1)),
}
