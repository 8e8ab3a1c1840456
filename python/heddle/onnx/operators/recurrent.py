"""RNN, GRU and LSTM: by heddle's operators, or a step for each time for options that these lack.

heddle's operators have the usual activations, and neither clip nor input_forget.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import heddle
from heddle.onnx.operators.indexing import backward
from heddle.onnx.running import prepared
from heddle.onnx.table import Array, Attributes, Lack, operator

Function = Callable[[Array], Array]
Step = Callable[..., list[Array]]  # step(contribution of x (batch, gates * hidden), *states) -> states

# Activations by their names, with the defaults of alpha and beta; those that are None have none.
ACTIVATIONS: dict[str, tuple[float | None, float | None, Callable[..., Array]]] = {
    "Sigmoid": (None, None, lambda x, a, b: heddle.sigmoid(x)),
    "Tanh": (None, None, lambda x, a, b: heddle.tanh(x)),
    "Relu": (None, None, lambda x, a, b: heddle.relu(x)),
    "Softsign": (None, None, lambda x, a, b: heddle.softsign(x)),
    "Softplus": (None, None, lambda x, a, b: heddle.softplus(x)),
    "LeakyRelu": (0.01, None, lambda x, a, b: heddle.leaky_relu(x, a)),
    "ThresholdedRelu": (1.0, None, lambda x, a, b: heddle.where(x > a, x, 0)),
    "Elu": (1.0, None, lambda x, a, b: heddle.elu(x, a)),
    "Affine": (1.0, 0.0, lambda x, a, b: x * a + b),
    "ScaledTanh": (1.0, 1.0, lambda x, a, b: heddle.tanh(x * b) * a),
    "HardSigmoid": (0.2, 0.5, lambda x, a, b: heddle.clip(x * a + b, 0, 1)),
}


NAMES = {name.lower(): name for name in ACTIVATIONS}  # ONNX does not tell cases apart


def known_name(name: str) -> str:
    return NAMES.get(name.lower(), name)


def lacks(name: str, defaults: list[str]) -> Lack:
    """What nodes ask for and neither heddle's operator nor the steps have."""

    def find(attributes: Attributes) -> Iterator[str]:
        for other in sorted({known_name(one) for one in attributes.get("activations") or defaults} - ACTIVATIONS.keys()):
            yield f"{name} with activation {other}"

    return find


def applied(
    function: Callable[..., Array], alpha: float | None, beta: float | None, limit: float | None, x: Array
) -> Array:
    return function(heddle.clip(x, -limit, limit) if limit is not None else x, alpha, beta)


class Activations:
    """The functions of a node. alphas and betas are for those of its activations that take one, in their order."""

    def __init__(
        self,
        names: Sequence[str] | None,
        defaults: list[str],
        directions: int,
        alphas: Sequence[float] | None,
        betas: Sequence[float] | None,
        clip: float | None,
    ) -> None:
        wanted = len(defaults) * directions
        self.names = [known_name(name) for name in names or defaults * directions][:wanted]
        if len(self.names) < wanted:
            raise heddle.InvalidArgument(f"activations are {list(names or ())}; want {wanted}, {len(defaults)} a direction")
        if clip is not None and not clip >= 0:
            raise heddle.InvalidArgument(f"clip is {clip}; want 0 or more")
        self._count = len(defaults)
        self.usual = self.names == defaults * directions and clip is None
        left_alphas, left_betas = iter(alphas or ()), iter(betas or ())
        self._all: list[Function] = []
        for i, name in enumerate(self.names):
            alpha, beta, function = ACTIVATIONS[name]
            a = None if alpha is None else next(left_alphas, alpha)
            b = None if beta is None else next(left_betas, beta)
            # Sums of gates are clipped. The cell state, for an LSTM's third function, is not, as in onnxruntime.
            limit = clip if i % self._count < 2 else None
            self._all.append(functools.partial(applied, function, a, b, limit))

    def of(self, direction: int) -> list[Function]:
        return self._all[direction * self._count : (direction + 1) * self._count]


def reordered(order: Sequence[int]) -> Callable[[Array], Array]:
    """The blocks of a weight's rows, one a gate, in heddle's order."""
    return functools.partial(in_order, order)


def in_order(order: Sequence[int], weight: Array) -> Array:
    parts = heddle.split(weight, len(order), 0)
    return heddle.concat([parts[i] for i in order], 0)


