"""Resize and Upsample: along each axis by itself, as a product with a matrix of weights."""

import math
from collections.abc import Callable
from typing import Any, Literal

import heddle
from heddle.onnx.operators.shapes import axes_of, numbers
from heddle.onnx.running import constant
from heddle.onnx.table import Array, ints, operator


def linear(distance: Array, a: float) -> Array:
    return heddle.maximum(1 - heddle.abs(distance), 0)


def cubic(distance: Array, a: float) -> Array:
    """Keys' cubic kernel with parameter `a`; its radius is 2."""
    d = heddle.abs(distance)
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = (((d - 5) * d + 8) * d - 4) * a
    return heddle.where(d <= 1, inner, heddle.where(d < 2, outer, 0))


# Each mode's kernel, and its radius. GridSample's modes have had two names each.
KERNELS = {"linear": (linear, 1), "bilinear": (linear, 1), "cubic": (cubic, 2), "bicubic": (cubic, 2)}

COORDINATES = {
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
}
NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: heddle.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: heddle.floor(x + 0.5),
    "floor": heddle.floor,
    "ceil": heddle.ceil,
}


def coordinates(mode: str, n: int, count: int, scale: float, roi: tuple[float, float]) -> Array:
    """The coordinates, in f64, of the `count` elements of the result among n input elements."""
    i, length = heddle.arange(count, dtype="f64"), scale * n
    if mode == "align_corners":
        return i * (0 if length == 1 else (n - 1) / (length - 1))
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if length == 1:
            return i * 0 + (start + end) / 2 * (n - 1)
        return i * ((end - start) * (n - 1) / (length - 1)) + start * (n - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return i * 0 - 0.5
    x = (i + 0.5) / scale - 0.5
    return x + n / 2 * (1 - count / length) if mode == "half_pixel_symmetric" else x


def weights(x: Array, n: int, mode: str, a: float, shrunk: float, exclude_outside: int) -> Array:
    """The weight of each of n elements at each coordinate: (coordinates, n). `shrunk` widens the kernel for values < 1.

    What the kernel has outside goes to the elements at the ends, or is left out.
    """
    kernel, reach = KERNELS[mode]
    beyond = 0 if exclude_outside else math.ceil(reach / shrunk) + 1
    i = numbers(n + 2 * beyond) - beyond
    weight = kernel((i - heddle.expand_dims(x, 1)) * shrunk, a)
    if exclude_outside or shrunk < 1:
        weight = weight / heddle.sum(weight, 1, True)
    return heddle.index_add(heddle.zeros([x.size, n], "f64"), heddle.clip(i, 0, n - 1), weight, 1)


def sizes_and_scales(
    x: Array, axes: list[int], scales: list[float] | None, sizes: list[int] | None, policy: str
) -> tuple[list[int], list[float]]:
    """The result's size and the scale along each axis."""
    shape = [x.shape[axis] for axis in axes]
    given = sizes if scales is None else scales
    if given is None or len(given) != len(axes) or not all(0 < n < math.inf for n in given):
        raise heddle.InvalidArgument(f"scales or sizes are {given}; want {len(axes)} numbers, more than 0 and finite")
    if scales is not None:
        return [math.floor(n * scale) for n, scale in zip(shape, scales, strict=True)], scales
    assert sizes is not None
    scales = [size / n for size, n in zip(sizes, shape, strict=True)]
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(n * scale + 0.5) for n in shape], [scale] * len(axes)


Mode = Literal["nearest", "nearest-exact", "linear", "cubic"]
# ONNX's mode, coordinates and rounding, and heddle's mode and align_corners that give the same.
NATIVE: dict[tuple[str, str, str], tuple[Mode, bool]] = {
    ("nearest", "asymmetric", "floor"): ("nearest", False),
    ("nearest", "half_pixel", "round_prefer_ceil"): ("nearest-exact", False),
    ("linear", "half_pixel", ""): ("linear", False),
    ("linear", "align_corners", ""): ("linear", True),
    ("cubic", "half_pixel", ""): ("cubic", False),
    ("cubic", "align_corners", ""): ("cubic", True),
}


