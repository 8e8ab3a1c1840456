"""Operators on integers that stand for numbers: (integer - zero point) * scale."""

from typing import Any

import heddle
from heddle.onnx.operators.shapes import axis_of
from heddle.onnx.operators.windows import conv_integer
from heddle.onnx.table import Array, dtype_of, operator


def spread(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    """Broadcasts a scale or zero point to x: it has one element, or one for each entry or block of the axis."""
    if parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape(())
    if block_size:
        return heddle.slice(heddle.repeat(parameter, block_size, axis), axis, 0, x.shape[axis])
    return parameter.reshape([-1 if d == axis_of(axis, x.ndim) else 1 for d in range(x.ndim)])


@operator("QuantizeLinear", since=10)
def quantize_linear(
    x: Array,
    scale: Array,
    zero: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else heddle.u8
    scale = spread(scale, x, axis, block_size)
    zero = None if zero is None else spread(zero, x, axis, block_size)
    rounded = heddle.round(x / scale)
    return heddle.cast(rounded if zero is None else rounded + zero, dtype)  # the cast saturates


@operator("DequantizeLinear", since=10)
def dequantize_linear(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Array:
    scale = spread(scale, x, axis, block_size)
    zero = None if zero is None else spread(zero, x, axis, block_size)
    difference = heddle.cast(x, "i32") if zero is None else heddle.cast(x, "i32") - zero
    result = heddle.cast(difference, scale.dtype) * scale
    return heddle.cast(result, dtype_of(output_dtype)) if output_dtype else result


@operator("MatMulInteger")
def matmul_integer(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    a, b = heddle.cast(a, "i32"), heddle.cast(b, "i32")
    if a_zero is not None:
        # one zero point a row
        a = a - (heddle.expand_dims(a_zero, 1) if a_zero.ndim == 1 and a_zero.size > 1 else a_zero)
    return heddle.matmul(a, b if b_zero is None else b - b_zero)


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array, y_zero: Array
) -> Array:
    product = heddle.cast(matmul_integer(a, b, a_zero, b_zero), "f32")
    a_scale = heddle.expand_dims(a_scale, 1) if a_scale.ndim == 1 and a_scale.size > 1 else a_scale  # one scale a row
    return quantize_linear(product * (a_scale * b_scale), y_scale, y_zero)


@operator("QLinearConv", since=10)
def qlinear_conv(
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    options = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    channels = [-1] + [1] * (w.ndim - 2)
    total = conv_integer(x, w, x_zero, w_zero, **options)
    total = total if bias is None else total + bias.reshape(channels)
    return quantize_linear(heddle.cast(total, "f32") * (x_scale * w_scale.reshape(channels)), y_scale, y_zero)
