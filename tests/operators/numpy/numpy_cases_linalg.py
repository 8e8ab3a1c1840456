"""Linear algebra: dtypes, layouts, batches, no elements. Factors whose signs are free are put together again in C++ tests."""
import itertools

import numpy as np

from numpy_case import Case, random

FLOATS = [np.float64, np.float32]
BATCHES = [(), (3,), (2, 2), (0,)]


def layouts(x):
    """x in several memory layouts: contiguous, and pairs (array, view)."""
    yield x
    yield x.transpose().copy(), "transposed"
    yield x[..., ::-1].copy(), "reversed"
    yield np.repeat(x, 2, axis=0), "strided"


def regular(rng, batch, n, dtype):
    return random(rng, (*batch, n, n), dtype) + 6 * np.eye(n, dtype=dtype)


def solved(a, b):
    """Solves with b broadcast: NumPy 1 takes a b with one axis less than a as vectors."""
    b = np.broadcast_to(b, (*a.shape[:-2], *b.shape[-2:])) if b.ndim < a.ndim else b
    return np.linalg.solve(a.astype(np.float64), b.astype(np.float64))


def expm(x):
    """The Taylor series of exp(x / 2^10), squared ten times."""
    x = x.astype(np.longdouble) / 1024
    total = term = np.broadcast_to(np.eye(x.shape[-1], dtype=np.longdouble), x.shape)
    for k in range(1, 20):
        term = np.einsum("...ij,...jk->...ik", term, x) / k
        total = total + term
    for _ in range(10):
        total = np.einsum("...ij,...jk->...ik", total, total)
    return total.astype(np.float64)


def square(rng):
    for batch, n, dtype in itertools.product(BATCHES, (1, 2, 5), FLOATS):
        for given in layouts(regular(rng, batch, n, dtype)):
            x = {"transposed": lambda a: a.transpose(), "reversed": lambda a: a[..., ::-1], "strided": lambda a: a[::2]}[
                given[1]](given[0]) if isinstance(given, tuple) else given
            wide = x.astype(np.float64)
            yield Case("inv", [given], np.linalg.inv(wide).astype(dtype), scale=1.0)
            yield Case("det", [given], np.linalg.det(wide).astype(dtype), scale=100.0)
            sign, log = np.linalg.slogdet(wide)
            yield Case("slogdet", [given], sign.astype(dtype), {"result": 0})
            yield Case("slogdet", [given], log.astype(dtype), {"result": 1}, scale=1.0)
            yield Case("eigvalsh", [given], np.linalg.eigvalsh(wide).astype(dtype), scale=10.0)
            yield Case("eigvalsh", [given], np.linalg.eigvalsh(wide, UPLO="U").astype(dtype), {"uplo": "U"}, scale=10.0)
            yield Case("eigh", [given], np.linalg.eigvalsh(wide).astype(dtype), {"result": 0}, scale=10.0)
            for power in (-2, 0, 1, 3):
                yield Case("matrix_power", [given], np.linalg.matrix_power(wide, power).astype(dtype), {"n": power}, scale=1e3)
            definite = np.swapaxes(wide, -1, -2) @ wide
            yield Case("cholesky", [definite.astype(dtype)], np.linalg.cholesky(definite).astype(dtype), scale=10.0)
            yield Case("cond", [given], np.asarray(np.linalg.cond(wide), dtype), scale=10.0)
            if wide.size:
                yield Case("expm", [(wide / 8).astype(dtype)], expm((wide / 8).astype(dtype)).astype(dtype), scale=10.0)
                for p in (1, -1, np.inf, -np.inf, "fro", "nuc", -2):
                    yield Case("cond", [given], np.asarray(np.linalg.cond(wide, p), dtype), {"p": p}, scale=10.0)


def equations(rng):
    for dtype, batch, other in itertools.product(FLOATS, BATCHES[:3], ((), (1,))):
        a = regular(rng, batch, 4, dtype)
        b = random(rng, (*other, 4, 3), dtype)
        yield Case("solve", [a, b], solved(a, b).astype(dtype), scale=1.0)
        yield Case("solve", [a, (b[..., ::-1].copy(), "reversed")], solved(a, b).astype(dtype), scale=1.0)
        row = random(rng, (4,), dtype)
        expected = solved(a, row[:, None])[..., 0]
        yield Case("solve", [a, row], expected.astype(dtype), scale=1.0)
        for upper, triangle in ((1, np.triu), (0, np.tril)):
            yield Case("solve_triangular", [a, b], solved(triangle(a), b).astype(dtype),
                       {"upper": upper}, scale=1.0)
    for dtype, (m, n), right in itertools.product(FLOATS, ((5, 3), (3, 5), (4, 4)), ((2,), ())):
        a, b = random(rng, (m, n), dtype), random(rng, (m, *right), dtype)
        expected = np.linalg.lstsq(a.astype(np.float64), b.astype(np.float64), rcond=None)[0]
        yield Case("lstsq", [a, b], expected.astype(dtype), scale=30.0)
    low = np.outer(np.arange(1.0, 5), np.arange(1.0, 4))
    yield Case("lstsq", [low, np.ones(4)], np.linalg.lstsq(low, np.ones(4), rcond=None)[0], scale=1.0)
    for mixed in (np.int32, np.bool_, np.uint8):
        a = (np.eye(3) * 2 + 1).astype(mixed) if mixed != np.bool_ else np.eye(3, dtype=np.bool_)
        yield Case("solve", [a, np.ones((3, 2), np.float32)], np.linalg.solve(a.astype(np.float64), np.ones((3, 2))), scale=1.0)
        yield Case("inv", [a], np.linalg.inv(a.astype(np.float64)), scale=1.0)


def any_shape(rng):
    for dtype, batch, (m, n) in itertools.product(FLOATS, BATCHES, ((4, 4), (5, 3), (3, 5), (1, 4))):
        for given in itertools.islice(layouts(random(rng, (*batch, m, n), dtype)), 1):
            wide = given.astype(np.float64)
            s = np.linalg.svd(wide, compute_uv=False)
            yield Case("svdvals", [given], s.astype(dtype), scale=10.0)
            for full in (0, 1):
                yield Case("svd", [given], s.astype(dtype), {"full_matrices": full, "result": 1}, scale=10.0)
            yield Case("pinv", [given], np.linalg.pinv(wide).astype(dtype), scale=30.0)
            yield Case("matrix_rank", [given], np.asarray(np.linalg.matrix_rank(wide)))
            for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
                for keepdims in (0, 1):
                    expected = np.linalg.norm(wide, p, (-2, -1), bool(keepdims))
                    yield Case("matrix_norm", [given], np.asarray(expected, dtype), {"ord": p, "keepdims": keepdims}, scale=10.0)
            if not batch:
                for mode, result in itertools.product(("reduced", "complete"), (0, 1)):
                    yield Case("qr", [given], np.linalg.qr(wide, mode)[result].astype(dtype), {"mode": mode, "result": result}, scale=10.0)
    low = np.outer(np.arange(1.0, 5), np.arange(1.0, 4))
    yield Case("matrix_rank", [low], np.asarray(np.linalg.matrix_rank(low)))
    yield Case("matrix_rank", [np.diag([1.0, 0.1, 0.001])], np.asarray(2), {"rtol": 0.01})
    yield Case("pinv", [low], np.linalg.pinv(low), scale=1.0)
    yield Case("vector_norm", [low], np.linalg.norm(low, 3, 1), {"ord": 3.0, "axis": (1,)}, scale=1.0)


def cases(rng):
    for group in (square, equations, any_shape):
        yield from group(rng)
