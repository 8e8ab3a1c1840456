"""Operators that find, select, sort and replace elements by their indices."""

import math
from typing import Any

import heddle
from heddle.onnx.operators.shapes import axis_of, numbers, surround
from heddle.onnx.running import is_known
from heddle.onnx.table import Array, number, operator


@operator("Gather")
def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    if indices.ndim == 0 and is_known(indices):
        index, n = number(indices), x.shape[axis]
        if -n <= index < n:  # a view in place of a copy
            place = index % n
            return heddle.squeeze(heddle.slice(x, axis, place, place + 1), axis)
    return heddle.take(x, indices, axis)


@operator("GatherElements", since=11)
def gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    return heddle.gather(x, indices, axis)


def places(shape: tuple[int, ...], indices: list[Array]) -> Array:
    """The row-major positions of the elements whose index along axis i is indices[i].

    An index that is out of range gives a position behind all elements, which what reads or writes there refuses.
    """
    place, within = heddle.zeros((), "i64"), heddle.array(True)
    for n, index in zip(shape, indices, strict=True):
        place = place * n + heddle.where(index < 0, index + n, index)
        within = heddle.logical_and(within, heddle.logical_and(index >= -n, index < n))
    return heddle.where(within, place, math.prod(shape))


@operator("GatherND", since=11)
def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    last = indices.shape[-1]
    batches = [numbers(n, d, indices.ndim - 1) for d, n in enumerate(indices.shape[:batch_dims])]
    index = batches + [indices[..., i] for i in range(last)]
    entries = x.reshape([math.prod(x.shape[: len(index)]), *x.shape[len(index) :]])
    return heddle.take(entries, places(x.shape[: len(index)], index))


def multiplied(x: Array, indices: Array, source: Array, axis: int) -> Array:
    """heddle.scatter with products, which heddle lacks beside sums, minima and maxima."""
    # gather refuses indices that are out of range, which fails what reads its result.
    source = heddle.where(heddle.array(True), source, heddle.gather(x, indices, axis))
    indices = heddle.where(indices < 0, indices + x.shape[axis], indices)
    chosen = heddle.equal(heddle.expand_dims(indices, axis), numbers(x.shape[axis], axis, x.ndim + 1))
    factors = heddle.prod(heddle.where(chosen, heddle.expand_dims(source, axis), 1), axis + 1)
    for d, n in enumerate(x.shape):
        factors = surround(factors, d, 0, n - factors.shape[d], 1)
    return x * factors


SCATTERS = {
    "none": heddle.scatter,
    "add": heddle.scatter_add,
    "min": heddle.scatter_min,
    "max": heddle.scatter_max,
    "mul": multiplied,
}


@operator("ScatterElements", since=11)
def scatter_elements(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    return SCATTERS[reduction](x, indices, updates, axis_of(axis, x.ndim))


@operator("Scatter", since=9)
def scatter(x: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    return heddle.scatter(x, indices, updates, axis)


@operator("ScatterND", since=11)
def scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    last = indices.shape[-1]
    place = places(x.shape[:last], [indices[..., i] for i in range(last)]).reshape([-1, 1])
    entries = x.reshape([math.prod(x.shape[:last]), math.prod(x.shape[last:])])
    updates = updates.reshape([place.size, entries.shape[1]])
    place = heddle.broadcast_to(place, updates.shape)
    return SCATTERS[reduction](entries, place, updates, 0).reshape(x.shape)


@operator("TensorScatter", since=24)
def tensor_scatter(
    cache: Array, update: Array, write_indices: Array | None = None, *, axis: int = -2, mode: str = "linear"
) -> Array:
    axis = axis_of(axis, cache.ndim)
    place = numbers(update.shape[axis], axis, cache.ndim)
    if write_indices is not None:
        place = place + write_indices.reshape([-1] + [1] * (cache.ndim - 1))
    place = heddle.remainder(place, cache.shape[axis]) if mode == "circular" else place
    return heddle.scatter(cache, heddle.broadcast_to(place, update.shape), update, axis)


@operator("Compress", since=9, dynamic=True)
def compress(x: Array, condition: Array, *, axis: Any = None) -> Array:
    (chosen,) = heddle.nonzero(condition)
    return heddle.take(x.reshape(-1) if axis is None else x, chosen, axis or 0)


@operator("NonZero", since=9, dynamic=True)
def nonzero(x: Array) -> Array:
    return heddle.stack(heddle.nonzero(x))


@operator("TopK", native="topk")
def topk(
    x: Array,
    k_input: Array | None = None,
    *,
    axis: int = -1,
    k: int = 1,  # an attribute before opset 10
    largest: int = 1,
    sorted: int = 1,  # noqa: A002 (names of the specification)
) -> list[Array]:
    return list(heddle.topk(x, k if k_input is None else number(k_input), axis, bool(largest)))


@operator("Unique", since=11, dynamic=True)
def unique(x: Array, *, axis: Any = None, sorted: int = 1) -> list[Array]:  # noqa: A002 (names of the specification)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    rank = heddle.zeros(x.shape[axis], "i64")  # rank[i]: index of entry i among the sorted distinct entries
    for elements in heddle.unstack(heddle.moveaxis(x, axis, 0).reshape([x.shape[axis], -1]), 1):
        distinct, _, which, _ = heddle.unique_all(elements)
        rank = heddle.unique_all(rank * distinct.size + which)[2]
    _, first, which, counts = heddle.unique_all(rank)
    if not sorted:  # sorts by first occurrence
        order = heddle.argsort(first)
        first, counts = heddle.take(first, order), heddle.take(counts, order)
        which = heddle.take(heddle.argsort(order), which)
    return [heddle.take(x, first, axis), first, which, counts]


def backward(x: Array, lengths: Array, time_axis: int, batch_axis: int) -> Array:
    """x with the first lengths[i] entries of the time axis reversed, for entry i of the batch axis."""
    shape = [-1 if d == batch_axis else 1 for d in range(x.ndim)]
    time, lengths = numbers(x.shape[time_axis], time_axis, x.ndim), lengths.reshape(shape)
    return heddle.take_along_axis(x, heddle.where(time < lengths, lengths - 1 - time, time), time_axis)


@operator("ReverseSequence")
def reverse_sequence(x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    return backward(x, lengths, time_axis, batch_axis)


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(x: Array, indices: Array) -> Array:
    return heddle.take(x, indices.reshape(-1), -1)
