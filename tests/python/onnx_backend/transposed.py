"""Operators that make images of windows: the other way round than convolution and pooling."""

import math

import heddle
from heddle import NDArray

from .shapes import numbers, surround
from .table import ints, operator


def windows_added(
    columns: NDArray, image: list[int], kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]
) -> NDArray:
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
def col2im(x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    image, kernel = ints(image_shape), ints(block_shape)
    axes = len(image)
    columns = x.reshape([x.shape[0], -1, math.prod(kernel), x.shape[2]])
    return windows_added(
        columns, image, kernel, strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    )


def transposed_sizes(size, span, stride, before, after, extra, output, auto_pad):
    """The size of one axis of ConvTranspose's result, and its padding."""
    whole = (size - 1) * stride + extra + span
    if auto_pad.startswith("SAME"):
        output = size * stride if output is None else output
    elif output is None:
        return whole - before - after, before, after
    total = whole - output
    before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return output, before, total - before


@operator("ConvTranspose")
def conv_transpose(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    """Multiplies each element of x with the weight, which gives a window of the result, and adds the windows."""
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
    channels = w.shape[1] * group
    weight = heddle.swapaxes(w.reshape([group, w.shape[0] // group, -1]), 1, 2)
    columns = heddle.matmul(weight, x.reshape([x.shape[0], group, w.shape[0] // group, -1]))
    columns = columns.reshape([x.shape[0], channels, math.prod(kernel), -1])
    y = windows_added(columns, image, kernel, strides, dilations, before + after)
    return y if b is None else y + b.reshape([-1] + [1] * axes)


@operator("MaxUnpool", since=9)
def max_unpool(x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    axes = len(kernel_shape)
    strides, pads = strides or [1] * axes, pads or [0] * 2 * axes
    image = [(x.shape[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + axes] for i in range(axes)]
    shape = [*x.shape[:2], *image]
    y = heddle.put(heddle.zeros(shape, x.dtype), indices.reshape(-1), x.reshape(-1)).reshape(shape)
    for axis, n in enumerate(ints(output_shape) if output_shape is not None else []):
        y = surround(y, axis, 0, n - shape[axis], 0)
    return y
