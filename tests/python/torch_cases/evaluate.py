"""Computes a case in Heddle and in PyTorch: results, first and second gradients.

The gradient is that of the results' products with random arrays, by every floating argument. The second one, in f64, is the
gradient of the first gradients' products with random arrays, by every floating argument and by the random arrays of the first.
"""

import dataclasses
import warnings

import numpy as np

import heddle

from .draw import Draw
from .table import TABLE, torch

STAGES = ("result", "gradient", "second gradient")


def make_case(name, seed):
    row = TABLE[name]
    d = Draw(name, seed)
    d.dtype = row.dtypes[seed % len(row.dtypes)]
    case = row.draw(d)
    case.dtype = d.dtype
    return case


def _floating(values):
    return values is not None and values.dtype.kind == "f"


def _cast(values, dtype):
    return np.asarray(values, np.float32 if dtype == "f32" else np.float64) if _floating(values) else values


def _listed(result):
    return [y for part in result for y in _listed(part)] if isinstance(result, (list, tuple)) else [result]


@dataclasses.dataclass
class _Plan:
    """What both sides have to do alike."""

    leaves: list  # the numbers of the arguments with a gradient
    weights: Draw  # what results and gradients are multiplied by
    first: bool
    second: bool


def _plan(name, seed, case):
    floating = [i for i, x in enumerate(case.arrays) if _floating(x)]
    # Gradients at NaN and infinity are promised by nobody.
    first = case.gradient and all(np.isfinite(case.arrays[i]).all() for i in floating)
    leaves = [i for i in floating if i not in case.fixed] if first else []
    return _Plan(leaves, Draw(name, seed, 1), first, first and case.second and case.dtype == "f64")


def _gradient_stages(plan, outputs, leaves, side):
    """The stages behind the results. A side is how an array is made, the gradient, and what is floating."""
    weights = [side.make(plan.weights.floats(tuple(y.shape), -1, 1)) for y in outputs if side.floating(y)]
    roots = [(y, w) for y, w in zip(filter(side.floating, outputs), weights) if y.requires_grad]
    if not plan.first or not leaves:
        return []
    firsts = [None] * len(leaves)
    weights = [w for _, w in roots]
    if roots:
        for w in weights if plan.second else ():
            w.requires_grad = True
        firsts = side.grad([y for y, _ in roots], leaves, weights, plan.second)
    stages = [[side.zeros(x) if g is None else g for g, x in zip(firsts, leaves)]]
    if plan.second:
        sources = leaves + weights
        more = [side.make(plan.weights.floats(tuple(x.shape), -1, 1)) for x in leaves]
        roots = [(g, w) for g, w in zip(firsts, more) if g is not None and g.requires_grad]
        seconds = [None] * len(sources)
        if roots:
            seconds = side.grad([g for g, _ in roots], sources, [w for _, w in roots], False)
        stages.append([side.zeros(x) if g is None else g for g, x in zip(seconds, sources)])
    return stages


def _draw_state(name, seed, case, shapes):
    """Values of a layer's arrays, which have these shapes by their names in Heddle."""
    d = Draw(name, seed, 3)
    low, high = case.weights
    return {n: d.floats(shapes[n], 0.5, 2) if n.endswith("running_var") else d.floats(shapes[n], low, high) for n in sorted(shapes)}


# ---- Heddle


def _laid_out(values, draw):
    """A Heddle array of these values, contiguous in one case of three; integers are i32 in one of three."""
    if values.dtype == np.int64 and draw.chance(1 / 3):
        values = values.astype(np.int32)
    kind = draw.integer(0, 5)
    if values.ndim == 0 or kind < 2:
        return heddle.array(values)
    if kind == 2:
        return heddle.array(np.ascontiguousarray(values.T)).T
    axis = draw.integer(0, values.ndim - 1)
    at = [slice(None)] * values.ndim
    if kind == 3:
        at[axis] = slice(None, None, -1)
        return heddle.array(np.ascontiguousarray(values[tuple(at)]))[tuple(at)]
    shape = list(values.shape)
    at[axis] = slice(kind - 4, 2 * shape[axis] + kind - 4, 2)
    shape[axis] = 2 * shape[axis] + 1
    wide = np.full(shape, 77, values.dtype)
    wide[tuple(at)] = values
    return heddle.array(wide)[tuple(at)]


