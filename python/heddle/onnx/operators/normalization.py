"""Layers that normalise."""

import math

import heddle
from heddle.onnx.operators.shapes import axis_of, surround
from heddle.onnx.table import Array, Result, operator


def multiplied_and_moved(x: Array, scale: Array, bias: Array | None) -> Array:
    x = heddle.cast(x * scale, x.dtype)
    return x if bias is None else heddle.cast(x + bias, x.dtype)


@operator("BatchNormalization", since=7, native=("batch_norm", "batch_norm_with"))
def batch_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,  # before opset 9
    training_mode: int = 0,
) -> Result:
    if not training_mode:
        return heddle.batch_norm_with(x, mean, variance, scale, bias, epsilon)
    y, seen_mean, seen_variance = heddle.batch_norm(x, scale, bias, epsilon)
    return [
        y,
        mean * momentum + seen_mean * (1 - momentum),
        variance * momentum + seen_variance * (1 - momentum),
    ]


@operator("InstanceNormalization", since=6, native="group_norm")
def instance_normalization(x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5) -> Array:
    return heddle.group_norm(x, x.shape[1], scale, bias, epsilon)


@operator("GroupNormalization", since=18, native="group_norm")
def group_normalization(
    x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1, opset: int
) -> Array:
    if opset < 21:  # one scale and bias for each group
        times = x.shape[1] // num_groups
        scale, bias = heddle.repeat(scale, times, 0), heddle.repeat(bias, times, 0)
    return heddle.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization", since=17, native="layer_norm")
def layer_normalization(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int,
) -> Result:
    axis = axis_of(axis, x.ndim)
    shape = x.shape[axis:]
    if scale.shape == shape and (bias is None or bias.shape == shape):
        y = heddle.layer_norm(x, scale, bias, len(shape), epsilon)
    else:
        y = multiplied_and_moved(heddle.layer_norm(x, None, None, len(shape), epsilon), scale, bias)
    if outputs == 1:
        return y
    axes, wide = list(range(axis, x.ndim)), heddle.cast(x, "f64" if x.dtype == heddle.f64 else "f32")
    mean = heddle.mean(wide, axes, True)
    return [y, mean, 1 / heddle.sqrt(heddle.mean(heddle.square(wide - mean), axes, True) + epsilon)]


@operator("RMSNormalization", since=23, native="rms_norm")
def rms_normalization(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Array:
    axis = axis_of(axis, x.ndim)
    if scale.shape == x.shape[axis:]:
        return heddle.rms_norm(x, scale, x.ndim - axis, epsilon)
    return multiplied_and_moved(heddle.rms_norm(x, None, x.ndim - axis, epsilon), scale, None)


@operator("LRN")
def local_response_normalization(
    x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """Pools over channels, which become a spatial axis, padded with zeros that the mean counts."""
    rows = heddle.square(x).reshape([x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])])
    rows = surround(rows, 2, (size - 1) // 2, size // 2, 0)
    mean = heddle.avg_pool2d(rows, [size, 1], [1, 1]).reshape(x.shape)
    return x / heddle.power(bias + alpha * mean, beta)
