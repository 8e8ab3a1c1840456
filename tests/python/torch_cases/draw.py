"""Random arguments of a case, made of its seed alone.

Numbers come from the raw output of NumPy's PCG64, which is the same in every version of NumPy and on every machine; the
kept values depend on that.
"""

import zlib

import numpy as np


class Draw:
    """One stream of random numbers for one case."""

    def __init__(self, name, seed, stream=0):
        self.seed = seed
        self._bits = np.random.PCG64([zlib.crc32(name.encode()), seed, stream])

    def uniform(self, shape=()):
        """f64 in [0, 1)."""
        count = int(np.prod(shape, dtype=np.int64))
        return ((self._bits.random_raw(count) >> np.uint64(11)) * 2.0**-53).reshape(shape)

    def integer(self, low, high):
        """An int from low to high, both included."""
        return low + int(self._bits.random_raw() % (high - low + 1))

    def chance(self, probability):
        return float(self.uniform()) < probability

    def pick(self, *choices):
        return choices[self.integer(0, len(choices) - 1)]

    def sizes(self, count, high=4):
        """Sizes of axes; in one case of forty one of them is 0, in one of fifteen one is larger than vectors of the CPU."""
        sizes = [self.integer(1, high) for _ in range(count)]
        if count and self.chance(1 / 40):
            sizes[self.integer(0, count - 1)] = 0
        elif count and self.chance(1 / 15):
            sizes[self.integer(0, count - 1)] = self.integer(5, 40)
        return tuple(sizes)

    def shape(self, low=0, high=4):
        """The shape of an array with low to high axes."""
        return self.sizes(self.integer(low, high))

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def axes(self, rank):
        """None, an axis or several."""
        if rank == 0 or self.chance(0.2):
            return None
        if self.chance(0.5):
            return self.axis(rank)
        return [int(axis) for axis in np.flatnonzero(self.uniform(rank) < 0.5)] or [0]

    def floats(self, shape, low=-3.0, high=3.0, special=()):
        """f64 numbers that f32 has too; in one case of three some of them are special ones."""
        values = (low + (high - low) * self.uniform(shape)).astype(np.float32).astype(np.float64)
        if special and self.chance(1 / 3):
            values = np.where(self.uniform(shape) < 0.3, np.asarray(special)[self.integers(shape, 0, len(special) - 1)], values)
        return np.asarray(values)

    def integers(self, shape, low, high, dtype=np.int64):
        """Integers from low to high, both included."""
        return np.asarray(low + np.floor(self.uniform(shape) * (high - low + 1))).astype(dtype)

    def bools(self, shape, probability=0.5):
        return np.asarray(self.uniform(shape) < probability)

    def permutation(self, count):
        return np.argsort(self.uniform(count), kind="stable")

    def broadcast(self, shape):
        """A shape that broadcasts to this one: with sizes of 1 and without the first axes."""
        sizes = [1 if self.chance(0.25) else size for size in shape]
        return tuple(sizes[self.integer(0, len(sizes)) :] if self.chance(0.25) else sizes)

    def operands(self, low=0, high=4):
        """Two shapes that broadcast together."""
        shape = self.shape(low, high)
        return (shape, self.broadcast(shape)) if self.chance(0.5) else (self.broadcast(shape), shape)
