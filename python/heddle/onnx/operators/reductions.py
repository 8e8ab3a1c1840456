"""Operators that combine elements along axes."""

import math
from collections.abc import Callable
from typing import Any

import heddle
from heddle.onnx.operators.shapes import axes_of, axis_of, surround
from heddle.onnx.table import Array, ints, number, operator

Reduction = Callable[..., Array]


def reduced(x: Array, axes: list[int]) -> list[int]:
    """The shape of x with these axes set to 1."""
    dropped = set(axes_of(axes, x.ndim))
    return [1 if axis in dropped else n for axis, n in enumerate(x.shape)]


def highest(x: Array, axes: list[int], keepdims: bool) -> Array:
    return extreme(heddle.max, -math.inf, x, axes, keepdims)


def lowest(x: Array, axes: list[int], keepdims: bool) -> Array:
    return extreme(heddle.min, math.inf, x, axes, keepdims)


def extreme(function: Reduction, of_nothing: float, x: Array, axes: list[int], keepdims: bool) -> Array:
    """heddle.max or heddle.min, and the end of the dtype's range for axes of size 0, which these refuse."""
    if all(x.shape[axis] for axis in axes):
        return function(x, axes, keepdims)
    of_nothing = of_nothing > 0 if x.dtype == heddle.bool_ else of_nothing
    kept = heddle.full(reduced(x, axes), of_nothing, dtype=x.dtype)
    return kept if keepdims else heddle.squeeze(kept, axes)


REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": heddle.sum,
    "ReduceMean": heddle.mean,
    "ReduceProd": heddle.prod,
    "ReduceMax": highest,
    "ReduceMin": lowest,
}


def enter_reduction(name: str, function: Reduction) -> None:
    @operator(name)
    def reduce(
        x: Array, axes_input: Array | None = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        wanted = (ints(axes_input) if axes_input is not None else axes) or []
        if not wanted and (noop_with_empty_axes or not x.ndim):
            return x
        return heddle.cast(function(x, axes_of(wanted or range(x.ndim), x.ndim), bool(keepdims)), x.dtype)


for _name, _function in REDUCTIONS.items():
    enter_reduction(_name, _function)


def enter_argument(name: str, function: Reduction) -> None:
    @operator(name)
    def argument(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        axis = axis_of(axis, x.ndim)
        place = function(heddle.slice(x, axis, step=-1) if select_last_index else x, axis)
        place = x.shape[axis] - 1 - place if select_last_index else place
        return heddle.expand_dims(place, axis) if keepdims else place


enter_argument("ArgMax", heddle.argmax)
enter_argument("ArgMin", heddle.argmin)


def enter_scan(name: str, function: Reduction, identity: float) -> None:
    @operator(name)
    def scan(x: Array, axis_input: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
        axis = axis_of(number(axis_input), x.ndim)
        y = heddle.flip(x, axis) if reverse else x
        if exclusive:
            y = surround(heddle.slice(y, axis, stop=-1), axis, 1, 0, identity)
        y = heddle.cast(function(y, axis), x.dtype)
        return heddle.flip(y, axis) if reverse else y


enter_scan("CumSum", heddle.cumsum, 0)
enter_scan("CumProd", heddle.cumprod, 1)


def along(function: Reduction, x: Array, axis: int, opset: int) -> Array:
    """function along an axis; before opset 13 along that and all behind it."""
    if opset >= 13:
        return function(x, axis)
    axis = axis_of(axis, x.ndim)
    rows = x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])
    return function(rows, 1).reshape(x.shape)


@operator("Softmax", native="softmax")
def softmax(x: Array, *, axis: int = -1, opset: int) -> Array:
    return along(heddle.softmax, x, axis, opset)


@operator("LogSoftmax", native="log_softmax")
def log_softmax(x: Array, *, axis: int = -1, opset: int) -> Array:
    return along(heddle.log_softmax, x, axis, opset)


def of_largest(x: Array, axis: int) -> Array:
    last, axis = x.ndim - 1, axis_of(axis, x.ndim)
    order = list(range(x.ndim))
    order.insert(axis, order.pop())
    chosen = heddle.one_hot(heddle.argmax(x, axis), x.shape[axis], x.dtype)
    return heddle.transpose(chosen, order) if axis != last else chosen


@operator("Hardmax")
def hardmax(x: Array, *, axis: int = -1, opset: int) -> Array:
    return along(of_largest, x, axis, opset)


@operator("LpNormalization")
def lp_normalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    norm = heddle.sum(heddle.abs(x), axis, True) if p == 1 else heddle.sqrt(heddle.sum(heddle.square(x), axis, True))
    return heddle.where(heddle.equal(norm, 0), heddle.zeros_like(x), x / norm)
