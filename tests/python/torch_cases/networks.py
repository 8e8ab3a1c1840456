"""Attention, recurrent networks, resampling, bags of embeddings, CTC and noise."""

import math

import numpy as np

import heddle

from .table import Case, F, operator, torch

# ---- Attention


@operator("attention")
def _(d):
    batch, shared, groups = d.integer(1, 2), d.integer(1, 2), d.integer(1, 3)
    heads, depth, rows = shared * groups, d.integer(1, 4), d.integer(1, 5)
    causal = d.chance(0.4)
    keys = rows + d.integer(0, 3) if causal else d.integer(1, 5)
    scale = d.pick(None, 0.5)
    shape = (batch, heads, rows, keys)
    kind = d.pick("none", "bool", "float")
    mask = None if kind == "none" else d.floats(d.broadcast(shape)) if kind == "float" else d.bools(d.broadcast(shape), 0.7)
    if kind == "bool" and mask.ndim:
        mask[..., 0] = True  # a query that sees nothing is another matter in PyTorch
    elif kind == "bool":
        mask = np.asarray(True)
    arrays = [d.floats((batch, heads, rows, depth)), d.floats((batch, shared, keys, depth)), d.floats((batch, shared, keys, d.integer(1, 4))), mask]

    def theirs(q, k, v, m):
        if causal:
            seen = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
            m = seen if m is None else m & seen if m.dtype == torch.bool else m.masked_fill(~seen, -math.inf)
        m = m if m is None or m.dim() > 1 else m.expand(rows, keys)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, m, scale=scale, enable_gqa=True)

    return Case(arrays, lambda q, k, v, m: heddle.attention(q, k, v, m, causal=causal, scale=scale), theirs)


@operator("rotary")
def _(d):
    shape = (*d.shape(1, 3), 2 * d.integer(1, 3))
    rows = shape[-2]
    positions = d.integers(d.broadcast(shape[:-1]), 0, 20) if d.chance(0.5) else None
    base, interleaved = d.pick(10000.0, 100.0), d.chance(0.5)

    def theirs(x, p):
        p = torch.arange(rows) if p is None else p
        half = shape[-1] // 2
        angle = p.unsqueeze(-1).to(x.dtype) * base ** (-torch.arange(half, dtype=x.dtype) / half)
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
        c, s = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
        return torch.stack([c, s], -1).flatten(-2) if interleaved else torch.cat([c, s], -1)

    return Case([d.floats(shape), positions], lambda x, p: heddle.rotary(x, p, base=base, interleaved=interleaved), theirs)


# ---- Recurrent networks: one layer in one direction


def _plain_lstm(x, h, c, weights, projection, peepholes):
    """Of one element, (steps, features): PyTorch has no peepholes."""
    outputs = []
    added = _linear(x, weights[0], weights[2])
    for now in added:
        i, f, g, o = (now + _linear(h, weights[1], weights[3])).chunk(4, -1)
        pi, pf, po = peepholes.chunk(3)
        c = torch.sigmoid(f + pf * c) * c + torch.sigmoid(i + pi * c) * torch.tanh(g)
        h = torch.sigmoid(o + po * c) * torch.tanh(c)
        h = h if projection is None else F.linear(h, projection)
        outputs.append(h)
    return torch.stack(outputs), [h, c]


def _plain_gru(x, h, weights):
    """Of one element, with the reset before the product, which PyTorch does not have."""
    n, outputs = h.shape[-1], []
    w, u, b, c = weights
    for now in _linear(x, w, b):
        r, z = torch.sigmoid(now[: 2 * n] + _linear(h, u[: 2 * n], None if c is None else c[: 2 * n])).chunk(2)
        new = torch.tanh(now[2 * n :] + _linear(r * h, u[2 * n :], None if c is None else c[2 * n :]))
        h = (1 - z) * new + z * h
        outputs.append(h)
    return torch.stack(outputs), [h]


def _linear(x, weight, bias):
    return x @ weight.T + (0 if bias is None else bias)


