"""Activations and functions of each element."""

import math

import numpy as np

import heddle

from .table import Case, F, operator, torch, unary, binary

_KINKS = (0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0)


def _activation(name, theirs, number=None, low=0.25, high=2.0, **options):
    """With a number, that is an argument from low to high, or the default."""

    @operator(name)
    def _(d):
        reach = d.pick(1.0, 4.0, 4.0, 20.0, 600.0)
        reach = min(reach, 20.0) if name == "mish" else reach  # PyTorch's second gradient is NaN beyond
        special = d.pick(_KINKS, _KINKS, _KINKS, (math.inf, -math.inf, math.nan, 0.0))
        if name in ("elu", "selu", "celu") and d.dtype == "f64":
            # At 0 PyTorch has the first derivative from the left and the second from the right.
            special = _KINKS[1:]
        x = d.floats(d.shape(), -reach, reach, special)
        if number is None:
            return Case([x], getattr(heddle, name), theirs, **options)
        value = d.pick(0.5, float(d.floats((), low, high)))
        return Case([x], lambda x: getattr(heddle, name)(x, **{number: value}), lambda x: theirs(x, value))


_activation("gelu", lambda x: F.gelu(x))
_activation("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
_activation("silu", lambda x: F.silu(x))
_activation("mish", lambda x: F.mish(x))
_activation("selu", lambda x: F.selu(x))
_activation("softsign", lambda x: F.softsign(x))
_activation("log_sigmoid", lambda x: F.logsigmoid(x))
_activation("relu6", lambda x: F.relu6(x))
_activation("hard_tanh", lambda x: F.hardtanh(x))
# PyTorch's own has a sixth in the precision of f32, and no second gradient.
_activation("hard_sigmoid", lambda x: F.relu6(x + 3) / 6)
_activation("hard_swish", lambda x: F.hardswish(x))
_activation("tanh_shrink", lambda x: F.tanhshrink(x))
_activation("relu", lambda x: F.relu(x))
_activation("tanh", lambda x: torch.tanh(x))
_activation("sigmoid", lambda x: torch.sigmoid(x))
_activation("leaky_relu", lambda x, slope: F.leaky_relu(x, slope), "slope")
_activation("elu", lambda x, alpha: F.elu(x, alpha), "alpha")
_activation("celu", lambda x, alpha: F.celu(x, alpha), "alpha")
# PyTorch's is linear beyond the threshold: at 80 that is exact.
_activation("softplus", lambda x, beta: F.softplus(x, beta, threshold=80), "beta")
_activation("hard_shrink", lambda x, limit: F.hardshrink(x, limit), "limit")
_activation("soft_shrink", lambda x, limit: F.softshrink(x, limit), "limit")


@operator("softmax")
def _(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    x = d.floats(shape, -8, 8, (-math.inf, 0.0, 100.0))
    return Case([x], lambda x: heddle.softmax(x, axis), lambda x: torch.softmax(x, axis))


@operator("log_softmax")
def _(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    x = d.floats(shape, -8, 8, (-math.inf, 0.0, 100.0))
    return Case([x], lambda x: heddle.log_softmax(x, axis), lambda x: torch.log_softmax(x, axis))


@operator("dropout")
def _(d):
    # PyTorch draws other numbers: what is compared is that the mask is applied, and that it holds nothing but 0 and 1 / (1 - p).
    x, p, seed = d.floats(d.shape()), d.pick(0.0, 0.25, 0.5, float(d.uniform())), d.integer(0, 10**6)

    def ours(x):
        mask = heddle.dropout(heddle.ones_like(x), p, generator=heddle.Generator(seed))
        y = heddle.dropout(x, p, generator=heddle.Generator(seed))
        kept = heddle.abs(mask * (1 - p) - 1) < 1e-6
        return y - x * mask, heddle.logical_or(mask == 0, kept), heddle.dropout(x, p, training=False)

    return Case([x], ours, lambda x: (x * 0, x == x, F.dropout(x, p, training=False)))


# Functions of each element.
for _name in "negative abs square exp tanh exp2 expm1 sin cos sinh cosh asinh erf erfc".split():
    if _name != "tanh":
        unary(_name, lambda x, name=_name: getattr(torch, name)(x), special=(0.0, -0.0, 1.0))
for _name in "log sqrt log2 log10 rsqrt reciprocal".split():
    unary(_name, lambda x, name=_name: getattr(torch, name)(x), 0.1, 9.0, (1.0, 2.0))
# PyTorch's derivative of digamma has 9 digits.
unary("lgamma", lambda x: torch.lgamma(x), 0.1, 9.0, (1.0, 2.0), relative=1e-8)
unary("digamma", lambda x: torch.digamma(x), 0.1, 9.0, (1.0, 2.0), relative=1e-8)
for _name in "floor ceil round trunc sign".split():
    unary(_name, lambda x, name=_name: getattr(torch, name)(x), special=(0.0, 0.5, -0.5, 1.5, 2.0))
for _name in "isnan isinf isfinite signbit logical_not".split():
    unary(_name, lambda x, name=_name: getattr(torch, name)(x), special=(0.0, math.nan, math.inf, -math.inf, -0.0))
unary("log1p", lambda x: torch.log1p(x), -0.9, 9.0, (0.0,))
unary("cbrt", lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3), 0.1, 9.0)
unary("tan", lambda x: torch.tan(x), -1.4, 1.4, (0.0,))
unary("asin", lambda x: torch.asin(x), -0.95, 0.95, (0.0, 0.5))
unary("acos", lambda x: torch.acos(x), -0.95, 0.95, (0.0, 0.5))
unary("atan", lambda x: torch.atan(x), -9.0, 9.0, (0.0, 1.0))
unary("acosh", lambda x: torch.acosh(x), 1.1, 9.0)
unary("atanh", lambda x: torch.atanh(x), -0.95, 0.95, (0.0, 0.5))
unary("nan_to_num", lambda x: torch.nan_to_num(x, 0.0, 4.0, -4.0), special=(math.nan, math.inf, -math.inf),
      ours=lambda x: heddle.nan_to_num(x, 0.0, 4.0, -4.0))  # fmt: skip

for _name in "add subtract multiply maximum minimum logaddexp hypot atan2".split():
    binary(_name, lambda x, y, name=_name: getattr(torch, name)(x, y), special=(0.5, 1.0, 2.0))
for _name in "equal not_equal less less_equal greater greater_equal".split():
    _theirs = {"equal": "eq", "not_equal": "ne"}.get(_name, _name)
    binary(_name, lambda x, y, name=_theirs: getattr(torch, name)(x, y), special=(0.0, 1.0, math.nan, math.inf))
binary("divide", lambda x, y: torch.divide(x, y), (-3.0, 0.3), (3.0, 3.0))
binary("power", lambda x, y: torch.pow(x, y), (0.2, -2.5), (3.0, 2.5), (1.0, 2.0))
@operator("power_of_0", needs="power")
def _(d):
    x, y = d.floats(d.shape(), 0.2, 3, (0.0, 1.0)), d.floats((), 1, 3, (0.0, 1.0, 2.0))
    # PyTorch's second gradient is NaN.
    return Case([x, y], heddle.power, lambda x, y: torch.pow(x, y), second=False)
binary("floor_divide", lambda x, y: torch.floor_divide(x, y), (-9.0, 0.3), (9.0, 3.0), gradient=False)
binary("remainder", lambda x, y: torch.remainder(x, y), (-9.0, 0.3), (9.0, 3.0))
binary("fmod", lambda x, y: torch.fmod(x, y), (-9.0, 0.3), (9.0, 3.0))
binary("copysign", lambda x, y: torch.copysign(x, y), 0.2, 3.0)


@operator("where")
def _(d):
    a, b = d.operands()
    condition = d.bools(d.broadcast(a))
    return Case([condition, d.floats(a), d.floats(b)], heddle.where, lambda c, x, y: torch.where(c, x, y))


@operator("clip")
def _(d):
    # At a bound the gradient of PyTorch 2 is 0, that of PyTorch 1 and of Heddle 1.
    low = d.pick(-2.0, -0.5, 0.0, 1.0)
    high = low + d.pick(0.0, 0.5, 2.0)
    x = d.floats(d.shape(), special=(low, high, math.nan) if d.chance(0.2) else ())
    at_bounds = bool(np.isin(x, (low, high)).any())
    return Case([x], lambda x: heddle.clip(x, low, high), lambda x: torch.clamp(x, low, high), gradient=not at_bounds)
