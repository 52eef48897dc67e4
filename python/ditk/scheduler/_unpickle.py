"""A program: reads a pickle from standard input and writes its value as JSON to standard output.

It runs as ``python -I -S _unpickle.py`` with no environment, no other open files, and limits that it sets itself
before it reads.  A pickle can name any function and have it called; here a name is looked up in the table below
and nowhere else, and nothing is ever imported for it.  NumPy's names lead to stand-ins that keep bytes and shapes.
"""

import collections
import json
import math
import pickle
import resource
import struct
import sys

CPU_S = 20
MEMORY = 2 << 30
NODES = 5000000  #: values in the answer; references make a small pickle a huge text
NUMBERS = {"f2": "e", "f4": "f", "f8": "d", "b1": "?"}
NUMBERS.update({"i%d" % (1 << i): c for i, c in enumerate("bhiq")})
NUMBERS.update({"u%d" % (1 << i): c for i, c in enumerate("BHIQ")})


class Unsafe(Exception):
    """The pickle asks for something that is not in the table."""


class Easy(dict):
    """EasyDict, which stores its items twice."""

    def __setstate__(self, state):
        pass


class Dtype:
    def __init__(self, name="", *_):
        self.name, self.order = str(name), "<"

    def __setstate__(self, state):
        if state[2] is not None or state[3] is not None:
            raise ValueError("arrays of records are not supported")
        self.order = ">" if state[1] == ">" else "<"

    def values(self, data):
        """The list of values that the bytes are."""
        if self.name[:1] == "O":
            return list(data)
        if isinstance(data, str):
            data = data.encode("latin1")
        kind, size = self.name[:1], int(self.name[1:] or 0)
        if kind in "US" and size:
            width = 4 * size if kind == "U" else size
            cells = [bytes(data[i : i + width]) for i in range(0, len(data), width)]
            if kind == "S":
                return [c.rstrip(b"\0") for c in cells]
            return [c.decode("utf-32-" + ("be" if self.order == ">" else "le")).rstrip("\0") for c in cells]
        if kind == "c":
            parts = Dtype("f%d" % (size // 2))
            parts.order = self.order
            flat = parts.values(data)
            return [complex(a, b) for a, b in zip(flat[::2], flat[1::2])]
        if self.name not in NUMBERS:
            raise ValueError("NumPy's type %r is not supported" % self.name)
        return list(struct.unpack("%s%d%s" % (self.order, len(data) // size, NUMBERS[self.name]), bytes(data)))


class Array:
    def __init__(self, *_):
        self.shape, self.flat, self.fortran = (0,), [], False

    def __setstate__(self, state):
        _, self.shape, dtype, self.fortran, data = state
        self.flat = dtype.values(data)

    def nested(self):
        if math.prod(self.shape) != len(self.flat) or any(n < 0 for n in self.shape) or len(self.shape) > 32:
            raise ValueError("an array has another shape than values")
        steps, step = [], 1
        for n in self.shape if self.fortran else reversed(self.shape):
            steps.append(step)
            step *= n
        steps = steps if self.fortran else steps[::-1]

        def level(depth, at):
            if depth == len(self.shape):
                return self.flat[at]
            return [level(depth + 1, at + i * steps[depth]) for i in range(self.shape[depth])]

        return level(0, 0)


def from_buffer(data, dtype, shape, order, *_):
    array = Array()
    array.shape, array.flat, array.fortran = tuple(shape), dtype.values(data), order == "F"
    return array


def encode(text, encoding="latin1"):
    if encoding not in ("latin1", "latin-1"):
        raise Unsafe("_codecs.encode with %r" % (encoding,))
    return text.encode("latin1")


def reconstructor(kind, base, state):
    if kind is not Easy:
        raise Unsafe("copyreg._reconstructor")
    return Easy(state or {})


ALLOWED = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("easydict", "EasyDict"): Easy,
    ("_codecs", "encode"): encode,
}
for module in ("builtins", "__builtin__"):
    for kind in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range):
        ALLOWED[module, kind.__name__] = kind
for name, kind in (("xrange", range), ("long", int), ("unicode", str)):
    ALLOWED["__builtin__", name] = kind
for module in ("copyreg", "copy_reg"):
    ALLOWED[module, "_reconstructor"] = reconstructor
ALLOWED["numpy", "dtype"] = Dtype
ALLOWED["numpy", "ndarray"] = Array
for core in ("numpy.core", "numpy._core"):
    ALLOWED[core + ".multiarray", "scalar"] = lambda dtype, data: dtype.values(data)[0]
    ALLOWED[core + ".multiarray", "_reconstruct"] = Array
    ALLOWED[core + ".numeric", "_frombuffer"] = from_buffer


class Restricted(pickle.Unpickler):
    def find_class(self, module, name):
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise Unsafe("%s.%s" % (module, name)) from None

    def persistent_load(self, pid):
        raise Unsafe("a persistent id")


def plain(value, left):
    """The value as JSON holds it; what JSON lacks is {"$": kind, "v": …}."""
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("it has more than %d values" % NODES)
    if isinstance(value, Array):
        value = value.nested()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [plain(v, left) for v in value]
    if isinstance(value, dict):
        if "$" not in value and all(isinstance(k, str) for k in value):
            return {k: plain(v, left) for k, v in value.items()}
        return {"$": "dict", "v": [[plain(k, left), plain(v, left)] for k, v in value.items()]}
    if isinstance(value, complex):
        return {"$": "complex", "v": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "v": value.hex()}
    for kind in (tuple, set, frozenset, range):
        if isinstance(value, kind):
            return {"$": kind.__name__ if kind is not range else "tuple", "v": [plain(v, left) for v in value]}
    raise Unsafe(type(value).__name__)


def main():
    for what, limit in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 8),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    try:
        answer = {"value": plain(Restricted(sys.stdin.buffer).load(), [NODES])}
        text = json.dumps(answer)
    except Unsafe as e:
        text = json.dumps({"unsafe": str(e)})
    except BaseException as e:  # noqa: B902 - whatever a broken file causes
        text = json.dumps({"broken": "%s: %s" % (type(e).__name__, e)})
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
