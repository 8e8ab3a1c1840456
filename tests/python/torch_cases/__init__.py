"""Cases in which each operator and layer of a network is compared with PyTorch. table.py says how one is added."""

from . import activations, layers, losses, matrices, networks, norms, products, rearranging, reductions, windows  # noqa: F401
from .table import TABLE, Case, exists  # noqa: F401
