"""The functions of Python's array API standard, 2024.12, as far as there are operators for them.

    xp = x.__array_namespace__()    # this module

Signatures are the standard's. Functions of heddle that are not here, and options beyond the standard's, are in the module heddle.
Where the shape of a result depends on values (nonzero, unique) the call waits for them; searchsorted waits for its sorter.
"""

import functools as _functools
import inspect as _inspect
import math as _math
from collections import namedtuple as _namedtuple
from collections.abc import Sequence as _Sequence
from types import SimpleNamespace as _SimpleNamespace
from typing import Any as _Any

import ml_dtypes as _ml_dtypes
import numpy as _numpy

import heddle as _heddle
from heddle import NDArray as _Array
from heddle import _array_api_linalg as linalg
from heddle import float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from heddle import bool_ as bool

__array_api_version__ = "2024.12"

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]
_HALVES = (_heddle.f16, _heddle.bf16)  # beyond the standard's dtypes


_cast = linalg._cast


def _on(device: _Any) -> _Any:
    return _heddle.default_device() if device is None else device


def _elementwise(name: str, function: _Any, arguments: int) -> _Any:
    """The function with arguments by position alone."""

    def one(x: _Array, /) -> _Any:
        return function(x)

    def two(x1: _Any, x2: _Any, /) -> _Any:
        return function(x1, x2)

    made = one if arguments == 1 else two
    made.__name__ = made.__qualname__ = name
    made.__doc__ = function.__doc__
    return made


abs = _elementwise("abs", _heddle.abs, 1)
acos = _elementwise("acos", _heddle.acos, 1)
acosh = _elementwise("acosh", _heddle.acosh, 1)
asin = _elementwise("asin", _heddle.asin, 1)
asinh = _elementwise("asinh", _heddle.asinh, 1)
atan = _elementwise("atan", _heddle.atan, 1)
atanh = _elementwise("atanh", _heddle.atanh, 1)
bitwise_invert = _elementwise("bitwise_invert", _heddle.bitwise_invert, 1)
ceil = _elementwise("ceil", _heddle.ceil, 1)
cos = _elementwise("cos", _heddle.cos, 1)
cosh = _elementwise("cosh", _heddle.cosh, 1)
exp = _elementwise("exp", _heddle.exp, 1)
expm1 = _elementwise("expm1", _heddle.expm1, 1)
floor = _elementwise("floor", _heddle.floor, 1)
isfinite = _elementwise("isfinite", _heddle.isfinite, 1)
isinf = _elementwise("isinf", _heddle.isinf, 1)
isnan = _elementwise("isnan", _heddle.isnan, 1)
log = _elementwise("log", _heddle.log, 1)
log10 = _elementwise("log10", _heddle.log10, 1)
log1p = _elementwise("log1p", _heddle.log1p, 1)
log2 = _elementwise("log2", _heddle.log2, 1)
logical_not = _elementwise("logical_not", _heddle.logical_not, 1)
negative = _elementwise("negative", _heddle.negative, 1)
reciprocal = _elementwise("reciprocal", _heddle.reciprocal, 1)
round = _elementwise("round", _heddle.round, 1)
sign = _elementwise("sign", _heddle.sign, 1)
signbit = _elementwise("signbit", _heddle.signbit, 1)
sin = _elementwise("sin", _heddle.sin, 1)
sinh = _elementwise("sinh", _heddle.sinh, 1)
sqrt = _elementwise("sqrt", _heddle.sqrt, 1)
square = _elementwise("square", _heddle.square, 1)
tan = _elementwise("tan", _heddle.tan, 1)
tanh = _elementwise("tanh", _heddle.tanh, 1)
trunc = _elementwise("trunc", _heddle.trunc, 1)
add = _elementwise("add", _heddle.add, 2)
atan2 = _elementwise("atan2", _heddle.atan2, 2)
bitwise_and = _elementwise("bitwise_and", _heddle.bitwise_and, 2)
bitwise_left_shift = _elementwise("bitwise_left_shift", _heddle.bitwise_left_shift, 2)
bitwise_or = _elementwise("bitwise_or", _heddle.bitwise_or, 2)
bitwise_right_shift = _elementwise("bitwise_right_shift", _heddle.bitwise_right_shift, 2)
bitwise_xor = _elementwise("bitwise_xor", _heddle.bitwise_xor, 2)
copysign = _elementwise("copysign", _heddle.copysign, 2)
divide = _elementwise("divide", _heddle.divide, 2)
equal = _elementwise("equal", _heddle.equal, 2)
floor_divide = _elementwise("floor_divide", _heddle.floor_divide, 2)
greater = _elementwise("greater", _heddle.greater, 2)
greater_equal = _elementwise("greater_equal", _heddle.greater_equal, 2)
hypot = _elementwise("hypot", _heddle.hypot, 2)
less = _elementwise("less", _heddle.less, 2)
less_equal = _elementwise("less_equal", _heddle.less_equal, 2)
logaddexp = _elementwise("logaddexp", _heddle.logaddexp, 2)
logical_and = _elementwise("logical_and", _heddle.logical_and, 2)
logical_or = _elementwise("logical_or", _heddle.logical_or, 2)
logical_xor = _elementwise("logical_xor", _heddle.logical_xor, 2)
maximum = _elementwise("maximum", _heddle.maximum, 2)
minimum = _elementwise("minimum", _heddle.minimum, 2)
multiply = _elementwise("multiply", _heddle.multiply, 2)
nextafter = _elementwise("nextafter", _heddle.nextafter, 2)
not_equal = _elementwise("not_equal", _heddle.not_equal, 2)
remainder = _elementwise("remainder", _heddle.remainder, 2)
subtract = _elementwise("subtract", _heddle.subtract, 2)
pow = _elementwise("pow", _heddle.power, 2)
matmul = _elementwise("matmul", _heddle.matmul, 2)


