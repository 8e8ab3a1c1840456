"""Random numbers under NumPy's names, from this thread's generator; heddle.Generator draws from a seed of its own."""

from collections.abc import Sequence
from typing import Any

from heddle import _heddle
from heddle._heddle import NDArray, permutation
from heddle._heddle import manual_seed as seed

__all__ = ["integers", "normal", "permutation", "rand", "randint", "randn", "seed", "uniform"]

Size = int | Sequence[int] | None


def _shape(size: Size) -> Any:
    return () if size is None else size


def uniform(low: float = 0.0, high: float = 1.0, size: Size = None) -> NDArray:
    """f32 numbers in [low, high); None: one number."""
    return _heddle.uniform(_shape(size), low, high)


def normal(loc: float = 0.0, scale: float = 1.0, size: Size = None) -> NDArray:
    """f32 numbers with this mean and standard deviation; None: one number."""
    return _heddle.normal(_shape(size), loc, scale)


def integers(low: int, high: int | None = None, size: Size = None) -> NDArray:
    """i64 numbers from low to high - 1, or from 0 to low - 1."""
    return _heddle.integers(_shape(size), 0 if high is None else low, low if high is None else high)


randint = integers


def rand(*shape: int) -> NDArray:
    """f32 numbers in [0, 1) of this shape."""
    return _heddle.uniform(shape)


def randn(*shape: int) -> NDArray:
    """f32 normal numbers of this shape."""
    return _heddle.normal(shape)
