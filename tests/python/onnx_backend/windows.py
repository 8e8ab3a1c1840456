"""Convolution, pooling and other layers."""

import dataclasses
import itertools
import math

import heddle
from heddle import NDArray

from .random_numbers import generator
from .reductions import highest
from .shapes import numbers, surround
from .table import operator


@dataclasses.dataclass
class Windows:
    """The positions of windows on the last two axes of images."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]  # padding before and after each axis
    overhang: list[int]  # what the last window needs beyond the padding, with ceil_mode

    def symmetric(self, most: list[int]) -> bool:
        """Whether heddle's argument `padding` suffices, which is the same before and after an axis."""
        same = all(before == after <= limit for (before, after), limit in zip(self.pads, most, strict=True))
        return same and not any(self.overhang)

    def plain(self) -> bool:
        """Whether heddle's pooling supports these windows."""
        return len(self.kernel) == 2 and all(dilation == 1 for dilation in self.dilations)

    def elements(self, x: NDArray) -> NDArray:
        """The first element of every window, the second ones, ..., along a new first axis. x is padded."""
        parts = []
        for offsets in itertools.product(*map(range, self.kernel)):
            part = x
            for axis, (offset, k, stride, dilation) in enumerate(
                zip(offsets, self.kernel, self.strides, self.dilations, strict=True), 2
            ):
                start, last = offset * dilation, x.shape[axis] - 1 - (k - 1 - offset) * dilation
                part = heddle.slice(part, axis, start, last + 1, stride)
            parts.append(part)
        return heddle.stack(parts)

    def largest(self, x: NDArray) -> NDArray:
        if self.plain():
            return heddle.max_pool2d(x, self.kernel, self.strides)
        return heddle.max(self.elements(x), 0)

    def mean(self, x: NDArray) -> NDArray:
        if self.plain():
            return heddle.avg_pool2d(x, self.kernel, self.strides)
        return heddle.mean(self.elements(x), 0)

    def padding(self) -> list[int]:
        return [before for before, _ in self.pads]

    def padded(self, x: NDArray, value: float) -> NDArray:
        for axis, (before, after) in enumerate(self.pads, 2):
            x = surround(x, axis, before, after, value)
        return x

    def overhung(self, x: NDArray, value: float) -> NDArray:
        for axis, beyond in enumerate(self.overhang, 2):
            x = surround(x, axis, 0, beyond, value)
        return x