def native_mode(mode: str, coordinates: str, rounding: str, a: float) -> tuple[Mode, bool] | None:
    """The mode and align_corners of heddle.interpolate that compute this, or None."""
    if mode == "cubic" and a != -0.75:
        return None
    return NATIVE.get((mode, coordinates, rounding if mode == "nearest" else ""))


def whole(x: Array, axes: list[int], counts: list[int], scales: list[float]) -> bool:
    """Whether only spatial axes are resized, by scales that are the ratios of the sizes."""
    if not 3 <= x.ndim <= 5 or not x.dtype.is_floating or not all(x.shape):
        return False
    return all(
        count == n * scale and count > 0 and (axis >= 2 or scale == 1)
        for axis, count, scale in zip(axes, counts, scales, strict=True)
        for n in (x.shape[axis],)
    )


def check_modes(coordinates: str, mode: str, rounding: str, policy: str) -> None:
    """Raises InvalidArgument for an attribute of Resize that no specification knows."""
    for name, value, known in (
        ("coordinate_transformation_mode", coordinates, COORDINATES),
        ("mode", mode, {"nearest", *KERNELS}),
        ("nearest_mode", rounding, set(NEAREST)),
        ("keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}),
    ):
        if value not in known:
            raise heddle.InvalidArgument(f"{name} is {value!r}; want one of {', '.join(sorted(known))}")


@operator("Resize", since=10, native="interpolate")
def resize(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    opset: int = 11,
) -> Array:
    if opset < 11:  # whose inputs are x and scales
        roi, scales, coordinate_transformation_mode, nearest_mode = None, roi, "asymmetric", "floor"
    check_modes(coordinate_transformation_mode, mode, nearest_mode, keep_aspect_ratio_policy)
    dtype, axes = x.dtype, axes_of(range(x.ndim) if axes is None else axes, x.ndim)
    given = ints(scales) if scales is not None and scales.size else None
    counts, factors = sizes_and_scales(x, axes, given, ints(sizes), keep_aspect_ratio_policy)
    known = coordinate_transformation_mode
    if known == "pytorch_half_pixel" and all(
        count > 1 or x.shape[axis] == 1 for axis, count in zip(axes, counts, strict=True)
    ):
        known = "half_pixel"  # which differs for one element alone
    own = native_mode(mode, known, nearest_mode, cubic_coeff_a)
    if own and not (antialias or exclude_outside) and whole(x, axes, counts, factors):
        kept = dict(zip(axes, counts, strict=True))
        size = [kept.get(axis, x.shape[axis]) for axis in range(2, x.ndim)]
        if own[0] != "cubic" or len(size) == 2:
            return heddle.interpolate(x, size, None, own[0], own[1])
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    regions = ints(roi) if crops else [0.0] * len(axes) + [1.0] * len(axes)
    for k, (axis, count, scale) in enumerate(zip(axes, counts, factors, strict=True)):
        n = x.shape[axis]
        if n == count and scale == 1 and not crops:
            continue
        place = coordinates(coordinate_transformation_mode, n, count, scale, (regions[k], regions[k + len(axes)]))
        if mode == "nearest":
            x = heddle.take(x, heddle.cast(heddle.clip(NEAREST[nearest_mode](place), 0, n - 1), "i64"), axis)
        else:
            weight = weights(place, n, mode, cubic_coeff_a, min(scale, 1.0) if antialias else 1.0, exclude_outside)
            x = heddle.moveaxis(heddle.matmul(heddle.moveaxis(x, axis, -1), weight.T), -1, axis)
        if crops:
            outside = heddle.logical_or(place < 0, place > n - 1)
            outside = outside.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
            x = heddle.where(outside, extrapolation_value, x)
    return heddle.cast(x, dtype)


@operator("Upsample", since=7)
def upsample(x: Array, scales_input: Array | None = None, *, mode: str = "nearest", scales: Any = None) -> Array:
    given = constant(scales, "f32") if scales_input is None else scales_input  # an attribute before opset 9
    return resize(x, None, given, coordinate_transformation_mode="asymmetric", mode=mode, nearest_mode="floor")