def _recurrent(name, gates, states, option=""):
    @operator(f"{name}_{option}" if option else name, f"{name}({option})" if option else None)
    def _(d):
        steps, batch, features, units = d.integer(1, 4), d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
        units += option == "weight_hr"
        first, reverse, relu = d.chance(0.5), d.chance(0.3), name == "rnn" and d.chance(0.5)
        bias, rows = d.chance(0.7), gates * units
        lengths = d.integers((batch,), 0, steps) if d.chance(0.4) else None
        size = d.integer(1, units - 1) if name == "lstm" and option and units > 1 else units
        initial = [d.floats((batch, n)) if d.chance(0.6) else None for n in (size, units)[:states]]
        arrays = [
            d.floats((batch, steps, features) if first else (steps, batch, features)),
            d.floats((rows, features), -1, 1),
            d.floats((rows, size), -1, 1),
            *(d.floats((rows,), -1, 1) if bias else None for _ in range(2)),
            *initial,
            lengths,
        ]
        more = {}
        if name == "lstm" and option:
            more["weight_hr"] = d.floats((size, units), -1, 1) if size < units else None
        if option == "peepholes":
            more["peepholes"] = d.floats((3 * units,), -1, 1)
        options = {"reverse": reverse, "batch_first": first, **({"relu": relu} if name == "rnn" else {})}
        if option == "reset_after":
            options["reset_after"] = False

        def ours(x, w, u, b, c, *rest):
            given = {**dict(zip(("h", "c"), rest[:states])), **dict(zip(more, rest[states + 1 :]))}
            return getattr(heddle, name)(x, w, u, b, c, lengths=rest[states], **given, **options)

        def one(x, states, weights, more):
            """One element of the batch, (steps, features): PyTorch's packed sequences take no length of 0."""
            if x.shape[0] == 0:
                return x.new_zeros(0, size), states
            x = x.flip(0) if reverse else x
            if option == "peepholes":
                y, last = _plain_lstm(x, *states, weights, *more)
            elif option == "reset_after":
                y, last = _plain_gru(x, *states, weights)
            else:
                weights = [one for one in (*weights, *more) if one is not None]
                states = [s.view(1, 1, -1) for s in states]
                network = getattr(torch, {"rnn": "rnn_relu" if relu else "rnn_tanh"}.get(name, name))
                y, *last = network(x.view(-1, 1, features), states if states[1:] else states[0],
                                   weights, bias, 1, 0.0, False, False, False)  # fmt: skip
                y, last = y.view(-1, size), [s.view(-1) for s in last]
            return y.flip(0) if reverse else y, last

        def theirs(x, w, u, b, c, *rest):
            given, count, more = rest[:states], rest[states], rest[states + 1 :]
            x = x if first else x.transpose(0, 1)
            given = [x.new_zeros(batch, n) if s is None else s for s, n in zip(given, (size, units))]
            parts = []
            for i in range(batch):
                n = steps if count is None else int(count[i])
                y, last = one(x[i, :n], [s[i] for s in given], [w, u, b, c], more)
                parts.append((F.pad(y, (0, 0, 0, steps - n)), *last))
            y, *last = (torch.stack(p) for p in zip(*parts))
            return y if first else y.transpose(0, 1), *last

        return Case([*arrays, *more.values()], ours, theirs)


_recurrent("rnn", 1, 1)
_recurrent("lstm", 4, 2)
_recurrent("lstm", 4, 2, "weight_hr")
_recurrent("lstm", 4, 2, "peepholes")
_recurrent("gru", 3, 1)
_recurrent("gru", 3, 1, "reset_after")


# ---- Resampling


@operator("interpolate")
def _(d):
    axes = d.integer(1, 3)
    modes = ["nearest", "nearest-exact", "linear", "area"] + (["cubic"] if axes == 2 else [])
    mode = d.pick(*modes)
    shape = (d.integer(1, 2), d.integer(1, 2), *(d.integer(1, 5) for _ in range(axes)))
    size, scale = ([d.integer(1, 6) for _ in range(axes)], None) if d.chance(0.6) else (None, d.pick(0.5, 1.0, 1.5, 2.0, 3.0))
    if scale == 0.5:
        shape = (*shape[:2], *(n + 1 for n in shape[2:]))
    align = mode in ("linear", "cubic") and d.chance(0.5)
    theirs = {"linear": ("linear", "bilinear", "trilinear")[axes - 1], "cubic": "bicubic"}.get(mode, mode)
    flag = align if mode in ("linear", "cubic") else None
    return Case([d.floats(shape)], lambda x: heddle.interpolate(x, size, scale, mode, align),
                lambda x: F.interpolate(x, size, scale, theirs, flag))  # fmt: skip


for _name in ("pixel_shuffle", "pixel_unshuffle"):

    @operator(_name)
    def _(d, name=_name):
        factor, (c, h, w) = d.integer(1, 3), (d.integer(1, 2) for _ in range(3))
        image = (c * factor**2, h, w) if name == "pixel_shuffle" else (c, h * factor, w * factor)
        batch = (max(1, n) for n in d.shape(0, 2))  # PyTorch's second gradient refuses an empty one
        return Case([d.floats((*batch, *image))], lambda x: getattr(heddle, name)(x, factor), lambda x: getattr(F, name)(x, factor))


