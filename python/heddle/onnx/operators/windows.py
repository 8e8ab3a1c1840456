"""Convolution and pooling, which heddle has for one to three axes."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import heddle
from heddle.onnx.operators.random_numbers import generator
from heddle.onnx.operators.reductions import highest
from heddle.onnx.operators.shapes import numbers, surround
from heddle.onnx.table import Array, Result, number, operator

MOST_AXES = 3
Ints = Sequence[int] | None
CONV: list[Callable[..., Array]] = [heddle.conv1d, heddle.conv2d, heddle.conv3d]
MAX_POOL: list[Callable[..., Array]] = [heddle.max_pool1d, heddle.max_pool2d, heddle.max_pool3d]
MAX_POOL_WITH_INDICES: list[Callable[..., tuple[Array, ...]]] = [
    heddle.max_pool1d_with_indices,
    heddle.max_pool2d_with_indices,
    heddle.max_pool3d_with_indices,
]
AVG_POOL: list[Callable[..., Array]] = [heddle.avg_pool1d, heddle.avg_pool2d, heddle.avg_pool3d]


@dataclasses.dataclass
class Windows:
    """The positions of windows on the last axes of images."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]  # padding before each axis
    after: list[int]
    overhang: list[int]  # what the last window needs beyond the padding, with ceil_mode

    def symmetric(self) -> bool:
        """Whether the padding is the same before and after each axis, as heddle's argument `padding` wants it."""
        return self.before == self.after

    def pools(self) -> bool:
        """Whether the padding is one that heddle's pooling has."""
        small = all(pad <= size // 2 for pad, size in zip(self.before, self.kernel, strict=True))
        return self.symmetric() and small

    def few(self) -> bool:
        return len(self.kernel) <= MOST_AXES

    def elements(self, x: Array) -> Array:
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

    def mean(self, x: Array) -> Array:
        """The mean of each window of x, which is padded."""
        if self.few() and all(dilation == 1 for dilation in self.dilations):
            return AVG_POOL[len(self.kernel) - 1](x, self.kernel, self.strides)
        return heddle.mean(self.elements(x), 0)

    def padded(self, x: Array, value: float, beyond: float | None = None) -> Array:
        """x with `value` around it, and with `beyond` where windows overhang the padding."""
        beyond = value if beyond is None else beyond
        for axis, (before, after, over) in enumerate(zip(self.before, self.after, self.overhang, strict=True), 2):
            x = surround(x, axis, before, after, value)
            x = surround(x, axis, 0, over, beyond)
        return x


def place_axis(
    size: int, span: int, stride: int, before: int, after: int, auto_pad: str, ceil_mode: int
) -> tuple[int, int, int]:
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


def windows_of(
    x: Array, kernel: Sequence[int], strides: Ints, pads: Ints, dilations: Ints, auto_pad: str, ceil_mode: int = 0
) -> Windows:
    axes = len(kernel)
    if x.ndim != axes + 2:
        raise heddle.InvalidArgument(f"windows with {axes} axes on an array with shape {x.shape}; want {axes + 2} axes")
    if auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise heddle.InvalidArgument(f"auto_pad is {auto_pad!r}; want NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    counts = (len(strides), len(dilations), len(pads))
    if min([*strides, *dilations, *kernel], default=1) < 1 or min(pads, default=0) < 0 or counts != (axes, axes, 2 * axes):
        raise heddle.InvalidArgument(
            f"kernel {list(kernel)}, strides {strides}, dilations {dilations} or pads {pads} do not fit {axes} axes"
        )
    placed = [
        place_axis(
            x.shape[2 + i], (kernel[i] - 1) * dilations[i] + 1, strides[i], pads[i], pads[i + axes], auto_pad, ceil_mode
        )
        for i in range(axes)
    ]
    before, after, overhang = (list(part) for part in zip(*placed, strict=True))
    return Windows(list(kernel), list(strides), list(dilations), before, after, overhang)


def conv_of_elements(elements: Array, w: Array, group: int) -> Array:
    """Convolution as a product of matrices; elements as from Windows: (elements, N, C, ...)."""
    batch, channels = elements.shape[1:3]
    columns = heddle.moveaxis(elements.reshape([elements.shape[0], batch, channels, -1]), 0, 2)
    columns = columns.reshape([batch, group, w.size // w.shape[0], -1])
    y = heddle.matmul(w.reshape([group, w.shape[0] // group, -1]), columns)
    return y.reshape([batch, w.shape[0], *elements.shape[3:]])


def convolve(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
    relu: bool = False,
) -> Array:
    """Conv, and relu behind it."""
    windows = windows_of(x, w.shape[2:], strides, pads, dilations, auto_pad)
    if not windows.few():
        y = conv_of_elements(windows.elements(windows.padded(x, 0)), w, group)
        y = y if b is None else y + b.reshape([-1] + [1] * (w.ndim - 2))
        return heddle.relu(y) if relu else y
    function, padding = CONV[len(windows.kernel) - 1], windows.before
    if not windows.symmetric():
        x, padding = heddle.pad(x, [0, 0, *windows.before], [0, 0, *windows.after]), [0] * len(padding)
    return function(x, w, b, windows.strides, padding, windows.dilations, group, relu)


@operator("Conv", native=("conv1d", "conv2d", "conv3d"))
def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    return convolve(x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)


@operator("ConvInteger", since=10)
def conv_integer(
    x: Array,
    w: Array,
    x_zero: Array | None = None,
    w_zero: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """Convolves in f64, which represents sums of integers up to 2**53."""
    x, w = heddle.cast(x, "f64"), heddle.cast(w, "f64")
    x = x if x_zero is None else x - x_zero
    w = w if w_zero is None else w - w_zero.reshape([-1] + [1] * (w.ndim - 1))
    y = convolve(x, w, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return heddle.cast(y, "i32")


def max_pool_and_indices(x: Array, images: Array, windows: Windows, ceil_mode: int, storage_order: int) -> Result:
    """The maxima, and their places in all of x, of which heddle gives those in each plane."""
    function = MAX_POOL_WITH_INDICES[len(windows.kernel) - 1]
    y, index = function(
        images, windows.kernel, windows.strides, windows.before, windows.dilations, bool(ceil_mode)
    )
    sizes, axes = x.shape[2:], len(windows.kernel)
    if storage_order:  # the first spatial axis is the one whose elements are next to each other
        index = heddle.take(numbers(math.prod(sizes)).reshape(sizes[::-1]).transpose().reshape(-1), index)
    planes = numbers(x.shape[0] * x.shape[1]).reshape([*x.shape[:2], *[1] * axes])
    return [heddle.cast(y, x.dtype), index + planes * math.prod(sizes)]


@operator(
    "MaxPool",
    native=(
        *("max_pool1d", "max_pool2d", "max_pool3d"),
        *("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"),
    ),
)
def max_pool(
    x: Array,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    pads: Ints = None,
    storage_order: int = 0,
    strides: Ints = None,
    outputs: int,
) -> Result:
    windows = windows_of(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    images = x if x.dtype.is_floating else heddle.cast(x, "f32")  # f32 represents all integers of 8 bits
    if outputs > 1 and windows.few() and windows.pools():
        return max_pool_and_indices(x, images, windows, ceil_mode, storage_order)
    if outputs > 1:
        order = [0, 1, *range(x.ndim - 1, 1, -1)] if storage_order else list(range(x.ndim))
        index = numbers(x.size).reshape([x.shape[d] for d in order]).transpose(order)
        elements = windows.elements(windows.padded(images, -math.inf))
        chosen = heddle.expand_dims(heddle.argmax(elements, 0), 0)
        places = windows.elements(windows.padded(index, 0))
        y, index = (heddle.squeeze(heddle.take_along_axis(part, chosen, 0), 0) for part in (elements, places))
        return [heddle.cast(y, x.dtype), index]
    function = MAX_POOL[len(windows.kernel) - 1] if windows.few() else None
    if function is None:
        y = heddle.max(windows.elements(windows.padded(images, -math.inf)), 0)
    elif windows.pools():
        y = function(images, windows.kernel, windows.strides, windows.before, windows.dilations, bool(ceil_mode))
    else:
        after = [pad + over for pad, over in zip(windows.after, windows.overhang, strict=True)]
        images = heddle.pad(images, [0, 0, *windows.before], [0, 0, *after], value=-math.inf)
        y = function(images, windows.kernel, windows.strides, 0, windows.dilations)
    return y if x.dtype.is_floating else heddle.cast(y, x.dtype)


@operator("AveragePool", since=7, native=("avg_pool1d", "avg_pool2d", "avg_pool3d"))
def average_pool(
    x: Array,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    windows = windows_of(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    if windows.few() and windows.pools() and all(dilation == 1 for dilation in windows.dilations):
        function = AVG_POOL[len(windows.kernel) - 1]
        return function(x, windows.kernel, windows.strides, windows.before, bool(count_include_pad), bool(ceil_mode))
    # The mean of all elements, divided by the fraction that counts.
    counting = windows.padded(heddle.ones(x.shape, x.dtype), 1 if count_include_pad else 0, 0)
    return windows.mean(windows.padded(x, 0)) / windows.mean(counting)


@operator("LpPool")
def lp_pool(
    x: Array,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    p: int = 2,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    windows = windows_of(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = windows.mean(windows.padded(heddle.power(heddle.abs(x), float(p)), 0)) * math.prod(windows.kernel)
    return heddle.power(total, 1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Array) -> Array:
    return heddle.mean(x, list(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Array) -> Array:
    return highest(x, list(range(2, x.ndim)), True)


@operator("Dropout", since=7, pure=False)
def dropout(
    x: Array, ratio_input: Array | None = None, training: Array | None = None, *, ratio: float = 0.5, seed: Any = None
) -> Result:
    ratio = ratio if ratio_input is None else number(ratio_input)
    if training is None or not number(training) or not ratio:
        return [x, heddle.ones(x.shape, "bool")]
    kept = heddle.uniform(x.shape, generator=generator(seed)) >= ratio
    return [heddle.where(kept, x / (1 - ratio) if ratio < 1 else x, 0), kept]
