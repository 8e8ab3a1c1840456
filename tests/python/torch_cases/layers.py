"""Layers, whose arrays are loaded from PyTorch's by their names."""

import math

import heddle

from .table import Case, layer, nn, torch

_PLAIN = {"Relu": "ReLU", "Tanh": "Tanh", "Sigmoid": "Sigmoid", "Gelu": "GELU", "Silu": "SiLU", "Mish": "Mish", "Selu": "SELU",
          "Softsign": "Softsign", "LogSigmoid": "LogSigmoid", "Relu6": "ReLU6", "HardTanh": "Hardtanh", "HardSigmoid": "Hardsigmoid",
          "HardSwish": "Hardswish", "TanhShrink": "Tanhshrink"}  # fmt: skip
_WITH_NUMBER = {"LeakyRelu": ("LeakyReLU", "slope", "negative_slope"), "Elu": ("ELU", "alpha", "alpha"), "Celu": ("CELU", "alpha", "alpha"),
                "Softplus": ("Softplus", "beta", "beta"), "HardShrink": ("Hardshrink", "limit", "lambd"),
                "SoftShrink": ("Softshrink", "limit", "lambd")}  # fmt: skip

for _name, _theirs in _PLAIN.items():

    @layer(_name)
    def _(d, name=_name, theirs=_theirs):
        return Case([d.floats(d.shape())], getattr(heddle, name), lambda: getattr(nn, theirs)())


for _name, (_theirs, _ours_key, _key) in _WITH_NUMBER.items():

    @layer(_name)
    def _(d, name=_name, theirs=_theirs, ours_key=_ours_key, key=_key):
        value = float(d.floats((), 0.25, 2))
        options = ({ours_key: value}, {key: value}) if d.chance(0.7) else ({}, {})
        return Case([d.floats(d.shape())], lambda: getattr(heddle, name)(**options[0]), lambda: getattr(nn, theirs)(**options[1]))


@layer("GeluTanh")
def _(d):
    return Case([d.floats(d.shape())], heddle.GeluTanh, lambda: nn.GELU(approximate="tanh"))


def _sizes(d, axes, low, high):
    return tuple(d.integer(low, high) for _ in range(axes)) if axes > 1 else d.integer(low, high)


def _convolution(name, axes, transposed=False):
    @layer(name)
    def _(d):
        groups = d.pick(1, 1, 2)
        channels, outputs = groups * d.integer(1, 2), groups * d.integer(1, 2)
        kernel, bias = _sizes(d, axes, 1, 3), d.chance(0.7)
        options = {"stride": _sizes(d, axes, 1, 2), "padding": _sizes(d, axes, 0, 1), "dilation": _sizes(d, axes, 1, 2), "groups": groups}
        if transposed and d.chance(0.3):
            options["stride"], options["output_padding"] = ((2,) * axes, (1,) * axes) if axes > 1 else (2, 1)
        inferred = None if d.chance(0.2) else channels
        x = d.floats((d.integer(1, 3), channels, *(d.integer(5, 7) for _ in range(axes))), -1, 1)
        return Case([x], lambda: getattr(heddle, name)(inferred, outputs, kernel, bias=bias, **options),
                    lambda: getattr(nn, name)(channels, outputs, kernel, bias=bias, **options), terms=4.0)  # fmt: skip


def _pooling(name, axes):
    @layer(name)
    def _(d):
        kernel = _sizes(d, axes, 2, 3)
        options = {"padding": _sizes(d, axes, 0, 1), **({"stride": _sizes(d, axes, 1, 3)} if d.chance(0.7) else {})}
        x = d.floats((d.integer(1, 3), d.integer(1, 3), *(d.integer(3, 7) for _ in range(axes))))
        return Case([x], lambda: getattr(heddle, name)(kernel, **options), lambda: getattr(nn, name)(kernel, **options))


def _adaptive(name, axes):
    @layer(name)
    def _(d):
        size = _sizes(d, axes, 1, 4)
        x = d.floats((d.integer(1, 3), d.integer(1, 3), *(d.integer(1, 7) for _ in range(axes))))
        return Case([x], lambda: getattr(heddle, name)(size), lambda: getattr(nn, name)(size))


for _axes in (1, 2, 3):
    _convolution(f"Conv{_axes}d", _axes)
    _convolution(f"ConvTranspose{_axes}d", _axes, True)
    _pooling(f"MaxPool{_axes}d", _axes)
    _pooling(f"AvgPool{_axes}d", _axes)
    _adaptive(f"AdaptiveMaxPool{_axes}d", _axes)
    _adaptive(f"AdaptiveAvgPool{_axes}d", _axes)


