"""The backend: runs an ONNX model with heddle.onnx."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto
from onnx.backend.base import Backend, BackendRep

import heddle.onnx
from heddle.onnx.building import missing_of
from heddle.onnx.definitions import inlined
from heddle.onnx.table import Missing


def missing(model: ModelProto) -> list[str]:
    """Operators and dtypes that the model needs and heddle lacks, as far as that shows without running it."""
    return missing_of(inlined(model))


class HeddleModel(BackendRep):
    """A model that is ready to run. Raises Missing if it needs an operator or a dtype that heddle lacks."""

    def __init__(self, model: ModelProto) -> None:
        self.model = heddle.onnx.load(model)

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[np.ndarray, ...]:
        """Runs the model, and waits for its outputs. Inputs may be arrays of NumPy or of heddle."""
        return tuple(output.numpy(copy=True) for output in self.model.run(*inputs))


class HeddleBackend(Backend):
    """ONNX's interface of backends."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        return cls.supports_device(device) and not missing(model)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> HeddleModel:
        super().prepare(model, device, **kwargs)  # checks the model
        if not cls.supports_device(device):
            raise Missing(f"device {device}")
        return HeddleModel(model)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Runs one operator of the opset `opset_version`, by default of onnx's latest."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # checks the node
        arrays = [np.asarray(x) for x in inputs]
        types = [onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for x in arrays]
        names = [name for name in node.input if name]
        given = [
            onnx.helper.make_tensor_value_info(*of) for of in zip(names, types, map(np.shape, arrays), strict=True)
        ]
        results = [onnx.helper.make_value_info(name, TypeProto()) for name in node.output if name]
        imports = [onnx.helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "node", given, results), opset_imports=imports)
        return HeddleModel(model).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"
