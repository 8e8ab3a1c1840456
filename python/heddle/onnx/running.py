"""Runs the nodes of a graph, and tells values that depend on inputs' shapes alone from those that depend on their values.

The first are *known*. A run records them on a tape: later runs with inputs of the same shapes take them from there, so
that they push no ops for them and wait for nothing. What an operator reads on the host, such as the shape that Reshape
is given, must be known for that; if it is not, the run waits, and says why it cannot be repeated as a captured graph.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import heddle
from heddle import NDArray

if TYPE_CHECKING:
    from heddle.onnx.table import Entry

Values = dict[str, NDArray | None]


@dataclasses.dataclass(eq=False)
class Node:
    """A node that is ready to run. Attributes that are graphs are of type Code."""

    name: str
    entry: "Entry"
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    opset: int = 0
    dead: list[str] = dataclasses.field(default_factory=list)  # values that nothing reads after this node

    @functools.cached_property
    def graphs(self) -> dict[str, "Code"]:
        """The attributes that are graphs."""
        return {name: value for name, value in self.attributes.items() if isinstance(value, Code)}

    def reads(self) -> set[str]:
        """The values that the node reads, also in the graphs of its attributes."""
        return {name for name in self.inputs if name} | {name for code in self.graphs.values() for name in code.free()}

    def __str__(self) -> str:
        return f"node '{self.name}' ({self.entry.name})"


@dataclasses.dataclass(eq=False)
class Code:
    """A graph that is ready to run."""

    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    constants: dict[str, NDArray] = dataclasses.field(default_factory=dict)

    def free(self) -> set[str]:
        """The values of the outer graph that this one reads."""
        own = {*self.inputs, *self.constants, *(name for node in self.nodes for name in node.outputs)}
        return {*(name for node in self.nodes for name in node.reads()), *self.outputs} - own

    def all_nodes(self) -> Iterator[Node]:
        """The nodes, and those of graphs in their attributes."""
        for node in self.nodes:
            yield node
            for code in node.graphs.values():
                yield from code.all_nodes()

    def bodies(self) -> Iterator["Code"]:
        """The graphs in attributes of nodes, and those in theirs."""
        for node in self.nodes:
            for code in node.graphs.values():
                yield code
                yield from code.bodies()

    def find_dead(self) -> None:
        """Notes behind which node each value may be forgotten."""
        needed = set(self.outputs)
        for node in reversed(self.nodes):
            node.dead = [name for name in {*node.reads(), *node.outputs} - needed if name not in self.constants]
            needed |= node.reads()


def on_host(array: NDArray) -> np.ndarray[Any, Any]:
    """An array's values, which are copied from a GPU. Waits."""
    return array.detach().to("cpu").numpy()


class Tape:
    """Known arrays by id, and their values on the host where something has read them."""

    def __init__(self) -> None:
        self.results: list[list[NDArray]] = []
        self.known: dict[int, NDArray] = {}
        self.host: dict[int, np.ndarray[Any, Any]] = {}
        self.prepared: dict[tuple[Any, ...], NDArray] = {}

    def add(self, array: NDArray) -> NDArray:
        self.known[id(array)] = array
        return array

    def values(self, array: NDArray) -> np.ndarray[Any, Any]:
        host = self.host.get(id(array))
        if host is None:
            host = self.host[id(array)] = on_host(array)
        return host


class _Current(threading.local):
    run: "Run | None" = None


_current = _Current()


def values(array: NDArray) -> np.ndarray[Any, Any]:
    """An array's values on the host, of which the node that runs depends beside its inputs' shapes."""
    return on_host(array) if _current.run is None else _current.run.values(array)


def constant(value: Any, dtype: Any) -> NDArray:
    """An array of these values, which are the same in each run with inputs of these shapes."""
    run = _current.run
    return heddle.array(value, dtype=dtype) if run is None else run.known(lambda: [heddle.array(value, dtype=dtype)])[0]


def is_known(array: NDArray) -> bool:
    """Whether an array's values are the same in each run with inputs of these shapes."""
    return _current.run is not None and _current.run.is_known(array)


def is_constant(array: NDArray) -> bool:
    """Whether an array is a constant of the model, so that what prepared() makes of it is made once."""
    return _current.run is not None and _current.run.is_constant(array)


