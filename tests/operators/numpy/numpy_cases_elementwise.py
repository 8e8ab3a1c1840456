"""Elementwise operators: every dtype, broadcasting, strides, scalars, special values."""
import itertools

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided

ARITHMETIC = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
BROADCASTS = [
    ((), ()),
    ((5,), ()),
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((0, 3), (3,)),
    ((2, 0), (1, 1)),
    ((37,), (37,)),
    ((300, 257), (300, 257)),
    ((300, 257), (300, 1)),
]
SHAPES = [(), (7,), (3, 4), (2, 3, 5), (0, 4), (260, 259)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FLOATING = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sigmoid": sigmoid}
KEEPING = {"negative": np.negative, "abs": np.abs, "square": np.square, "relu": lambda x: np.maximum(x, x.dtype.type(0))}


def in_f64(f, x):
    """f computed in f64 and rounded to x's dtype, since NumPy's f32 functions are inexact."""
    with np.errstate(all="ignore"):
        return f(x.astype(np.float64)).astype(x.dtype if x.dtype in FLOATS else np.float64)


def binary(rng):
    functions = {**ARITHMETIC, **COMPARISONS, "subtract": np.subtract, "divide": np.true_divide}
    for (name, f), dtype, (a_shape, b_shape) in itertools.product(functions.items(), DTYPES, BROADCASTS):
        if name == "subtract" and dtype == np.bool_:
            continue
        a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
        with np.errstate(all="ignore"):
            yield Case(name, [a, b], f(a, b))
    for (name, f), a_dtype, b_dtype in itertools.product(functions.items(), DTYPES, DTYPES):
        if name == "subtract" and a_dtype == b_dtype == np.bool_:
            continue
        a, b = random(rng, (3, 4), a_dtype), random(rng, (4,), b_dtype)
        with np.errstate(all="ignore"):
            yield Case(name, [a, b], f(a, b))
    for (name, f), dtype in itertools.product(functions.items(), [np.float32, np.int64]):
        for a, b in itertools.product(strided(rng, (6, 8), dtype), strided(rng, (6, 8), dtype)):
            with np.errstate(all="ignore"):
                yield Case(name, [a, b], f(seen(a), seen(b)))


def power(rng):
    for a_shape, b_shape in BROADCASTS:
        for dtype in FLOATS:
            a, b = random(rng, a_shape, dtype, low=0.1), random(rng, b_shape, dtype)
            yield Case("power", [a, b], np.power(a.astype(np.float64), b).astype(dtype))
        for dtype in [np.int32, np.int64, np.uint8, np.int16, np.uint16, np.uint32, np.uint64]:
            a, b = random(rng, a_shape, dtype), np.abs(random(rng, b_shape, dtype)).astype(dtype)
            yield Case("power", [a, b], np.power(a, b))


def scalars(rng):
    functions = {**ARITHMETIC, **COMPARISONS, "subtract": np.subtract, "divide": np.true_divide}
    for (name, f), dtype in itertools.product(functions.items(), DTYPES):
        x = random(rng, (5, 7), dtype)
        yield Case(name, [x], f(x, 2.5), {"b": 2.5})
        yield Case(name, [x], f(x, 3), {"b": 3})
    for dtype in DTYPES:
        x = random(rng, (40,), dtype)
        if dtype != np.bool_:
            yield Case("clip", [x], np.clip(x, 1, 5), {"min": 1, "max": 5})
        yield Case("clip", [x], np.clip(x, -1.5, 2.25), {"min": -1.5, "max": 2.25})


def unary(rng):
    for (name, f), dtype, shape in itertools.product(FLOATING.items(), FLOATS, SHAPES):
        for x in strided(rng, shape, dtype, low=0.01 if name in ("log", "sqrt") else -4.0):
            yield Case(name, [x], in_f64(f, seen(x)))
    for name, f in FLOATING.items():
        for dtype in [np.int32, np.int64]:
            x = np.abs(random(rng, (11,), dtype)) + dtype(1)
            yield Case(name, [x], in_f64(f, x))
    for (name, f), dtype, shape in itertools.product(KEEPING.items(), DTYPES, SHAPES):
        if dtype == np.bool_ and name != "abs":
            continue
        for x in strided(rng, shape, dtype):
            yield Case(name, [x], f(seen(x)))
    for dtype in DTYPES:
        x = random(rng, (31,), dtype)
        yield Case("logical_not", [x], np.logical_not(x))


def special_values(rng):
    info = np.finfo(np.float32)
    values = np.array([0.0, -0.0, 1e-30, -1e-30, info.tiny, info.tiny / 64, 1.0, -1.0, np.inf, -np.inf, np.nan, 88.7,
                       -87.3, -100.0, 89.5, -110.0, 1e-4, -1e-4, 0.59, 0.61, 3e38], np.float32)
    dense = np.concatenate([np.linspace(-88, 88, 40001), 2.0 ** np.linspace(-140, 20, 9999)]).astype(np.float32)
    for name, f in FLOATING.items():
        for x in (values, dense, values.astype(np.float64)):
            expected = in_f64(f, x)
            small = np.abs(expected) < info.tiny  # subnormal results have few significant bits
            yield Case(name, [x], expected, scale=float(info.tiny) if small.any() else 0.0)
    for name in ["maximum", "minimum", "less", "less_equal", "equal", "not_equal"]:
        a, b = np.meshgrid(values, values)
        yield Case(name, [a, b], getattr(np, name)(a, b))
    big = np.array([np.iinfo(np.int32).max, np.iinfo(np.int32).min, -1], np.int32)
    with np.errstate(all="ignore"):
        for name in ["add", "subtract", "multiply"]:
            yield Case(name, [big, big[::-1].copy()], getattr(np, name)(big, big[::-1]))
        for name in ["abs", "negative", "square"]:
            yield Case(name, [big], getattr(np, name)(big))


def where(rng):
    for dtype, (a_shape, b_shape) in itertools.product(DTYPES, BROADCASTS):
        a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
        condition = random(rng, a_shape, np.bool_)
        yield Case("where", [condition, a, b], np.where(condition, a, b))
    for a in strided(rng, (4, 6), np.float32):
        condition = (random(rng, (6, 4), np.bool_), "transposed")
        b = random(rng, (6,), np.float64)
        yield Case("where", [condition, a, b], np.where(seen(condition), seen(a), b))


def updates(rng):
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
    for (how, f), (a_shape, b_shape) in itertools.product(functions.items(), BROADCASTS):
        for dtype in [np.float32, np.float64, np.int32]:
            a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
            if f(a, b).shape == a.shape:
                yield Case(f"{how}_", [a, b], f(a, b))
    x, y = random(rng, (3, 4), np.float32), random(rng, (4,), np.float64)
    yield Case("divide_", [x, y], (x / y).astype(np.float32))


def cases(rng):
    for group in (binary, power, scalars, unary, special_values, where, updates):
        yield from group(rng)
