"""Functions under NumPy's names that are more than one operator."""

from collections.abc import Sequence
from typing import Any

from heddle import _heddle
from heddle._heddle import NDArray, concat

__all__ = ["allclose", "concatenate", "hstack", "isclose", "newaxis", "vstack"]

newaxis = None
concatenate = concat


def arrays_beside(objects: Sequence[Any]) -> list[NDArray]:
    """The objects as arrays: those that are none yet go to the device of the first that is one."""
    first = next((one for one in objects if isinstance(one, NDArray)), None)
    with _heddle.default_device() if first is None else first.device:
        return [_heddle.asarray(one) for one in objects]


def vstack(arrays: Sequence[Any]) -> NDArray:
    """Arrays one below the other: along the first axis, where arrays with one axis are rows."""
    return concat([_heddle.atleast_2d(one) for one in arrays_beside(arrays)], axis=0)


def hstack(arrays: Sequence[Any]) -> NDArray:
    """Arrays side by side: along the second axis, or the only one."""
    parts = [_heddle.atleast_1d(one) for one in arrays_beside(arrays)]
    return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> NDArray:
    """Whether |a - b| <= atol + rtol * |b|, element by element; infinite ones are close to equal ones."""
    x, y = arrays_beside([a, b])
    near = _heddle.isfinite(y) & (_heddle.abs(x - y) <= atol + rtol * _heddle.abs(y))
    close = near | (x == y)
    return close | (_heddle.isnan(x) & _heddle.isnan(y)) if equal_nan else close


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as isclose says. Waits."""
    return bool(_heddle.all(isclose(a, b, rtol, atol, equal_nan)))