for _name, _theirs in (("GlobalMaxPool", "amax"), ("GlobalAvgPool", "mean")):

    @layer(_name)
    def _(d, name=_name, theirs=_theirs):
        def network():
            pool = nn.Identity()
            pool.register_forward_hook(lambda _module, _inputs, x: getattr(x, theirs)(tuple(range(2, x.dim()))))
            return pool

        x = d.floats((d.integer(1, 3), d.integer(1, 3), *(d.integer(1, 5) for _ in range(d.integer(1, 3)))))
        return Case([x], lambda: getattr(heddle, name)(), network)


@layer("Dense")
def _(d):
    shape, outputs, bias, bend = d.shape(1), d.integer(1, 4), d.chance(0.7), d.chance(0.2)
    features = max(1, shape[-1])
    x = d.floats((*shape[:-1], features))
    inferred = None if d.chance(0.2) else features

    def theirs():
        dense = nn.Linear(features, outputs, bias)
        if bend:
            dense.register_forward_hook(lambda _module, _inputs, y: torch.relu(y))
        return dense

    return Case([x], lambda: heddle.Dense(inferred, outputs, bias=bias, relu=bend), theirs)


@layer("Embedding")
def _(d):
    rows, features = d.integer(1, 5), d.integer(1, 4)
    return Case([d.integers(d.shape(), 0, rows - 1)], lambda: heddle.Embedding(rows, features), lambda: nn.Embedding(rows, features))


@layer("Flatten")
def _(d):
    return Case([d.floats(tuple(max(1, n) for n in d.shape(2)))], heddle.Flatten, lambda: nn.Flatten())


@layer("Dropout")
def _(d):
    p = d.pick(0.0, 0.25, 0.5)
    return Case([d.floats(d.shape())], lambda: heddle.Dropout(p), lambda: nn.Dropout(p), training=p == 0)


@layer("LayerNorm")
def _(d):
    features, epsilon, weight, bias = d.integer(1, 5), d.pick(1e-5, 1e-3), d.chance(0.7), d.chance(0.7)
    weight = weight or bias  # PyTorch has no bias without a weight.
    return Case([d.floats((*d.shape(0, 3), features))], lambda: heddle.LayerNorm(features, epsilon, weight, bias),
                lambda: nn.LayerNorm(features, epsilon, weight, bias), terms=epsilon**-0.5)  # fmt: skip


@layer("RmsNorm")
def _(d):
    features, epsilon = d.integer(1, 5), d.pick(1e-6, 1e-3)
    return Case([d.floats((*d.shape(0, 3), features))], lambda: heddle.RmsNorm(features, epsilon), lambda: nn.RMSNorm(features, epsilon),
                terms=epsilon**-0.5)  # fmt: skip


@layer("GroupNorm")
def _(d):
    groups, epsilon, affine = d.integer(1, 3), d.pick(1e-5, 1e-3), d.chance(0.7)
    channels = groups * d.integer(2, 3)
    x = d.floats((d.integer(1, 3), channels, *(d.integer(1, 4) for _ in range(d.integer(0, 2)))))
    return Case([x], lambda: heddle.GroupNorm(groups, channels, epsilon, affine, affine),
                lambda: nn.GroupNorm(groups, channels, epsilon, affine), terms=epsilon**-0.5)  # fmt: skip


@layer("InstanceNorm")
def _(d):
    channels, epsilon, affine = d.integer(1, 3), d.pick(1e-5, 1e-3), d.chance(0.5)
    axes = d.integer(1, 3)
    x = d.floats((d.integer(1, 3), channels, *(d.integer(2, 4) for _ in range(axes))))
    return Case([x], lambda: heddle.InstanceNorm(channels, epsilon, affine, affine),
                lambda: getattr(nn, f"InstanceNorm{axes}d")(channels, epsilon, affine=affine), terms=epsilon**-0.5)  # fmt: skip


@layer("BatchNorm")
def _(d):
    channels, epsilon, momentum, affine = d.integer(1, 3), d.pick(1e-5, 1e-3), d.pick(0.1, 0.5), d.chance(0.7)
    axes = d.integer(0, 3)
    x = d.floats((d.integer(2, 4), channels, *(d.integer(1, 4) for _ in range(axes))))
    return Case([x], lambda: heddle.BatchNorm(channels, epsilon, momentum, affine, affine),
                lambda: getattr(nn, f"BatchNorm{max(1, axes)}d")(channels, epsilon, momentum, affine), training=d.chance(0.6),
                terms=epsilon**-0.5)  # fmt: skip


