"""Heddle: functions as ops, ordered by the data that they touch, and arrays computed by them.

    import heddle

    x = heddle.array([[1, 2], [3, 4]], dtype="f32")
    y = x @ x + 1          # returns at once
    print(y)               # waits

docs/python.md is the user's guide.
"""

import atexit as _atexit
import builtins as _builtins
import contextlib as _contextlib
import functools as _functools
import importlib as _importlib
import os as _os
import sys as _sys
import typing as _typing

if "t" in getattr(_sys, "abiflags", ""):
    raise ImportError("heddle needs a Python with the GIL: there is no module for free-threaded builds")

from heddle import _errors, _heddle  # noqa: E402
from heddle._errors import *  # noqa: E402, F403
from heddle._futures import _install  # noqa: E402
from heddle._heddle import *  # noqa: E402, F403
from heddle._compression import (  # noqa: E402
    FoldReport as FoldReport,
    Pruning as Pruning,
    PruningReport as PruningReport,
    QuantizeReport as QuantizeReport,
    fold_batch_norms as fold_batch_norms,
    prune as prune,
    quantize as quantize,
)
from heddle._fit import History as History, evaluate as evaluate, fit as fit, predict as predict  # noqa: E402
from heddle._weights import WeightReport as WeightReport, load_weights as load_weights  # noqa: E402
from heddle import data as data, linalg as linalg, random as random  # noqa: E402, E401
from heddle._numpy_functions import *  # noqa: E402, F403
from heddle._numpy_functions import arrays_beside as _arrays_beside  # noqa: E402
from heddle._numpy_methods import install as _install_methods  # noqa: E402

inf = float("inf")
nan = float("nan")


def _rebuild(*args: _typing.Any) -> _heddle.NDArray:
    """What pickled arrays call."""
    return _heddle._rebuild(*args)


class TraceSummary(_typing.NamedTuple):
    """The result of a trace."""

    path: str
    records: int
    dropped: int
    bytes: int
    error: str


class trace(_heddle._TraceBlock):  # noqa: N801 (used as a function)
    """Traces all engines of the process in the block, into a file for Perfetto and `heddle trace`."""

    def __init__(self, path: str | _os.PathLike[str]) -> None:
        if hasattr(path, "ndim"):
            raise TypeError(
                f"trace: path is a {type(path).__name__}; want a str or a Path: trace() records what engines do, "
                f"and matrix_trace(x) is the sum of a diagonal"
            )
        if not isinstance(path, (str, _os.PathLike)):
            raise TypeError(f"trace: path is a {type(path).__name__}; want a str or a Path")
        _heddle._TraceBlock.__init__(self, _os.fsencode(path))
        self.path = path

    def __call__(self, function: _typing.Callable[..., _typing.Any]) -> _typing.Callable[..., _typing.Any]:
        """As a decorator: traces each call."""

        @_functools.wraps(function)
        def traced(*args: _typing.Any, **kwargs: _typing.Any) -> _typing.Any:
            with self:
                return function(*args, **kwargs)

        return traced

    @property
    def summary(self) -> TraceSummary:
        """Of the trace that has ended."""
        return TraceSummary(*self._summary())


class PrintOptions(_typing.NamedTuple):
    """How arrays are printed; see set_printoptions."""

    precision: int = 8
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 75
    suppress: bool = False


