"""An ONNX backend over heddle: runs ONNX models whose operators and dtypes heddle has.

    from onnx_backend import HeddleBackend

    outputs = HeddleBackend.run_model(onnx.load("model.onnx"), [x])

`python -m onnx_backend --help` says how it is compared with ONNX's own cases. table.py says how an operator is added.
"""

from .backend import HeddleBackend, HeddleModel, missing
from .table import TABLE, Missing

__all__ = ["TABLE", "HeddleBackend", "HeddleModel", "Missing", "missing"]
