"""Operators that combine elements along axes."""

import math

import heddle
from heddle import NDArray

from .shapes import surround
from .table import ints, operator


def reduced(x: NDArray, axes: list[int]) -> list[int]:
    """The shape of x with these axes set to 1."""
    dropped = {axis % x.ndim for axis in axes}
    return [1 if axis in dropped else n for axis, n in enumerate(x.shape)]


def highest(x: NDArray, axes: list[int], keepdims: bool) -> NDArray:
    return extreme(heddle.max, -math.inf, x, axes, keepdims)


def lowest(x: NDArray, axes: list[int], keepdims: bool) -> NDArray:
    return extreme(heddle.min, math.inf, x, axes, keepdims)


def extreme(function, of_nothing, x, axes, keepdims):
    """heddle.max or heddle.min, and the end of the dtype's range for axes of size 0, which these refuse."""
    if all(x.shape[axis] for axis in axes):
        return function(x, axes, keepdims)
    of_nothing = of_nothing > 0 if x.dtype == heddle.bool_ else of_nothing
    kept = heddle.full(reduced(x, axes), of_nothing, dtype=x.dtype)
    return kept if keepdims else heddle.squeeze(kept, axes)


REDUCTIONS = {
    "ReduceSum": heddle.sum,
    "ReduceMean": heddle.mean,
    "ReduceProd": heddle.prod,
    "ReduceMax": highest,
    "ReduceMin": lowest,
}


def enter_reduction(name, function):
    @operator(name)
    def reduce(x, axes_input=None, *, axes=None, keepdims=1, noop_with_empty_axes=0):
        wanted = (ints(axes_input) if axes_input is not None else axes) or []
        if not wanted and (noop_with_empty_axes or not x.ndim):
            return x
        return heddle.cast(function(x, wanted or list(range(x.ndim)), bool(keepdims)), x.dtype)


for _name, _function in REDUCTIONS.items():
    enter_reduction(_name, _function)


def enter_argument(name, function):
    @operator(name)
    def argument(x, *, axis=0, keepdims=1, select_last_index=0):
        place = function(heddle.slice(x, axis, step=-1) if select_last_index else x, axis)
        place = x.shape[axis] - 1 - place if select_last_index else place
        return heddle.expand_dims(place, axis % x.ndim) if keepdims else place


enter_argument("ArgMax", heddle.argmax)
enter_argument("ArgMin", heddle.argmin)


def enter_scan(name, function, identity):
    @operator(name)
    def scan(x, axis, *, exclusive=0, reverse=0):
        axis = axis.item() % x.ndim
        y = heddle.flip(x, axis) if reverse else x
        if exclusive:
            y = surround(heddle.slice(y, axis, stop=-1), axis, 1, 0, identity)
        y = heddle.cast(function(y, axis), x.dtype)
        return heddle.flip(y, axis) if reverse else y


enter_scan("CumSum", heddle.cumsum, 0)
enter_scan("CumProd", heddle.cumprod, 1)


@operator("Softmax", since=13)
def softmax(x, *, axis=-1):
    return heddle.softmax(x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x, *, axis=-1):
    return heddle.log_softmax(x, axis)


@operator("Hardmax", since=13)
def hardmax(x, *, axis=-1):
    last = x.ndim - 1
    order = list(range(x.ndim))
    order.insert(axis % x.ndim, order.pop())
    chosen = heddle.one_hot(heddle.argmax(x, axis), x.shape[axis], x.dtype)
    return heddle.transpose(chosen, order) if axis % x.ndim != last else chosen


@operator("LpNormalization")
def lp_normalization(x, *, axis=-1, p=2):
    norm = heddle.sum(heddle.abs(x), axis, True) if p == 1 else heddle.sqrt(heddle.sum(heddle.square(x), axis, True))
    return heddle.where(heddle.equal(norm, 0), heddle.zeros_like(x), x / norm)


def normalize(x: NDArray, mean: NDArray, variance: NDArray, scale: NDArray, bias: NDArray, epsilon: float) -> NDArray:
    """Normalises x. scale and bias have one element a channel; the channels are axis 1."""
    channels = [-1] + [1] * (x.ndim - 2)
    centred = (x - mean) / heddle.sqrt(variance + epsilon)
    return heddle.cast(centred * scale.reshape(channels) + bias.reshape(channels), x.dtype)


@operator("BatchNormalization", since=14)
def batch_normalization(x, scale, bias, mean, variance, *, epsilon=1e-5, momentum=0.9, training_mode=0):
    channels = [-1] + [1] * (x.ndim - 2)
    if not training_mode:
        return normalize(x, mean.reshape(channels), variance.reshape(channels), scale, bias, epsilon)
    axes = [0, *range(2, x.ndim)]
    seen_mean = heddle.mean(x, axes)
    seen_variance = heddle.mean(heddle.square(x - seen_mean.reshape(channels)), axes)
    return [
        normalize(x, seen_mean.reshape(channels), seen_variance.reshape(channels), scale, bias, epsilon),
        mean * momentum + seen_mean * (1 - momentum),
        variance * momentum + seen_variance * (1 - momentum),
    ]


@operator("InstanceNormalization", since=6)
def instance_normalization(x, scale, bias, *, epsilon=1e-5):
    axes = list(range(2, x.ndim))
    mean = heddle.mean(x, axes, True)
    return normalize(x, mean, heddle.mean(heddle.square(x - mean), axes, True), scale, bias, epsilon)
