"""What is done once for a model whose weights do not change: constants are folded, and nodes are joined.

A product of matrices and what is added to it become one operator; a batch norm becomes part of the convolution before it,
and relu of a convolution or a product.
"""

import collections
from collections.abc import Callable

import heddle
from heddle import NDArray
from heddle.onnx.operators.elementwise import product
from heddle.onnx.operators.windows import convolve
from heddle.onnx.running import Code, Node, Run, Tape
from heddle.onnx.table import Entry

MOST_FOLDED = 2**28  # bytes of the results of one folded node

LINEAR = Entry("linear", 1, product, native=("linear",))
CONVOLUTION = Entry("convolution", 1, convolve, native=("conv1d", "conv2d", "conv3d"))


def shape_is_bounded(node: Node, arrays: list[NDArray | None]) -> bool:
    """Whether the node's results are small enough to be kept, for those operators whose inputs ask for a size."""
    if node.entry.name not in ("ConstantOfShape", "Expand", "Tile", "Range", "Resize", "OneHot", "Pad"):
        return True
    if node.entry.name == "Range":
        start, limit, delta = (float(array) for array in arrays if array is not None)
        count = (limit - start) / delta if delta else 0.0
        return not count * 8 > MOST_FOLDED
    read = [array.reshape(-1).tolist() for array in arrays if array is not None and array.size <= 64]
    total = 1.0
    for n in (n for numbers in read for n in numbers):
        total *= max(abs(n), 1)
    sizes = sum(array.size for array in arrays if array is not None)
    return total * max(sizes, 1) * 8 <= MOST_FOLDED


def fold(code: Code, constants: Tape, changing: set[str]) -> None:
    """Computes the nodes that depend on constants alone, and drops them. `changing` are weights that are trained."""
    run = Run(constants, Tape(), True)
    values = {name: array for name, array in code.constants.items() if name not in changing}
    for array in values.values():
        constants.add(array)
    for body in code.bodies():
        for array in body.constants.values():
            constants.add(array)
    kept = []
    for node in code.nodes:
        arrays = [values.get(name) for name in node.inputs]
        ready = all(array is not None for name, array in zip(node.inputs, arrays, strict=True) if name)
        if not (ready and node.entry.pure) or node.graphs or not shape_is_bounded(node, arrays):
            kept.append(node)
            continue
        results = run.graph(
            Code([], node.outputs, [node], {name: values[name] for name in node.inputs if name}), [], {}
        )
        values |= {name: constants.add(array) for name, array in zip(node.outputs, results, strict=True) if name}
    code.nodes[:] = kept
    used = {name for node in code.nodes for name in node.reads()} | set(code.outputs) | changing
    code.constants = {name: array for name, array in (values | code.constants).items() if name in used}


class Fusion:
    """Joins nodes of a graph."""

    def __init__(self, code: Code, constants: Tape) -> None:
        self._code, self._constants = code, constants
        self._maker: dict[str, Node] = {name: node for node in code.nodes for name in node.outputs if name}
        self._readers = collections.Counter(name for node in code.nodes for name in node.reads())
        self._readers.update(code.outputs)
        self._gone: set[int] = set()

    def run(self) -> None:
        for join in (self._add_to_product, self._norm_to_convolution, self._relu_to_one_before):
            for node in list(self._code.nodes):
                if id(node) not in self._gone:
                    join(node)
        self._code.nodes[:] = [node for node in self._code.nodes if id(node) not in self._gone]

    def _constant(self, name: str) -> NDArray | None:
        array = self._code.constants.get(name)
        return array if array is not None and id(array) in self._constants.known else None

    def _before(self, name: str, *names: str) -> Node | None:
        """The node that computes a value that only one node reads, if it is one of these operators."""
        node = self._maker.get(name)
        alone = node is not None and self._readers[name] == 1 and len([one for one in node.outputs if one]) == 1
        return node if node is not None and alone and node.entry.name in names else None

    def _replace(self, first: Node, last: Node) -> None:
        """`first` computes what `last` has computed; it stands at the place of `last`, after all that it reads."""
        first.outputs = last.outputs[:1]
        self._maker[first.outputs[0]] = first
        nodes = self._code.nodes
        nodes.remove(first)
        nodes[nodes.index(last)] = first
        self._gone.add(id(last))

    def _new_constant(self, name: str, function: Callable[..., NDArray], *arrays: NDArray) -> str:
        with heddle.no_grad():
            self._code.constants[name] = self._constants.add(function(*arrays))
        return name

    def _add_to_product(self, node: Node) -> None:
        """MatMul with a constant matrix, and Add of a constant row."""
        if node.entry.name != "Add":
            return
        for a, b in (node.inputs, node.inputs[::-1]):
            matmul, row = self._before(a, "MatMul"), self._constant(b)
            if matmul is None or row is None:
                continue
            weight = self._constant(matmul.inputs[1])
            if weight is None or weight.ndim != 2 or row.shape != weight.shape[1:] or row.dtype != weight.dtype:
                continue
            matmul.entry, matmul.attributes = LINEAR, {}
            matmul.inputs = [*matmul.inputs, b]
            return self._replace(matmul, node)

    def _norm_to_convolution(self, node: Node) -> None:
        """Conv with constant weights, and BatchNormalization in inference."""
        if node.entry.name != "BatchNormalization" or node.attributes.get("training_mode"):
            return
        conv = self._before(node.inputs[0], "Conv")
        numbers = [self._constant(name) for name in node.inputs[1:5]]
        if conv is None or any(array is None for array in numbers):
            return
        scale, bias, mean, variance = (array for array in numbers if array is not None)
        weight = self._constant(conv.inputs[1])
        own = [self._constant(name) for name in conv.inputs[2:3] if name]
        if weight is None or None in own or not weight.dtype.is_floating:
            return
        with heddle.no_grad():
            factor = scale / heddle.sqrt(variance + node.attributes.get("epsilon", 1e-5))
        name = f"{node.outputs[0]}\0"  # unique, as names of nodes need not be; no name of ONNX
        weights = self._new_constant(
            name + "weight", lambda w: heddle.cast(w * factor.reshape([-1] + [1] * (w.ndim - 1)), w.dtype), weight
        )
        start = own[0] if own else None
        shift = self._new_constant(
            name + "bias",
            lambda m: heddle.cast(bias - (m if start is None else m - start) * factor, weight.dtype),
            mean,
        )
        conv.inputs = [conv.inputs[0], weights, shift]
        self._replace(conv, node)

    def _relu_to_one_before(self, node: Node) -> None:
        if node.entry.name != "Relu":
            return
        before = self._before(node.inputs[0], "Conv", "linear")
        if before is None:
            return
        before.entry = CONVOLUTION if before.entry.name == "Conv" else before.entry
        before.attributes = before.attributes | {"relu": True}
        self._replace(before, node)


def fuse(code: Code, constants: Tape) -> None:
    """Joins nodes whose weights are constants."""
    Fusion(code, constants).run()
    used = {name for node in code.nodes for name in node.reads()} | set(code.outputs)
    code.constants = {name: array for name, array in code.constants.items() if name in used}
