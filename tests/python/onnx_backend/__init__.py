"""ONNX's interface of backends over heddle.onnx, and its comparison with ONNX's node cases.

    from onnx_backend import HeddleBackend

    outputs = HeddleBackend.run_model(onnx.load("model.onnx"), [x])

`python -m onnx_backend --help` says how it is compared with ONNX's own cases. heddle/onnx/table.py says how an operator
is added.
"""

from heddle.onnx.table import TABLE, Missing

from .backend import HeddleBackend, HeddleModel, missing

__all__ = ["TABLE", "HeddleBackend", "HeddleModel", "Missing", "missing"]