LSTM_ORDER = reordered((0, 2, 3, 1))  # ONNX's gates are i, o, f, c; heddle's i, f, c, o
GRU_ORDER = reordered((1, 0, 2))  # ONNX's z, r, h; heddle's r, z, h
RNN_ORDER = reordered((0,))
PEEPHOLES_ORDER = reordered((0, 2, 1))  # ONNX's are i, o, f; heddle's i, f, o


def part(i: int, function: Callable[[Array], Array], weights: Array) -> Array:
    return function(weights[i])


def half(i: int, second: bool, function: Callable[[Array], Array], biases: Array) -> Array:
    own = biases[i]
    n = own.shape[0] // 2
    return function(own[n:] if second else own[:n])


PARTS = {
    (i, f): functools.partial(part, i, f)
    for i in (0, 1)
    for f in (LSTM_ORDER, GRU_ORDER, RNN_ORDER, PEEPHOLES_ORDER)
}
HALVES = {
    (i, second, f): functools.partial(half, i, second, f)
    for i in (0, 1)
    for second in (False, True)
    for f in (LSTM_ORDER, GRU_ORDER, RNN_ORDER)
}


def native(
    run: Callable[..., Sequence[Array]],
    order: Callable[[Array], Array],
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    lengths: Array | None,
    initial: list[Array | None],
    direction: str,
    layout: int,
    peepholes: Array | None = None,
    **options: Any,
) -> list[Array]:
    """The outputs by one of heddle's operators, called once for each direction."""
    results = []
    for i in range(w.shape[0]):
        biases = [None if b is None else prepared(HALVES[i, second, order], b) for second in (False, True)]
        weights = [prepared(PARTS[i, order], one) for one in (w, r)]
        states = [None if s is None else (s[:, i] if layout else s[i]) for s in initial]
        turned = direction == "reverse" or i == 1
        if peepholes is not None:
            options["peepholes"] = prepared(PARTS[i, PEEPHOLES_ORDER], peepholes)
        results.append(
            run(x, *weights, *biases, *states, lengths=lengths, reverse=turned, batch_first=bool(layout), **options)
        )
    outputs, *last = (list(one) for one in zip(*results, strict=True))
    return [heddle.stack(outputs, 2 if layout else 1), *(heddle.stack(state, 1 if layout else 0) for state in last)]


def one_direction(step: Step, added: Array, states: list[Array], lengths: Array | None) -> list[Array]:
    """The first state after each step (time, batch, hidden), 0 after a sequence's end, and the last states."""
    if added.shape[0] == 0:
        return [heddle.zeros([0, *states[0].shape], states[0].dtype), *states]
    outputs = []
    for time, entry in enumerate(heddle.unstack(added, 0)):
        new = step(entry, *states)
        if lengths is None:
            states = new
            outputs.append(new[0])
        else:
            within = heddle.expand_dims(lengths > time, 1)
            states = [heddle.where(within, a, b) for a, b in zip(new, states, strict=True)]
            outputs.append(heddle.where(within, new[0], 0))
    return [heddle.stack(outputs), *states]


def checked(lengths: Array, steps: int, batch: int) -> Array:
    """The lengths, on which an op has found that they are from 0 to `steps`: heddle.rnn, of numbers that are 0."""
    x, weight = heddle.zeros([steps, batch, 1]), heddle.zeros([1, 1])
    _, h = heddle.rnn(x, weight, weight, lengths=lengths)
    return heddle.where(h.reshape([batch]) == 0, lengths, 0)  # fails as h does


