// Files that examples come from; heddle/data.py has the classes.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/data.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "data.h"
#include "engine/engines.h"
#include "engine/interruptibly.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Paths = std::vector<std::string>;
using Sides = std::array<std::int64_t, 2>;

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }
nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// Paths come as bytes, as the file system has them.
Paths paths_of(nb::list list) {
  Paths paths;
  for (nb::handle path : list) paths.emplace_back(view_of(nb::cast<nb::bytes>(path)));
  return paths;
}

template <class D, class... Arguments> PythonDataset made(Arguments... arguments) {
  default_engine_is_used();
  return interruptibly([=] { return PythonDataset{std::make_shared<D>(arguments...)}; });
}

void bind_images(nb::module_& m) {
  m.def(
      "_read_image",
      [](const nb::bytes& path, int channels, std::int64_t max_pixels) {
        default_engine_is_used();
        return wrap(interruptibly(
            [file = std::string(view_of(path)), channels, max_pixels, where = python_call_site()] {
              return read_image(file, {.channels = channels, .max_pixels = max_pixels}, where);
            }));
      },
      "path"_a, "channels"_a, "max_pixels"_a,
      nb::sig("def _read_image(path: bytes, channels: int, max_pixels: int) -> NDArray"));
  m.def(
      "_decode_image",
      [](const nb::bytes& file, int channels, std::int64_t max_pixels) {
        default_engine_is_used();
        const std::string_view view = view_of(file);
        const std::span<const char> span(view.data(), view.size());
        NDArray image;
        {
          const ReleaseGil released;
          image = decode_image(std::as_bytes(span), {.channels = channels, .max_pixels = max_pixels},
                               "decode_image");
        }
        return wrap(image);
      },
      "file"_a, "channels"_a, "max_pixels"_a,
      nb::sig("def _decode_image(file: bytes, channels: int, max_pixels: int) -> NDArray"));
  m.def(
      "_image_files",
      [](nb::list paths, std::vector<std::int64_t> labels, int channels, Sides size, std::int64_t most) {
        return made<ImageFiles>(paths_of(paths), labels, ImageOptions{channels, size, most});
      },
      "paths"_a, "labels"_a, "channels"_a, "size"_a, "max_pixels"_a,
      nb::sig("def _image_files(paths: list[bytes], labels: list[int], channels: int, size: tuple[int, int], "
              "max_pixels: int) -> _Dataset"));
  m.def(
      "_image_folder",
      [](const nb::bytes& folder, int channels, Sides size, std::int64_t most) {
        const PythonDataset dataset =
            made<ImageFolder>(std::string(view_of(folder)), ImageOptions{channels, size, most});
        const auto& images = static_cast<const ImageFolder&>(*dataset.dataset);
        nb::list paths;
        for (const std::string& path : images.paths()) paths.append(bytes_of(path));
        nb::list classes;
        for (const std::string& name : images.classes()) classes.append(bytes_of(name));
        return nb::make_tuple(dataset, classes, paths, images.labels());
      },
      "folder"_a, "channels"_a, "size"_a, "max_pixels"_a,
      nb::sig("def _image_folder(folder: bytes, channels: int, size: tuple[int, int], max_pixels: int) -> "
              "tuple[_Dataset, list[bytes], list[bytes], list[int]]"));
}