def place_axis(size, span, stride, before, after, auto_pad, ceil_mode):
    """Padding before and after one axis, and the overhang."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        total = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
        small, large = total // 2, total - total // 2
        return (small, large, 0) if auto_pad == "SAME_UPPER" else (large, small, 0)
    if auto_pad == "VALID":
        before = after = 0
    if not ceil_mode:
        return before, after, 0
    last = math.ceil((size + before + after - span) / stride) * stride  # position of the last window
    if last >= size + before:  # a window that begins in the padding is left out
        last -= stride
    return before, after, max(last + span - size - before - after, 0)


def images_and_windows(x, kernel, strides, pads, dilations, auto_pad, ceil_mode=0):
    """x with at least two spatial axes, and its windows; an axis of size 1 is added to x if it has only one."""
    axes = len(kernel)
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    placed = [
        place_axis(
            x.shape[2 + i], (kernel[i] - 1) * dilations[i] + 1, strides[i], pads[i], pads[i + axes], auto_pad, ceil_mode
        )
        for i in range(axes)
    ]
    fill = max(2 - axes, 0)
    windows = Windows(
        kernel=[1] * fill + list(kernel),
        strides=[1] * fill + list(strides),
        dilations=[1] * fill + list(dilations),
        pads=[(0, 0)] * fill + [(before, after) for before, after, _ in placed],
        overhang=[0] * fill + [beyond for _, _, beyond in placed],
    )
    return (heddle.expand_dims(x, 2) if fill else x), windows


def conv_of_elements(elements: NDArray, w: NDArray, group: int) -> NDArray:
    """Convolution as a product of matrices; elements as from Windows: (elements, N, C, ...)."""
    batch, channels = elements.shape[1:3]
    columns = heddle.moveaxis(elements.reshape([len(elements), batch, channels, -1]), 0, 2)
    columns = columns.reshape([batch, group, w.size // w.shape[0], -1])
    y = heddle.matmul(w.reshape([group, w.shape[0] // group, -1]), columns)
    return y.reshape([batch, w.shape[0], *elements.shape[3:]])


@operator("Conv")
def conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    images, windows = images_and_windows(x, w.shape[2:], strides, pads, dilations, auto_pad)
    weight = heddle.expand_dims(w, 2) if w.ndim == 3 else w
    options = {"stride": windows.strides, "dilation": windows.dilations, "groups": group}
    if len(windows.kernel) > 2:
        y = conv_of_elements(windows.elements(windows.padded(images, 0)), w, group)
        y = y if b is None else y + b.reshape([-1] + [1] * (w.ndim - 2))
    elif windows.symmetric([math.inf, math.inf]):
        y = heddle.conv2d(images, weight, b, padding=windows.padding(), **options)
    else:
        y = heddle.conv2d(windows.padded(images, 0), weight, b, **options)
    return heddle.squeeze(y, 2) if x.ndim == 3 else y


@operator("ConvInteger", since=10)
def conv_integer(
    x,
    w,
    x_zero=None,
    w_zero=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """Convolves in f64, which represents sums of integers up to 2**53."""
    x, w = heddle.cast(x, "f64"), heddle.cast(w, "f64")
    x = x if x_zero is None else x - x_zero
    w = w if w_zero is None else w - w_zero.reshape([-1] + [1] * (w.ndim - 1))
    attributes = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    return heddle.cast(conv(x, w, **attributes), "i32")


@operator("MaxPool")
def max_pool(
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    pads=None,
    storage_order=0,
    strides=None,
    outputs,
):
    images, windows = images_and_windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    images = images if x.dtype.is_floating else heddle.cast(images, "f32")  # f32 represents all integers of 8 bits
    padded = windows.overhung(windows.padded(images, -math.inf), -math.inf)
    if outputs > 1:
        order = [0, 1, *range(x.ndim - 1, 1, -1)] if storage_order else list(range(x.ndim))
        index = numbers(x.size).reshape([x.shape[d] for d in order]).transpose(order).reshape(images.shape)
        elements = windows.elements(padded)
        chosen = heddle.expand_dims(heddle.argmax(elements, 0), 0)
        index = windows.elements(windows.overhung(windows.padded(index, 0), 0))
        results = [heddle.squeeze(heddle.take_along_axis(part, chosen, 0), 0) for part in (elements, index)]
        y, index = (heddle.squeeze(part, 2) if x.ndim == 3 else part for part in results)
        return [heddle.cast(y, x.dtype), index]
    if windows.plain() and windows.symmetric([size // 2 for size in windows.kernel]):
        y = heddle.max_pool2d(images, windows.kernel, windows.strides, windows.padding())
    else:
        y = windows.largest(padded)
    return heddle.cast(heddle.squeeze(y, 2) if x.ndim == 3 else y, x.dtype)


@operator("AveragePool", since=7)
def average_pool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, pads=None, strides=None
):
    images, windows = images_and_windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    if windows.plain() and windows.symmetric([size // 2 for size in windows.kernel]):
        y = heddle.avg_pool2d(images, windows.kernel, windows.strides, windows.padding(), bool(count_include_pad))
    else:  # the mean of all elements, divided by the fraction that counts
        counting = heddle.ones(images.shape, images.dtype)
        counting = windows.overhung(windows.padded(counting, 1 if count_include_pad else 0), 0)
        y = windows.mean(windows.overhung(windows.padded(images, 0), 0)) / windows.mean(counting)
    return heddle.squeeze(y, 2) if x.ndim == 3 else y


@operator("LpPool")
def lp_pool(x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, p=2, pads=None, strides=None):
    powers = heddle.power(heddle.abs(x), float(p))
    images, windows = images_and_windows(powers, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = windows.mean(windows.overhung(windows.padded(images, 0), 0)) * math.prod(windows.kernel)
    y = heddle.power(total, 1 / p)
    return heddle.squeeze(y, 2) if x.ndim == 3 else y


@operator("GlobalAveragePool")
def global_average_pool(x):
    return heddle.mean(x, list(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def global_max_pool(x):
    return highest(x, list(range(2, x.ndim)), True)


@operator("LRN")
def local_response_normalization(x, *, size, alpha=1e-4, beta=0.75, bias=1.0):
    """Pools over channels, which become a spatial axis, padded with zeros that the mean counts."""
    rows = heddle.square(x).reshape([x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])])
    rows = surround(rows, 2, (size - 1) // 2, size // 2, 0)
    mean = heddle.avg_pool2d(rows, [size, 1], [1, 1]).reshape(x.shape)
    return x / heddle.power(bias + alpha * mean, beta)


@operator("Dropout", since=7)
def dropout(x, ratio_input=None, training=None, *, ratio=0.5, seed=None):
    ratio = ratio if ratio_input is None else ratio_input.item()
    if training is None or not training.item() or not ratio:
        return [x, heddle.ones(x.shape, "bool")]
    kept = heddle.uniform(x.shape, generator=generator(seed)) >= ratio
    return [heddle.where(kept, x / (1 - ratio) if ratio < 1 else x, 0), kept]
