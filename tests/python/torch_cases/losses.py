"""Losses."""

import numpy as np

import heddle

from .table import Case, F, operator, torch

REDUCTIONS = ("mean", "sum", "none")


def _loss(name, theirs, low=-2.0, high=2.0, targets=(-2.0, 2.0), special=(), **numbers):
    """
    A loss of two arrays that broadcast; numbers are those it takes, with their ranges. The second gradient of a mean of
    nothing is NaN in one library and 0 in the other.
    """

    @operator(name)
    def _(d):
        shape, other = d.operands()
        drawn = {key: d.pick(0.5, float(d.floats((), *ends))) for key, ends in numbers.items()}
        reduction = d.pick(*REDUCTIONS)
        arrays = [d.floats(shape, low, high, special), d.floats(other, *targets, special=special)]
        return Case(arrays, lambda y, t: getattr(heddle, name)(y, t, **drawn, reduction=reduction),
                    lambda y, t: theirs(*torch.broadcast_tensors(y, t), reduction, *drawn.values()),
                    second=0 not in shape + other or reduction != "mean")  # fmt: skip


def _reduce(losses, reduction):
    return losses if reduction == "none" else getattr(losses, reduction)()


_loss("mse_loss", lambda y, t, r: F.mse_loss(y, t, reduction=r))
_loss("l1_loss", lambda y, t, r: F.l1_loss(y, t, reduction=r), special=(0.0, 1.0))
# No difference is delta, where second gradients are a matter of taste.
_loss("huber_loss", lambda y, t, r, delta: F.huber_loss(y, t, r, delta), special=(0.0, 2.0), delta=(0.2, 1.9))
_loss("bce_with_logits", lambda y, t, r, weight: F.binary_cross_entropy_with_logits(y, t, pos_weight=y.new_tensor(weight), reduction=r),
      -40, 40, (0, 1), (0.0, 1.0), positive_weight=(0.2, 3))  # fmt: skip
_loss("hinge_loss", lambda y, t, r, margin: _reduce(torch.relu(margin - y * t), r), margin=(0.2, 2))


@operator("kl_div")
def _(d):
    shape = d.shape(1)
    reduction = d.pick(*REDUCTIONS)
    zeros = d.chance(0.3)  # where the target's gradient is infinite
    arrays = [d.floats(shape, -4, 0), d.floats(shape, 0.01, 1, (0.0,) if zeros else ())]
    theirs = {"mean": "batchmean"}.get(reduction, reduction)
    return Case(arrays, lambda y, t: heddle.kl_div(y, t, reduction), lambda y, t: F.kl_div(y, t, reduction=theirs),
                fixed=[1] if zeros else [])  # fmt: skip


@operator("triplet_loss")
def _(d):
    shape, margin, reduction = d.shape(2, 3), d.pick(0.5, 1.0, 2.0), d.pick(*REDUCTIONS)
    arrays = [d.floats(shape) for _ in range(3)]
    if d.dtype == "f32" and d.chance(0.3):  # PyTorch's second gradient at a distance of 0 is NaN
        arrays[1] = np.where(d.bools((*shape[:-1], 1)), arrays[0], arrays[1])
    return Case(arrays, lambda a, p, n: heddle.triplet_loss(a, p, n, margin, reduction),
                lambda a, p, n: F.triplet_margin_loss(a, p, n, margin, eps=0, reduction=reduction),
                second=0 not in shape or reduction != "mean")  # fmt: skip


def _rows(d):
    rows, classes = d.integer(1, 5), d.integer(1, 5)
    weight = d.floats((classes,), 0.2, 2) if d.chance(0.5) else None
    labels = d.integers((rows,), 0, classes - 1)
    if d.chance(0.5):
        labels[d.bools(rows, 0.3)] = -1
    return rows, classes, labels, weight


@operator("nll_loss")
def _(d):
    rows, classes, labels, weight = _rows(d)
    reduction = d.pick(*REDUCTIONS)
    return Case([d.floats((rows, classes), -4, 0), labels, weight], lambda y, t, w: heddle.nll_loss(y, t, w, reduction=reduction),
                lambda y, t, w: F.nll_loss(y, t, w, ignore_index=-1, reduction=reduction), fixed=[2])  # fmt: skip


@operator("cross_entropy_with")
def _(d):
    rows, classes, labels, weight = _rows(d)
    reduction, smoothing = d.pick(*REDUCTIONS), d.pick(0.0, 0.1, 0.5)
    return Case([d.floats((rows, classes), -8, 8), labels, weight],
                lambda y, t, w: heddle.cross_entropy_with(y, t, w, smoothing=smoothing, reduction=reduction),
                lambda y, t, w: F.cross_entropy(y, t, w, ignore_index=-1, label_smoothing=smoothing, reduction=reduction),
                fixed=[2])  # fmt: skip


@operator("cross_entropy")
def _(d):
    rows, classes = d.integer(1, 5), d.integer(1, 5)
    return Case([d.floats((rows, classes), -8, 8), d.integers((rows,), 0, classes - 1)], heddle.cross_entropy, lambda y, t: F.cross_entropy(y, t))


@operator("soft_cross_entropy")
def _(d):
    shape, reduction = (d.integer(1, 5), d.integer(1, 5)), d.pick(*REDUCTIONS)
    return Case([d.floats(shape, -8, 8), d.floats(shape, 0, 1)], lambda y, t: heddle.soft_cross_entropy(y, t, reduction),
                lambda y, t: F.cross_entropy(y, t, reduction=reduction))  # fmt: skip
