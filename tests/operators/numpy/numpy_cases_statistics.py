"""Statistics and scans: every dtype, axes, layouts, NaN, zeros, no elements."""
import itertools

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided, sum_dtype

AXES = [((3, 4, 5), None), ((3, 4, 5), (1,)), ((3, 4, 5), (0, 2)), ((3, 4, 5), (-1,)), ((260, 7), (0,)), ((7, 260), (1,)),
        ((2, 0, 3), (1,)), ((), None), ((4, 1), (1,))]


def differences(x, n, axis):
    """np.diff with halves as f32, since NumPy would round them after each step."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    return np.diff(wide, n=n, axis=axis).astype(x.dtype)


def logsumexp(x, axis, keepdims):
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    kept = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return kept if keepdims else np.squeeze(kept, axis=axis)


def reductions(rng):
    for (shape, axes), keepdims in itertools.product(AXES, (False, True)):
        attributes = {"axis": axes or (), "keepdims": int(keepdims)}
        axis = axes if axes is not None else tuple(range(len(shape)))
        for dtype in DTYPES:
            for x in strided(rng, shape, dtype):
                value = seen(x)
                wide = value.astype(np.float64)
                result = dtype if dtype in FLOATS else np.float64
                with np.errstate(all="ignore"):
                    if dtype != np.float16:  # a product of many f16 overflows
                        total = np.prod(value if dtype not in FLOATS else wide, axis=axis, keepdims=keepdims, dtype=None
                                        if dtype in FLOATS else sum_dtype(dtype))
                        yield Case("prod", [x], np.asarray(total).astype(sum_dtype(dtype)), attributes)
                    for correction in (0, 1):
                        count = np.prod([shape[a] for a in axis]) if axis else 1
                        if count > correction:
                            more = {**attributes, "correction": float(correction)}
                            yield Case("var", [x], np.asarray(wide.var(axis=axis, ddof=correction, keepdims=keepdims)).astype(result),
                                       more, scale=1.0)
                            yield Case("std", [x], np.asarray(wide.std(axis=axis, ddof=correction, keepdims=keepdims)).astype(result),
                                       more, scale=1.0)
                    yield Case("logsumexp", [x], np.asarray(logsumexp(wide, axis, keepdims)).astype(result), attributes, scale=1.0)
                yield Case("any", [x], np.any(value, axis=axis, keepdims=keepdims), attributes)
                yield Case("all", [x], np.all(value, axis=axis, keepdims=keepdims), attributes)
                yield Case("count_nonzero", [x], np.asarray(np.count_nonzero(value, axis=axis, keepdims=keepdims)), attributes)


def without_nan(rng):
    for dtype, axes, keepdims in itertools.product((np.float32, np.float64), ((0,), (1,), (0, 1)), (False, True)):
        x = random(rng, (6, 5), dtype)
        x[rng.random(x.shape) < 0.3] = np.nan
        attributes = {"axis": axes, "keepdims": int(keepdims)}
        for name in ("nansum", "nanmean", "nanmax", "nanmin"):
            yield Case(name, [x], getattr(np, name)(x, axis=axes, keepdims=keepdims), attributes, scale=1.0)
    for name in ("nanmax", "nanmin", "nansum"):
        x = random(rng, (6, 5), np.int32)
        yield Case(name, [x], np.asarray(getattr(np, name)(x)))


def norms(rng):
    for p, axes in itertools.product((0.0, 1.0, 2.0, 3.5, np.inf, -np.inf), ((0,), (1,))):
        for x in strided(rng, (6, 5), np.float64):
            yield Case("norm", [x], np.linalg.norm(seen(x), ord=p, axis=axes[0]), {"p": p, "axis": axes}, scale=1.0)
    x = random(rng, (6, 5), np.float32)
    yield Case("norm", [x], np.linalg.norm(x).astype(np.float32), {"axis": ()})


def scans(rng):
    for (name, f), dtype, (shape, axis) in itertools.product(
            {"cumsum": np.cumsum, "cumprod": np.cumprod}.items(), DTYPES,
            (((7,), 0), ((3, 4, 5), 0), ((3, 4, 5), 1), ((3, 4, 5), -1), ((2, 0, 3), 1), ((5, 300), 0), ((300, 5), 0))):
        if name == "cumprod" and dtype == np.float16:
            continue
        for x in strided(rng, shape, dtype, low=0.5, high=1.5):
            wide = np.float64 if dtype in FLOATS else sum_dtype(dtype)
            expected = f(seen(x).astype(wide), axis=axis)
            yield Case(name, [x], expected.astype(sum_dtype(dtype)), {"axis": axis})
    for dtype, n, axis in itertools.product([d for d in DTYPES if d != np.bool_], (0, 1, 2, 9), (0, 1, -1)):
        for x in strided(rng, (4, 5), dtype):
            yield Case("diff", [x], differences(seen(x), n, axis), {"n": n, "axis": axis})


def cases(rng):
    for group in (reductions, without_nan, norms, scans):
        yield from group(rng)