def positive(x: _Array, /) -> _Array:
    return x.copy()


def clip(x: _Array, /, min: _Any = None, max: _Any = None) -> _Array:
    result = x.copy() if min is None and max is None else x
    result = result if min is None else _heddle.maximum(result, min)
    return _cast(result if max is None else _heddle.minimum(result, max), x.dtype)


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: _Any = None, device: _Any = None) -> _Array:
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = float32 if True in [isinstance(one, float) for one in (first, last, step)] else int64
    return _heddle.arange(first, last, step, dtype=dtype, device=_on(device))


def asarray(obj: _Any, /, *, dtype: _Any = None, device: _Any = None, copy: _Any = None) -> _Array:
    """copy: True, False (an error if one is needed), or None (if one is needed)."""
    if copy:
        return _heddle.array(obj, dtype=dtype, device=device)
    if isinstance(obj, _Array):
        same = (dtype is None or obj.dtype == dtype) and (device is None or obj.device == device)
        if same:
            return obj
    if copy is not None:
        raise ValueError("asarray: the array cannot be had without a copy")
    return _heddle.array(obj, dtype=dtype, device=device)


def empty(shape: _Any, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return _heddle.empty(shape, dtype=dtype, device=device)


def full(shape: _Any, fill_value: _Any, *, dtype: _Any = None, device: _Any = None) -> _Array:
    if dtype is None:
        dtype = _heddle.array(fill_value).dtype
    return _heddle.full(shape, fill_value, dtype=dtype, device=_on(device))


def ones(shape: _Any, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return _heddle.ones(shape, dtype=dtype or float32, device=_on(device))


def zeros(shape: _Any, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return _heddle.zeros(shape, dtype=dtype or float32, device=_on(device))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: _Any = None, device: _Any = None
) -> _Array:
    n_cols = n_rows if n_cols is None else n_cols
    offset = sorted((-n_rows, k, n_cols))[1]  # all k outside of this range give zeros
    return (arange(n_rows, device=device)[:, None] + offset == arange(n_cols, device=device)).astype(dtype or float32)


def tril(x: _Array, /, *, k: int = 0) -> _Array:
    return _heddle.tril(x, k)


def triu(x: _Array, /, *, k: int = 0) -> _Array:
    return _heddle.triu(x, k)


def empty_like(x: _Array, /, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: _Array, /, fill_value: _Any, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x: _Array, /, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: _Array, /, *, dtype: _Any = None, device: _Any = None) -> _Array:
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: _Any = None, device: _Any = None, endpoint: _Any = True
) -> _Array:
    return _heddle.linspace(start, stop, num, endpoint, dtype=dtype or float32, device=_on(device))


def meshgrid(*arrays: _Array, indexing: _Any = "xy") -> list[_Array]:
    return list(_heddle.meshgrid(arrays, indexing))


def from_dlpack(x: object, /, *, device: _Any = None, copy: _Any = None) -> _Array:
    return _heddle.from_dlpack(x, copy=copy, device=device)


def astype(x: _Array, dtype: _Any, /, *, copy: _Any = True, device: _Any = None) -> _Array:
    result = x.astype(dtype) if copy or x.dtype != dtype else x
    return result if device is None else result.to(device)


def _dtype_of(x: _Any) -> _Any:
    return x.dtype if isinstance(x, _Array) else _heddle.empty(0, dtype=x).dtype


def result_type(*arrays_and_dtypes: _Any) -> _Any:
    """Python's own numbers count as their arrays do not: they take the dtype of what they meet."""
    dtypes = [_dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (int, float))]
    if not dtypes:
        raise ValueError("result_type: no array and no dtype")
    result = _heddle.zeros(0, dtype=dtypes[0])
    for dtype in dtypes[1:]:
        result = result + _heddle.zeros(0, dtype=dtype)
    for number in arrays_and_dtypes:
        if isinstance(number, (int, float)):
            result = result + type(number)()  # a zero: only the number's type counts, not its value
    return result.dtype


