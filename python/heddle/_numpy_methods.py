"""Methods of NDArray that NumPy's arrays have, made of Heddle's functions. Their arguments are NumPy's, so that np.mean(x) and the
like call them too; `out` gets the result and is returned, as there.
"""

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from heddle import _heddle
from heddle._heddle import NDArray

if TYPE_CHECKING:
    from heddle._heddle import ArrayLike

Axis = int | Sequence[int] | None


def _check_out(name: str, out: Any) -> None:
    if out is not None and not isinstance(out, NDArray):
        raise TypeError(f"{name}: out is a {type(out).__name__}; want an NDArray or None")


def _given(result: NDArray, out: NDArray | None) -> NDArray:
    if out is None:
        return result
    out[...] = result
    return out


def _of_dtype(name: str, x: NDArray, dtype: Any) -> NDArray:
    if dtype is None:
        return x
    try:
        return x.astype(dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("astype", name, 1)) from None


def std(self: NDArray, axis: Axis = None, dtype: Any = None, out: NDArray | None = None, ddof: int = 0, keepdims: bool = False) -> NDArray:
    """The standard deviation; ddof: what is taken from the number of elements before it divides."""
    _check_out("std", out)
    try:
        return _given(_heddle.std(_of_dtype("std", self, dtype), axis, ddof, keepdims), out)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("correction", "ddof", 1)) from None


def prod(self: NDArray, axis: Axis = None, dtype: Any = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:
    """The product."""
    _check_out("prod", out)
    return _given(_heddle.prod(_of_dtype("prod", self, dtype), axis, keepdims), out)


def any(self: NDArray, axis: Axis = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:  # noqa: A001
    """Whether any element is not 0."""
    _check_out("any", out)
    return _given(_heddle.any(self, axis, keepdims), out)


def all(self: NDArray, axis: Axis = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:  # noqa: A001
    """Whether every element is not 0."""
    _check_out("all", out)
    return _given(_heddle.all(self, axis, keepdims), out)


def ravel(self: NDArray) -> NDArray:
    """One axis; a view where that is possible."""
    return self.reshape(-1)


def flatten(self: NDArray) -> NDArray:
    """One axis, always a copy. heddle.flatten(x), for layers, keeps the first axis."""
    return self.copy().reshape(-1)


def cumsum(self: NDArray, axis: int | None = None, dtype: Any = None, out: NDArray | None = None) -> NDArray:
    """Sums up to each element; None: of the flattened array."""
    _check_out("cumsum", out)
    x = _of_dtype("cumsum", self, dtype)
    return _given(_heddle.cumsum(ravel(x)) if axis is None else _heddle.cumsum(x, axis), out)


def cumprod(self: NDArray, axis: int | None = None, dtype: Any = None, out: NDArray | None = None) -> NDArray:
    """Products up to each element; None: of the flattened array."""
    _check_out("cumprod", out)
    x = _of_dtype("cumprod", self, dtype)
    return _given(_heddle.cumprod(ravel(x)) if axis is None else _heddle.cumprod(x, axis), out)


def squeeze(self: NDArray, axis: Axis = None) -> NDArray:
    """A view without these axes, which have size 1; None: without all such."""
    return _heddle.squeeze(self, axis)


def swapaxes(self: NDArray, axis1: int, axis2: int) -> NDArray:
    """A view with two axes exchanged."""
    return _heddle.swapaxes(self, axis1, axis2)


def clip(self: NDArray, min: Any = None, max: Any = None, out: NDArray | None = None) -> NDArray:  # noqa: A002
    """min where x < min, max where x > max; None: no bound."""
    _check_out("clip", out)
    x = self if min is None else _heddle.maximum(self, min)
    return _given(x if max is None else _heddle.minimum(x, max), out)


def round(self: NDArray, decimals: int = 0, out: NDArray | None = None) -> NDArray:  # noqa: A001
    """Rounded to so many digits behind the point; of a half, to the even one."""
    _check_out("round", out)
    if not isinstance(decimals, int):
        raise TypeError(f"round: decimals is a {type(decimals).__name__}; want an int")
    if not -300 <= decimals <= 300:
        raise ValueError("round: decimals is beyond what floats have; want -300 to 300")
    if decimals == 0:
        return _given(_heddle.round(self), out)
    scale = 10.0 ** builtins.abs(decimals)
    return _given(_heddle.round(self * scale) / scale if decimals > 0 else _heddle.round(self / scale) * scale, out)


def dot(self: NDArray, b: "ArrayLike", out: NDArray | None = None) -> NDArray:
    """The sum over the last axis of x and the last but one of b, or its only one."""
    _check_out("dot", out)
    return _given(_heddle.dot(self, b), out)


def argsort(self: NDArray, axis: int | None = -1) -> NDArray:
    """Where the elements of the sorted array stand; None: of the flattened array."""
    return _heddle.argsort(ravel(self)) if axis is None else _heddle.argsort(self, axis)


def sort(self: NDArray, axis: int = -1) -> None:
    """Sorts in place, as NumPy's method does. heddle.sort(x) returns a sorted array."""
    self[...] = _heddle.sort(self, axis)


def _round(self: NDArray, ndigits: int | None = None) -> Any:
    """round(x): an int for one element without ndigits, as Python's; else an array."""
    if ndigits is None and self.size == 1:
        return builtins.round(self.item())
    return round(self, ndigits or 0)


def _format(self: NDArray, spec: str) -> str:
    """f"{x:.3f}" of one element is that of its value."""
    if not spec:
        return str(self)
    if self.size != 1:
        raise TypeError(f"format: an array of shape {tuple(self.shape)} takes no format {spec!r}; want one element, or set_printoptions")
    return format(self.item(), spec)


METHODS = [std, prod, any, all, ravel, flatten, cumsum, cumprod, squeeze, swapaxes, clip, round, dot, argsort, sort]


def _decorator(self: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """As a decorator: records nothing in each call."""
    kind = type(self)

    @functools.wraps(function)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with kind():
            return function(*args, **kwargs)

    return quiet


def install() -> None:
    """Gives the classes of the compiled module these methods."""
    for method in METHODS:
        setattr(NDArray, method.__name__, method)
    NDArray.__round__ = _round  # type: ignore[method-assign]
    NDArray.__format__ = _format  # type: ignore[method-assign]
    _heddle.no_grad.__call__ = _decorator  # type: ignore[method-assign]
