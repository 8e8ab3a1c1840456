"""RNN, GRU and LSTM: a step for each time, in Python."""

from collections.abc import Callable, Sequence

import heddle
from heddle import NDArray

from .indexing import backward
from .table import Missing, operator

ACTIVATIONS = {"Sigmoid": heddle.sigmoid, "Tanh": heddle.tanh, "Relu": heddle.relu}
Step = Callable[..., list[NDArray]]  # step(contribution of x (batch, gates * hidden), *states) -> states


def chosen(name: str, activations: Sequence[str] | None, defaults: list[str], direction: int, options: dict) -> list:
    """The activation functions of one direction. `options`: attributes that are not supported."""
    if unknown := sorted(option for option, value in options.items() if value):
        raise Missing(f"{name} with {unknown[0]}")
    count = len(defaults)
    names = activations[direction * count : (direction + 1) * count] if activations else defaults
    if other := sorted(set(names) - ACTIVATIONS.keys()):
        raise Missing(f"{name} with activation {other[0]}")
    return [ACTIVATIONS[name] for name in names]


def one_direction(step: Step, added: NDArray, states: list[NDArray], lengths: NDArray | None) -> list[NDArray]:
    """The first state after each step (time, batch, hidden), 0 after a sequence's end, and the last states."""
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


def recurrent(x, w, r, b, lengths, initial, steps_of, direction, layout):
    """The outputs of the operator. steps_of(i, recurrent bias) makes the step of direction i."""
    if layout:
        x, initial = heddle.swapaxes(x, 0, 1), [None if s is None else heddle.swapaxes(s, 0, 1) for s in initial]
    hidden, rows, results = r.shape[2], w.shape[1], []
    for i in range(w.shape[0]):
        turned = direction == "reverse" or i == 1
        time = [x.shape[0]] * x.shape[1]
        reversed_ = heddle.array(time, dtype="i64") if lengths is None else lengths
        sequence = backward(x, reversed_, 0, 1) if turned else x
        biases = heddle.zeros([2, rows], x.dtype) if b is None else b[i].reshape([2, rows])
        states = [heddle.zeros([x.shape[1], hidden], x.dtype) if s is None else s[i] for s in initial]
        added = heddle.matmul(sequence, w[i].T) + biases[0]
        outputs, *states = one_direction(steps_of(i, biases[1]), added, states, lengths)
        results.append([backward(outputs, reversed_, 0, 1) if turned else outputs, *states])
    outputs, *states = zip(*results, strict=True)
    outputs, states = heddle.stack(list(outputs), 1), [heddle.stack(list(state), 0) for state in states]
    if layout:
        return [heddle.transpose(outputs, [2, 0, 1, 3]), *(heddle.swapaxes(state, 0, 1) for state in states)]
    return [outputs, *states]


@operator("RNN", since=7)
def rnn(
    x,
    w,
    r,
    b=None,
    lengths=None,
    initial=None,
    *,
    activations=("Tanh", "Tanh"),
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
):
    options = {"clip": clip, "activation_alpha": activation_alpha, "activation_beta": activation_beta}

    def steps_of(i, bias):
        (f,) = chosen("RNN", activations, ["Tanh"], i, options)
        return lambda added, h: [f(added + heddle.matmul(h, r[i].T) + bias)]

    return recurrent(x, w, r, b, lengths, [initial], steps_of, direction, layout)


@operator("GRU", since=7)
def gru(
    x,
    w,
    r,
    b=None,
    lengths=None,
    initial=None,
    *,
    activations=None,
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    linear_before_reset=0,
):
    options = {"clip": clip, "activation_alpha": activation_alpha, "activation_beta": activation_beta}
    n = r.shape[2]

    def steps_of(i, bias):
        f, g = chosen("GRU", activations, ["Sigmoid", "Tanh"], i, options)
        gates, candidate = r[i][: 2 * n].T, r[i][2 * n :].T

        def step(added, h):
            update_reset = f(added[:, : 2 * n] + heddle.matmul(h, gates) + bias[: 2 * n])
            update, reset = update_reset[:, :n], update_reset[:, n:]
            if linear_before_reset:
                kept = reset * (heddle.matmul(h, candidate) + bias[2 * n :])
            else:
                kept = heddle.matmul(reset * h, candidate) + bias[2 * n :]
            return [(1 - update) * g(added[:, 2 * n :] + kept) + update * h]

        return step

    return recurrent(x, w, r, b, lengths, [initial], steps_of, direction, layout)


@operator("LSTM", since=7)
def lstm(
    x,
    w,
    r,
    b=None,
    lengths=None,
    initial=None,
    initial_cell=None,
    peepholes=None,
    *,
    activations=None,
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
    layout=0,
):
    options = {"clip": clip, "activation_alpha": activation_alpha, "activation_beta": activation_beta}
    options["input_forget"] = input_forget
    n = r.shape[2]

    def steps_of(i, bias):
        f, g, h = chosen("LSTM", activations, ["Sigmoid", "Tanh", "Tanh"], i, options)
        holes = heddle.zeros([3, n], x.dtype) if peepholes is None else peepholes[i].reshape([3, n])

        def step(added, y, cell):
            gates = heddle.split(added + heddle.matmul(y, r[i].T) + bias, 4, 1)  # input, output, forget, cell
            new = f(gates[2] + holes[2] * cell) * cell + f(gates[0] + holes[0] * cell) * g(gates[3])
            return [f(gates[1] + holes[1] * new) * h(new), new]

        return step

    return recurrent(x, w, r, b, lengths, [initial, initial_cell], steps_of, direction, layout)
