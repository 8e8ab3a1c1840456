"""Data for training: datasets, loaders, and files that examples are read from.

    from heddle import data

    loader = data.Loader(data.ArrayDataset(images, labels), batch=64, shuffle=True, seed=1)
    for epoch in range(5):
        for image, label in loader.start(epoch):
            train(image, label)

Batches are made by the engine's workers while the program computes. A dataset of one's own is any object with `__len__` and
`__getitem__`, which returns an array or a tuple of arrays: numbers, NumPy's or heddle's.
"""

from __future__ import annotations

import dataclasses as _dataclasses
import typing as _typing
import weakref as _weakref

from heddle import _data_arguments as _arguments
from heddle import _data_sets, _errors, _heddle
from heddle._data_files import (
    AudioFiles,
    CsvDataset,
    ImageFiles,
    ImageFolder,
    ImageRecords,
    InputSplit,
    RecordFile,
    RecordWriter,
    SequenceDataset,
    TextLines,
    Tokenizer,
    Vocabulary,
    decode_image,
    load_idx,
    read_audio,
    read_image,
)
from heddle._data_sets import ArrayDataset, ConcatDataset, Dataset, MapDataset, Subset, arrays_of
from heddle._heddle import ExampleRandom

__all__ = [
    "ArrayDataset",
    "AudioFiles",
    "Augmentation",
    "ConcatDataset",
    "CsvDataset",
    "Dataset",
    "ExampleRandom",
    "ImageFiles",
    "ImageFolder",
    "ImageRecords",
    "InputSplit",
    "Loader",
    "MapDataset",
    "RecordFile",
    "RecordWriter",
    "SequenceDataset",
    "Subset",
    "TextLines",
    "Tokenizer",
    "Vocabulary",
    "arrays_of",
    "decode_image",
    "load_idx",
    "read_audio",
    "read_image",
]


@_dataclasses.dataclass(frozen=True)
class Augmentation:
    """Random changes of images (C, H, W) of u8 or f32, in the order of the members."""

    area: tuple[float, float] = (1.0, 1.0)
    """Share of the image's area of a random rectangle, such as (0.08, 1), which is resized."""
    resize: int | tuple[int, int] = 0
    """Height and width, bilinear; 0: as it is."""
    padding: int = 0
    """Pixels of value 0 around the image."""
    crop: int | tuple[int, int] = 0
    """Height and width, at a random place; 0: no crop."""
    centre: bool = False
    """The crop is at the centre."""
    flip: float = 0.0
    """Probability of exchanging left and right."""
    mean: float | _typing.Sequence[float] = ()
    """(x - mean) / std, one number or one a channel; u8 is divided by 255 before, and the result is f32."""
    std: float | _typing.Sequence[float] = ()
    erase: float = 0.0
    """Probability of setting a rectangle to 0."""

    def evaluation(self) -> Augmentation:
        """The same without chance: the whole image, the crop at the centre, no flip, no erasing."""
        return _dataclasses.replace(self, area=(1.0, 1.0), centre=True, flip=0.0, erase=0.0)

    def __call__(self, image: _heddle.ArrayLike, seed: int = 0, epoch: int = 0, index: int = 0) -> _heddle.NDArray:
        """One image, changed as a loader with that seed changes example `index` in that epoch."""
        return self._made()._apply(image, seed, epoch, index)

    def _made(self) -> _heddle._Augmentation:
        name = "Augmentation"
        area = _arguments.floats_of(name, "area", self.area)
        if len(area) != 2:
            raise _errors.InvalidArgument(f"{name}: area has {len(area)} numbers; want two")
        return _heddle._Augmentation(
            area=(area[0], area[1]),
            resize=_arguments.pair_of(name, "resize", self.resize),
            padding=_arguments.int_of(name, "padding", self.padding),
            crop=_arguments.pair_of(name, "crop", self.crop),
            centre=_arguments.bool_of(name, "centre", self.centre),
            flip=_arguments.float_of(name, "flip", self.flip),
            mean=_arguments.floats_of(name, "mean", self.mean),
            std=_arguments.floats_of(name, "std", self.std),
            erase=_arguments.float_of(name, "erase", self.erase),
        )


_loaders: _weakref.WeakSet[Loader] = _weakref.WeakSet()


def _drop_batches() -> None:
    """At the end of the program: batches that were read ahead are not waited for."""
    for loader in list(_loaders):
        loader._core._drop()


