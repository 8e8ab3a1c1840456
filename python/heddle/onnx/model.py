"""Models that were loaded from ONNX: called as functions, and run as captured graphs."""

import collections
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

import heddle
from heddle import NDArray
from heddle.onnx.building import cast_likes, check_supported, code_of
from heddle.onnx.definitions import full_name, inlined
from heddle.onnx.fusing import fold, fuse
from heddle.onnx.reading import File, check_model, read
from heddle.onnx.running import Code, Run, Tape
from heddle.onnx.table import DTYPES

Sizes = tuple[int | str | None, ...]


@dataclasses.dataclass(frozen=True)
class Value:
    """An input or an output. A size is a number, the name of one that varies, or None; a shape of None: any."""

    name: str
    shape: Sizes | None
    dtype: heddle.DType

    def __str__(self) -> str:
        sizes = "of any shape" if self.shape is None else shown(self.shape)
        return f"{self.name}: {self.dtype.name} {sizes}"


def shown(shape: Sequence[int | str | None]) -> str:
    """A shape as text: (N, 3, ?)."""
    inside = ", ".join("?" if n is None else str(n) for n in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def value_of(value: ValueInfoProto, file: File) -> Value:
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type, heddle.f32)
    if not tensor.HasField("shape"):
        return Value(value.name, None, dtype)
    sizes: list[int | str | None] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise file.error(f"'{value.name}' has the negative size {dim.dim_value}")
            sizes.append(dim.dim_value)
        else:
            sizes.append(dim.dim_param or None)
    return Value(value.name, tuple(sizes), dtype)


# Inputs of operators that are no weights: statistics, limits, scales, and other parameters of an operator.
NO_WEIGHTS = {
    "BatchNormalization": {3, 4},
    "Resize": {1, 2, 3},
    "Upsample": {1},
    "Clip": {1, 2},
    "Pad": {2},
    "Dropout": {1, 2},
    "OneHot": {1, 2},
    "Range": {0, 1, 2},
    "QuantizeLinear": {1, 2},
    "DequantizeLinear": {1, 2},
    "NonMaxSuppression": {2, 3, 4},
}


def weights_in(code: Code) -> list[str]:
    """The floating initializers with axes that the graph's nodes read as weights, in the order of the file."""
    used = set()
    for node in code.all_nodes():
        used |= {name for i, name in enumerate(node.inputs) if i not in NO_WEIGHTS.get(node.entry.name, ())}
    return [name for name, array in code.constants.items() if array.dtype.is_floating and array.ndim and name in used]


def copies(arrays: list[NDArray]) -> list[NDArray]:
    return [array.copy() for array in arrays]


@dataclasses.dataclass
class Plan:
    """What is kept for inputs of certain shapes. The graph's inputs and results are arrays of its own."""

    tape: Tape | None = None  # None: each run computes everything
    reason: str = ""
    graph: heddle.Graph | None = None
    inputs: list[NDArray] = dataclasses.field(default_factory=list)
    results: list[NDArray] = dataclasses.field(default_factory=list)