def can_cast(from_: _Any, to: _Any, /) -> _Any:
    return result_type(_dtype_of(from_), to) == to


def _of_kind(function: str, kind: _Any) -> tuple[_Any, ...]:
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    wanted = f"want one of {', '.join(map(repr, _KINDS))}"
    if isinstance(kind, str):
        raise ValueError(f"{function}: kind is {kind!r}; {wanted}")
    raise TypeError(f"{function}: kind is a {type(kind).__name__}; {wanted}, or a tuple of them")


def isdtype(dtype: _Any, kind: _Any) -> _Any:
    """kind: a dtype, the name of a kind, or a tuple of these. f16 and bf16 are real floating, too."""
    dtype = _dtype_of(dtype)
    found = False
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, _heddle.DType):
            found |= dtype == one
        else:
            found |= dtype in _of_kind("isdtype", one) or (dtype in _HALVES and one in ("real floating", "numeric"))
    return found


def finfo(type: _Any, /) -> _Any:
    """Of float32, float64, f16 and bf16."""
    dtype = _dtype_of(type)
    if dtype not in (*_HALVES, float32, float64):
        raise ValueError(f"finfo: type is {dtype.name}; want a floating dtype")
    finfo_of: _Any = _ml_dtypes.finfo  # NumPy's lacks bf16
    info = finfo_of(dtype.numpy_name)
    return _SimpleNamespace(
        bits=info.bits, eps=float(info.eps), max=float(info.max), min=float(info.min),
        smallest_normal=float(info.smallest_normal), dtype=dtype,
    )  # fmt: skip


def iinfo(type: _Any, /) -> _Any:
    dtype = _dtype_of(type)
    if dtype not in _KINDS["integral"]:
        raise ValueError(f"iinfo: type is {dtype.name}; want an integer dtype")
    info = _numpy.iinfo(dtype.numpy_name)
    return _SimpleNamespace(bits=info.bits, max=int(info.max), min=int(info.min), dtype=dtype)


def take(x: _Array, indices: _Array, /, *, axis: int | None = None) -> _Array:
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: axis is None for an array of {x.ndim} axes; want one of them")
    return _heddle.take(x, indices, axis=axis or 0)


def take_along_axis(x: _Array, indices: _Array, /, *, axis: int = -1) -> _Array:
    return _heddle.take_along_axis(x, indices, axis)


def where(condition: _Array, x1: _Any, x2: _Any, /) -> _Array:
    return _heddle.where(condition, x1, x2)


def nonzero(x: _Array, /) -> tuple[_Array, ...]:
    return _heddle.nonzero(x)


def _in_order(x1: _Array, sorter: _Any) -> _Array:
    """x1[sorter]. The call waits for the sorter, so that the error of an index out of range names it."""
    sorter = sorter if isinstance(sorter, _Array) else _heddle.array(sorter, device=x1.device)
    if sorter.dtype not in _KINDS["integral"] or sorter.shape != x1.shape:
        raise ValueError(f"searchsorted: sorter has dtype {sorter.dtype.name} and shape {sorter.shape}; want integers of x1's shape {x1.shape}")
    for index in (int(sorter.min()), int(sorter.max())) if sorter.size else ():
        if not -x1.size <= index < x1.size:
            raise _heddle.InvalidIndex(f"searchsorted: sorter has index {index}; want indices of the {x1.size} elements of x1")
    return _heddle.take(x1, sorter)


def searchsorted(x1: _Array, x2: _Array, /, *, side: str = "left", sorter: _Array | None = None) -> _Array:
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}; want 'left' or 'right'")
    rising = x1 if sorter is None else _in_order(x1, sorter)
    return _heddle.searchsorted(rising, x2, side == "right")