void bind_tables(nb::module_& m) {
  m.def(
      "_load_idx",
      [](const nb::bytes& path) {
        default_engine_is_used();
        return wrap(interruptibly([file = std::string(view_of(path)), where = python_call_site()] {
          return load_idx(file, where);
        }));
      },
      "path"_a, nb::sig("def _load_idx(path: bytes) -> NDArray"));
  m.def(
      "_csv_dataset",
      [](const nb::bytes& path, const std::string& delimiter, bool header, Paths features,
         const std::string& label, nb::handle feature_dtype, nb::handle label_dtype) {
        default_engine_is_used();
        const CsvDatasetOptions options{delimiter[0],
                                        header,
                                        std::move(features),
                                        label,
                                        to_dtype({"CsvDataset", "feature_dtype"}, feature_dtype),
                                        to_dtype({"CsvDataset", "label_dtype"}, label_dtype)};
        const auto dataset =
            interruptibly([file = std::string(view_of(path)), options, where = python_call_site()] {
              return std::make_shared<CsvDataset>(file, options, where);
            });
        return nb::make_tuple(PythonDataset{dataset}, dataset->features(), dataset->classes());
      },
      "path"_a, "delimiter"_a, "header"_a, "features"_a, "label"_a, "feature_dtype"_a, "label_dtype"_a,
      nb::sig("def _csv_dataset(path: bytes, delimiter: str, header: bool, features: list[str], label: str, "
              "feature_dtype: DTypeLike, label_dtype: DTypeLike) -> tuple[_Dataset, list[str], list[str]]"));
}

void bind_text(nb::module_& m) {
  nb::class_<Vocabulary>(m, "_Vocabulary")
      .def(
          "__init__",
          [](Vocabulary* self, int unit, nb::list tokens, std::int64_t unknown) {
            new (self) Vocabulary(static_cast<Vocabulary::Unit>(unit), paths_of(tokens));
            self->unknown = unknown;
          },
          "unit"_a, "tokens"_a, "unknown"_a,
          nb::sig("def __init__(self, unit: int, tokens: list[bytes], unknown: int) -> None"))
      .def(
          "_encode", [](const Vocabulary& self, const nb::bytes& text) { return self.encode(view_of(text)); },
          "text"_a)
      .def(
          "_decode",
          [](const Vocabulary& self, const std::vector<std::int64_t>& ids) {
            return bytes_of(self.decode(ids));
          },
          "ids"_a)
      .def(
          "_tokens",
          [](const Vocabulary& self) {
            nb::list tokens;
            for (const std::string& token : self.tokens()) tokens.append(bytes_of(token));
            return tokens;
          },
          nb::sig("def _tokens(self) -> list[bytes]"));
  m.def(
      "_vocabulary_of",
      [](int unit, const nb::bytes& text, std::int64_t least, std::int64_t most) {
        const auto kind = static_cast<Vocabulary::Unit>(unit);
        if (kind == Vocabulary::Unit::byte) return Vocabulary::of_bytes();
        const std::string copy(view_of(text));
        return kind == Vocabulary::Unit::character ? Vocabulary::of_characters(copy)
                                                   : Vocabulary::of_words(copy, least, most);
      },
      "unit"_a, "text"_a, "least"_a, "most"_a);
  nb::class_<Tokenizer>(m, "_Tokenizer")
      .def(
          "__init__",
          [](Tokenizer* self, const nb::bytes& path) { new (self) Tokenizer(std::string(view_of(path))); },
          "path"_a)
      .def(
          "_encode", [](const Tokenizer& self, const nb::bytes& text) { return self.encode(view_of(text)); },
          "text"_a)
      .def(
          "_decode",
          [](const Tokenizer& self, const std::vector<std::int64_t>& ids) {
            return bytes_of(self.decode(ids));
          },
          "ids"_a)
      .def("_size", &Tokenizer::size);
  m.def(
      "_train_tokenizer",
      [](const nb::bytes& text, const nb::bytes& prefix, std::int64_t size) {
        interruptibly([from = std::string(view_of(text)), to = std::string(view_of(prefix)), size] {
          Tokenizer::train(from, to, size);
        });
      },
      "text"_a, "prefix"_a, "size"_a);
  m.def(
      "_text_lines",
      [](nb::list paths, const Vocabulary& vocabulary) {
        return made<TextLines>(paths_of(paths), vocabulary);
      },
      "paths"_a, "encoder"_a,
      nb::sig("def _text_lines(paths: list[bytes], encoder: _Vocabulary) -> _Dataset"));
  m.def(
      "_text_lines_of",
      [](nb::list paths, const Tokenizer& tokenizer) {
        return made<TextLines>(
            paths_of(paths), Encoder([tokenizer](std::string_view text) { return tokenizer.encode(text); }));
      },
      "paths"_a, "encoder"_a,
      nb::sig("def _text_lines_of(paths: list[bytes], encoder: _Tokenizer) -> _Dataset"));
  m.def(
      "_sequence_dataset",
      [](nb::handle sequence, std::int64_t length, std::int64_t stride) {
        const Where where = python_call_site();
        const NDArray ids = to_array({"SequenceDataset", "sequence"}, sequence, std::nullopt, where);
        return PythonDataset{std::make_shared<SequenceDataset>(ids, length, stride, where)};
      },
      "sequence"_a, "length"_a, "stride"_a,
      nb::sig("def _sequence_dataset(sequence: ArrayLike, length: int, stride: int) -> _Dataset"));
}