class OnnxModel:
    """A model of an ONNX file: model(x) or model(input=x). Calls return at once; any thread may call.

    The weights are on the model's device, where calls compute. For each combination of the inputs' shapes the first call runs the model operator by operator, the second captures it
    as a graph, and later ones launch that. `load` makes it.
    """

    def __init__(self, model: ModelProto, file: File, trainable: bool, capture: bool, graphs: int) -> None:
        self._file, self._most, self._captures = file, graphs, 0
        self._trainable, self._capture = trainable, capture
        self._engine, self._device = heddle.current_engine(), heddle.default_device()
        self._lock = threading.Lock()  # guards _plans and the graphs' arrays; ops are pushed while it is held
        self._plans: collections.OrderedDict[tuple[Any, ...], Plan] = collections.OrderedDict()
        self._operators = collections.Counter(full_name(node) for node in model.graph.node)
        self._name, self._opset = model.graph.name, {entry.domain: entry.version for entry in model.opset_import}
        model = inlined(model)
        check_supported(model, file)
        cast_likes(model)
        self._code, self._constants = code_of(model.graph, model, file), Tape()
        chosen = weights_in(self._code) if trainable else []
        self._weights = sum(array.nbytes for array in self._code.constants.values())
        for name in chosen:  # a weight that was mapped is copied, since training writes to it
            self._code.constants[name] = self._code.constants[name].copy()
            self._code.constants[name].requires_grad = True
        self._parameters = [heddle.Parameter(name, self._code.constants[name]) for name in chosen]
        fold(self._code, self._constants, set(chosen))
        if not trainable:
            fuse(self._code, self._constants)
        self._code.find_dead()
        given = {name: i for i, name in enumerate(self._code.inputs)}
        self.inputs = tuple(value_of(value, file) for value in model.graph.input if value.name in given)
        self.outputs = tuple(value_of(value, file) for value in model.graph.output)

    # What the model is.

    @property
    def device(self) -> heddle.Device:
        """Where the weights are, calls compute, and inputs have to be."""
        return self._device

    @property
    def captured(self) -> bool:
        """Whether graphs were captured: calls with inputs of the same shapes are launches. Else `reason` may say why not."""
        return any(plan.graph is not None for plan in self._kept())

    @property
    def reason(self) -> str:
        """Why the last shapes that were tried cannot be captured: the node whose result depends on values; "" if they can."""
        if not self._capture:
            return "the model was loaded with capture=False"
        return next((plan.reason for plan in reversed(self._kept()) if plan.reason), "")

    def _kept(self) -> list[Plan]:
        with self._lock:
            return list(self._plans.values())

    @property
    def captures(self) -> int:
        """How many graphs were captured so far, those that were dropped for others too."""
        return self._captures

    @property
    def trainable(self) -> bool:
        return self._trainable

    def parameters(self) -> list[heddle.Parameter]:
        """The weights, which require gradients, by their names in the file. The model was loaded with trainable=True."""
        if not self._trainable:
            raise heddle.Error(
                f"parameters: {self._file.name} was loaded without trainable=True, so that its weights are constants, "
                f"which may have been joined; load it again with that"
            )
        return list(self._parameters)

    def reset(self) -> None:
        """Forgets all graphs, and with them their memory."""
        with self._lock:
            self._plans.clear()

    def summary(self) -> str:
        """Inputs, outputs, operators and how the model runs, as text."""
        lines = [f"{self._name or 'a model'} of {self._file.name}"]
        lines += [f"  input   {value}" for value in self.inputs] + [f"  output  {value}" for value in self.outputs]
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self._opset.items())
        lines.append(f"  opset   {opsets}")
        nodes = sum(1 for _ in self._code.all_nodes())
        lines.append(f"  weights {self._weights} bytes{', trainable' if self._trainable else ''}")
        lines.append(f"  nodes   {self._operators.total()}, {nodes} after constants were folded and nodes joined")
        lines += [
            f"    {count:5}  {name}" for name, count in sorted(self._operators.items(), key=lambda x: (-x[1], x[0]))
        ]
        how = (
            f"{self._captures} graphs captured" if self.captured else f"not captured: {self.reason or 'not called yet'}"
        )
        return "\n".join([*lines, f"  runs    {how}"])

    def __repr__(self) -> str:
        given, results = (", ".join(map(str, values)) for values in (self.inputs, self.outputs))
        return f"<OnnxModel of {self._file.name}: {given} -> {results}>"

    # Calls.

    def __call__(self, *inputs: Any, **named: Any) -> NDArray | tuple[NDArray, ...]:
        """The output, or a tuple of several. Inputs are arrays of heddle on the model's device, or arrays of NumPy or lists,
        which are copied there, in order or by name."""
        results = self.run(*inputs, **named)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, *inputs: Any, **named: Any) -> list[NDArray]:
        """All outputs of a call, as a list."""
        with self._device:
            if heddle.current_engine() != self._engine:
                with self._engine:
                    return self._run(self._arguments(inputs, named))
            return self._run(self._arguments(inputs, named))

    def _arguments(self, inputs: Sequence[Any], named: dict[str, Any]) -> list[NDArray]:
        names = [value.name for value in self.inputs]
        wanted = ", ".join(map(str, self.inputs)) or "none"
        if len(inputs) > len(names):
            raise heddle.InvalidArgument(f"{self._who()}: {len(inputs)} inputs; want {len(names)}: {wanted}")
        given = dict(zip(names, inputs, strict=False))
        for name, array in named.items():
            if name not in names:
                raise heddle.InvalidArgument(f"{self._who()}: there is no input '{name}'; want {wanted}")
            if name in given:
                raise heddle.InvalidArgument(f"{self._who()}: input '{name}' came twice, in order and by name")
            given[name] = array
        if absent := [name for name in names if name not in given]:
            raise heddle.InvalidArgument(f"{self._who()}: no input '{absent[0]}'; want {wanted}")
        return [self._argument(value, given[value.name]) for value in self.inputs]

    def _argument(self, value: Value, given: Any) -> NDArray:
        if isinstance(given, NDArray):
            array = given
        else:
            try:
                typed = isinstance(given, (np.ndarray, np.generic))  # np.float64 is a float too, which heddle takes as f32
                array = heddle.asarray(np.asarray(given)) if typed else heddle.asarray(given, dtype=value.dtype)
            except (TypeError, ValueError) as error:
                raise heddle.InvalidArgument(
                    f"{self._who()}: input '{value.name}' is a {type(given).__name__} ({error}); want {value}"
                ) from error
        fits = value.shape is None or (
            len(value.shape) == array.ndim
            and all(not isinstance(want, int) or want == n for want, n in zip(value.shape, array.shape, strict=True))
        )
        if array.dtype != value.dtype or not fits:
            raise heddle.InvalidArgument(
                f"{self._who()}: input '{value.name}' is {array.dtype.name} {shown(array.shape)}; want {value}"
            )
        if array.device != self._device:
            raise heddle.InvalidArgument(
                f"{self._who()}: input '{value.name}' is on {array.device}, the model on {self._device}; want both on one: "
                f"x.to('{self._device}'), or load(..., device='{array.device}')"
            )
        return array

    def _who(self) -> str:
        return f"model {self._file.name}"

    def _records_gradients(self, arrays: list[NDArray]) -> bool:
        leaves = [array for array in (*arrays, *(one.value for one in self._parameters)) if array.requires_grad]
        return bool(leaves) and heddle.reshape(leaves[0], leaves[0].shape).requires_grad

    def _run(self, arrays: list[NDArray]) -> list[NDArray]:
        key = tuple(array.shape for array in arrays)
        direct = not self._capture or heddle.is_capturing() or self._records_gradients(arrays)
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                plan, results = self._first_run(arrays)
                self._plans[key] = plan
                while len(self._plans) > self._most:
                    self._plans.popitem(last=False)
                return results
            self._plans.move_to_end(key)
            if not direct and not plan.reason:
                if plan.graph is None:
                    self._capture_graph(plan, arrays)
                if plan.graph is not None:
                    return self._launch(plan, arrays)
        if plan.tape is None:
            return self._first_run(arrays)[1]
        return copies(self._eager(Run(self._constants, plan.tape, False), arrays))

    def _eager(self, run: Run, arrays: list[NDArray]) -> list[NDArray]:
        """The outputs, which may share memory with inputs, weights and the tape."""
        try:
            return run.graph(self._code, arrays, {})
        except heddle.Error as error:
            where = getattr(error, "onnx_node", None)
            if where is None or type(error) not in PLAIN_ERRORS:
                raise
            raise type(error)(f"{self._who()}: {where}: {error}") from error

    def _first_run(self, arrays: list[NDArray]) -> tuple[Plan, list[NDArray]]:
        if heddle.is_capturing():
            raise heddle.Error(
                f"{self._who()}: the first call with inputs of these shapes computes sizes, which it waits for; "
                f"make it before the capture"
            )
        tape = Tape()
        run = Run(self._constants, tape, True)
        results = copies(self._eager(run, arrays))
        return Plan(None if run.reason else tape, run.reason), results

    def _capture_graph(self, plan: Plan, arrays: list[NDArray]) -> None:
        """Captures the graph. What cannot be captured runs operator by operator, for a reason."""
        assert plan.tape is not None
        slots = [heddle.empty(array.shape, array.dtype) for array in arrays]
        results: list[NDArray] = []
        tape = plan.tape

        def record() -> None:
            results.extend(self._eager(Run(self._constants, tape, False), slots))

        try:
            with heddle.no_grad():
                plan.graph = self._engine.capture(record)
        except heddle.Error as error:
            plan.reason = str(error)
            return
        plan.inputs, plan.results = slots, results
        self._captures += 1

    def _launch(self, plan: Plan, arrays: list[NDArray]) -> list[NDArray]:
        assert plan.graph is not None
        with heddle.no_grad():
            for slot, array in zip(plan.inputs, arrays, strict=True):
                slot[...] = array
            plan.graph.launch()
            return copies(plan.results)