def sort(x: _Array, /, *, axis: int = -1, descending: _Any = False, stable: _Any = True) -> _Array:
    """Always stable."""
    return _heddle.sort(x, axis, descending)


def argsort(x: _Array, /, *, axis: int = -1, descending: _Any = False, stable: _Any = True) -> _Array:
    """Always stable."""
    return _heddle.argsort(x, axis, descending)


_UniqueAll = _namedtuple("_UniqueAll", ["values", "indices", "inverse_indices", "counts"])
_UniqueCounts = _namedtuple("_UniqueCounts", ["values", "counts"])
_UniqueInverse = _namedtuple("_UniqueInverse", ["values", "inverse_indices"])


def unique_all(x: _Array, /) -> _Any:
    return _UniqueAll(*_heddle.unique_all(x, equal_nan=False))


def unique_counts(x: _Array, /) -> _Any:
    values, _, _, counts = _heddle.unique_all(x, equal_nan=False)
    return _UniqueCounts(values, counts)


def unique_inverse(x: _Array, /) -> _Any:
    values, _, inverse, _ = _heddle.unique_all(x, equal_nan=False)
    return _UniqueInverse(values, inverse)


def unique_values(x: _Array, /) -> _Array:
    return _heddle.unique(x, equal_nan=False)


def vecdot(x1: _Array, x2: _Array, /, *, axis: int = -1) -> _Array:
    return linalg.vecdot(x1, x2, axis=axis)


def tensordot(x1: _Array, x2: _Array, /, *, axes: _Any = 2) -> _Array:
    return linalg.tensordot(x1, x2, axes=axes)


def matrix_transpose(x: _Array, /) -> _Array:
    return x.mT


def permute_dims(x: _Array, /, axes: tuple[int, ...]) -> _Array:
    return _heddle.transpose(x, axes)


def moveaxis(x: _Array, source: _Any, destination: _Any, /) -> _Array:
    return _heddle.moveaxis(x, source, destination)


def flip(x: _Array, /, *, axis: _Any = None) -> _Array:
    return x.copy() if axis == () else _heddle.flip(x, axis)


def roll(x: _Array, /, shift: _Any, *, axis: _Any = None) -> _Array:
    return _heddle.roll(x, shift, axis)


def repeat(x: _Array, repeats: _Any, /, *, axis: int | None = None) -> _Array:
    return _heddle.repeat(x, repeats, axis)


def tile(x: _Array, repetitions: tuple[int, ...], /) -> _Array:
    return _heddle.tile(x, repetitions)


def broadcast_to(x: _Array, /, shape: tuple[int, ...]) -> _Array:
    return _heddle.broadcast_to(x, shape)


def broadcast_arrays(*arrays: _Array) -> list[_Array]:
    return list(_heddle.broadcast_arrays(arrays))


def _common(name: str, arrays: _Sequence[_Array]) -> _Any:
    """The dtype of the arrays together."""
    for x in arrays:
        if not isinstance(x, _Array):
            raise TypeError(f"{name}: arrays has a {type(x).__name__}; want NDArrays")
    if len(arrays) == 0:
        raise ValueError(f"{name}: arrays is empty; want at least one array")
    return result_type(*arrays)


def concat(arrays: _Sequence[_Array], /, *, axis: int | None = 0) -> _Array:
    dtype = _common("concat", arrays)
    if axis is None:
        arrays, axis = [_heddle.reshape(x, (x.size,)) for x in arrays], 0
    return _heddle.concat([_cast(x, dtype) for x in arrays], axis=axis)


def stack(arrays: _Sequence[_Array], /, *, axis: int = 0) -> _Array:
    dtype = _common("stack", arrays)
    return _heddle.stack([_cast(x, dtype) for x in arrays], axis=axis)


def unstack(x: _Array, /, *, axis: int = 0) -> tuple[_Array, ...]:
    return _heddle.unstack(x, axis)


def expand_dims(x: _Array, /, axis: int = 0) -> _Array:
    return _heddle.expand_dims(x, axis)


def squeeze(x: _Array, /, axis: _Any) -> _Array:
    return x[...] if axis == () else _heddle.squeeze(x, axis)


def reshape(x: _Array, /, shape: tuple[int, ...], *, copy: _Any = None) -> _Array:
    if copy is False and not x.is_contiguous:
        raise ValueError("reshape: the array is not contiguous, so that it needs a copy")
    return _heddle.reshape(x.copy() if copy else x, shape)


