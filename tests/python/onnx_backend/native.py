"""Which cases heddle computes by one of its own operators, and which by several together, and why.

`heddle.onnx.operators()` says which operator of heddle computes one of ONNX. Here the calls of each case are looked at.
"""

import functools
import re

from heddle.onnx.table import TABLE

from .calls import counted_calls
from .cases import node_cases, run_case

# Operators of networks. Those that are one function of heddle by their definition, such as Add, are not of interest.
OPERATORS = [
    *("RNN", "GRU", "LSTM", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "Attention", "Resize"),
    "GridSample",
    *("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"),
    *("Gelu", "Elu", "Celu", "LeakyRelu", "Selu", "Mish", "Softplus", "Softsign", "HardSwish", "Swish", "HardSigmoid"),
]

# What only moves elements, or makes arrays.
LAYOUT = set(
    "array asarray broadcast_to cast concat copy current_engine default_engine empty expand_dims flip full is_capturing"
    " moveaxis ones pad repeat reshape slice split squeeze stack swapaxes take transpose unstack zeros".split()
)
MASKS = {"arange", "where", "logical_and", "__add__", "__sub__"}  # of attention: made once for all calls of a shape
MORE = {
    "Attention": MASKS,
    "BatchNormalization": {"__add__", "__mul__"},  # running statistics in training
    "LayerNormalization": {"mean", "square", "sqrt", "__add__", "__sub__", "__rtruediv__"},  # statistics as outputs
    "MaxPool": {"arange", "__add__", "__mul__"},  # indices in the whole array from those in planes
    "AveragePool": {"__truediv__"},  # by the number of elements that count, of padding that differs at the two ends
}

# Cases in which heddle's operator lacks an option, by a pattern of their names, with that option.
COMPOSED = {
    "AveragePool": {"dilations": "dilation"},
    "Selu": {"selu$|example": "alpha and gamma"},
    "HardSigmoid": {"": "alpha and beta"},
    "Attention": {"softcap|window_gqa": "a soft cap", "qk_matmul": "scores as an output"},
    "Resize": {
        "antialias": "antialiasing",
        "exclude_outside": "cubic_coeff_a and exclude_outside",
        "tf_crop": "crops",
        "symmetric": "half_pixel_symmetric",
        "asymmetric": "asymmetric coordinates of other modes than nearest, or rounded up",
        "nearest_floor_align_corners": "nearest with align_corners",
        "nearest_ceil": "nearest that rounds up",
        "sizes_nearest": "nearest of half pixels that rounds down at the middle",
        "scales_nearest": "nearest of half pixels that rounds down at the middle",
        "downsample_scales": "a scale that is no ratio of sizes",
        "sizes_linear_pytorch_half_pixel": "one element for several",
    },
}


def own_cases(operator: str) -> list:
    return [case for case in node_cases()[operator] if "_expanded" not in case.name]


@functools.cache
def composed(operator: str) -> dict[str, list[str]]:
    """The cases that need more than heddle's operator, with what they call."""
    native, found = set(TABLE[operator].native), {}
    for case in own_cases(operator):
        with counted_calls() as names:
            result = run_case(operator, case)
        assert not result.error, result.error
        if not result.missing and not (names & native and names <= LAYOUT | native | MORE.get(operator, set())):
            found[case.name] = sorted(names - LAYOUT)
    return found


def known(operator: str) -> dict[str, str]:
    """The cases for which heddle's operator lacks an option, and which."""
    reasons = COMPOSED.get(operator, {})
    found = {}
    for case in own_cases(operator):
        for part, reason in reasons.items():
            if re.search(part, case.name):
                found.setdefault(case.name, reason)
    return found
