"""Operators that read images between their elements, at points that are values of an array."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

import heddle
from heddle.onnx.operators.indexing import places
from heddle.onnx.operators.resizing import KERNELS
from heddle.onnx.operators.shapes import numbers
from heddle.onnx.table import Array, Missing, operator


def reflected(x: Array, low: float, high: float) -> Array:
    """x reflected at both ends until it lies between them."""
    span = high - low
    around = heddle.remainder(x - low, 2 * span)
    return low + heddle.minimum(around, 2 * span - around)


Tap = tuple[Array, Array]  # an index and a weight


def taps(n: int, place: Array, mode: str, padding_mode: str, ends: tuple[float, float]) -> list[Tap]:
    """The indices and weights of the elements of one axis that interpolate the values at `place`."""
    if padding_mode == "border":  # the cubic kernel also reads beyond the nearest two elements
        beyond = 2 if KERNELS.get(mode, (None, 1))[1] > 1 else 0
        place = heddle.clip(place, -beyond, n - 1 + beyond)
    elif padding_mode == "reflection":
        place = reflected(place, *ends)
    if mode == "nearest":
        corners = [heddle.round(place)]
    else:
        kernel, reach = KERNELS[mode]
        corners = [heddle.floor(place) + k for k in range(1 - reach, reach + 1)]
    result = []
    for corner in corners:
        weight = heddle.ones_like(place) if mode == "nearest" else kernel(corner - place, -0.75)
        if padding_mode == "zeros":
            weight = heddle.where(heddle.logical_and(corner >= 0, corner <= n - 1), weight, 0)
        elif padding_mode == "reflection":
            corner = reflected(corner, *ends)
        result.append((heddle.cast(heddle.clip(corner, 0, n - 1), "i64"), weight))
    return result


def weighted_parts(images: Array, sizes: tuple[int, ...], axes: list[list[Tap]]) -> Iterator[Array]:
    """For each combination of taps along the axes, the elements of images (N, C, elements), times their weights.

    Indices and weights broadcast to (N, ...); a part is (N, C, ...) with the last axes as one.
    """
    for combination in itertools.product(*axes):
        indices, weights = zip(*combination, strict=True)
        index = places(sizes, list(indices)).reshape([images.shape[0], 1, -1])
        yield heddle.take_along_axis(images, index) * math.prod(weights).reshape(index.shape)


MODES: dict[str, Literal["nearest", "linear", "cubic"]] = {
    **{"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}
}
PADDINGS: dict[str, Literal["zeros", "border", "reflection"]] = {
    **{"zeros": "zeros", "border": "border", "reflection": "reflection"}
}


@operator("GridSample", since=16, native="grid_sample")
def grid_sample(
    x: Array, grid: Array, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Array:
    if mode not in MODES or padding_mode not in PADDINGS:
        raise heddle.InvalidArgument(
            f"mode is {mode!r} and padding_mode {padding_mode!r}; want one of {', '.join(MODES)}, "
            f"and one of {', '.join(PADDINGS)}"
        )
    axes, sizes = [], x.shape[2:]
    if x.dtype == grid.dtype and x.dtype.is_floating and (len(sizes) == 2 or len(sizes) == 3 and MODES[mode] != "cubic"):
        return heddle.grid_sample(x, grid, MODES[mode], PADDINGS[padding_mode], bool(align_corners))
    for n, g in zip(sizes, reversed(heddle.unstack(grid, -1)), strict=True):  # the grid's last number is for axis 2
        low, high = (0, n - 1) if align_corners else (-0.5, n - 0.5)
        axes.append(taps(n, (g + 1) / 2 * (high - low) + low, mode, padding_mode, (low, high)))
    y = functools.reduce(heddle.add, weighted_parts(x.reshape([*x.shape[:2], -1]), sizes, axes))
    return heddle.cast(y, x.dtype).reshape([*x.shape[:2], *grid.shape[1:-1]])


@operator("DeformConv", since=19)
def deform_conv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    """Reads the elements of every window at positions moved by offsets, then multiplies as a convolution does."""
    axes, sizes, result = x.ndim - 2, x.shape[2:], offset.shape[2:]
    kernel, count = w.shape[2:], x.shape[0] * offset_group  # the channels of an offset group share offsets
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    moves = heddle.unstack(offset.reshape([count, *kernel, axes, *result]), 1 + axes)
    read = []
    for i, (n, move) in enumerate(zip(sizes, moves, strict=True)):
        inside = numbers(kernel[i], 1 + i, 1 + 2 * axes) * dilations[i]
        start = numbers(result[i], 1 + axes + i, 1 + 2 * axes) * strides[i] - pads[i]
        read.append(taps(n, heddle.cast(inside + start, x.dtype) + move, "linear", "zeros", (0, n - 1)))
    images = x.reshape([count, x.shape[1] // offset_group, -1])
    columns = functools.reduce(heddle.add, weighted_parts(images, sizes, read))
    columns = columns if mask is None else columns * mask.reshape([count, 1, -1])
    columns = columns.reshape([x.shape[0], group, w.shape[1] * math.prod(kernel), -1])
    y = heddle.matmul(w.reshape([group, w.shape[0] // group, -1]), columns).reshape([x.shape[0], w.shape[0], *result])
    return y if b is None else y + b.reshape([-1] + [1] * axes)


@operator("RoiAlign", since=10)
def roi_align(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    if not sampling_ratio:
        raise Missing("RoiAlign with as many samples as a region asks for")
    half, axes, counts = coordinate_transformation_mode == "half_pixel", [], (output_height, output_width)
    edges = heddle.expand_dims(rois * spatial_scale - (0.5 if half else 0), 2)  # edges (regions, 4, 1): x, y, x, y
    for i, (n, count) in enumerate(zip(x.shape[2:], counts, strict=True)):
        start, length = edges[:, 1 - i], edges[:, 3 - i] - edges[:, 1 - i]
        length = length if half else heddle.maximum(length, 1)
        samples = (heddle.arange(count * sampling_ratio, dtype=rois.dtype) + 0.5) / (count * sampling_ratio)
        place = start + samples * length
        within = heddle.logical_and(place >= -1, place <= n)
        shape = [rois.shape[0], *(-1 if d == i else 1 for d in range(2))]
        axes.append(
            [
                (index.reshape(shape), heddle.where(within, weight, 0).reshape(shape))
                for index, weight in taps(n, place, "linear", "border", (0, n - 1))
            ]
        )
    images = heddle.take(x, batch_indices).reshape([rois.shape[0], x.shape[1], -1])
    combine, over = (heddle.add, heddle.mean) if mode == "avg" else (heddle.maximum, heddle.max)
    parts = functools.reduce(combine, weighted_parts(images, x.shape[2:], axes))
    bins = [rois.shape[0], x.shape[1], output_height, sampling_ratio, output_width, sampling_ratio]
    return over(parts.reshape(bins), [3, 5])