void bind_audio(nb::module_& m) {
  m.def(
      "_read_audio",
      [](const nb::bytes& path, bool mono, std::int64_t rate) {
        default_engine_is_used();
        const Audio audio =
            interruptibly([file = std::string(view_of(path)), mono, rate, where = python_call_site()] {
              return read_audio(file, {.mono = mono, .rate = rate}, where);
            });
        return nb::make_tuple(wrap(audio.samples), audio.rate);
      },
      "path"_a, "mono"_a, "rate"_a,
      nb::sig("def _read_audio(path: bytes, mono: bool, rate: int) -> tuple[NDArray, int]"));
  m.def(
      "_audio_files",
      [](nb::list paths, std::vector<std::int64_t> labels, bool mono, std::int64_t rate) {
        return made<AudioFiles>(paths_of(paths), labels, AudioOptions{.mono = mono, .rate = rate});
      },
      "paths"_a, "labels"_a, "mono"_a, "rate"_a,
      nb::sig("def _audio_files(paths: list[bytes], labels: list[int], mono: bool, rate: int) -> _Dataset"));
}

void bind_records(nb::module_& m) {
  m.def(
      "_record_file", [](const nb::bytes& path) { return made<RecordFile>(std::string(view_of(path))); },
      "path"_a, nb::sig("def _record_file(path: bytes) -> _Dataset"));
  m.def(
      "_image_records",
      [](const nb::bytes& path, int channels, Sides size, std::int64_t most, std::int64_t labels) {
        return made<ImageRecords>(std::string(view_of(path)), ImageOptions{channels, size, most}, labels);
      },
      "path"_a, "channels"_a, "size"_a, "max_pixels"_a, "labels"_a,
      nb::sig("def _image_records(path: bytes, channels: int, size: tuple[int, int], max_pixels: int, "
              "labels: int) -> _Dataset"));
  nb::class_<RecordWriter>(m, "_RecordWriter")
      .def(
          "__init__",
          [](RecordWriter* self, const nb::bytes& path) {
            new (self) RecordWriter(std::string(view_of(path)));
          },
          "path"_a)
      .def(
          "_write", [](RecordWriter& self, const nb::bytes& record) { self.write(view_of(record)); },
          "record"_a)
      .def(
          "_write_image",
          [](RecordWriter& self, const nb::bytes& image, float label, std::uint64_t id) {
            self.write_image(view_of(image), label, id);
          },
          "image"_a, "label"_a, "id"_a)
      .def("_close", &RecordWriter::close);
  nb::class_<InputSplit>(m, "_InputSplit")
      .def(
          "__init__",
          [](InputSplit* self, const std::string& uri, int part, int parts, bool records) {
            new (self)
                InputSplit(uri, part, parts, records ? InputSplit::Kind::records : InputSplit::Kind::text);
          },
          "uri"_a, "part"_a, "parts"_a, "records"_a)
      .def(
          "_next",
          [](InputSplit& self) -> nb::object {
            const std::optional<std::string> record = self.next();
            return record ? nb::object(bytes_of(*record)) : nb::object(nb::none());
          },
          nb::sig("def _next(self) -> bytes | None"))
      .def("_restart", &InputSplit::restart);
}

}  // namespace

void bind_data_files(nb::module_& m) {
  bind_images(m);
  bind_tables(m);
  bind_text(m);
  bind_audio(m);
  bind_records(m);
}

}  // namespace heddle::python
