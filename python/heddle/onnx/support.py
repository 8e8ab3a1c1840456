"""Which of ONNX's operators are supported, and by what."""

import heddle.onnx.operators  # noqa: F401 (fills the table)
from heddle.onnx.table import TABLE


def operators() -> dict[str, tuple[int, tuple[str, ...]]]:
    """ONNX's operators that heddle computes: from which opset on, and which of heddle's operators computes a node.

    Without such an operator several compute a node together. Operators that ONNX defines by others run without being
    listed.
    """
    return {name: (entry.since, entry.native) for name, entry in sorted(TABLE.items())}