def prepared(function: Callable[..., NDArray], *arrays: NDArray) -> NDArray:
    """function(*arrays), computed once for arrays that are constants of the model."""
    run = _current.run
    return function(*arrays) if run is None else run.prepared(function, *arrays)


def output(values: Values, name: str) -> NDArray:
    array = values[name]
    if array is None:
        raise heddle.InvalidArgument(f"the output '{name}' is an input that was left out")
    return array


class Run:
    """One run of a model. `constants` has the model's own arrays; `tape` those of runs with inputs of these shapes.

    With `records` the tape is filled, else it is read.
    """

    def __init__(self, constants: Tape, tape: Tape, records: bool) -> None:
        self._constants, self._tape, self._records = constants, tape, records
        self._place, self._node = 0, ""
        self.reason = ""  # why the run cannot be repeated as a captured graph; "": it can

    def is_known(self, array: NDArray) -> bool:
        return id(array) in self._constants.known or id(array) in self._tape.known

    def is_constant(self, array: NDArray) -> bool:
        return id(array) in self._constants.known

    def depends(self, what: str) -> None:
        """The run depends on values of inputs."""
        self.reason = self.reason or f"{self._node}: {what}"

    def values(self, array: NDArray) -> np.ndarray[Any, Any]:
        if id(array) in self._constants.known:
            return self._constants.values(array)
        if id(array) in self._tape.known:
            return self._tape.values(array)
        self.depends("it reads values that depend on the inputs' values")
        return on_host(array)

    def known(self, compute: Callable[[], list[NDArray]]) -> list[NDArray]:
        """compute()'s results, which are the same in each run with inputs of these shapes."""
        if self._records:
            with heddle.no_grad():
                self._tape.results.append([self._tape.add(array) for array in compute()])
        results = self._tape.results[self._place]
        self._place += 1
        return results

    def prepared(self, function: Callable[..., NDArray], *arrays: NDArray) -> NDArray:
        if not all(id(array) in self._constants.known for array in arrays):
            return function(*arrays)
        key = (function, *map(id, arrays))
        done = self._constants.prepared.get(key)
        if done is None:
            with heddle.no_grad():
                done = self._constants.prepared[key] = self._constants.add(function(*arrays))
        return done

    def graph(self, code: Code, inputs: Sequence[NDArray | None], outer: Mapping[str, NDArray | None]) -> list[NDArray]:
        """The outputs of a graph, for which the ops of all nodes are pushed."""
        before, _current.run = _current.run, self
        try:
            values: Values = {**outer, **code.constants}
            values.update(zip(code.inputs, inputs, strict=True))
            for node in code.nodes:
                values.update(zip(node.outputs, self._results(node, values), strict=True))
                for name in node.dead:
                    values.pop(name, None)
            return [output(values, name) for name in code.outputs]
        finally:
            _current.run = before

    def _results(self, node: Node, values: Values) -> list[NDArray]:
        arrays = [values[name] if name else None for name in node.inputs]
        entry, attributes = node.entry, node.attributes
        if node.graphs:
            outer = dict(values)
            attributes = attributes | {
                name: functools.partial(self._inner, code, outer) for name, code in node.graphs.items()
            }
        elif entry.pure and all(x is None or self.is_known(x) for x in arrays[: entry.reads]):
            return self.known(lambda: self._call(node, arrays, attributes))
        if entry.dynamic:
            self._node = str(node)
            self.depends("the shape of its result depends on the inputs' values")
        return self._call(node, arrays, attributes)

    def _inner(self, code: Code, outer: Values, *inputs: NDArray) -> list[NDArray]:
        return self.graph(code, inputs, outer)

    def _call(self, node: Node, arrays: list[NDArray | None], attributes: Mapping[str, Any]) -> list[NDArray]:
        before, self._node = self._node, str(node)
        try:
            return node.entry(arrays, attributes, len(node.outputs), node.opset)
        except heddle.Error as error:
            if getattr(error, "onnx_node", None) is None:
                error.onnx_node = str(node)  # type: ignore[attr-defined]
            raise
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError, MemoryError) as error:
            wrapped = heddle.InvalidArgument(f"{type(error).__name__}: {error}")
            wrapped.onnx_node = str(node)  # type: ignore[attr-defined]
            raise wrapped from error
        finally:
            self._node = before