class Loader:
    """The batches of a dataset, as tuples of arrays; reading them is the work of the engine's workers.

    What an epoch gives follows from `seed` and the epoch's number alone, so that `start(epoch, batch)` goes on anywhere.

    batch: examples of a batch, on each rank. shuffle: a new order in each epoch. rank, ranks: this loader gives every
    `ranks`-th example. remainder: "wrap" repeats some examples, so that ranks have equally many, as PyTorch's
    DistributedSampler; "drop" leaves some out. drop_last: no smaller last batch. ahead: batches that are read before they are
    asked for. bucket_by_length: the order is cut into pieces of so many batches, each is sorted by the dataset's length(index).
    pad: sizes that vary are padded with these values, one for each array; the dataset's `arrays` says which sizes
    vary, else the first axis does. Behind its arrays a batch then has the lengths of each such array. pad_multiple: sizes
    are rounded up to a multiple. arrays: which arrays a batch has, in this order, by their numbers among the dataset's and the
    lengths behind them; fit() wants labels last: (0, 2, 1) of (tokens, labels, lengths). (0, 0) gives one array twice, no copy.
    augment: an Augmentation of array augment_array. skip_bad: examples that cannot be read are replaced by the ones behind them,
    and counted in `skipped`.
    """

    def __init__(
        self,
        dataset: _typing.Any,
        batch: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        *,
        rank: int = 0,
        ranks: int = 1,
        remainder: _typing.Literal["wrap", "drop"] = "wrap",
        drop_last: bool = False,
        ahead: int = 4,
        bucket_by_length: int = 0,
        pad: float | _typing.Sequence[float] | None = None,
        pad_multiple: int = 1,
        arrays: _typing.Sequence[int] = (),
        augment: Augmentation | None = None,
        augment_array: int = 0,
        skip_bad: bool = False,
    ) -> None:
        if remainder not in ("wrap", "drop"):
            raise _errors.InvalidArgument(f'Loader: remainder is {remainder!r}; want "wrap" or "drop"')
        if augment is not None and not isinstance(augment, Augmentation):
            raise TypeError(f"Loader: augment is a {type(augment).__name__}; want an Augmentation or None")
        numbers = {
            name: _arguments.int_of("Loader", name, value)
            for name, value in (
                ("batch", batch),
                ("rank", rank),
                ("ranks", ranks),
                ("ahead", ahead),
                ("bucket_by_length", bucket_by_length),
                ("pad_multiple", pad_multiple),
                ("augment_array", augment_array),
            )
        }
        for name in ("rank", "ranks", "ahead", "augment_array"):
            _arguments.int32_of("Loader", name, numbers[name])
        self._core = _heddle._make_loader(
            _data_sets.core_of("Loader", dataset, pad is not None),
            shuffle=_arguments.bool_of("Loader", "shuffle", shuffle),
            seed=_arguments.seed_of("Loader", seed),
            drop_remainder=remainder == "drop",
            drop_last=_arguments.bool_of("Loader", "drop_last", drop_last),
            pad=[] if pad is None else _arguments.floats_of("Loader", "pad", pad),
            arrays=[_arguments.int32_of("Loader", "arrays", value) for value in _arguments.list_of("Loader", "arrays", arrays)],
            augment=augment._made() if augment is not None else None,
            skip_bad=_arguments.bool_of("Loader", "skip_bad", skip_bad),
            **numbers,
        )
        self._waits = any(None in shape for _, shape in self._core._arrays())
        self._started = False
        self._begun = False
        _loaders.add(self)

    def start(self, epoch: int, first: int = 0) -> Loader:
        """The next loop has the batches of this epoch, from number `first` on."""
        self._core._start(_arguments.int_of("start", "epoch", epoch), _arguments.int_of("start", "first", first))
        self._started = self._begun = True
        return self

    def __iter__(self) -> Loader:
        """Begins the epoch behind the last one, unless start() was called since then."""
        if not self._started:
            self._core._start(self._core._epoch() + 1 if self._begun else 0, 0)
        self._begun, self._started = True, False
        return self

    def __next__(self) -> tuple[_heddle.NDArray, ...]:
        self._started = False
        batch = self._core._next(self._waits)
        if not batch:
            raise StopIteration
        return batch

    def __len__(self) -> int:
        """Number of batches of an epoch, the same on all ranks."""
        return self._core._size()

    @property
    def epoch(self) -> int:
        """The epoch that batches come from."""
        return self._core._epoch()

    @property
    def position(self) -> int:
        """Number of the batch that comes next: with `epoch`, where a later run goes on by start()."""
        return self._core._position()

    @property
    def skipped(self) -> int:
        """Examples that could not be read, with skip_bad."""
        return self._core._skipped()

    @property
    def arrays(self) -> _data_sets.Description:
        """dtype and shape of each array of a batch, without axis 0; None: a size that varies."""
        return self._core._arrays()

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Which examples are in a batch."""
        return self._core._indices(_arguments.int_of("indices", "epoch", epoch), _arguments.int_of("indices", "batch", batch))
