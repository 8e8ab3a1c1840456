"""Sorting, searching and counting, with NaN, zeros of both signs, equal elements, lines of every length."""
import itertools

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided


def special(rng, shape, dtype):
    x = random(rng, shape, dtype)
    if dtype in FLOATS and x.size:
        chosen = rng.integers(0, x.size, max(1, x.size // 3))
        x.flat[chosen] = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], dtype), len(chosen))
    return x


def falling(y, axis):
    """Indices of a stable descending sort: NaN first, equal elements in their order."""
    reversed_ = np.flip(np.argsort(np.flip(y, axis), axis, kind="stable"), axis)
    return y.shape[axis] - 1 - reversed_


def sorts(rng):
    for dtype, (shape, axis) in itertools.product(DTYPES, [((7,), 0), ((4, 6), 1), ((4, 6), 0), ((3, 1, 5), -1), ((0, 4), 0), ((2, 0), 1), ((1500,), -1), ((2, 3000), 1)]):
        for x in strided(rng, shape, dtype):
            x = (special(rng, x[0].shape, dtype), x[1]) if isinstance(x, tuple) else special(rng, x.shape, dtype)
            y = seen(x)
            yield Case("sort", [x], np.sort(y, axis), {"axis": axis})
            yield Case("argsort", [x], np.argsort(y, axis, kind="stable"), {"axis": axis})
            order = falling(y, axis)
            yield Case("argsort", [x], order, {"axis": axis, "descending": 1})
            yield Case("sort", [x], np.take_along_axis(y, order, axis), {"axis": axis, "descending": 1})
    long = rng.standard_normal(300000).astype(np.float32)
    for x in (long, long.astype(np.float64), (long * 1000).astype(np.int32), np.zeros_like(long)):
        yield Case("sort", [x], np.sort(x))
        yield Case("argsort", [x], np.argsort(x, kind="stable"))
        yield Case("sort", [x], np.sort(x)[::-1], {"descending": 1})


def ranks(rng):
    for dtype, axis in itertools.product(DTYPES, (0, 1)):
        for x in strided(rng, (5, 9), dtype):
            x = (special(rng, x[0].shape, dtype), x[1]) if isinstance(x, tuple) else special(rng, x.shape, dtype)
            y = seen(x)
            up, down = np.argsort(y, axis, kind="stable"), falling(y, axis)
            for k in (0, 1, 3, y.shape[axis]):
                for largest, order in ((1, down), (0, up)):
                    at = np.take(order, range(k), axis)
                    attributes = {"k": k, "axis": axis, "largest": largest}
                    yield Case("topk", [x], np.take_along_axis(y, at, axis), {**attributes, "result": 0})
                    yield Case("topk", [x], at, {**attributes, "result": 1})
            for k, keepdims in itertools.product((1, 4), (0, 1)):
                at = np.take(up, [k - 1], axis)
                value = np.take_along_axis(y, at, axis)
                attributes = {"k": k, "axis": axis, "keepdims": keepdims}
                yield Case("kthvalue", [x], value if keepdims else value.squeeze(axis), {**attributes, "result": 0})
                yield Case("kthvalue", [x], at if keepdims else at.squeeze(axis), {**attributes, "result": 1})
    yield Case("topk", [random(rng, (3,), np.float32)], None, {"k": 4})
    yield Case("kthvalue", [random(rng, (3,), np.float32)], None, {"k": 0})


def quantiles(rng):
    for dtype, (shape, axes) in itertools.product(DTYPES, [((7,), ()), ((4, 6), (1,)), ((4, 5), (0,)), ((3, 4, 5), (0, -1)), ((1,), ()), ((), ())]):
        for x, keepdims in itertools.product(strided(rng, shape, dtype), (0, 1)):
            y = seen(x)
            result, wide = (dtype if dtype in FLOATS else np.float64), y.astype(np.float64)
            attributes = {"axis": axes, "keepdims": keepdims}
            axis = axes or None
            yield Case("median", [x], np.asarray(np.median(wide, axis, keepdims=bool(keepdims))).astype(result), attributes, scale=4.0)
            for q in (0.0, 0.3, 1.0):
                yield Case("quantile", [x], np.asarray(np.quantile(wide, q, axis, keepdims=bool(keepdims))).astype(result), {**attributes, "q": q}, scale=4.0)
            q = np.array([[0.9, 0.25]])
            yield Case("quantile", [x, q], np.quantile(wide, q, axis, keepdims=bool(keepdims)).astype(result), attributes, scale=4.0)
    x = random(rng, (3, 4), np.float32)
    x[1, 2] = np.nan
    yield Case("median", [x], np.median(x, 1), {"axis": 1})
    yield Case("quantile", [x], None, {"q": 1.5})
    yield Case("median", [random(rng, (0, 3), np.float32)], None)


