"""Shapes, joining, padding and indexing."""

import heddle

from .table import Case, F, operator, torch


def _view(name, draw):
    """draw(d, shape) gives the arguments of both sides behind x."""

    @operator(name)
    def _(d):
        shape = d.shape(2)
        ours, theirs = draw(d, shape)
        return Case([d.floats(shape)], lambda x: getattr(heddle, name)(x, *ours), theirs)


def _offset(d, shape, theirs):
    k = d.integer(-2, 2)
    return (k,), lambda x: theirs(x, k)


def _pair(d, shape, theirs):
    a, b = (int(v) for v in d.permutation(len(shape))[:2])
    return (a, b), lambda x: theirs(x, a, b)


def _flip(d, shape):
    axis = d.axes(len(shape))
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    return (axis,), lambda x: torch.flip(x, tuple(axes))


def _roll(d, shape):
    shift, axis = d.integer(-5, 5), d.pick(None, d.axis(len(shape)))
    return (shift, axis), lambda x: torch.roll(x, shift, axis)


def _tile(d, shape):
    reps = [d.integer(1, 3) for _ in range(d.integer(1, len(shape) + 1))]
    return (reps,), lambda x: torch.tile(x, reps)


def _repeat(d, shape):
    count, axis = d.integer(1, 3), d.pick(None, d.axis(len(shape)))
    return (count, axis), lambda x: torch.repeat_interleave(x, count, axis)


def _diagonal(d, shape):
    a, b = (int(v) for v in d.permutation(len(shape))[:2])
    k = 0 if 0 in shape else d.integer(1 - shape[a], shape[b] - 1)
    return (k, a, b), lambda x: torch.diagonal(x, k, a, b)


_view("tril", lambda d, shape: _offset(d, shape, lambda x, k: torch.tril(x, k)))
_view("triu", lambda d, shape: _offset(d, shape, lambda x, k: torch.triu(x, k)))
_view("swapaxes", lambda d, shape: _pair(d, shape, lambda x, a, b: torch.swapaxes(x, a, b)))
_view("moveaxis", lambda d, shape: _pair(d, shape, lambda x, a, b: torch.moveaxis(x, a, b)))
_view("flip", _flip)
_view("roll", _roll)
_view("tile", _tile)
_view("repeat", _repeat)
_view("diagonal", _diagonal)


def _pad(d, mode):
    """PyTorch's modes other than constant pad the last axes alone."""
    before, after = d.integer(0, 3), d.integer(0, 3)
    high, wide = d.integer(4, 5), d.integer(4, 5)
    shape = (d.integer(1, 2), d.integer(1, 2), high, wide)
    ahead, behind = [0, 0, before, after], [0, 0, after, d.integer(0, 3)]
    theirs = [ahead[3], behind[3], ahead[2], behind[2]]
    name = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    value = d.pick(0.0, 1.5) if mode == "constant" else 0.0
    return Case([d.floats(shape)], lambda x: heddle.pad(x, ahead, behind, mode, value),
                lambda x: F.pad(x, theirs, name, value if mode == "constant" else None))  # fmt: skip


@operator("pad")
def _(d):
    return _pad(d, d.pick("constant", "edge", "reflect", "wrap"))


for _name in ("concat", "stack"):

    @operator(_name)
    def _(d, name=_name):
        shape = list(d.shape(1, 3))
        axis, count = d.axis(len(shape)), d.integer(1, 4)
        shapes = [list(shape) for _ in range(count)]
        for other in shapes if name == "concat" else ():
            other[axis] = d.integer(0, 3)
        return Case([d.floats(s) for s in shapes], lambda *x: getattr(heddle, name)(list(x), axis), lambda *x: getattr(torch, name)(x, axis))


@operator("take_along_axis")
def _(d):
    shape = tuple(max(1, n) for n in d.shape(1))
    axis, chosen = d.axis(len(shape)), list(shape)
    chosen[axis] = d.integer(0, 4)
    return Case([d.floats(shape), d.integers(chosen, 0, shape[axis] - 1)], lambda x, i: heddle.take_along_axis(x, i, axis),
                lambda x, i: torch.take_along_dim(x, i, axis))  # fmt: skip


@operator("gather")
def _(d):
    shape = tuple(max(1, n) for n in d.shape(1))
    axis, chosen = d.axis(len(shape)), [d.integer(1, n) for n in shape]
    chosen[axis] = d.integer(0, 4)
    return Case([d.floats(shape), d.integers(chosen, 0, shape[axis] - 1)], lambda x, i: heddle.gather(x, i, axis),
                lambda x, i: torch.gather(x, axis, i))  # fmt: skip


@operator("take")
def _(d):
    shape = tuple(max(1, n) for n in d.shape(1))
    axis = d.axis(len(shape))
    return Case([d.floats(shape), d.integers(d.sizes(1), 0, shape[axis] - 1)], lambda x, i: heddle.take(x, i, axis),
                lambda x, i: torch.index_select(x, axis, i))  # fmt: skip


def _scattered(d, repeated):
    shape = tuple(max(1, n) for n in d.shape(1))
    axis = d.axis(len(shape))
    index = d.integers(shape, 0, shape[axis] - 1)
    if not repeated:
        index = d.uniform(shape).argsort(axis, kind="stable")
    return [d.floats(shape), index, d.floats(shape)], axis


@operator("scatter")
def _(d):
    arrays, axis = _scattered(d, False)
    return Case(arrays, lambda x, i, s: heddle.scatter(x, i, s, axis), lambda x, i, s: torch.scatter(x, axis, i, s))


@operator("scatter_add")
def _(d):
    arrays, axis = _scattered(d, True)
    return Case(arrays, lambda x, i, s: heddle.scatter_add(x, i, s, axis), lambda x, i, s: torch.scatter_add(x, axis, i, s))


for _name, _reduce in (("scatter_min", "amin"), ("scatter_max", "amax")):

    @operator(_name)
    def _(d, name=_name, reduce=_reduce):
        arrays, axis = _scattered(d, True)
        return Case(arrays, lambda x, i, s: getattr(heddle, name)(x, i, s, axis),
                    lambda x, i, s: torch.scatter_reduce(x, axis, i, s, reduce), second=False)  # fmt: skip


@operator("index_add")
def _(d):
    shape = [max(1, n) for n in d.shape(1)]
    axis, part = d.axis(len(shape)), list(shape)
    part[axis] = d.integer(0, 4)
    arrays = [d.floats(shape), d.integers((part[axis],), 0, shape[axis] - 1), d.floats(part)]
    return Case(arrays, lambda x, i, s: heddle.index_add(x, i, s, axis), lambda x, i, s: torch.index_add(x, axis, i, s))


@operator("masked_fill")
def _(d):
    shape = d.shape()
    return Case([d.floats(shape), d.bools(d.broadcast(shape))], lambda x, m: heddle.masked_fill(x, m, 2.5), lambda x, m: x.masked_fill(m, 2.5))


@operator("masked_select")
def _(d):
    shape = d.shape()
    return Case([d.floats(shape), d.bools(shape)], heddle.masked_select, lambda x, m: torch.masked_select(x, m))


@operator("one_hot")
def _(d):
    return Case([d.integers(d.shape(), 0, 4)], lambda i: heddle.one_hot(i, 5, "i64"), lambda i: F.one_hot(i, 5))
