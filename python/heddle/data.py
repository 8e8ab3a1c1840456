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
import os as _os
import typing as _typing
import weakref as _weakref

from heddle import _errors, _heddle

__all__ = [
    "ArrayDataset",
    "AudioFiles",
    "Augmentation",
    "ConcatDataset",
    "CsvDataset",
    "Dataset",
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

Path = str | bytes | _os.PathLike[str]
Arrays = tuple[_heddle.NDArray, ...]
Description = list[tuple[_heddle.DType, tuple[int | None, ...]]]


def _int(function: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want an int")
    result = int(_typing.cast(_typing.SupportsIndex, value).__index__())
    if not -(2**63) <= result < 2**63:
        raise _errors.InvalidArgument(f"{function}: {name} is {result}; want 64 bits")
    return result


def _seed(function: str, value: object) -> int:
    if isinstance(value, int) and 2**63 <= value < 2**64:
        return int(value)
    return _int(function, "seed", value) % 2**64


def _bool(function: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want a bool")
    return value


def _floats(function: str, name: str, values: object) -> list[float]:
    if isinstance(values, (int, float)) and not isinstance(values, bool):
        return [float(values)]
    try:
        return [float(value) for value in _typing.cast(_typing.Iterable[float], values)]
    except (TypeError, ValueError):
        raise TypeError(f"{function}: {name} is a {type(values).__name__}; want a number or a list of numbers") from None


def _float(function: str, name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want a number")
    return float(value)


def _pair(function: str, name: str, value: object) -> tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return _int(function, name, value[0]), _int(function, name, value[1])
    side = _int(function, name, value)
    return side, side


def _path(function: str, path: object) -> bytes:
    if not isinstance(path, (str, bytes, _os.PathLike)):
        raise TypeError(f"{function}: path is a {type(path).__name__}; want a str or a Path")
    return _os.fsencode(path)


def _paths(function: str, paths: object) -> list[bytes]:
    if isinstance(paths, (str, bytes, _os.PathLike)):
        raise TypeError(f"{function}: paths is one path; want a list of paths")
    return [_path(function, path) for path in _typing.cast(_typing.Iterable[object], paths)]


def _ints(function: str, name: str, values: _typing.Iterable[_typing.Any]) -> list[int]:
    return [_int(function, name, value) for value in values]


class Dataset:
    """Examples by their number. Classes of one's own may derive from it, or from nothing: `__len__` and `__getitem__` count.

    A class may have `arrays`, a list of (dtype, shape) in which None is a size that varies, and `length(index)`, for
    batches of similar lengths.
    """

    _core: _heddle._Dataset | None = None

    def __len__(self) -> int:
        return self._made()._size()

    def __getitem__(self, index: int) -> _typing.Any:
        """Example `index` as a tuple of arrays. Waits."""
        size = self._made()._size()
        at = _int("Dataset", "index", index)
        if not -size <= at < size:
            raise IndexError(f"example {at} of {size}")
        return self._made()._read(at % size)

    def _made(self) -> _heddle._Dataset:
        if self._core is None:
            raise TypeError(f"{type(self).__name__} needs __len__ and __getitem__, or super().__init__()")
        return self._core


def _core_of(function: str, dataset: _typing.Any, varying: bool = False) -> _heddle._Dataset:
    arrays, length = getattr(dataset, "arrays", None), getattr(dataset, "length", None)
    if isinstance(dataset, Dataset) and dataset._core is not None and type(dataset).__getitem__ is Dataset.__getitem__:
        if type(dataset).__len__ is Dataset.__len__ and arrays is None and length is None:
            return dataset._core
        arrays = dataset._core._arrays() if arrays is None else arrays
        length = dataset._core._length if length is None else length
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{function}: dataset is a {type(dataset).__name__}; want an object with __len__ and __getitem__")
    size = len(dataset)
    if size == 0:
        raise _errors.InvalidArgument(f"{function}: the dataset has no examples")
    return _heddle._object_dataset(dataset, size, arrays, varying, length)


def arrays_of(dataset: _typing.Any) -> Description:
    """dtype and shape of each array of a dataset's examples; None: a size that varies."""
    return _core_of("arrays_of", dataset)._arrays()


class ArrayDataset(Dataset):
    """Arrays, heddle's or NumPy's: example i is element i along axis 0 of each. Batches are gathered straight into their memory."""

    def __init__(self, *arrays: _heddle.ArrayLike) -> None:
        self._core = _heddle._array_dataset(list(arrays))


class Subset(Dataset):
    """The examples `indices` of a dataset, in that order."""

    def __init__(self, dataset: _typing.Any, indices: _typing.Sequence[int]) -> None:
        core = _core_of("Subset", dataset)
        self._core = _heddle._subset(core, _ints("Subset", "indices", indices))


class ConcatDataset(Dataset):
    """The examples of several datasets, one after the other."""

    def __init__(self, datasets: _typing.Sequence[_typing.Any]) -> None:
        self._core = _heddle._concat_dataset([_core_of("ConcatDataset", dataset) for dataset in datasets])


class MapDataset(Dataset):
    """fn(*arrays) of each example, an array or a tuple of arrays. It runs on the engine's workers, one at a time.

    Without `arrays`, a list of (dtype, shape), the first example says what fn returns.
    """

    def __init__(self, dataset: _typing.Any, fn: _typing.Callable[..., _typing.Any], arrays: _typing.Any = None) -> None:
        if not callable(fn):
            raise TypeError(f"MapDataset: fn is a {type(fn).__name__}; want a function of an example's arrays")
        self._core = _heddle._map_dataset(_core_of("MapDataset", dataset), fn, arrays)


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
        area = _floats(name, "area", self.area)
        if len(area) != 2:
            raise _errors.InvalidArgument(f"{name}: area has {len(area)} numbers; want two")
        return _heddle._Augmentation(
            area=(area[0], area[1]),
            resize=_pair(name, "resize", self.resize),
            padding=_int(name, "padding", self.padding),
            crop=_pair(name, "crop", self.crop),
            centre=_bool(name, "centre", self.centre),
            flip=_float(name, "flip", self.flip),
            mean=_floats(name, "mean", self.mean),
            std=_floats(name, "std", self.std),
            erase=_float(name, "erase", self.erase),
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
    are rounded up to a multiple. augment: an Augmentation of array augment_array. skip_bad: examples that cannot be
    read are replaced by the ones behind them, and counted in `skipped`.
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
        augment: Augmentation | None = None,
        augment_array: int = 0,
        skip_bad: bool = False,
    ) -> None:
        if remainder not in ("wrap", "drop"):
            raise _errors.InvalidArgument(f'Loader: remainder is {remainder!r}; want "wrap" or "drop"')
        if augment is not None and not isinstance(augment, Augmentation):
            raise TypeError(f"Loader: augment is a {type(augment).__name__}; want an Augmentation or None")
        numbers = {
            name: _int("Loader", name, value)
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
            if not -(2**31) <= numbers[name] < 2**31:
                raise _errors.InvalidArgument(f"Loader: {name} is {numbers[name]}; want 32 bits")
        self._core = _heddle._make_loader(
            _core_of("Loader", dataset, pad is not None),
            shuffle=_bool("Loader", "shuffle", shuffle),
            seed=_seed("Loader", seed),
            drop_remainder=remainder == "drop",
            drop_last=_bool("Loader", "drop_last", drop_last),
            pad=[] if pad is None else _floats("Loader", "pad", pad),
            augment=augment._made() if augment is not None else None,
            skip_bad=_bool("Loader", "skip_bad", skip_bad),
            **numbers,
        )
        self._waits = any(None in shape for _, shape in self._core._arrays())
        self._started = False
        self._begun = False
        _loaders.add(self)

    def start(self, epoch: int, first: int = 0) -> Loader:
        """The next loop has the batches of this epoch, from number `first` on."""
        self._core._start(_int("start", "epoch", epoch), _int("start", "first", first))
        self._started = self._begun = True
        return self

    def __iter__(self) -> Loader:
        """Begins the epoch behind the last one, unless start() was called since then."""
        if not self._started:
            self._core._start(self._core._epoch() + 1 if self._begun else 0, 0)
        self._begun, self._started = True, False
        return self

    def __next__(self) -> Arrays:
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
    def arrays(self) -> Description:
        """dtype and shape of each array of a batch, without axis 0; None: a size that varies."""
        return self._core._arrays()

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Which examples are in a batch."""
        return self._core._indices(_int("indices", "epoch", epoch), _int("indices", "batch", batch))


_MOST_PIXELS = 2**27


def read_image(path: Path, channels: int = 3, max_pixels: int = _MOST_PIXELS) -> _heddle.NDArray:
    """A PNG or JPEG file as u8 (C, H, W), grey with 1 channel and RGB with 3. A file that claims more pixels is refused."""
    return _heddle._read_image(_path("read_image", path), _int("read_image", "channels", channels), max_pixels)


def decode_image(file: bytes, channels: int = 3, max_pixels: int = _MOST_PIXELS) -> _heddle.NDArray:
    """A PNG or JPEG file in memory as u8 (C, H, W)."""
    if not isinstance(file, bytes):
        raise TypeError(f"decode_image: file is a {type(file).__name__}; want bytes")
    return _heddle._decode_image(file, _int("decode_image", "channels", channels), max_pixels)


class ImageFiles(Dataset):
    """Examples (image u8 (C, H, W), label i64 ()) of PNG and JPEG files. size: height and width of all of them; 0: they differ."""

    def __init__(
        self,
        paths: _typing.Sequence[Path],
        labels: _typing.Sequence[int],
        channels: int = 3,
        size: int | tuple[int, int] = 0,
        max_pixels: int = _MOST_PIXELS,
    ) -> None:
        name = "ImageFiles"
        self._core = _heddle._image_files(
            _paths(name, paths), _ints(name, "labels", labels), _int(name, "channels", channels), _pair(name, "size", size), max_pixels
        )


class ImageFolder(Dataset):
    """A folder with a folder of PNG and JPEG files for each class; labels count `classes`, which are in the order of their names."""

    classes: list[str]
    paths: list[str]
    labels: list[int]

    def __init__(self, folder: Path, channels: int = 3, size: int | tuple[int, int] = 0, max_pixels: int = _MOST_PIXELS) -> None:
        name = "ImageFolder"
        made = _heddle._image_folder(_path(name, folder), _int(name, "channels", channels), _pair(name, "size", size), max_pixels)
        self._core, classes, paths, self.labels = made
        self.classes = [_os.fsdecode(name) for name in classes]
        self.paths = [_os.fsdecode(path) for path in paths]


def load_idx(path: Path) -> _heddle.NDArray:
    """An IDX file, as MNIST has them, plain or compressed by gzip."""
    return _heddle._load_idx(_path("load_idx", path))


class CsvDataset(Dataset):
    """Rows of a table: examples (features (k), label ()). Columns go by their names; labels that are texts count `classes`."""

    features: list[str]
    classes: list[str]

    def __init__(
        self,
        path: Path,
        label: str | None = None,
        features: _typing.Sequence[str] = (),
        *,
        delimiter: str = ",",
        header: bool = True,
        feature_dtype: _heddle.DTypeLike = "f32",
        label_dtype: _heddle.DTypeLike = "i64",
    ) -> None:
        if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
            raise _errors.InvalidArgument(f"CsvDataset: delimiter is {delimiter!r}; want one character of ASCII")
        self._core, self.features, self.classes = _heddle._csv_dataset(
            _path("CsvDataset", path),
            delimiter,
            _bool("CsvDataset", "header", header),
            [str(name) for name in features],
            "" if label is None else str(label),
            feature_dtype,
            label_dtype,
        )


_UNITS = ("byte", "character", "word")


class Vocabulary:
    """Tokens by their ids: bytes, characters or words."""

    def __init__(self, unit: str, tokens: _typing.Sequence[str | bytes], unknown: int | None = None) -> None:
        """unknown: the id of tokens that are not in the list; None: they are an error."""
        if unit not in _UNITS:
            raise _errors.InvalidArgument(f"Vocabulary: unit is {unit!r}; want one of {_UNITS}")
        self.unit = unit
        encoded = [token if isinstance(token, bytes) else str(token).encode() for token in tokens]
        if unknown is not None and not 0 <= _int("Vocabulary", "unknown", unknown) < len(encoded):
            raise _errors.InvalidArgument(f"Vocabulary: unknown is {unknown}; want the id of one of {len(encoded)} tokens, or None")
        self._core = _heddle._Vocabulary(_UNITS.index(unit), encoded, -1 if unknown is None else _int("Vocabulary", "unknown", unknown))

    @classmethod
    def of_bytes(cls) -> Vocabulary:
        """256 ids."""
        return cls._of("byte", "")

    @classmethod
    def of_characters(cls, text: str) -> Vocabulary:
        """The characters of a text, in the order of their code points."""
        return cls._of("character", text)

    @classmethod
    def of_words(cls, text: str, least: int = 1, most: int | None = None, unknown: int | None = None) -> Vocabulary:
        """Words between spaces that occur at least `least` times, the most frequent first, `most` at most."""
        tokens = cls._of("word", text, least, most).tokens
        return cls("word", tokens, unknown)

    @classmethod
    def _of(cls, unit: str, text: str, least: int = 1, most: int | None = None) -> Vocabulary:
        core = _heddle._vocabulary_of(_UNITS.index(unit), text.encode(), least, 2**62 if most is None else most)
        return cls(unit, core._tokens())

    @property
    def tokens(self) -> list[_typing.Any]:
        """str, or bytes where the unit is a byte."""
        tokens = self._core._tokens()
        return tokens if self.unit == "byte" else [token.decode() for token in tokens]

    def __len__(self) -> int:
        return len(self._core._tokens())

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens."""
        return self._core._encode(text.encode())

    def decode(self, ids: _typing.Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self._core._decode(_ints("decode", "ids", ids)).decode(errors="replace")


class Tokenizer:
    """Subwords by a model of SentencePiece."""

    def __init__(self, path: Path) -> None:
        self._core = _heddle._Tokenizer(_path("Tokenizer", path))

    @classmethod
    def train(cls, text_path: Path, prefix: Path, size: int) -> Tokenizer:
        """Learns up to `size` subwords from a text file, and writes PREFIX.model and PREFIX.vocab."""
        to = _path("train", prefix)
        _heddle._train_tokenizer(_path("train", text_path), to, _int("train", "size", size))
        return cls(to + b".model")

    def __len__(self) -> int:
        return self._core._size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text's subwords."""
        return self._core._encode(text.encode())

    def decode(self, ids: _typing.Sequence[int]) -> str:
        """The text of ids."""
        return self._core._decode(_ints("decode", "ids", ids)).decode(errors="replace")


class TextLines(Dataset):
    """The lines of text files as ids, i64 (n): examples whose sizes vary. Empty lines are left out."""

    def __init__(self, paths: _typing.Sequence[Path], encoder: Vocabulary | Tokenizer) -> None:
        if isinstance(encoder, Vocabulary):
            self._core = _heddle._text_lines(_paths("TextLines", paths), encoder._core)
        elif isinstance(encoder, Tokenizer):
            self._core = _heddle._text_lines_of(_paths("TextLines", paths), encoder._core)
        else:
            raise TypeError(f"TextLines: encoder is a {type(encoder).__name__}; want a Vocabulary or a Tokenizer")


class SequenceDataset(Dataset):
    """Windows of a sequence, for language models: example i is `length` elements from i * stride on, and those one element later."""

    def __init__(self, sequence: _heddle.ArrayLike, length: int, stride: int = 0) -> None:
        name = "SequenceDataset"
        self._core = _heddle._sequence_dataset(sequence, _int(name, "length", length), _int(name, "stride", stride))


def read_audio(path: Path, mono: bool = False, rate: int = 0) -> tuple[_heddle.NDArray, int]:
    """A sound file as f32 (channels, frames), or (frames) with mono, and its rate. rate: the wanted one, else an error."""
    return _heddle._read_audio(_path("read_audio", path), _bool("read_audio", "mono", mono), _int("read_audio", "rate", rate))


class AudioFiles(Dataset):
    """Examples (samples f32, label i64 ()) of sound files, whose numbers of frames vary."""

    def __init__(self, paths: _typing.Sequence[Path], labels: _typing.Sequence[int], mono: bool = False, rate: int = 0) -> None:
        name = "AudioFiles"
        self._core = _heddle._audio_files(
            _paths(name, paths), _ints(name, "labels", labels), _bool(name, "mono", mono), _int(name, "rate", rate)
        )


class RecordFile(Dataset):
    """The records of a RecordIO file: examples (bytes u8 (n))."""

    def __init__(self, path: Path) -> None:
        self._core = _heddle._record_file(_path("RecordFile", path))


class ImageRecords(Dataset):
    """MXNet's image records in a RecordIO file: examples (image u8 (C, H, W), labels f32 (labels))."""

    def __init__(
        self, path: Path, channels: int = 3, size: int | tuple[int, int] = 0, labels: int = 1, max_pixels: int = _MOST_PIXELS
    ) -> None:
        name = "ImageRecords"
        self._core = _heddle._image_records(
            _path(name, path), _int(name, "channels", channels), _pair(name, "size", size), max_pixels, _int(name, "labels", labels)
        )


class RecordWriter:
    """Writes a RecordIO file, record by record; a `with` block closes it. Without close(), errors of a full disk are lost."""

    def __init__(self, path: Path) -> None:
        self._core: _heddle._RecordWriter | None = _heddle._RecordWriter(_path("RecordWriter", path))

    def write(self, record: bytes) -> None:
        """Below 512 MiB."""
        self._open()._write(record)

    def write_image(self, image: bytes, label: float, id: int = 0) -> None:
        """An image file's bytes with a label, as MXNet's im2rec writes them."""
        self._open()._write_image(image, label, id)

    def _open(self) -> _heddle._RecordWriter:
        if self._core is None:
            raise ValueError("the file is closed")
        return self._core

    def close(self) -> None:
        """Raises Error if not all could be written."""
        core, self._core = self._core, None
        if core is not None:
            core._close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


class InputSplit:
    """Part `part` of `parts` of large files, cut at lines or records: an iterator of bytes. `uri` is a path; ";" between several."""

    def __init__(self, uri: Path, part: int = 0, parts: int = 1, records: bool = False) -> None:
        numbers = [_int("InputSplit", name, value) for name, value in (("part", part), ("parts", parts))]
        self._core = _heddle._InputSplit(_os.fsdecode(_path("InputSplit", uri)), numbers[0], numbers[1], _bool("InputSplit", "records", records))

    def __iter__(self) -> _typing.Iterator[bytes]:
        self._core._restart()
        while (record := self._core._next()) is not None:
            yield record