DAMAGE = (ValueError, RuntimeError, TypeError, AttributeError, LookupError, ArithmeticError, OSError, RecursionError)
PLAIN_ERRORS = (heddle.Error, heddle.InvalidArgument, heddle.InvalidIndex)


def load(
    source: Any,
    *,
    trainable: bool = False,
    capture: bool = True,
    graphs: int = 8,
    mapped: bool = True,
    device: heddle.Device | str | None = None,
) -> OnnxModel:
    """The model in an ONNX file: a path, or the file's bytes.

    trainable: floating weights are leaves, which model.parameters() lists, and no nodes are joined. capture: calls run as
    captured graphs, of which the `graphs` used last are kept. mapped: weights in files beside the model's stay on these
    files' pages, which must not be written to while the model lives; False: they are read into memory. device: where the
    weights go and calls compute; None: the thread's default device.
    Raises Missing, which lists all that heddle lacks for the model, and Error for a file that is damaged.
    """
    if isinstance(graphs, bool) or not isinstance(graphs, int):
        raise TypeError(f"load: graphs is a {type(graphs).__name__}; want an int")
    if graphs < 1:
        raise heddle.InvalidArgument(f"load: graphs is {graphs}; want 1 or more")
    where_to = heddle.default_device() if device is None else heddle.Device(device) if isinstance(device, str) else device
    if not isinstance(where_to, heddle.Device):
        raise TypeError(f"load: device is a {type(device).__name__}; want a device or its name")
    model, file = read(source, mapped)
    try:
        check_model(model, file)
        with where_to:
            return OnnxModel(model, file, trainable, capture, graphs)
    except heddle.Error as error:
        if file.name in str(error):
            raise
        where = getattr(error, "onnx_node", None)
        raise file.error(f"{where}: {error}" if where else str(error)) from error
    except DAMAGE as error:
        raise file.error(f"is damaged: {error}") from error
    except onnx.shape_inference.InferenceError as error:
        raise file.error(f"its shapes contradict each other: {error}") from error


def summary(model: OnnxModel) -> str:
    """Inputs, outputs, operators and how the model runs, as text."""
    return model.summary()