@layer("Identity")
def _(d):
    return Case([d.floats(d.shape())], lambda: heddle.Identity(), lambda: nn.Identity())


@layer("Unflatten")
def _(d):
    shape = [max(1, n) for n in d.shape(1)]
    axis = d.axis(len(shape))
    parts = [shape[axis], d.integer(1, 3)]
    shape[axis] = parts[0] * parts[1]
    if d.chance(0.3):
        parts[0] = -1
    return Case([d.floats(shape)], lambda: heddle.Unflatten(axis, parts), lambda: nn.Unflatten(axis, parts))


for _name in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):

    @layer(_name)
    def _(d, name=_name):
        axes = d.integer(1, 3)
        before, after = ([d.integer(0, 2) for _ in range(axes)] for _ in range(2))
        theirs = [n for pair in zip(reversed(before), reversed(after)) for n in pair]
        x = d.floats((d.integer(1, 2), d.integer(1, 2), *(d.integer(3, 5) for _ in range(axes))))
        return Case([x], lambda: getattr(heddle, name)(before, after), lambda: getattr(nn, f"{name}{axes}d")(tuple(theirs)))


@layer("Upsample")
def _(d):
    axes = d.integer(1, 3)
    mode = d.pick("nearest", "nearest-exact", "linear", *(["cubic"] if axes == 2 else []))
    size, scale = ([d.integer(1, 6) for _ in range(axes)], None) if d.chance(0.5) else (None, d.pick(1.5, 2.0, 3.0))
    align = mode in ("linear", "cubic") and d.chance(0.5)
    theirs = {"linear": ("linear", "bilinear", "trilinear")[axes - 1], "cubic": "bicubic"}.get(mode, mode)
    options = {"size": size} if scale is None else {"scale": scale}
    flag = align if mode in ("linear", "cubic") else None
    x = d.floats((d.integer(1, 2), d.integer(1, 2), *(d.integer(1, 5) for _ in range(axes))))
    return Case([x], lambda: heddle.Upsample(**options, mode=mode, align_corners=align), lambda: nn.Upsample(size, scale, theirs, flag))


@layer("PixelShuffle")
def _(d):
    factor = d.integer(1, 3)
    x = d.floats((d.integer(1, 2), factor**2 * d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)))
    return Case([x], lambda: heddle.PixelShuffle(factor), lambda: nn.PixelShuffle(factor))


@layer("PixelUnshuffle")
def _(d):
    factor = d.integer(1, 3)
    x = d.floats((d.integer(1, 2), d.integer(1, 2), factor * d.integer(1, 3), factor * d.integer(1, 3)))
    return Case([x], lambda: heddle.PixelUnshuffle(factor), lambda: nn.PixelUnshuffle(factor))


@layer("EmbeddingBag")
def _(d):
    rows, features, mode = d.integer(1, 5), d.integer(1, 4), d.pick("sum", "mean", "max")
    indices = d.integers((d.integer(1, 3), d.integer(1, 4)), 0, rows - 1)
    return Case([indices], lambda: heddle.EmbeddingBag(rows, features, mode), lambda: nn.EmbeddingBag(rows, features, mode=mode))


