"""Models of ONNX files, run and trained with heddle's operators.

    import heddle.onnx

    model = heddle.onnx.load("model.onnx")
    y = model(x)           # returns at once; the third call with x's shape is one launch of a captured graph

The package `onnx` reads the file. docs/onnx.md is the user's guide.
"""

try:
    import onnx as _onnx  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "onnx":
        raise
    raise ImportError("heddle.onnx needs the package onnx, which reads the files: pip install onnx") from _error

from heddle.onnx.model import OnnxModel, Value, load, summary
from heddle.onnx.saving import save
from heddle.onnx.support import operators
from heddle.onnx.table import Missing

__all__ = ["Missing", "OnnxModel", "Value", "load", "operators", "save", "summary"]
