"""Control flow: an attribute that holds a graph arrives here as a function of arrays, which returns its outputs.

Heddle has no operators for this. A program decides and repeats in its own language; here it waits for conditions.
"""

from collections.abc import Callable
from typing import Any

import heddle
from heddle.onnx.running import constant
from heddle.onnx.table import Array, Missing, number, operator

Branch = Callable[..., list[Array]]


@operator("If")
def branch(condition: Array, *, then_branch: Branch, else_branch: Branch) -> list[Array]:
    return then_branch() if number(condition) else else_branch()


def joined(name: str, steps: list[list[Array]], axes: list[int]) -> list[Array]:
    """Stacks each output of all steps along a new axis."""
    if axes and not steps:
        raise Missing(f"{name} with outputs of no step")  # the outputs' shape is unknown without a step
    return [heddle.stack([step[i] for step in steps], axis) for i, axis in enumerate(axes)]


@operator("Loop")
def loop(trips: Array | None, condition: Array | None, *initial: Array, body: Branch, outputs: int) -> list[Array]:
    states, steps = list(initial), list[list[Array]]()
    condition = constant(True, "bool") if condition is None else condition
    while (trips is None or len(steps) < number(trips)) and number(condition):
        condition, *results = body(constant(len(steps), "i64"), condition, *states)
        states = results[: len(states)]
        steps.append(results[len(states) :])
    return states + joined("Loop", steps, [0] * (outputs - len(states)))


@operator("Scan", since=9)
def scan(
    *inputs: Array,
    body: Branch,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
    outputs: int,
) -> list[Array]:
    states, sequences = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    input_axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    steps, length = list[list[Array]](), sequences[0].shape[input_axes[0]]
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
