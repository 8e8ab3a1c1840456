"""Random numbers: heddle's own, which are other ones than those of other backends with the same seed."""

import heddle

from .table import dtype_of, operator


def generator(seed: float | None) -> heddle.Generator | None:
    """The generator of a seed; None: the thread's default one."""
    return None if seed is None else heddle.Generator(int(seed))


@operator("RandomUniform")
def random_uniform(*, shape, dtype=1, high=1.0, low=0.0, seed=None):
    return heddle.uniform(shape, low, high, dtype_of(dtype), generator=generator(seed))


@operator("RandomUniformLike")
def random_uniform_like(x, *, dtype=None, high=1.0, low=0.0, seed=None):
    return heddle.uniform(x.shape, low, high, dtype_of(dtype) if dtype else x.dtype, generator=generator(seed))


@operator("RandomNormal")
def random_normal(*, shape, dtype=1, mean=0.0, scale=1.0, seed=None):
    return heddle.normal(shape, mean, scale, dtype_of(dtype), generator=generator(seed))


@operator("RandomNormalLike")
def random_normal_like(x, *, dtype=None, mean=0.0, scale=1.0, seed=None):
    return heddle.normal(x.shape, mean, scale, dtype_of(dtype) if dtype else x.dtype, generator=generator(seed))


@operator("Multinomial", since=7)
def multinomial(logarithms, *, dtype=6, sample_size=1, seed=None):
    return heddle.cast(heddle.categorical(logarithms, sample_size, generator(seed)), dtype_of(dtype))


@operator("Bernoulli", since=15)
def bernoulli(x, *, dtype=None, seed=None):
    below = heddle.uniform(x.shape, dtype=x.dtype, generator=generator(seed)) < x
    return heddle.cast(below, dtype_of(dtype) if dtype else x.dtype)
