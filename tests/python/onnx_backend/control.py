"""Control flow: an attribute that holds a graph arrives here as a function of arrays, which returns its outputs.

Heddle has no operators for this. A program decides and repeats in its own language; here it waits for conditions.
"""

import heddle
from heddle import NDArray

from .table import Missing, operator


@operator("If")
def branch(condition, *, then_branch, else_branch):
    return then_branch() if condition.item() else else_branch()


def joined(name: str, steps: list[list[NDArray]], axes: list[int]) -> list[NDArray]:
    """Stacks each output of all steps along a new axis."""
    if axes and not steps:
        raise Missing(f"{name} with outputs of no step")  # the outputs' shape is unknown without a step
    return [heddle.stack([step[i] for step in steps], axis) for i, axis in enumerate(axes)]


@operator("Loop")
def loop(trips, condition, *states, body, outputs):
    states, steps = list(states), []
    while (trips is None or len(steps) < trips.item()) and (condition is None or condition.item()):
        condition, *results = body(heddle.array(len(steps), dtype="i64"), condition, *states)
        states = results[: len(states)]
        steps.append(results[len(states) :])
    return states + joined("Loop", steps, [0] * (outputs - len(states)))


@operator("Scan", since=9)
def scan(
    *inputs,
    body,
    num_scan_inputs,
    scan_input_axes=None,
    scan_input_directions=None,
    scan_output_axes=None,
    scan_output_directions=None,
    outputs,
):
    states, sequences = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    input_axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    steps, length = [], sequences[0].shape[input_axes[0]]
    for i in range(length):
        places = [length - 1 - i if back else i for back in backward]
        parts = zip(sequences, places, input_axes, strict=True)
        entries = [heddle.squeeze(heddle.slice(x, axis, place, place + 1), axis) for x, place, axis in parts]
        results = body(*states, *entries)
        states = results[: len(states)]
        steps.append(results[len(states) :])
    count = outputs - len(states)
    columns = joined("Scan", steps, scan_output_axes or [0] * count)
    turned = zip(columns, scan_output_axes or [0] * count, scan_output_directions or [0] * count, strict=True)
    return states + [heddle.slice(x, axis, step=-1) if back else x for x, axis, back in turned]
