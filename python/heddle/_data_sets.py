"""Datasets of heddle.data in memory, and those that are made of others."""

from __future__ import annotations

import typing as _typing

from heddle import _data_arguments as _arguments
from heddle import _errors, _heddle

Description = list[tuple[_heddle.DType, tuple[int | None, ...]]]


class Dataset:
    """Examples by their number. Classes of one's own may derive from it, or from nothing: `__len__` and `__getitem__` count.

    A class may have `arrays`, a list of (dtype, shape) in which None is a size that varies, `length(index)`, for batches of
    similar lengths, and `read_with(index, random)`, which loaders call in place of `__getitem__`: with an ExampleRandom, whose
    numbers follow from the loader's seed, the epoch and the example alone, for augmentation of one's own. A class derived from
    another one of heddle.data reads as that does, unless it has a `__getitem__` or `read_with` of its own.
    """

    _core: _heddle._Dataset | None = None

    def __len__(self) -> int:
        return self._made()._size()

    def __getitem__(self, index: int) -> _typing.Any:
        """Example `index` as a tuple of arrays. Waits."""
        size = self._made()._size()
        at = _arguments.int_of("Dataset", "index", index)
        if not -size <= at < size:
            raise IndexError(f"example {at} of {size}")
        return self._made()._read(at % size)

    def _made(self) -> _heddle._Dataset:
        if self._core is None:
            raise TypeError(f"{type(self).__name__} needs __len__ and __getitem__, or super().__init__()")
        return self._core


def _derived(function: str, dataset: Dataset, core: _heddle._Dataset, arrays: _typing.Any, length: _typing.Any) -> _heddle._Dataset:
    """The dataset of an object whose examples are those of `core`, random numbers and all, with what its class may say of them."""
    has_own_size = type(dataset).__len__ is not Dataset.__len__
    if not has_own_size and arrays is None and length is None:
        return core
    size = len(dataset)
    if size == 0:
        raise _errors.InvalidArgument(f"{function}: the dataset has no examples")
    if size > core._size():
        raise _errors.InvalidArgument(f"{function}: __len__ of {type(dataset).__name__} is {size}, and it is made of {core._size()} examples")
    return _heddle._derived_dataset(core, size, arrays, length)


def core_of(function: str, dataset: _typing.Any, varying: bool = False) -> _heddle._Dataset:
    arrays, length, read_with = (getattr(dataset, name, None) for name in ("arrays", "length", "read_with"))
    if read_with is not None and not callable(read_with):
        raise TypeError(f"{function}: the dataset's read_with is a {type(read_with).__name__}; want a method of an index and random numbers")
    if isinstance(dataset, Dataset) and dataset._core is not None and type(dataset).__getitem__ is Dataset.__getitem__:
        if read_with is None:
            return _derived(function, dataset, dataset._core, arrays, length)
        arrays = dataset._core._arrays() if arrays is None else arrays
        length = dataset._core._length if length is None else length
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{function}: dataset is a {type(dataset).__name__}; want an object with __len__ and __getitem__")
    size = len(dataset)
    if size == 0:
        raise _errors.InvalidArgument(f"{function}: the dataset has no examples")
    return _heddle._object_dataset(dataset, size, arrays, varying, length, read_with)


def arrays_of(dataset: _typing.Any) -> Description:
    """dtype and shape of each array of a dataset's examples; None: a size that varies."""
    return core_of("arrays_of", dataset)._arrays()


class ArrayDataset(Dataset):
    """Arrays, heddle's or NumPy's: example i is element i along axis 0 of each. Batches are gathered straight into their memory."""

    def __init__(self, *arrays: _heddle.ArrayLike) -> None:
        self._core = _heddle._array_dataset(list(arrays))


class Subset(Dataset):
    """The examples `indices` of a dataset, in that order."""

    def __init__(self, dataset: _typing.Any, indices: _typing.Sequence[int]) -> None:
        core = core_of("Subset", dataset)
        self._core = _heddle._subset(core, _arguments.ints_of("Subset", "indices", indices))


class ConcatDataset(Dataset):
    """The examples of several datasets, one after the other."""

    def __init__(self, datasets: _typing.Sequence[_typing.Any]) -> None:
        self._core = _heddle._concat_dataset([core_of("ConcatDataset", dataset) for dataset in datasets])


class MapDataset(Dataset):
    """fn(*arrays) of each example, an array or a tuple of arrays. It runs on the engine's workers, one at a time.

    Without `arrays`, a list of (dtype, shape), the first example says what fn returns. random: fn(*arrays, random) gets an
    ExampleRandom too, whose numbers follow from the loader's seed, the epoch and the example alone; by index an example is
    as of seed 0, epoch 0.
    """

    def __init__(
        self, dataset: _typing.Any, fn: _typing.Callable[..., _typing.Any], arrays: _typing.Any = None, random: bool = False
    ) -> None:
        if not callable(fn):
            raise TypeError(f"MapDataset: fn is a {type(fn).__name__}; want a function of an example's arrays")
        draws = _arguments.bool_of("MapDataset", "random", random)
        self._core = _heddle._map_dataset(core_of("MapDataset", dataset), fn, arrays, draws)