@operator("grid_sample")
def _(d):
    axes = d.integer(2, 3)
    mode = d.pick(*["linear", "nearest"] + (["cubic"] if axes == 2 else []))
    padding, align = d.pick("zeros", "border", "reflection"), d.chance(0.5)
    batch, image, out = d.integer(1, 2), [d.integer(1, 5) for _ in range(axes)], [d.integer(1, 4) for _ in range(axes)]
    x, grid = d.floats((batch, d.integer(1, 3), *image)), d.floats((batch, *out, axes), -1.7, 1.7)
    theirs = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return Case([x, grid], lambda x, g: heddle.grid_sample(x, g, mode, padding, align),
                lambda x, g: F.grid_sample(x, g, theirs, padding, align), second=False)  # fmt: skip


@operator("affine_grid")
def _(d):
    axes, batch, align = d.integer(2, 3), d.integer(1, 2), d.chance(0.5)
    size = [batch, d.integer(1, 2), *(d.integer(1, 4) for _ in range(axes))]
    return Case([d.floats((batch, axes, axes + 1))], lambda t: heddle.affine_grid(t, size, align), lambda t: F.affine_grid(t, size, align))


# ---- Embeddings


@operator("embedding_padded", needs="embedding(padding_index)")
def _(d):
    rows = d.integer(1, 5)
    at = d.integer(-rows, rows - 1)
    shape = tuple(max(1, n) for n in d.shape(0, 3))
    return Case([d.floats((rows, d.integer(1, 4))), d.integers(shape, 0, rows - 1)], lambda w, i: heddle.embedding(w, i, padding_index=at),
                lambda w, i: F.embedding(i, w, at))  # fmt: skip


def _bags(weight, indices, offsets, factors, mode, padding):
    """PyTorch's embedding_bag has no second gradient; this has, and its values are compared with that."""
    if indices.dim() == 2:
        parts = list(zip(indices, factors if factors is not None else [None] * len(indices)))
    else:
        ends = [*offsets[1:].tolist(), indices.shape[0]]
        parts = [(indices[a:b], None if factors is None else factors[a:b]) for a, b in zip(offsets.tolist(), ends)]
    results = []
    for index, factor in parts:
        if padding is not None:
            chosen = index != padding % weight.shape[0]
            index, factor = index[chosen], None if factor is None else factor[chosen]
        rows = weight[index] if factor is None else weight[index] * factor.unsqueeze(-1)
        if index.shape[0] == 0:
            results.append(weight.new_zeros(weight.shape[1]))
        elif mode == "max":  # the gradient goes to the first of equal rows
            results.append(rows.gather(0, rows.argmax(0, keepdim=True)).squeeze(0))
        else:
            results.append(getattr(rows, mode)(0))
    return torch.stack(results)


@operator("embedding_bag")
def _(d):
    rows, mode = d.integer(1, 5), d.pick("sum", "mean", "max")
    padding = d.integer(-rows, rows - 1) if d.chance(0.3) else None
    if d.chance(0.5):
        indices, offsets = d.integers((d.integer(1, 3), d.integer(1, 4)), 0, rows - 1), None
    else:
        indices = d.integers((d.integer(1, 8),), 0, rows - 1)
        offsets = np.sort(d.integers((d.integer(1, 4),), 0, len(indices)))
        offsets[0] = 0
    factors = d.floats(indices.shape) if mode == "sum" and d.chance(0.5) else None

    def theirs(w, i, o, f):
        if w.requires_grad:
            return _bags(w, i, o, f, mode, padding)
        return F.embedding_bag(i, w, o, mode=mode, per_sample_weights=f, padding_idx=padding)

    def both(w, i, o, f):
        y = theirs(w, i, o, f)
        with torch.no_grad():  # what stands in for PyTorch's has to be the same
            same = F.embedding_bag(i, w, o, mode=mode, per_sample_weights=f, padding_idx=padding)
        torch.testing.assert_close(y.detach(), same)
        return y

    return Case([d.floats((rows, d.integer(1, 4))), indices, offsets, factors],
                lambda w, i, o, f: heddle.embedding_bag(w, i, o, mode, f, padding_index=padding), both)  # fmt: skip


# ---- Connectionist temporal classification


def _ctc(log_probs, labels, steps, blank):
    """The loss of one sequence, by the recursion of Graves et al.; PyTorch's has no second gradient."""
    states = [blank]
    for label in labels.tolist():
        states += [label, blank]
    none = log_probs.new_tensor(-1e30)
    alpha = [log_probs[0, s] if i < 2 else none for i, s in enumerate(states)]
    for t in range(1, steps):
        ways = [
            [alpha[i], *alpha[max(i - 1, 0) : i], *([alpha[i - 2]] if i > 1 and s not in (blank, states[i - 2]) else [])] for i, s in enumerate(states)
        ]
        alpha = [torch.logsumexp(torch.stack(way), 0) + log_probs[t, s] for way, s in zip(ways, states)]
    return -torch.logsumexp(torch.stack(alpha[-2:]), 0)


