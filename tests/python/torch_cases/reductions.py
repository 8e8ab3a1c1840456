"""Reductions, statistics, scans and sorting."""

import math

import heddle

from .table import Case, operator, torch


def _reduction(name, theirs, special=(1.0, 2.0), empty=True, **options):
    """theirs(x, axes, keepdims) gets a list of axes."""

    @operator(name)
    def _(d):
        shape = d.shape()
        if not empty:
            shape = tuple(max(1, n) for n in shape)
        axis, keep = d.axes(len(shape)), d.chance(0.3)
        axes = list(range(len(shape))) if axis is None else axis if isinstance(axis, list) else [axis]

        def checked(x):
            # PyTorch takes an empty list for all axes, which a scalar has none of.
            return theirs(x.reshape(1), [0], False).reshape(()) if x.dim() == 0 else theirs(x, axes, keep)

        return Case([d.floats(shape, special=special)], lambda x: getattr(heddle, name)(x, axis, keepdims=keep), checked, **options)


def _product(x, axes, keep):
    for axis in sorted(a % x.dim() for a in axes):
        x = x.prod(axis, keepdim=True)
    return x if keep else x.reshape([n for i, n in enumerate(x.shape) if i not in [a % x.dim() for a in axes]])


_reduction("sum", lambda x, a, k: x.sum(a, k))
_reduction("mean", lambda x, a, k: x.mean(a, k), empty=False)
_reduction("max", lambda x, a, k: x.amax(a, k), empty=False)
_reduction("min", lambda x, a, k: x.amin(a, k), empty=False)
_reduction("prod", _product, special=(1.0, 0.0))
_reduction("logsumexp", lambda x, a, k: x.logsumexp(a, k), special=(1.0, -math.inf, 200.0), empty=False)
_reduction("nansum", lambda x, a, k: x.nansum(a, k), special=(math.nan, 0.0))
_reduction("nanmean", lambda x, a, k: x.nanmean(a, k), special=(math.nan, 0.0), empty=False)
_reduction("any", lambda x, a, k: (x != 0).sum(a, k) > 0, special=(0.0, math.nan))
_reduction("all", lambda x, a, k: (x == 0).sum(a, k) == 0, special=(0.0, math.nan))
_reduction("count_nonzero", lambda x, a, k: (x != 0).sum(a, k), special=(0.0, math.nan))


# PyTorch's second gradients of std and norms are NaN where all elements are equal, or 0.
for _name in ("var", "std"):

    @operator(_name)
    def _(d, name=_name):
        shape, correction = tuple(n + 2 for n in d.shape(1)), d.pick(0, 1)
        axis, keep = d.axes(len(shape)), d.chance(0.3)
        return Case([d.floats(shape, special=(1.0,) if d.dtype == "f32" else ())], lambda x: getattr(heddle, name)(x, axis, correction, keep),
                    lambda x: getattr(torch, name)(x, axis, correction=correction, keepdim=keep))  # fmt: skip


for _name in ("norm", "vector_norm"):

    @operator(_name)
    def _(d, name=_name):
        shape = tuple(max(1, n) for n in d.shape(1))
        p, axis, keep = d.pick(1.0, 2.0, 2.0, 3.0, 1.5, math.inf), d.axes(len(shape)), d.chance(0.3)
        return Case([d.floats(shape, special=(0.0,) if d.dtype == "f32" else ())], lambda x: getattr(heddle, name)(x, p, axis, keep),
                    lambda x: torch.linalg.vector_norm(x, p, axis, keep))  # fmt: skip


for _name in ("argmax", "argmin"):

    @operator(_name)
    def _(d, name=_name):
        shape = tuple(max(1, n) for n in d.shape(1))
        axis = None if d.chance(0.2) else d.axis(len(shape))
        return Case([d.floats(shape, special=(1.0, 2.0))], lambda x: getattr(heddle, name)(x, axis), lambda x: getattr(torch, name)(x, axis))


def _along(name, theirs, special=(), low=1, empty=True, **options):
    """theirs(x, axis)."""

    @operator(name)
    def _(d):
        shape = tuple(max(low, n) if not empty else n for n in d.shape(1))
        axis = d.axis(len(shape))
        return Case([d.floats(shape, special=special)], lambda x: getattr(heddle, name)(x, axis=axis), lambda x: theirs(x, axis), **options)


_along("cumsum", lambda x, a: torch.cumsum(x, a))
_along("cumprod", lambda x, a: torch.cumprod(x, a), (0.0, 1.0))
_along("cummax", lambda x, a: torch.cummax(x, a)[0], empty=False)
_along("cummin", lambda x, a: torch.cummin(x, a)[0], empty=False)
_along("diff", lambda x, a: torch.diff(x, dim=a), empty=False)
_along("argsort", lambda x, a: torch.argsort(x, dim=a, stable=True), (0.0, 1.0))
_along("median", lambda x, a: torch.quantile(x, 0.5, a), empty=False)


@operator("sort")
def _(d):
    shape, falling = d.shape(1), d.chance(0.5)
    axis = d.axis(len(shape))
    return Case([d.floats(shape, special=(0.0, 1.0))], lambda x: heddle.sort(x, axis, falling),
                lambda x: torch.sort(x, dim=axis, descending=falling, stable=True)[0])  # fmt: skip


@operator("topk")
def _(d):
    shape, largest = tuple(max(1, n) for n in d.shape(1)), d.chance(0.5)
    axis = d.axis(len(shape))
    k = d.integer(1, shape[axis])
    return Case([d.floats(shape)], lambda x: heddle.topk(x, k, axis, largest), lambda x: torch.topk(x, k, axis, largest))


@operator("kthvalue")
def _(d):
    shape, keep = tuple(max(1, n) for n in d.shape(1)), d.chance(0.3)
    axis = d.axis(len(shape))
    k = d.integer(1, shape[axis])
    return Case([d.floats(shape)], lambda x: heddle.kthvalue(x, k, axis, keep), lambda x: torch.kthvalue(x, k, axis, keep))


@operator("quantile")
def _(d):
    shape, keep, q = tuple(max(1, n) for n in d.shape(1)), d.chance(0.3), d.pick(0.0, 0.25, 0.5, 0.7, 1.0)
    axis = d.axis(len(shape))
    return Case([d.floats(shape)], lambda x: heddle.quantile(x, q, axis, keep), lambda x: torch.quantile(x, q, axis, keep))
