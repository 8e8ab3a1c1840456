"""What heddle.data reads from files: images, tables, text, sound and records."""

from __future__ import annotations

import os as _os
import typing as _typing

from heddle import _data_arguments as _arguments
from heddle import _errors, _heddle
from heddle._data_sets import Dataset as _Dataset

_MOST_PIXELS = 2**27


def read_image(path: _arguments.Path, channels: int = 3, max_pixels: int = _MOST_PIXELS) -> _heddle.NDArray:
    """A PNG or JPEG file as u8 (C, H, W), grey with 1 channel and RGB with 3. A file that claims more pixels is refused."""
    return _heddle._read_image(_arguments.path_of("read_image", path), _arguments.int_of("read_image", "channels", channels), max_pixels)


def decode_image(file: bytes, channels: int = 3, max_pixels: int = _MOST_PIXELS) -> _heddle.NDArray:
    """A PNG or JPEG file in memory as u8 (C, H, W)."""
    if not isinstance(file, bytes):
        raise TypeError(f"decode_image: file is a {type(file).__name__}; want bytes")
    return _heddle._decode_image(file, _arguments.int_of("decode_image", "channels", channels), max_pixels)


class ImageFiles(_Dataset):
    """Examples (image u8 (C, H, W), label i64 ()) of PNG and JPEG files. size: height and width of all of them; 0: they differ."""

    def __init__(
        self,
        paths: _typing.Sequence[_arguments.Path],
        labels: _typing.Sequence[int],
        channels: int = 3,
        size: int | tuple[int, int] = 0,
        max_pixels: int = _MOST_PIXELS,
    ) -> None:
        name = "ImageFiles"
        self._core = _heddle._image_files(
            _arguments.paths_of(name, paths), _arguments.ints_of(name, "labels", labels), _arguments.int_of(name, "channels", channels), _arguments.pair_of(name, "size", size), max_pixels
        )


class ImageFolder(_Dataset):
    """A folder with a folder of PNG and JPEG files for each class; labels count `classes`, which are in the order of their names."""

    classes: list[str]
    paths: list[str]
    labels: list[int]

    def __init__(self, folder: _arguments.Path, channels: int = 3, size: int | tuple[int, int] = 0, max_pixels: int = _MOST_PIXELS) -> None:
        name = "ImageFolder"
        made = _heddle._image_folder(_arguments.path_of(name, folder), _arguments.int_of(name, "channels", channels), _arguments.pair_of(name, "size", size), max_pixels)
        self._core, classes, paths, self.labels = made
        self.classes = [_os.fsdecode(name) for name in classes]
        self.paths = [_os.fsdecode(path) for path in paths]


def load_idx(path: _arguments.Path) -> _heddle.NDArray:
    """An IDX file, as MNIST has them, plain or compressed by gzip."""
    return _heddle._load_idx(_arguments.path_of("load_idx", path))