@operator("ctc_loss")
def _(d):
    batch, classes, most = d.integer(1, 3), d.integer(2, 4), d.integer(0, 3)
    blank, reduction = d.integer(0, classes - 1), d.pick("mean", "sum", "none")
    labels = d.integers((batch, max(most, 1)), 0, classes - 2)
    labels = labels + (labels >= blank)
    counts = d.integers((batch,), 0, most)
    # Each target has an alignment: steps for its labels and for a blank between equal ones.
    repeats = [int((row[1:n] == row[: max(n - 1, 0)][: len(row[1:n])]).sum()) for row, n in zip(labels, counts)]
    least = counts + np.array(repeats)
    steps = int(least.max()) + d.integer(1, 2)
    lengths = np.minimum(np.maximum(least + d.integers((batch,), 0, 2), 1), steps)
    targets = labels if d.chance(0.5) else np.concatenate([row[:n] for row, n in zip(labels, counts)])
    x = d.floats((steps, batch, classes))

    def ours(x, t, n, m):
        return heddle.ctc_loss(heddle.log_softmax(x, -1), t, n, m, blank, reduction)

    def theirs(x, t, n, m):
        y = torch.log_softmax(x, -1)
        rows = list(t) if t.dim() == 2 else torch.split(t, m.tolist())
        losses = torch.stack([_ctc(y[:, i], rows[i][: int(m[i])], int(n[i]), blank) for i in range(batch)])
        losses = losses if reduction != "mean" else losses / m.clamp(min=1)
        losses = losses if reduction == "none" else getattr(losses, reduction)()
        torch.testing.assert_close(losses.detach(), F.ctc_loss(y.detach(), t, n, m, blank, reduction))
        return losses

    return Case([x, targets, lengths, counts], ours, theirs)


@operator("ctc_greedy_decode")
def _(d):
    steps, batch, classes = d.integer(1, 6), d.integer(1, 3), d.integer(2, 4)
    blank, lengths = d.integer(0, classes - 1), d.integers((batch,), 0, steps) if d.chance(0.5) else None

    def theirs(x, n):
        rows = [torch.unique_consecutive(x[: steps if n is None else n[i], i].argmax(-1)) for i in range(batch)]
        rows = [row[row != blank] for row in rows]
        return torch.stack([F.pad(row, (0, steps - len(row)), value=-1) for row in rows]), torch.tensor([len(row) for row in rows])

    return Case([d.floats((steps, batch, classes)), lengths], lambda x, n: heddle.ctc_greedy_decode(x, n, blank), theirs)


# ---- Noise: PyTorch draws other numbers, so that noise drawn from the same seed twice is compared with itself.


def _noise(name, expected, limits=(0.0, 0.9)):
    """expected(x, y, z, p): what y should be, from the noise of ones z or of zeros."""

    @operator(name)
    def _(d):
        shape = (d.integer(1, 3), d.integer(1, 3), *d.shape(0, 2))
        x, p, seed = d.floats(shape, 0.5, 3), d.pick(*limits, float(d.floats((), *limits))), d.integer(0, 10**6)

        def draw(x, training=True):
            return getattr(heddle, name)(x, p, training=training, generator=heddle.Generator(seed))

        return Case([x], lambda x: (draw(x) - expected(x, draw, p), draw(x, False)), lambda x: (x * 0, x * 1))


def _alpha(x, draw, p):
    zeros = draw(heddle.zeros_like(x))  # the shift b, or a * limit + b
    limit = -1.7580993408473766
    a = ((limit**2 * p + 1) * (1 - p)) ** -0.5
    shift = -a * limit * p
    return heddle.where(heddle.abs(zeros - shift) < heddle.abs(zeros - (a * limit + shift)), x * a + shift, zeros)


def _channels(x, draw, _p):
    kept = draw(heddle.ones_like(x))
    one = (slice(None), slice(None), *[slice(0, 1)] * (x.ndim - 2))
    return x * kept[one] if x.size else x * kept


_noise("channel_dropout", _channels)
_noise("alpha_dropout", _alpha)
_noise("feature_alpha_dropout", _alpha)
_noise("gaussian_dropout", lambda x, draw, _p: x * draw(heddle.ones_like(x)))
_noise("gaussian_noise", lambda x, draw, _p: x + draw(heddle.zeros_like(x)), (0.0, 2.0))
