"""The table of cases. A row is a function that draws the arguments of one case; modules of this package have them.

    @operator("softmax")
    def _(d):
        shape = d.shape(1)
        axis = d.axis(len(shape))
        return Case([d.floats(shape)], lambda x: heddle.softmax(x, axis), lambda x: torch.softmax(x, axis))

The arrays are those of NumPy; floating ones become f32 or f64, whichever the case has, and get a gradient. None stays None.
Both functions return an array or several.
"""

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Sequence

import numpy as np

import heddle


class _Late:
    """A module that is imported when it is used: the comparison with kept values does without PyTorch."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self._name), attribute)


torch = _Late("torch")
F = _Late("torch.nn.functional")
nn = _Late("torch.nn")


@dataclasses.dataclass
class Case:
    """What both sides compute."""

    arrays: Sequence[np.ndarray | None]
    ours: Callable
    theirs: Callable
    fixed: Sequence[int] = ()  # the numbers of floating arrays without a gradient
    gradient: bool = True
    second: bool = True  # False where PyTorch has no second gradient
    relative: float = 0.0  # the error relative to the largest number, where PyTorch is not exact in f64
    terms: float = 1.0  # how large the terms, or the parts, of sums become that are small
    training: bool = True  # of layers
    names: dict[str, str] | None = None  # of a layer's arrays in PyTorch, where they differ
    call: Callable | None = None  # how PyTorch's layer is called: (layer, *arrays); as Heddle's where it is None
    weights: tuple[float, float] = (-1.0, 1.0)  # what a layer's arrays are drawn from
    dtype: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    needs: str  # the name in heddle, or name(argument), without which the row is skipped
    layer: bool
    draw: Callable
    dtypes: Sequence[str]


TABLE: dict[str, Row] = {}


def _row(name, layer, needs, dtypes):
    def add(draw):
        if name in TABLE:
            raise ValueError(f"{name} has two rows")
        TABLE[name] = Row(name, needs or name, layer, draw, dtypes)
        return draw

    return add


def operator(name, needs=None, dtypes=("f64", "f32")):
    """A row for heddle.NAME, or another one for the function `needs`."""
    return _row(name, False, needs, dtypes)


def layer(name, needs=None, dtypes=("f32",)):
    """A row for a layer. `ours` and `theirs` of its cases make the layer; arrays are its inputs."""
    return _row(name, True, needs, dtypes)


def exists(row):
    """Whether this build has what a row needs: a name, or name(argument)."""
    name, _, argument = row.needs.rstrip(")").partition("(")
    function = getattr(heddle, name, None)
    return function is not None and (not argument or argument in inspect.signature(function).parameters)


def unary(name, theirs, low=-3.0, high=3.0, special=(), ours=None, **options):
    """A row for a function of each element."""
    call = ours or (lambda x: getattr(heddle, name)(x))

    @operator(name)
    def _(d):
        return Case([d.floats(d.shape(), low, high, special)], call, theirs, **options)


def binary(name, theirs, low=-3.0, high=3.0, special=(), **options):
    """A row for a function of two elements; a tuple for low and high has one number for each operand."""
    lows, highs = (v if isinstance(v, tuple) else (v, v) for v in (low, high))

    @operator(name)
    def _(d):
        a, b = d.operands()
        arrays = [d.floats(a, lows[0], highs[0], special), d.floats(b, lows[1], highs[1], special)]
        return Case(arrays, lambda x, y: getattr(heddle, name)(x, y), theirs, **options)