def searches(rng):
    for dtype, shape in itertools.product(DTYPES, [(), (7,), (3, 4), (0,)]):
        rising = np.sort(special(rng, (20,), dtype))
        for x in strided(rng, shape, dtype):
            y = seen(x)
            yield Case("searchsorted", [rising, x], np.asarray(np.searchsorted(rising, y)))
            yield Case("searchsorted", [rising, x], np.asarray(np.searchsorted(rising, y, "right")), {"right": 1})
            for elements in (random(rng, (4,), dtype), random(rng, (2, 2), dtype), random(rng, (0,), dtype)):
                yield Case("isin", [x, elements], np.isin(y, elements))
                yield Case("isin", [x, elements], np.isin(y, elements, invert=True), {"invert": 1})
    yield Case("searchsorted", [np.arange(5), np.array([0.5, 4.5, -1])], np.searchsorted(np.arange(5), [0.5, 4.5, -1]))
    yield Case("searchsorted", [random(rng, (2, 2), np.float32), random(rng, (2,), np.float32)], None)


def distinct(rng):
    for dtype, shape in itertools.product(DTYPES, [(40,), (5, 6), (), (0,)]):
        for x in strided(rng, shape, dtype):
            x = (special(rng, x[0].shape, dtype), x[1]) if isinstance(x, tuple) else special(rng, x.shape, dtype)
            y = seen(x)
            values, first, inverse, counts = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
            yield Case("unique", [x], values)
            results = values, first, inverse.reshape(y.shape), counts
            for number, result in enumerate(results):
                yield Case("unique_all", [x], np.asarray(result), {"result": number})
    x = np.array([np.nan, 1, np.nan])
    yield Case("unique", [x], np.unique(x, equal_nan=False), {"equal_nan": 0})


def counts(rng):
    for dtype in (np.int32, np.int64, np.uint8, np.uint16):
        x = rng.integers(0, 9, 50).astype(dtype)
        weights = random(rng, (50,), np.float64)
        yield Case("bincount", [x], np.bincount(x))
        yield Case("bincount", [x], np.bincount(x, minlength=20), {"minlength": 20})
        yield Case("bincount", [x, weights], np.bincount(x, weights), scale=8.0)
    yield Case("bincount", [np.zeros(0, np.int64)], np.bincount([], minlength=2), {"minlength": 2})
    yield Case("bincount", [np.array([1, -1])], None)
    for dtype, shape in itertools.product([np.float32, np.float64, np.int32, np.uint8], [(70,), (6, 5), (1,), (0,)]):
        for x in strided(rng, shape, dtype):
            y = seen(x).astype(np.float64 if dtype != np.float32 else dtype)
            for bins, limits in itertools.product((1, 10), (None, (-1.5, 2.25), (3.0, 3.0))):
                attributes = {"bins": bins} | ({} if limits is None else {"low": limits[0], "high": limits[1]})
                number, edges = np.histogram(y, bins, limits)
                yield Case("histogram", [x], number, {**attributes, "result": 0})
                yield Case("histogram", [x], edges.astype(y.dtype), {**attributes, "result": 1}, scale=4.0)
    yield Case("histogram", [random(rng, (3,), np.float32)], None, {"bins": 0})


def scans(rng):
    for dtype, (shape, axis) in itertools.product(DTYPES, [((9,), -1), ((4, 5), 0), ((4, 5), 1), ((3, 300), 0), ((0, 3), 0)]):
        for x in strided(rng, shape, dtype):
            y = seen(x)
            yield Case("cummax", [x], np.maximum.accumulate(y, axis), {"axis": axis})
            yield Case("cummin", [x], np.minimum.accumulate(y, axis), {"axis": axis})


def cases(rng):
    for family in (sorts, ranks, quantiles, searches, distinct, counts, scans):
        yield from family(rng)
