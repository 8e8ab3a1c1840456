"""Operators that make, move, select and join elements."""

import math
from collections.abc import Iterable
from typing import Any

import heddle
from heddle.onnx.table import Array, dtype_of, ints, number, operator


def axis_of(axis: int, ndim: int) -> int:
    """The axis, which may be counted from the end, among ndim axes. Raises InvalidArgument for one that is not there."""
    if not -ndim <= axis < ndim:
        raise heddle.InvalidArgument(f"axis {axis} of {ndim} axes; want {-ndim} to {ndim - 1}")
    return axis % ndim


def axes_of(axes: Iterable[int], ndim: int) -> list[int]:
    """As axis_of, for several axes, none of which comes twice."""
    found = [axis_of(axis, ndim) for axis in axes]
    if len(set(found)) < len(found):
        raise heddle.InvalidArgument(f"axes {found}, of which one comes twice; want each once")
    return found


def surround(x: Array, axis: int, before: int, after: int, value: float) -> Array:
    """x with `before` and `after` more entries of `value` at the ends of an axis."""

    def filled(n: int) -> Array:
        return heddle.full([n if d == axis else size for d, size in enumerate(x.shape)], value, dtype=x.dtype)

    parts = [*([filled(before)] if before else []), x, *([filled(after)] if after else [])]
    return heddle.concat(parts, axis) if len(parts) > 1 else x


def numbers(n: int, axis: int = 0, axes: int = 1) -> Array:
    """0 to n - 1 in i64 along `axis` of `axes` axes; the others have size 1."""
    return heddle.arange(n, dtype="i64").reshape([n if d == axis else 1 for d in range(axes)])


@operator("Constant")
def constant(
    *,
    value: Any = None,
    value_float: Any = None,
    value_floats: Any = None,
    value_int: Any = None,
    value_ints: Any = None,
) -> Array:
    if value is not None:
        return heddle.array(value)
    for given, dtype in ((value_float, "f32"), (value_floats, "f32"), (value_int, "i64"), (value_ints, "i64")):
        if given is not None:
            return heddle.array(given, dtype=dtype)
    raise ValueError("Constant has no value")


@operator("ConstantOfShape", since=9)
def constant_of_shape(shape: Array, *, value: Any = None) -> Array:
    number = heddle.zeros(1) if value is None else heddle.array(value)
    return heddle.copy(heddle.broadcast_to(number, ints(shape)))


@operator("Range", since=11)
def number_range(start: Array, limit: Array, delta: Array) -> Array:
    return heddle.arange(number(start), number(limit), number(delta), dtype=start.dtype)


@operator("Shape", reads=0)
def shape_of(x: Array, *, start: int = 0, end: Any = None) -> Array:
    return heddle.array(list(x.shape)[start:end], dtype="i64")


@operator("Size", reads=0)
def size_of(x: Array) -> Array:
    return heddle.array(x.size, dtype="i64")


def above_diagonal(rows: int, columns: int) -> Array:
    """Each element's distance above the diagonal of a matrix, as an array (rows, columns)."""
    return numbers(columns, 1, 2) - numbers(rows, 0, 2)


@operator("EyeLike", since=9, reads=0)
def eye_like(x: Array, *, dtype: Any = None, k: int = 0) -> Array:
    return heddle.cast(heddle.equal(above_diagonal(*x.shape), k), x.dtype if dtype is None else dtype_of(dtype))


@operator("Trilu", since=14)
def trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    return (heddle.triu if upper else heddle.tril)(x, 0 if k is None else number(k))


@operator("OneHot", since=9)
def one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    n, axis = int(number(depth)), axis_of(axis, indices.ndim + 1)
    indices = heddle.expand_dims(heddle.cast(indices, "i64"), axis)
    chosen = heddle.equal(heddle.where(indices < 0, indices + n, indices), numbers(n, axis, indices.ndim))
    return heddle.where(chosen, values[1], values[0])