def _sinusoids(base):
    class Sinusoids(nn.Module):
        def forward(self, x):
            length, features = x.shape[-2:]
            rates = base ** (-2.0 * torch.arange((features + 1) // 2, dtype=torch.float64) / features)
            angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
            return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :features].to(x.dtype)

    return Sinusoids()


@layer("SinusoidalPositions")
def _(d):
    base = d.pick(10000.0, 100.0)
    shape = (*(max(1, n) for n in d.shape(0, 2)), d.integer(1, 20), d.integer(1, 9))
    return Case([d.floats(shape)], lambda: heddle.SinusoidalPositions(base), lambda: _sinusoids(base))


def _learned(length, features):
    class Learned(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(length, features))

        def forward(self, x):
            return x + self.weight[: x.shape[-2]]

    return Learned()


@layer("LearnedPositions")
def _(d):
    length, features = d.integer(1, 6), d.integer(1, 5)
    shape = (*(max(1, n) for n in d.shape(0, 2)), d.integer(1, length), features)
    return Case([d.floats(shape)], lambda: heddle.LearnedPositions(length, features), lambda: _learned(length, features))


# Noise in training is compared by the operators' rows.
for _name, _axes in (("ChannelDropout", 0), ("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3), ("AlphaDropout", 0), ("FeatureAlphaDropout", 0),
                     ("GaussianDropout", 0), ("GaussianNoise", 0)):  # fmt: skip

    @layer(_name)
    def _(d, name=_name, axes=_axes):
        shape = (d.integer(1, 3), d.integer(1, 3), *(d.integer(1, 4) for _ in range(axes or d.integer(0, 3))))
        same = name if axes or name.endswith("AlphaDropout") else "Dropout"
        return Case([d.floats(shape)], lambda: getattr(heddle, name)(0.25), lambda: getattr(nn, same)(0.25), training=False)


def _recurrent(name, theirs, option=""):
    @layer(f"{name}_{option}" if option else name, name)
    def _(d):
        batch, steps, features, hidden, layers = d.integer(1, 3), d.integer(1, 4), d.integer(1, 3), d.integer(1, 3), d.integer(1, 2)
        first, bidirectional, bias, relu = d.chance(0.5), d.chance(0.5), d.chance(0.7), name == "Rnn" and d.chance(0.5)
        hidden += option == "proj_size"
        options = {"bias": bias, "batch_first": first, "bidirectional": bidirectional}
        if option == "proj_size":
            options[option] = d.integer(1, hidden - 1)
        sizes = (options.get(option, hidden), hidden)[: 1 + (name == "Lstm")]
        states = [d.floats((layers * (1 + bidirectional), batch, size)) for size in sizes]
        if d.chance(0.4):
            states = [None for _ in states]
        lengths = d.integers((batch,), 1, steps) if d.chance(0.4) else None
        x = d.floats((batch, steps, features) if first else (steps, batch, features))

        def run(network, x, states, lengths):
            if lengths is None:
                return network(x, states)
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
            y, last = network(packed, states)
            return nn.utils.rnn.pad_packed_sequence(y, first, total_length=steps)[0], last

        def call(network, x, *rest):
            *states, lengths = rest
            y, last = run(network, x, None if states[0] is None else tuple(states) if states[1:] else states[0], lengths)
            if option == "last_only":
                h = last[0] if states[1:] else last
                y = torch.cat(list(h[-1 - bidirectional :]), 1)
            return y, last

        ours = {"last_only": True} if option == "last_only" else {}
        return Case([x, *states, lengths],
                    lambda: getattr(heddle, name)(features, hidden, layers, **options, **ours, **({"relu": relu} if name == "Rnn" else {})),
                    lambda: getattr(nn, theirs)(features, hidden, layers, **options, **({"nonlinearity": "relu"} if relu else {})),
                    call=call)  # fmt: skip


for _name, _theirs in (("Rnn", "RNN"), ("Lstm", "LSTM"), ("Gru", "GRU")):
    _recurrent(_name, _theirs)
    _recurrent(_name, _theirs, "last_only")
_recurrent("Lstm", "LSTM", "proj_size")


def _in_plain_operators(call):
    """PyTorch's fused attention has no second gradients."""

    def wrapped(*args):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return call(*args)

    return wrapped


@layer("MultiHeadAttention")
def _(d):
    batch, steps, heads = d.integer(1, 3), d.integer(1, 4), d.integer(1, 3)
    features, bias = heads * d.integer(1, 3), d.chance(0.7)
    memory = d.floats((batch, d.integer(1, 4), features)) if d.chance(0.5) else None
    seen = steps if memory is None else memory.shape[1]
    mask = d.floats((steps, seen)) if d.chance(0.5) else None

    def call(network, x, memory, mask):
        keys = x if memory is None else memory
        return network(x, keys, keys, need_weights=False, attn_mask=mask)[0]

    return Case([d.floats((batch, steps, features)), memory, mask],
                lambda: heddle.MultiHeadAttention(features, heads, bias=bias),
                lambda: nn.MultiheadAttention(features, heads, bias=bias, batch_first=True),
                call=_in_plain_operators(call), terms=4.0)  # fmt: skip


@layer("TransformerBlock")
def _(d):
    batch, steps, heads = d.integer(1, 3), d.integer(1, 4), d.integer(1, 3)
    features, inner = heads * d.integer(2, 4), d.integer(1, 6)
    first, causal, bias, activation = d.chance(0.5), d.chance(0.5), d.chance(0.8), "relu" if d.chance(0.5) else "gelu"

    def call(network, x):
        hidden = torch.full((steps, steps), -math.inf, dtype=x.dtype).triu(1) if causal else None
        return network(x, src_mask=hidden)

    return Case([d.floats((batch, steps, features))],
                lambda: heddle.TransformerBlock(features, heads, inner, causal=causal, norm_first=first, activation=activation, bias=bias),
                lambda: nn.TransformerEncoderLayer(features, heads, inner, 0.0, activation, batch_first=True, norm_first=first, bias=bias),
                call=_in_plain_operators(call), terms=4.0)  # fmt: skip