class _Heddle:
    def __init__(self, dtype):
        self.dtype = dtype

    def make(self, values):
        return heddle.array(_cast(values, self.dtype))

    def floating(self, y):
        return y.dtype.is_floating

    def zeros(self, x):
        return heddle.zeros_like(x)

    def grad(self, roots, sources, seeds, create_graph):
        return heddle.grad(roots, sources, seeds, create_graph=create_graph, allow_unused=True)


def heddle_stages(name, seed):
    """Pushes a case; its stages, each a list of arrays that are perhaps not computed yet."""
    case = make_case(name, seed)
    plan = _plan(name, seed, case)
    layouts = Draw(name, seed, 2)
    arrays = [x if x is None else _laid_out(_cast(x, case.dtype), layouts).detach() for x in case.arrays]
    leaves = [arrays[i] for i in plan.leaves]
    buffers = []
    call = case.ours
    if TABLE[name].layer:
        call = case.ours()
        call.train(case.training)
        with heddle.no_grad():
            call(*arrays)  # a layer may find sizes at its first call
        state = sorted((p.name, p.value) for p in call.state())
        values = _draw_state(name, seed, case, {n: tuple(v.shape) for n, v in state})
        report = heddle.load_weights(call.state(), {n: heddle.array(_cast(v, "f32")) for n, v in values.items()})
        if not report.complete:
            raise AssertionError(f"load_weights: {report}")
        buffers = [v for _, v in state if not v.requires_grad]
        leaves += [v for _, v in state if v.requires_grad] if plan.first else []
        call = call.run  # gives all results
    for i in plan.leaves:
        arrays[i].requires_grad = True
    outputs = _listed(call(*arrays)) + [v.copy() for v in buffers]
    return [outputs, *_gradient_stages(plan, outputs, leaves, _Heddle(case.dtype))]


def heddle_values(stages):
    return [[np.array(y.numpy()) for y in stage] for stage in stages]


# ---- PyTorch


class _Torch:
    def __init__(self, dtype):
        self.dtype = dtype

    def make(self, values):
        return torch.from_numpy(np.array(_cast(values, self.dtype)))

    def floating(self, y):
        return y.dtype.is_floating_point

    def zeros(self, x):
        return torch.zeros_like(x)

    def grad(self, roots, sources, seeds, create_graph):
        return torch.autograd.grad(roots, sources, seeds, create_graph=create_graph, allow_unused=True)


def moved(values):
    """The numbers with an error of rounding in f32 each; equal ones stay equal, short ones such as 0.5 what they are."""
    if not _floating(values):
        return values
    mixed = (np.array(values).reshape(-1).view(np.uint64).reshape(values.shape) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    step = (mixed.astype(np.float64) / 2.0**23 - 1) * 2.0**-24
    with np.errstate(invalid="ignore"):
        return np.where(values * 64 == np.floor(values * 64), values, values * (1 + step))


def torch_stages(name, seed, dtype="f64", change=lambda x: x):
    """The stages of a case in PyTorch in f64 or f32; `change` changes every argument."""
    case = make_case(name, seed)
    plan = _plan(name, seed, case)
    side = _Torch(dtype)
    arrays = [x if x is None else side.make(change(x)) for x in case.arrays]
    leaves = [arrays[i] for i in plan.leaves]
    buffers = []
    call = case.theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if TABLE[name].layer:
            call = case.theirs().to(torch.float64 if dtype == "f64" else torch.float32)
            call.train(case.training)
            renamed = {theirs: ours for ours, theirs in (case.names or {}).items()}
            state = {renamed.get(n, n): v for n, v in call.state_dict(keep_vars=True).items() if not n.endswith("num_batches_tracked")}
            values = _draw_state(name, seed, case, {n: tuple(v.shape) for n, v in state.items()})
            for n, v in state.items():
                v.data.copy_(side.make(change(values[n])))
            state = sorted(state.items())
            buffers = [v for _, v in state if not v.requires_grad]
            leaves += [v for _, v in state if v.requires_grad] if plan.first else []
        for i in plan.leaves:
            arrays[i].requires_grad_(True)
        outputs = _listed(case.call(call, *arrays) if case.call else call(*arrays)) + [v.detach().clone() for v in buffers]
        return [outputs, *_gradient_stages(plan, outputs, leaves, side)]


def torch_values(stages):
    return [[y.detach().numpy(force=True).copy() for y in stage] for stage in stages]