def get_printoptions() -> PrintOptions:
    """Those of this thread."""
    return PrintOptions(*_heddle._print_options())


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    suppress: bool | None = None,
) -> None:
    """How this thread prints arrays, as numpy.set_printoptions: digits behind the point; the number of elements above which
    a summary is printed, and how many of them stand at each end; characters a line; no exponents for small numbers.
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth, "suppress": suppress}
    for name, value in given.items():
        kind = bool if name == "suppress" else int
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise TypeError(f"set_printoptions: {name} is a {type(value).__name__}; want a {kind.__name__}")
        least, most = int(name in ("edgeitems", "linewidth")), 2**31 - 1 if name == "precision" else 2**63 - 1
        if value is not None and not least <= value <= most:
            came = value if value.bit_length() < 1000 else f"an int of {value.bit_length()} bits"
            raise _errors.InvalidArgument(f"set_printoptions: {name} is {came}; want {least} to {most}")
    _heddle._set_print_options(**{**get_printoptions()._asdict(), **{k: v for k, v in given.items() if v is not None}})


@_contextlib.contextmanager
def printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    suppress: bool | None = None,
) -> _typing.Iterator[PrintOptions]:
    """set_printoptions for a block."""
    before = _heddle._print_options()
    try:
        set_printoptions(precision, threshold, edgeitems, linewidth, suppress)
        yield get_printoptions()
    finally:
        _heddle._set_print_options(*before)


class MemorySite(_typing.NamedTuple):
    """What the arrays hold that one line has made."""

    file: str
    line: int
    arrays: int
    bytes: int
    at_peak: int
    peak: int


class MemoryReport(_typing.NamedTuple):
    """Arrays and bytes of the lines that are counted, what the allocator holds, and the lines, of which the first holds most."""

    arrays: int
    bytes: int
    peak: int
    in_use: int
    in_use_peak: int
    cached: int
    sites: tuple[MemorySite, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def memory_report() -> MemoryReport:
    """Which lines hold the memory of arrays that were made since track_memory(); print() shows a table."""
    arrays, held, peak, in_use, in_use_peak, cached, sites, text = _heddle._memory_report()
    return MemoryReport(arrays, held, peak, in_use, in_use_peak, cached, tuple(MemorySite(*site) for site in sites), text)


class ModuleMemory(_typing.NamedTuple):
    """Bytes of a module and of those inside it."""

    path: str
    text: str
    parameters: int
    gradients: int
    state: int
    activations: int


class StepMemory(_typing.NamedTuple):
    """What step_memory() returns: a row for each module, the whole first; print() shows a table."""

    rows: tuple[ModuleMemory, ...]
    others: int
    peak: int
    text: str

    def __str__(self) -> str:
        return self.text


def step_memory(net: _heddle.Module, trainer: _heddle.Trainer, step: _typing.Callable[[], _typing.Any]) -> StepMemory:
    """Which module takes how much memory in a training step: its parameters, gradients, the optimizer's arrays, and activations.

    step() calls the net, backward() and the trainer's step(). It runs twice, and the second time is counted. Activations are the
    most bytes at once of arrays that a module's calls made, `others` those made outside of modules when all together took most.
    """
    if not isinstance(trainer, _heddle.Trainer):
        raise TypeError(f"step_memory: trainer is a {type(trainer).__name__}; want a Trainer")
    if not callable(step):
        raise TypeError(f"step_memory: step is a {type(step).__name__}; want a function of nothing")
    rows, others, peak, text = _heddle._step_memory(net, trainer.state, step)
    return StepMemory(tuple(ModuleMemory(*row) for row in rows), others, peak, text)


def backward(
    root: _heddle.NDArray,
    seed: "_heddle.ArrayLike | None" = None,
    keep_tape: bool = False,
    create_graph: bool = False,
) -> None:
    """Adds the gradient of root to that of every leaf that it was computed from; see NDArray.backward."""
    if not isinstance(root, _heddle.NDArray):
        raise TypeError(f"backward: root is a {type(root).__name__}; want an NDArray")
    root.backward(seed, keep_tape, create_graph)


def grad(
    outputs: _heddle.NDArray | _typing.Sequence[_heddle.NDArray],
    inputs: _heddle.NDArray | _typing.Sequence[_heddle.NDArray],
    seeds: _heddle.NDArray | _typing.Sequence[_heddle.NDArray] | None = None,
    keep_tape: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> list[_heddle.NDArray | None]:
    """The gradients of the outputs' sum by each input: a list. What arrays have accumulated in .grad stays as it is.

    seeds: one for each output, of its shape; without them outputs have one element. create_graph: the gradients have
    gradients. allow_unused: None for an input that no output was computed from, instead of an error.
    """
    lists = []
    for name, arrays in (("outputs", outputs), ("inputs", inputs), ("seeds", () if seeds is None else seeds)):
        if not isinstance(arrays, (_heddle.NDArray, list, tuple)):
            raise TypeError(f"grad: {name} is a {type(arrays).__name__}; want an array or a list of arrays")
        items = [arrays] if isinstance(arrays, _heddle.NDArray) else list(arrays)
        for item in items:
            if not isinstance(item, _heddle.NDArray):
                raise TypeError(f"grad: {name} has a {type(item).__name__}; want arrays")
        lists.append(items)
    return _heddle._grad(lists[0], lists[1], lists[2], keep_tape, create_graph, allow_unused)


def recompute(function: _typing.Callable[..., _typing.Any]) -> _typing.Callable[..., _typing.Any]:
    """A module, or another function of arrays, that keeps no intermediate results for backward(), which runs it again.

    The second run has the same random numbers, and changes no running statistics. Arrays among the arguments get gradients,
    and so do parameters that the function uses. The function returns an array, or a list or tuple of arrays. PyTorch calls
    this torch.utils.checkpoint.
    """
    if not callable(function):
        raise TypeError(f"recompute: function is a {type(function).__name__}; want a module or a function of arrays")

    def run(*args: _typing.Any, **kwargs: _typing.Any) -> _typing.Any:
        places = [i for i, one in enumerate(args) if isinstance(one, _heddle.NDArray)]
        names = [name for name, one in kwargs.items() if isinstance(one, _heddle.NDArray)]
        arrays = [args[i] for i in places] + [kwargs[name] for name in names]
        other_args = [None if isinstance(one, _heddle.NDArray) else one for one in args]
        other_kwargs = {name: one for name, one in kwargs.items() if name not in names}
        single = False

        def call(inputs: list[_heddle.NDArray]) -> list[_heddle.NDArray]:
            nonlocal single
            values, named = list(other_args), dict(other_kwargs)
            for i, array in zip(places, inputs):
                values[i] = array
            named.update(zip(names, inputs[len(places) :]))
            result = function(*values, **named)
            single = isinstance(result, _heddle.NDArray)
            if not single and not isinstance(result, (list, tuple)):
                raise TypeError(f"recompute: the function returned a {type(result).__name__}; want an array or a list of arrays")
            results = [result] if single else list(result)
            for one in results:
                if not isinstance(one, _heddle.NDArray):
                    raise TypeError(f"recompute: the function returned a list with a {type(one).__name__}; want arrays")
            return results

        results = _heddle._recompute(call, arrays)
        return results[0] if single else tuple(results)

    return run


def empty_like(x: _heddle.NDArray, dtype: _typing.Any = None, device: _typing.Any = None) -> _heddle.NDArray:
    """An array of x's shape, whose values are undetermined; dtype and device are x's where none is given."""
    if not isinstance(x, _heddle.NDArray):
        raise TypeError(f"empty_like: x is a {type(x).__name__}; want an NDArray")
    return _heddle.empty(x.shape, x.dtype if dtype is None else dtype, x.device if device is None else device)


def block(arrays: _typing.Any) -> _heddle.NDArray:
    """Nested lists of arrays put together: the innermost along the last axis, those around them along the axes before it. Arrays
    with too few axes get axes of length 1 in front.
    """

    def depth_of(nested: _typing.Any) -> int:
        if not isinstance(nested, (list, tuple)):
            return 0
        if not nested:
            raise ValueError("block: arrays has an empty list; want arrays in it")
        depths = {depth_of(one) for one in nested}
        if len(depths) > 1:
            raise ValueError(f"block: arrays has lists of depths {sorted(depths)} side by side; want one depth")
        return 1 + depths.pop()

    def leaves(nested: _typing.Any) -> _typing.Iterator[_typing.Any]:
        if isinstance(nested, (list, tuple)):
            for one in nested:
                yield from leaves(one)
        else:
            yield nested

    depth = depth_of(arrays)
    blocks = _arrays_beside(list(leaves(arrays)))
    axes = _builtins.max([depth, *(x.ndim for x in blocks)])
    following = iter(blocks)

    def joined(nested: _typing.Any, axis: int) -> _heddle.NDArray:
        if isinstance(nested, (list, tuple)):
            return _heddle.concat([joined(one, axis + 1) for one in nested], axis=axis)
        x = next(following)
        return _heddle.reshape(x, (1,) * (axes - x.ndim) + tuple(x.shape))

    return joined(arrays, axes - depth)


def wait_all() -> None:
    """Blocks until every op of the current engine is done; raises AggregateError with the errors no wait has raised."""
    _heddle.current_engine().wait_all()


def __getattr__(name: str) -> _typing.Any:
    if name != "array_api":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _importlib.import_module("heddle.array_api")


def _array_namespace(self: _heddle.NDArray, *, api_version: str | None = None) -> _typing.Any:
    """The module heddle.array_api: the functions of Python's array API standard."""
    from heddle import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
        raise ValueError(f"there is no version {api_version!r} of the array API here; there is 2024.12")
    return array_api


_install(_heddle.Engine, _heddle.Var, _heddle.NDArray, _array_namespace)
_atexit.register(_heddle._shut_down)
_atexit.register(data._drop_batches)
_install_methods()
del _install, _install_methods
