"""The extension `linalg` of Python's array API standard, 2024.12: heddle.array_api.linalg."""

import math as _math
from numbers import Real as _Real
from typing import Any as _Any
from typing import NamedTuple as _NamedTuple

import heddle as _heddle
from heddle import NDArray as _Array


class _Eigh(_NamedTuple):
    eigenvalues: _Array
    eigenvectors: _Array


class _QR(_NamedTuple):
    Q: _Array
    R: _Array


class _Slogdet(_NamedTuple):
    sign: _Array
    logabsdet: _Array


class _SVD(_NamedTuple):
    U: _Array
    S: _Array
    Vh: _Array


def _cast(x: _Array, dtype: _Any) -> _Array:
    """x in this dtype, or as it is. Before a sum, as the standard has it, and after one: the operators add integers in 64 bits."""
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


def _reduced(function: _Any, x: _Array, axis: _Any, keepdims: _Any, **options: _Any) -> _Array:
    """x reduced by the function. For axis=() each element is reduced alone, as a row of length 1, which works for eight axes too."""
    if isinstance(axis, (tuple, list)) and len(axis) == 0:
        result: _Array = function(_heddle.reshape(x, (x.size, 1)), axis=1, **options)
        return _heddle.reshape(result, x.shape)
    result = function(x, axis=axis, keepdims=keepdims, **options)
    return result


def cholesky(x: _Array, /, *, upper: bool = False) -> _Array:
    lower = _heddle.cholesky(x)
    return lower.mT if upper else lower


def cross(x1: _Array, x2: _Array, /, *, axis: int = -1) -> _Array:
    return _heddle.cross(x1, x2, axis)


def det(x: _Array, /) -> _Array:
    return _heddle.det(x)


def diagonal(x: _Array, /, *, offset: int = 0) -> _Array:
    return _heddle.diagonal(x, offset, -2, -1)


def eigh(x: _Array, /) -> _Eigh:
    return _Eigh(*_heddle.eigh(x))


def eigvalsh(x: _Array, /) -> _Array:
    return _heddle.eigvalsh(x)


def inv(x: _Array, /) -> _Array:
    return _heddle.inv(x)


def matmul(x1: _Array, x2: _Array, /) -> _Array:
    return _heddle.matmul(x1, x2)


def matrix_norm(x: _Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> _Array:
    name: _Any = "fro" if ord is None else ord
    if not isinstance(name, str):
        if not isinstance(name, _Real):
            raise TypeError(f"matrix_norm: ord is a {type(ord).__name__}; want a number, 'fro' or 'nuc'")
        name = float(name)
        name = ("inf" if name > 0 else "-inf") if _math.isinf(name) else f"{name:g}"
    return _heddle.matrix_norm(x, name, keepdims)


def matrix_power(x: _Array, n: int, /) -> _Array:
    return _heddle.matrix_power(x, n)


def _above(name: str, values: _Array, rtol: _Array) -> _Array:
    """Which singular values are above rtol times the largest of their matrix, which is the first."""
    if not rtol.dtype.numpy_name.startswith(("float", "bfloat")):
        raise TypeError(f"{name}: rtol has dtype {rtol.dtype.name}; want a floating one")
    return values > _heddle.expand_dims(rtol, -1) * values[..., :1]


def _number(name: str, rtol: _Any) -> float | None:
    if rtol is not None and not isinstance(rtol, _Real):
        raise TypeError(f"{name}: rtol is a {type(rtol).__name__}; want a float, an array or None")
    return None if rtol is None else float(rtol)


def matrix_rank(x: _Array, /, *, rtol: float | _Array | None = None) -> _Array:
    """rtol: a number, or an array with one for each matrix."""
    if isinstance(rtol, _Array):
        return _heddle.count_nonzero(_above("matrix_rank", _heddle.svdvals(x), rtol), axis=-1)
    return _heddle.matrix_rank(x, _number("matrix_rank", rtol))


def matrix_transpose(x: _Array, /) -> _Array:
    return x.mT


def outer(x1: _Array, x2: _Array, /) -> _Array:
    return _heddle.outer(x1, x2)


def pinv(x: _Array, /, *, rtol: float | _Array | None = None) -> _Array:
    """rtol: a number, or an array with one for each matrix."""
    if not isinstance(rtol, _Array):
        return _heddle.pinv(x, _number("pinv", rtol))
    u, values, vh = _heddle.svd(x, False)
    kept = _above("pinv", values, rtol)
    inverse = _heddle.where(kept, 1 / _heddle.where(kept, values, 1), 0)  # no division by 0, whose gradient is NaN
    return _heddle.matmul(vh.mT * _heddle.expand_dims(inverse, -2), u.mT)


def qr(x: _Array, /, *, mode: _Any = "reduced") -> _QR:
    return _QR(*_heddle.qr(x, mode))


def slogdet(x: _Array, /) -> _Slogdet:
    return _Slogdet(*_heddle.slogdet(x))


def solve(x1: _Array, x2: _Array, /) -> _Array:
    return _heddle.solve(x1, x2)


def svd(x: _Array, /, *, full_matrices: bool = True) -> _SVD:
    return _SVD(*_heddle.svd(x, full_matrices))


def svdvals(x: _Array, /) -> _Array:
    return _heddle.svdvals(x)


def tensordot(x1: _Array, x2: _Array, /, *, axes: _Any = 2) -> _Array:
    """axes: how many, or the axes of x1 and those of x2."""
    if isinstance(axes, int):
        return _heddle.tensordot(x1, x2, axes)
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise ValueError(f"tensordot: axes is {axes!r}; want an int, or the axes of x1 and those of x2")
    return _heddle.tensordot(x1, x2, a_axes=tuple(axes[0]), b_axes=tuple(axes[1]))


def trace(x: _Array, /, *, offset: int = 0, dtype: _Any = None) -> _Array:
    return _cast(_heddle.matrix_trace(_cast(x, dtype), offset, -2, -1), dtype)


def vecdot(x1: _Array, x2: _Array, /, *, axis: int = -1) -> _Array:
    return _heddle.vecdot(x1, x2, axis)


def vector_norm(x: _Array, /, *, axis: _Any = None, keepdims: bool = False, ord: float = 2) -> _Array:
    if not isinstance(ord, _Real):
        raise TypeError(f"vector_norm: ord is a {type(ord).__name__}; want a number")
    return _reduced(_heddle.vector_norm, x, axis, keepdims, ord=float(ord))
