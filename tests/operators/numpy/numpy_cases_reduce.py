"""Reductions over every set of axes, dtype and memory layout."""
import itertools
import warnings

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided, sum_dtype

SHAPES = [(), (1,), (9,), (3, 4), (4, 3, 5), (2, 3, 4, 5), (1, 5, 1), (700, 3), (3, 700), (64, 128), (17, 300, 2)]


def sets_of_axes(dims):
    for count in range(dims + 1):
        yield from itertools.combinations(range(dims), count)


def expected_sum(x, axes, keepdims):
    wide = x.astype(np.float64 if x.dtype in FLOATS else sum_dtype(x.dtype))
    return wide.sum(axis=axes, keepdims=keepdims).astype(sum_dtype(x.dtype))


def expected_mean(x, axes, keepdims):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for means of empty arrays
        mean = x.astype(np.float64).mean(axis=axes, keepdims=keepdims)
    return mean.astype(x.dtype if x.dtype in FLOATS else np.float64)


FUNCTIONS = {
    "sum": expected_sum,
    "mean": expected_mean,
    "max": lambda x, axes, keepdims: x.max(axis=axes, keepdims=keepdims),
    "min": lambda x, axes, keepdims: x.min(axis=axes, keepdims=keepdims),
}


def case(name, given, axes, keepdims):
    x = seen(given)
    shown = axes if axes is not None else ()
    attributes = {"keepdims": int(keepdims)} | ({"axis": shown} if shown else {})
    return Case(name, [given], FUNCTIONS[name](x, axes, keepdims), attributes, scale=10.0)


def reductions(rng):
    for name, shape, dtype in itertools.product(FUNCTIONS, SHAPES, DTYPES):
        x = random(rng, shape, dtype)
        for axes in sets_of_axes(len(shape)):
            yield case(name, x, axes or None, len(axes) % 2 == 0)
    for name, dtype in itertools.product(FUNCTIONS, [np.float32, np.int32]):
        for x in strided(rng, (4, 6, 8), dtype):
            for axes in sets_of_axes(3):
                yield case(name, x, axes or None, False)
    for name in FUNCTIONS:
        yield case(name, random(rng, (3, 4, 5), np.float64), (-1, 0), True)


def big(rng):
    for name, dtype in itertools.product(FUNCTIONS, FLOATS):
        for shape, axes in [((1000003,), (0,)), ((200001, 5), (0,)), ((5, 200001), (1,)), ((70001, 19), (0, 1)),
                            ((16, 32, 28, 28), (0, 2, 3)), ((300, 600), (0,)), ((3000, 600), (0,))]:
            yield case(name, random(rng, shape, dtype), axes, False)
    ones = np.full(3000000, 0.1, np.float32)
    yield case("sum", ones, (0,), False)


def empty(rng):
    for name in ["sum", "mean"]:
        for shape, axes in [((0,), (0,)), ((0, 3), (0,)), ((3, 0), (1,)), ((3, 0, 2), (1, 2)), ((0, 3), (1,))]:
            yield case(name, random(rng, shape, np.float32), axes, False)
    for name in ["max", "min"]:
        yield case(name, random(rng, (0, 3), np.float32), (1,), False)


def arguments(rng):
    for shape, dtype in itertools.product([s for s in SHAPES if s], DTYPES):
        for axis in range(-1, len(shape)):
            x = random(rng, shape, dtype)
            yield Case("argmax", [x], np.argmax(x, axis), {"axis": axis})
            yield Case("argmin", [x], np.argmin(x, axis), {"axis": axis})
    for x in strided(rng, (6, 4, 2), np.float32):
        yield Case("argmax", [x], np.argmax(seen(x), 1), {"axis": 1})
    x = random(rng, (50, 9), np.float32)
    x[rng.integers(0, 2, x.shape) == 0] = np.nan
    for name in ["argmax", "argmin", "max", "min"]:
        yield Case(name, [x], getattr(np, name)(x, axis=0), {"axis": 0})


def cases(rng):
    for group in (reductions, big, empty, arguments):
        yield from group(rng)
