"""Arrays without elements, of generated shapes, seen through views that would move their start: what NumPy makes of them,
and what NumPy refuses."""
import warnings

import numpy as np

from numpy_case import Case, random, seen

DTYPES = [np.float32, np.float64, np.int32, np.bool_]
VIEWS = ["", "indexed", "tail", "columns", "transposed", "reversed", "indexed+tail", "tail+transposed+indexed",
         "columns+reversed", "indexed+indexed"]


def empty_shape(rng, most=4):
    shape = list(rng.integers(1, 5, rng.integers(1, most + 1)))
    shape[rng.integers(len(shape))] = 0
    return tuple(map(int, shape))


def inputs(rng):
    """Pairs (input, its array after views); most arrays are empty."""
    for _ in range(20):
        x = random(rng, empty_shape(rng), DTYPES[rng.integers(len(DTYPES))])
        for view in rng.choice(VIEWS, 3, replace=False):
            given = (x, view) if view else x
            try:
                yield given, seen(given)
            except IndexError:
                continue


def attempt(operator, given, attributes, call):
    try:
        expected = call()
    except (ValueError, IndexError):
        expected = None
    return Case(operator, given, expected, attributes)


def shapes(given, y):
    for axis in range(-y.ndim - 1, y.ndim + 1):
        yield Case("expand_dims", [given], np.expand_dims(y, axis), {"axis": axis})
        yield Case("stack", [given, given], np.stack([y, y], axis), {"axis": axis})
    yield Case("squeeze", [given], y.squeeze())
    yield Case("transpose", [given], y.transpose(), {"axes": tuple(range(y.ndim))[::-1]})
    yield Case("broadcast_to", [given], np.broadcast_to(y, (3, *y.shape)), {"shape": (3, *y.shape)})
    flat = (0,) if y.size == 0 else (y.size,)
    yield Case("reshape", [given], y.reshape(flat), {"shape": flat})
    for axis in range(y.ndim):
        yield Case("concat", [given, given], np.concatenate([y, y], axis), {"axis": axis})
        yield Case("slice", [given], np.take(y, range(1, y.shape[axis], 2), axis), {"axis": axis, "start": 1, "step": 2})


def reductions(given, y):
    for axes in [(), *((axis,) for axis in range(y.ndim))]:
        axis = axes or None
        for keepdims in (0, 1):
            attributes = {"axis": axes, "keepdims": keepdims} if axes else {"keepdims": keepdims}
            total = y.sum(axis, keepdims=bool(keepdims))
            yield Case("sum", [given], total.astype(y.dtype) if y.dtype == np.float32 else total, attributes)
            if y.dtype == np.float64:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the mean of an empty array is NaN
                    mean = np.mean(y, axis, keepdims=bool(keepdims))
                yield Case("mean", [given], mean, attributes)
            if y.dtype != np.bool_:
                yield attempt("max", [given], attributes, lambda: y.max(axis, keepdims=bool(keepdims)))
    for axis in range(y.ndim):
        yield attempt("argmin", [given], {"axis": axis}, lambda: y.argmin(axis))


def arithmetic(rng, given, y):
    yield Case("add", [given, given], y + y)
    yield Case("multiply", [given, y], y * y)
    yield Case("equal", [given, y], y == y)
    row = random(rng, y.shape[-1:], y.dtype.type)
    yield Case("add", [given, row], y + row)
    yield Case("where", [np.ones(y.shape, np.bool_), given, row], np.where(np.ones(y.shape, np.bool_), y, row))
    yield Case("cast", [given], y.astype(np.int64), {"dtype": "i64"})
    yield Case("abs", [given], np.abs(y))
    yield Case("add_", [given, row], y + row)


def lookups(rng, given, y):
    for axis in range(y.ndim):
        for at in (np.zeros((2, 0), np.int64), np.zeros((2, 1), np.int32)):
            # Heddle checks indices even if the result is empty; NumPy does not
            expected = None if at.size and y.shape[axis] == 0 else np.take(y, at, axis)
            yield Case("take", [given, at], expected, {"axis": axis})
    if y.dtype == np.int32:
        yield Case("one_hot", [given], np.zeros((*y.shape, 3), np.float32), {"num_classes": 3})


def products(rng, given, y):
    if y.ndim == 0 or y.dtype == np.bool_:
        return
    k = y.shape[-1]
    for shape in [(k,), (k, 3), (k, 0), (2, k, 3)]:
        other = random(rng, shape, y.dtype.type)
        yield attempt("matmul", [given, other], {}, lambda: np.matmul(y, other))
    if y.ndim > 1:
        other = random(rng, (2, y.shape[-2]), y.dtype.type)
        yield attempt("matmul", [other, given], {}, lambda: np.matmul(other, y))
    if np.issubdtype(y.dtype, np.floating):
        weight = random(rng, (2, k), y.dtype.type)
        yield Case("linear", [given, weight], y @ weight.T)
        yield Case("softmax", [given], np.zeros(y.shape, y.dtype), {"axis": -1}) if y.size == 0 else \
            Case("abs", [given], np.abs(y))


def cases(rng):
    for given, y in inputs(rng):
        if y.ndim == 0 or y.size:  # non-empty arrays are tested elsewhere
            continue
        yield from shapes(given, y)
        yield from reductions(given, y)
        yield from arithmetic(rng, given, y)
        yield from lookups(rng, given, y)
        yield from products(rng, given, y)