@operator("Reshape", since=5)
def reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    wanted = ints(shape)
    if not allowzero:
        if any(n == 0 for n in wanted[x.ndim :]):
            raise heddle.InvalidArgument(f"shape {wanted} has a 0 for an axis that x {x.shape} does not have")
        wanted = [x.shape[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    return heddle.reshape(x, wanted)


@operator("Flatten")
def flatten(x: Array, *, axis: int = 1) -> Array:
    axis = axis_of(axis, x.ndim) if axis != x.ndim else axis
    return heddle.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@operator("Transpose")
def transpose(x: Array, *, perm: Any = None) -> Array:
    return heddle.transpose(x, perm)


@operator("Squeeze")
def squeeze(x: Array, axes_input: Array | None = None, *, axes: Any = None) -> Array:
    axes = ints(axes_input) if axes_input is not None else axes
    return x if axes == [] else heddle.squeeze(x, axes)


@operator("Unsqueeze")
def unsqueeze(x: Array, axes_input: Array | None = None, *, axes: Any = None) -> Array:
    axes = ints(axes_input) if axes_input is not None else axes
    for axis in sorted(axes_of(axes, x.ndim + len(axes))):
        x = heddle.expand_dims(x, axis)
    return x


@operator("Expand", since=8)
def expand(x: Array, shape: Array) -> Array:
    wanted = ints(shape)
    ndim = max(x.ndim, len(wanted))
    wanted, own = [1] * (ndim - len(wanted)) + wanted, [1] * (ndim - x.ndim) + list(x.shape)
    return heddle.broadcast_to(x, [b if a == 1 else a for a, b in zip(own, wanted, strict=True)])


@operator("Concat", since=4)
def concat(*arrays: Array, axis: int) -> Array:
    return heddle.concat(list(arrays), axis)


@operator("Tile", since=6)
def tile(x: Array, repeats: Array) -> Array:
    return heddle.tile(x, ints(repeats))


@operator("Split")
def split(
    x: Array,
    split_input: Array | None = None,
    *,
    axis: int = 0,
    split: Any = None,
    num_outputs: Any = None,
    outputs: int,
) -> list[Array]:
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    sizes = ints(split_input) if split_input is not None else split
    if sizes is None:
        size = -(-n // (num_outputs or outputs))  # the last part may be smaller
        sizes = [max(min(size, n - i * size), 0) for i in range(num_outputs or outputs)]
    if min(sizes, default=0) < 0 or sum(sizes) != n:
        raise heddle.InvalidArgument(f"parts of {sizes} of axis {axis}, which has {n}; want parts whose sum is that")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [heddle.slice(x, axis, start, start + size) for start, size in zip(starts, sizes, strict=True)]


@operator("Slice")
def slice_axes(
    x: Array,
    starts_input: Array | None = None,
    ends_input: Array | None = None,
    axes_input: Array | None = None,
    steps_input: Array | None = None,
    *,
    axes: Any = None,  # attributes before opset 10
    ends: Any = None,
    starts: Any = None,
) -> Array:
    begins = starts if starts_input is None else ints(starts_input)
    limits = ends if ends_input is None else ints(ends_input)
    places = (axes or range(len(begins))) if axes_input is None else ints(axes_input)
    steps = ints(steps_input) if steps_input is not None else [1] * len(begins)
    for axis, start, end, step in zip(axes_of(places, x.ndim), begins, limits, steps, strict=True):
        x = heddle.slice(x, axis, start, end, step)
    return x


def pad_axis(x: Array, axis: int, before: int, after: int, mode: str, value: float) -> Array:
    n = x.shape[axis]
    if mode == "constant":  # negative padding removes entries
        x = heddle.slice(x, axis, max(-before, 0), n - max(-after, 0))
        return surround(x, axis, max(before, 0), max(after, 0), value)
    places = {
        "edge": lambda i: min(max(i, 0), n - 1),
        "wrap": lambda i: i % n,
        "reflect": lambda i: n - 1 - abs(n - 1 - i % max(2 * n - 2, 1)),
    }
    return heddle.take(x, heddle.array([places[mode](i) for i in range(-before, n + after)], dtype="i64"), axis)


@operator("Pad", since=2)
def pad(
    x: Array,
    pads_input: Array | None = None,
    value_input: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
    pads: Any = None,  # attributes before opset 11
    value: float = 0.0,
) -> Array:
    places = ints(axes) if axes is not None else range(x.ndim)
    sizes = pads if pads_input is None else ints(pads_input)
    filler = value if value_input is None else number(value_input)
    if mode not in ("constant", "edge", "wrap", "reflect"):
        raise heddle.InvalidArgument(f"mode {mode!r}; want constant, edge, wrap or reflect")
    if len(sizes) != 2 * len(places):
        raise heddle.InvalidArgument(f"pads {list(sizes)} for {len(places)} axes; want {2 * len(places)} numbers")
    for i, axis in enumerate(axes_of(places, x.ndim)):
        before, after = sizes[i], sizes[i + len(places)]
        if before or after:
            x = pad_axis(x, axis, before, after, mode, filler)
    return x


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(
    mels: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge: Array,
    upper_edge: Array,
    *,
    output_datatype: int = 1,
) -> Array:
    """A triangle over the bins of a spectrum for each band; all bands have the same width on the mel scale."""
    count, length = number(mels), number(dft_length)
    low, high = (2595 * math.log10(1 + number(edge) / 700) for edge in (lower_edge, upper_edge))
    mel = heddle.arange(count + 2, dtype="f64") * ((high - low) / (count + 2)) + low
    hertz = 700 * heddle.expm1(mel * (math.log(10) / 2595))
    edges = heddle.floor((length + 1) * hertz / number(sample_rate))
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = numbers(length // 2 + 1, 0, 2)
    rising = heddle.where(heddle.equal(bins, centre), 1, (bins - left) / heddle.maximum(centre - left, 1))
    falling = (right - bins) / heddle.maximum(right - centre, 1)
    return heddle.cast(heddle.maximum(heddle.where(bins <= centre, rising, falling), 0), dtype_of(output_datatype))