def _position(function: _Any, x: _Array, axis: int | None, keepdims: _Any) -> _Array:
    result: _Array = function(x, axis)
    if not keepdims:
        return result
    return _heddle.reshape(result, (1,) * x.ndim) if axis is None else _heddle.expand_dims(result, axis)


def argmax(x: _Array, /, *, axis: int | None = None, keepdims: _Any = False) -> _Array:
    return _position(_heddle.argmax, x, axis, keepdims)


def argmin(x: _Array, /, *, axis: int | None = None, keepdims: _Any = False) -> _Array:
    return _position(_heddle.argmin, x, axis, keepdims)


def max(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.max, x, axis, keepdims)


def min(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.min, x, axis, keepdims)


def mean(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.mean, x, axis, keepdims)


def sum(x: _Array, /, *, axis: _Any = None, dtype: _Any = None, keepdims: _Any = False) -> _Array:
    return _cast(linalg._reduced(_heddle.sum, _cast(x, dtype), axis, keepdims), dtype)


def prod(x: _Array, /, *, axis: _Any = None, dtype: _Any = None, keepdims: _Any = False) -> _Array:
    return _cast(linalg._reduced(_heddle.prod, _cast(x, dtype), axis, keepdims), dtype)


def _scanned(name: str, function: _Any, x: _Array, axis: int | None, dtype: _Any, first: int | None) -> _Array:
    """The running sum or product; that of an array without axes has one element, as in NumPy."""
    if axis is None and x.ndim > 1:
        raise ValueError(f"{name}: axis is None for an array of {x.ndim} axes; want one of them")
    x = _heddle.reshape(x, (1,)) if x.ndim == 0 else x
    axis = 0 if axis is None else axis
    result = _cast(function(_cast(x, dtype), axis=axis), dtype)
    if first is None:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return _heddle.concat([full(shape, first, dtype=result.dtype, device=x.device), result], axis=axis)


def cumulative_sum(
    x: _Array, /, *, axis: int | None = None, dtype: _Any = None, include_initial: _Any = False
) -> _Array:
    return _scanned("cumulative_sum", _heddle.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: _Array, /, *, axis: int | None = None, dtype: _Any = None, include_initial: _Any = False
) -> _Array:
    return _scanned("cumulative_prod", _heddle.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(x: _Array, /, *, axis: int = -1, n: int = 1, prepend: _Any = None, append: _Any = None) -> _Array:
    parts = [part for part in (prepend, x, append) if part is not None]
    return _heddle.diff(concat(parts, axis=axis), n, axis)


def var(x: _Array, /, *, axis: _Any = None, correction: float = 0.0, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.var, x, axis, keepdims, correction=correction)


def std(x: _Array, /, *, axis: _Any = None, correction: float = 0.0, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.std, x, axis, keepdims, correction=correction)


def count_nonzero(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.count_nonzero, x, axis, keepdims)


def all(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.all, x, axis, keepdims)


def any(x: _Array, /, *, axis: _Any = None, keepdims: _Any = False) -> _Array:
    return linalg._reduced(_heddle.any, x, axis, keepdims)


class _Info:
    """What __array_namespace_info__ returns."""

    def capabilities(self) -> dict[str, _Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> _Any:
        return _heddle.default_device()

    def default_dtypes(self, *, device: _Any = None) -> dict[str, _Any]:
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def devices(self) -> list[_Any]:
        return [_heddle.cpu(), *(_heddle.gpu(i) for i in range(_heddle.gpu_count()))]

    def dtypes(self, *, device: _Any = None, kind: _Any = None) -> dict[str, _Any]:
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        return {dtype.numpy_name: dtype for one in kinds for dtype in _of_kind("dtypes", one)}


def __array_namespace_info__() -> _Info:  # noqa: N807 (the standard's name)
    return _Info()


def _with_type_errors(function: _Any) -> _Any:
    """The function, which says of what is no array that it is none."""
    signature = _inspect.signature(function)

    @_functools.wraps(function)
    def call(*arguments: _Any, **options: _Any) -> _Any:
        try:
            return function(*arguments, **options)
        except AttributeError:
            for name, value in signature.bind(*arguments, **options).arguments.items():
                parameter = signature.parameters[name]
                values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
                for one in values if parameter.annotation is _Array else ():
                    if not isinstance(one, _Array):
                        kind = type(one).__name__
                        raise TypeError(f"{function.__name__}: {name} is a {kind}; want an NDArray") from None
            raise

    return call


for _name, _function in list(globals().items()):
    if _inspect.isfunction(_function) and not _name.startswith("_"):
        globals()[_name] = _with_type_errors(_function)