class CsvDataset(_Dataset):
    """Rows of a table: examples (features (k), label ()). Columns go by their names; labels that are texts count `classes`."""

    features: list[str]
    classes: list[str]

    def __init__(
        self,
        path: _arguments.Path,
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
            _arguments.path_of("CsvDataset", path),
            delimiter,
            _arguments.bool_of("CsvDataset", "header", header),
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
        if unknown is not None and not 0 <= _arguments.int_of("Vocabulary", "unknown", unknown) < len(encoded):
            raise _errors.InvalidArgument(f"Vocabulary: unknown is {unknown}; want the id of one of {len(encoded)} tokens, or None")
        self._core = _heddle._Vocabulary(_UNITS.index(unit), encoded, -1 if unknown is None else _arguments.int_of("Vocabulary", "unknown", unknown))

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
        return self._core._decode(_arguments.ints_of("decode", "ids", ids)).decode(errors="replace")


class Tokenizer:
    """Subwords by a model of SentencePiece."""

    def __init__(self, path: _arguments.Path) -> None:
        self._core = _heddle._Tokenizer(_arguments.path_of("Tokenizer", path))

    @classmethod
    def train(cls, text_path: _arguments.Path, prefix: _arguments.Path, size: int) -> Tokenizer:
        """Learns up to `size` subwords from a text file, and writes PREFIX.model and PREFIX.vocab."""
        to = _arguments.path_of("train", prefix)
        _heddle._train_tokenizer(_arguments.path_of("train", text_path), to, _arguments.int_of("train", "size", size))
        return cls(to + b".model")

    def __len__(self) -> int:
        return self._core._size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text's subwords."""
        return self._core._encode(text.encode())

    def decode(self, ids: _typing.Sequence[int]) -> str:
        """The text of ids."""
        return self._core._decode(_arguments.ints_of("decode", "ids", ids)).decode(errors="replace")


class TextLines(_Dataset):
    """The lines of text files as ids, i64 (n): examples whose sizes vary. Empty lines are left out."""

    def __init__(self, paths: _typing.Sequence[_arguments.Path], encoder: Vocabulary | Tokenizer) -> None:
        if isinstance(encoder, Vocabulary):
            self._core = _heddle._text_lines(_arguments.paths_of("TextLines", paths), encoder._core)
        elif isinstance(encoder, Tokenizer):
            self._core = _heddle._text_lines_of(_arguments.paths_of("TextLines", paths), encoder._core)
        else:
            raise TypeError(f"TextLines: encoder is a {type(encoder).__name__}; want a Vocabulary or a Tokenizer")


class SequenceDataset(_Dataset):
    """Windows of a sequence, for language models: example i is `length` elements from i * stride on, and those one element later."""

    def __init__(self, sequence: _heddle.ArrayLike, length: int, stride: int = 0) -> None:
        name = "SequenceDataset"
        self._core = _heddle._sequence_dataset(sequence, _arguments.int_of(name, "length", length), _arguments.int_of(name, "stride", stride))


def read_audio(path: _arguments.Path, mono: bool = False, rate: int = 0) -> tuple[_heddle.NDArray, int]:
    """A sound file as f32 (channels, frames), or (frames) with mono, and its rate. rate: the wanted one, else an error."""
    return _heddle._read_audio(_arguments.path_of("read_audio", path), _arguments.bool_of("read_audio", "mono", mono), _arguments.int_of("read_audio", "rate", rate))


class AudioFiles(_Dataset):
    """Examples (samples f32, label i64 ()) of sound files, whose numbers of frames vary."""

    def __init__(self, paths: _typing.Sequence[_arguments.Path], labels: _typing.Sequence[int], mono: bool = False, rate: int = 0) -> None:
        name = "AudioFiles"
        self._core = _heddle._audio_files(
            _arguments.paths_of(name, paths), _arguments.ints_of(name, "labels", labels), _arguments.bool_of(name, "mono", mono), _arguments.int_of(name, "rate", rate)
        )


class RecordFile(_Dataset):
    """The records of a RecordIO file: examples (bytes u8 (n))."""

    def __init__(self, path: _arguments.Path) -> None:
        self._core = _heddle._record_file(_arguments.path_of("RecordFile", path))


class ImageRecords(_Dataset):
    """MXNet's image records in a RecordIO file: examples (image u8 (C, H, W), labels f32 (labels))."""

    def __init__(
        self, path: _arguments.Path, channels: int = 3, size: int | tuple[int, int] = 0, labels: int = 1, max_pixels: int = _MOST_PIXELS
    ) -> None:
        name = "ImageRecords"
        self._core = _heddle._image_records(
            _arguments.path_of(name, path), _arguments.int_of(name, "channels", channels), _arguments.pair_of(name, "size", size), max_pixels, _arguments.int_of(name, "labels", labels)
        )


class RecordWriter:
    """Writes a RecordIO file, record by record; a `with` block closes it. Without close(), errors of a full disk are lost."""

    def __init__(self, path: _arguments.Path) -> None:
        self._core: _heddle._RecordWriter | None = _heddle._RecordWriter(_arguments.path_of("RecordWriter", path))

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

    def __init__(self, uri: _arguments.Path, part: int = 0, parts: int = 1, records: bool = False) -> None:
        numbers = [_arguments.int_of("InputSplit", name, value) for name, value in (("part", part), ("parts", parts))]
        self._core = _heddle._InputSplit(_os.fsdecode(_arguments.path_of("InputSplit", uri)), numbers[0], numbers[1], _arguments.bool_of("InputSplit", "records", records))

    def __iter__(self) -> _typing.Iterator[bytes]:
        self._core._restart()
        while (record := self._core._next()) is not None:
            yield record