def recurrent(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    lengths: Array | None,
    initial: list[Array | None],
    steps_of: Callable[[int, Array], Step],
    direction: str,
    layout: int,
) -> list[Array]:
    """The outputs of the operator. steps_of(i, recurrent bias) makes the step of direction i."""
    if layout:
        x, initial = heddle.swapaxes(x, 0, 1), [None if s is None else heddle.swapaxes(s, 0, 1) for s in initial]
    hidden, rows, results = r.shape[2], w.shape[1], []
    if lengths is not None:
        lengths = checked(lengths, x.shape[0], x.shape[1])
    for i in range(w.shape[0]):
        turned = direction == "reverse" or i == 1
        time = [x.shape[0]] * x.shape[1]
        reversed_ = heddle.array(time, dtype="i64") if lengths is None else lengths
        turned = turned and x.shape[0] > 0
        sequence = backward(x, reversed_, 0, 1) if turned else x
        biases = heddle.zeros([2, rows], x.dtype) if b is None else b[i].reshape([2, rows])
        states = [heddle.zeros([x.shape[1], hidden], x.dtype) if s is None else s[i] for s in initial]
        added = heddle.matmul(sequence, w[i].T) + biases[0]
        outputs, *states = one_direction(steps_of(i, biases[1]), added, states, lengths)
        results.append([backward(outputs, reversed_, 0, 1) if turned else outputs, *states])
    first, *last = zip(*results, strict=True)
    outputs, states = heddle.stack(list(first), 1), [heddle.stack(list(state), 0) for state in last]
    if layout:
        return [heddle.transpose(outputs, [2, 0, 1, 3]), *(heddle.swapaxes(state, 0, 1) for state in states)]
    return [outputs, *states]


@operator("RNN", since=7, native="rnn", lacks=lacks("RNN", ["Tanh"]))
def rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    activations: Sequence[str] | None = ("Tanh", "Tanh"),
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> list[Array]:
    functions = Activations(activations, ["Tanh"], w.shape[0], activation_alpha, activation_beta, clip)
    names = set(functions.names)
    if len(names) == 1 and names <= {"Tanh", "Relu"} and clip is None:
        relu = names == {"Relu"}
        return native(heddle.rnn, RNN_ORDER, x, w, r, b, lengths, [initial], direction, layout, relu=relu)

    def steps_of(i: int, bias: Array) -> Step:
        (f,) = functions.of(i)
        return lambda added, h: [f(added + heddle.matmul(h, r[i].T) + bias)]

    return recurrent(x, w, r, b, lengths, [initial], steps_of, direction, layout)


@operator("GRU", since=7, native="gru", lacks=lacks("GRU", ["Sigmoid", "Tanh"]))
def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> list[Array]:
    functions = Activations(activations, ["Sigmoid", "Tanh"], w.shape[0], activation_alpha, activation_beta, clip)
    if functions.usual:
        after = bool(linear_before_reset)
        return native(heddle.gru, GRU_ORDER, x, w, r, b, lengths, [initial], direction, layout, reset_after=after)
    n = r.shape[2]

    def steps_of(i: int, bias: Array) -> Step:
        f, g = functions.of(i)
        gates, candidate = r[i][: 2 * n].T, r[i][2 * n :].T

        def step(added: Array, h: Array) -> list[Array]:
            update_reset = f(added[:, : 2 * n] + heddle.matmul(h, gates) + bias[: 2 * n])
            update, reset = update_reset[:, :n], update_reset[:, n:]
            if linear_before_reset:
                kept = reset * (heddle.matmul(h, candidate) + bias[2 * n :])
            else:
                kept = heddle.matmul(reset * h, candidate) + bias[2 * n :]
            return [(1 - update) * g(added[:, 2 * n :] + kept) + update * h]

        return step

    return recurrent(x, w, r, b, lengths, [initial], steps_of, direction, layout)


@operator("LSTM", since=7, native="lstm", lacks=lacks("LSTM", ["Sigmoid", "Tanh"]))
def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    initial_cell: Array | None = None,
    peepholes: Array | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> list[Array]:
    defaults, states = ["Sigmoid", "Tanh", "Tanh"], [initial, initial_cell]
    functions = Activations(activations, defaults, w.shape[0], activation_alpha, activation_beta, clip)
    if functions.usual and not input_forget:
        return native(heddle.lstm, LSTM_ORDER, x, w, r, b, lengths, states, direction, layout, peepholes)
    n = r.shape[2]

    def steps_of(i: int, bias: Array) -> Step:
        f, g, h = functions.of(i)
        holes = heddle.zeros([3, n], x.dtype) if peepholes is None else peepholes[i].reshape([3, n])

        def step(added: Array, y: Array, cell: Array) -> list[Array]:
            gates = heddle.split(added + heddle.matmul(y, r[i].T) + bias, 4, 1)  # input, output, forget, cell
            take = f(gates[0] + holes[0] * cell)
            keep = 1 - take if input_forget else f(gates[2] + holes[2] * cell)
            new = keep * cell + take * g(gates[3])
            return [f(gates[1] + holes[1] * new) * h(new), new]

        return step

    return recurrent(x, w, r, b, lengths, states, steps_of, direction, layout)
