"""Operators that make images of windows: the other way round than convolution and pooling."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import heddle
from heddle.onnx.operators.shapes import numbers, surround
from heddle.onnx.operators.windows import MOST_AXES, Ints
from heddle.onnx.table import Array, ints, operator

FUNCTIONS: list[Callable[..., Array]] = [heddle.conv_transpose1d, heddle.conv_transpose2d, heddle.conv_transpose3d]


def windows_added(
    columns: Array, image: list[int], kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]
) -> Array:
    """Images (N, C, image...) whose elements are sums over windows, given as columns (N, C, elements, windows).

    Padding, first that before the axes, belongs to where windows lie, not to the images.
    """
    axes = len(image)
    place, whole = heddle.zeros((), "i64"), []
    for i, (n, k, stride, dilation) in enumerate(zip(image, kernel, strides, dilations, strict=True)):
        span = (k - 1) * dilation + 1
        count = (n + pads[i] + pads[i + axes] - span) // stride + 1
        index = numbers(k, i, 2 * axes) * dilation + numbers(count, axes + i, 2 * axes) * stride
        whole.append(max((count - 1) * stride + span, pads[i] + n))
        place = place * whole[-1] + index
    shape = [*columns.shape[:2], math.prod(whole)]
    total = heddle.index_add(
        heddle.zeros(shape, columns.dtype), place.reshape(-1), columns.reshape([*shape[:2], place.size]), 2
    )
    total = total.reshape([*shape[:2], *whole])
    for axis, (n, before) in enumerate(zip(image, pads[:axes], strict=True), 2):
        total = heddle.slice(total, axis, before, before + n)
    return total


@operator("Col2Im", since=18)
def col2im(
    x: Array, image_shape: Array, block_shape: Array, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Array:
    image, kernel = ints(image_shape), ints(block_shape)
    axes = len(image)
    columns = x.reshape([x.shape[0], -1, math.prod(kernel), x.shape[2]])
    return windows_added(columns, image, kernel, strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes)


def transposed_sizes(
    size: int, span: int, stride: int, before: int, after: int, extra: int, output: int | None, auto_pad: str
) -> tuple[int, int, int]:
    """The size of one axis of ConvTranspose's result, and its padding."""
    whole = (size - 1) * stride + extra + span
    if auto_pad.startswith("SAME"):
        output = size * stride if output is None else output
    if output is None:
        return whole - before - after, before, after
    total = whole - output
    before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return output, before, total - before


@operator("ConvTranspose", native=("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"))
def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    output_padding: Ints = None,
    output_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    axes, kernel = x.ndim - 2, list(w.shape[2:])
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    sizes = [
        transposed_sizes(
            x.shape[2 + i],
            (kernel[i] - 1) * dilations[i] + 1,
            strides[i],
            pads[i],
            pads[i + axes],
            output_padding[i] if output_padding else 0,
            output_shape[i - axes] if output_shape else None,
            auto_pad,
        )
        for i in range(axes)
    ]
    image, before, after = (list(part) for part in zip(*sizes, strict=True))
    if axes > MOST_AXES:
        y = by_windows(x, w, group, (image, kernel, list(strides), list(dilations), before + after))
        return y if b is None else y + b.reshape([-1] + [1] * axes)
    function = FUNCTIONS[axes - 1]
    # With `padding` of before[i] on both sides, the rest of the size is output_padding, which is less than a stride.
    rest = [
        n - ((x.shape[2 + i] - 1) * strides[i] - 2 * before[i] + (kernel[i] - 1) * dilations[i] + 1)
        for i, n in enumerate(image)
    ]
    if all(0 <= more < max(strides[i], dilations[i]) and before[i] >= 0 for i, more in enumerate(rest)):
        return function(x, w, b, strides, before, rest, dilations, group)
    y = function(x, w, None, strides, 0, 0, dilations, group)
    for i, n in enumerate(image):  # negative padding adds zeros
        end = before[i] + n - y.shape[2 + i]
        y = surround(
            heddle.slice(y, 2 + i, max(before[i], 0), y.shape[2 + i] + min(end, 0)),
            2 + i,
            max(-before[i], 0),
            max(end, 0),
            0,
        )
    return y if b is None else y + b.reshape([-1] + [1] * axes)


def by_windows(x: Array, w: Array, group: int, places: tuple[list[int], ...]) -> Array:
    """Multiplies each element of x with the weight, which gives a window of the result, and adds the windows."""
    channels = w.shape[1] * group
    weight = heddle.swapaxes(w.reshape([group, w.shape[0] // group, -1]), 1, 2)
    columns = heddle.matmul(weight, x.reshape([x.shape[0], group, w.shape[0] // group, -1]))
    return windows_added(columns.reshape([x.shape[0], channels, math.prod(places[1]), -1]), *places)


@operator("MaxUnpool", since=9)
def max_unpool(
    x: Array,
    indices: Array,
    output_shape: Array | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Any = None,
    strides: Any = None,
) -> Array:
    axes = len(kernel_shape)
    strides, pads = strides or [1] * axes, pads or [0] * 2 * axes
    image = [(x.shape[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + axes] for i in range(axes)]
    shape = [*x.shape[:2], *image]
    y = heddle.put(heddle.zeros(shape, x.dtype), indices.reshape(-1), x.reshape(-1)).reshape(shape)
    for axis, n in enumerate(ints(output_shape) if output_shape is not None else []):
        y = surround(y, axis, 0, n - shape[axis], 0)
    return y
