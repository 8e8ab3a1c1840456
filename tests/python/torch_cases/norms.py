"""Normalisation."""

import heddle

from .table import Case, F, operator, torch

EPSILON = (1e-5, 1e-3, 0.1)


def _affine(d, shape):
    weight = d.floats(shape, -2, 2) if d.chance(0.7) else None
    bias = d.floats(shape, -2, 2) if d.chance(0.7) else None
    return weight, bias


def _weight(weight, bias):
    """PyTorch has no second gradient where there is a bias and no weight."""
    return torch.ones_like(bias) if weight is None and bias is not None else weight


def _images(d, axes=3):
    """A batch with a few elements in each channel."""
    shape = (d.integer(1, 3), d.integer(1, 4), *(d.integer(1, 4) for _ in range(d.integer(0, axes))))
    return (0, *shape[1:]) if d.chance(1 / 40) else shape


@operator("layer_norm")
def _(d):
    shape = d.shape(1)
    axes, epsilon = d.integer(1, len(shape)), d.pick(*EPSILON)
    return Case([d.floats(shape, special=(1.0,)), *_affine(d, shape[-axes:])], lambda x, w, b: heddle.layer_norm(x, w, b, axes, epsilon),
                lambda x, w, b: F.layer_norm(x, shape[-axes:], _weight(w, b), b, epsilon), terms=epsilon**-0.5)  # fmt: skip


@operator("rms_norm")
def _(d):
    shape = d.shape(1)
    axes, epsilon = d.integer(1, len(shape)), d.pick(*EPSILON)
    return Case([d.floats(shape, special=(0.0,)), _affine(d, shape[-axes:])[0]], lambda x, w: heddle.rms_norm(x, w, axes, epsilon),
                lambda x, w: F.rms_norm(x, shape[-axes:], w, epsilon), terms=epsilon**-0.5)  # fmt: skip


@operator("group_norm")
def _(d):
    groups, epsilon = d.integer(1, 3), d.pick(*EPSILON)
    batch, _, *image = _images(d)
    # PyTorch refuses a single element in each group.
    channels = groups * d.integer(1 if image and max(image) > 1 else 2, 3)
    arrays = [d.floats((batch, channels, *image), special=(1.0,)), *_affine(d, (channels,))]
    return Case(arrays, lambda x, w, b: heddle.group_norm(x, groups, w, b, epsilon),
                lambda x, w, b: F.group_norm(x, groups, _weight(w, b), b, epsilon), terms=epsilon**-0.5)  # fmt: skip


@operator("batch_norm")
def _(d):
    shape, epsilon = _images(d), d.pick(*EPSILON)
    if shape[0] * max(shape[2:], default=1) < 2:  # PyTorch refuses a single element of each channel.
        shape = (2, *shape[1:])

    def theirs(x, w, b):
        axes = [i for i in range(len(shape)) if i != 1]
        y = F.batch_norm(x, None, None, _weight(w, b), b, training=True, eps=epsilon)
        return y, x.detach().mean(axes), x.detach().var(axes, unbiased=False)

    return Case([d.floats(shape, special=(1.0,)), *_affine(d, shape[1:2])], lambda x, w, b: heddle.batch_norm(x, w, b, epsilon), theirs,
                terms=epsilon**-0.5)  # fmt: skip


@operator("batch_norm_with")
def _(d):
    shape, epsilon = _images(d), d.pick(*EPSILON)
    mean, variance = d.floats(shape[1:2]), d.floats(shape[1:2], 0.2, 3)

    def theirs(x, m, v, w, b):
        if not x.requires_grad:
            return F.batch_norm(x, m, v, w, b, eps=epsilon)
        # PyTorch has no gradient of the mean and the variance.
        m, v, w, b = (u if u is None else u.reshape(-1, *[1] * (x.dim() - 2)) for u in (m, v, w, b))
        y = (x - m) / torch.sqrt(v + epsilon)
        y = y if w is None else y * w
        return y if b is None else y + b

    return Case([d.floats(shape), mean, variance, *_affine(d, shape[1:2])],
                lambda x, m, v, w, b: heddle.batch_norm_with(x, m, v, w, b, epsilon), theirs)  # fmt: skip
