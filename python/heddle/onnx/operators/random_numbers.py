"""Random numbers: heddle's own, which are other ones than those of other backends with the same seed."""

from collections.abc import Sequence
from typing import Any

import heddle
from heddle.onnx.table import Array, dtype_of, operator


def generator(seed: float | None) -> heddle.Generator | None:
    """The generator of a seed; None: the thread's default one."""
    return None if seed is None else heddle.Generator(int(seed))


@operator("RandomUniform", pure=False)
def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: Any = None
) -> Array:
    return heddle.uniform(shape, low, high, dtype_of(dtype), generator=generator(seed))


@operator("RandomUniformLike", pure=False)
def random_uniform_like(x: Array, *, dtype: Any = None, high: float = 1.0, low: float = 0.0, seed: Any = None) -> Array:
    return heddle.uniform(x.shape, low, high, dtype_of(dtype) if dtype else x.dtype, generator=generator(seed))


@operator("RandomNormal", pure=False)
def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: Any = None
) -> Array:
    return heddle.normal(shape, mean, scale, dtype_of(dtype), generator=generator(seed))


@operator("RandomNormalLike", pure=False)
def random_normal_like(
    x: Array, *, dtype: Any = None, mean: float = 0.0, scale: float = 1.0, seed: Any = None
) -> Array:
    return heddle.normal(x.shape, mean, scale, dtype_of(dtype) if dtype else x.dtype, generator=generator(seed))


@operator("Multinomial", since=7, pure=False)
def multinomial(logarithms: Array, *, dtype: int = 6, sample_size: int = 1, seed: Any = None) -> Array:
    return heddle.cast(heddle.categorical(logarithms, sample_size, generator(seed)), dtype_of(dtype))


@operator("Bernoulli", since=15, pure=False)
def bernoulli(x: Array, *, dtype: Any = None, seed: Any = None) -> Array:
    below = heddle.uniform(x.shape, dtype=x.dtype, generator=generator(seed)) < x
    return heddle.cast(below, dtype_of(dtype) if dtype else x.dtype)
