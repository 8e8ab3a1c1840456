// IDX, tables, text, sound and records: what tests write, cut short at every byte.
#include <cmath>
#include <cstring>
#include <limits>
#include <sndfile.h>
#include <sys/stat.h>
#include <zlib.h>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/npy.h>
#include <heddle/ops.h>

#include "files.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string gzipped(const std::string& text) {
  const TemporaryFile file;
  const gzFile to = gzopen(file.path.c_str(), "wb");
  gzwrite(to, text.data(), static_cast<unsigned>(text.size()));
  gzclose(to);
  return read_file(file.path);
}

// Checks that load(path) of each beginning of the file throws an Error with the file's name.
template <class Load> void check_cut(const std::string& file, Load load, std::size_t least = 0) {
  const TemporaryFile cut;
  for (std::size_t bytes = least; bytes < file.size(); ++bytes) {
    write_file(cut.path, file.substr(0, bytes));
    CAPTURE(bytes);
    CHECK(message_of([&] { load(cut.path); }).find("file '" + cut.path + "'") != std::string::npos);
  }
}

void write_wav(const std::string& path, const std::vector<float>& samples, int channels, int format) {
  SF_INFO info{};
  info.samplerate = 8000;
  info.channels = channels;
  info.format = format;
  SNDFILE* const file = sf_open(path.c_str(), SFM_WRITE, &info);
  REQUIRE(file != nullptr);
  sf_writef_float(file, samples.data(), static_cast<sf_count_t>(samples.size()) / channels);
  sf_close(file);
}

}  // namespace

TEST_CASE("IDX files, plain and compressed") {
  const std::string bytes = std::string("\0\0\x08\x02", 4) + big_endian(2) + big_endian(3) + "abcdef";
  const std::string words = std::string("\0\0\x0c\x01", 4) + big_endian(2) + big_endian(7) +
                            big_endian(static_cast<std::uint32_t>(-9));
  const TemporaryFile file;
  for (const bool packed : {false, true}) {
    write_file(file.path, packed ? gzipped(bytes) : bytes);
    const NDArray got = load_idx(file.path);
    CHECK(got.shape() == Shape{2, 3});
    CHECK(got.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
    check_cut(packed ? gzipped(bytes) : bytes, [](const std::string& path) { load_idx(path); });
  }
  write_file(file.path, words);
  CHECK(load_idx(file.path).to_vector<std::int32_t>() == std::vector<std::int32_t>{7, -9});
  const auto message = [&](const std::string& content) {
    write_file(file.path, content);
    return message_of([&] { load_idx(file.path); });
  };
  const std::string title = "load_idx: file '" + file.path + "', byte ";
  CHECK(message(bytes + "g") == title + "18: there is more than the head says");
  CHECK(message(std::string("\0\0\x08\x02", 4) + big_endian(0x7fffffff) + big_endian(0x7fffffff)) ==
        title + "4: the head claims an array (2147483647,), more than the file can hold");
  CHECK(message(gzipped(std::string("\0\0\x08\x01", 4) + big_endian(0x7fffffff))) ==
        title + "4: the head claims an array (2147483647,), more than the file can hold");
  CHECK(message("no idx file at all") == title + "0: no IDX file");
  CHECK(message(std::string("\0\0\x55\x01", 4)) == title + "2: no IDX file: the code of its elements is 85");
}

TEST_CASE("tables: quoted fields, columns by name, labels that are texts") {
  const TemporaryFile file;
  write_file(file.path,
             "\xef\xbb\xbfx, y ,\"the \"\"kind\"\"\",z\r\n1,2.5,b,7\r\n\r\n-3,,\"a,\nb\",8\n+1e1,\"4\",b,9");
  const CsvDataset all(file.path, {.label = "the \"kind\""});
  CHECK(all.features() == std::vector<std::string>{"x", "y", "z"});
  CHECK(all.classes() == std::vector<std::string>{"a,\nb", "b"});
  Loader loader(all, {.batch = 3});
  const auto batch = loader.next();
  const auto values = batch[0].to_vector<float>();
  const std::vector<float> wanted{1, 2.5, 7, -3, std::nanf(""), 8, 10, 4, 9};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK((values[i] == wanted[i] || (i == 4 && std::isnan(values[i]))));
  CHECK(batch[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 1});
  const CsvDataset some(
      file.path, {.features = {"z"}, .label = "x", .feature_dtype = DType::i32, .label_dtype = DType::f64});
  CHECK(some.arrays()[0].dtype == DType::i32);
  CHECK(some.read(1)[1].item<double>() == -3);
  const auto message = [&](const std::string& content, CsvDatasetOptions options) {
    write_file(file.path, content);
    return message_of([&] { CsvDataset(file.path, options); });
  };
  const std::string title = "CsvDataset: file '" + file.path + "', line ";
  CHECK(message("a,b\n1,2\n3\n", {}) == title + "3: 1 fields, where the first row has 2");
  CHECK(message("a,b\n1,two\n", {}) == title + "2: column 'b' is 'two', no f32");
  CHECK(message("a,b\n1,2\n", {.label = "c"}) == title + "1: no column 'c'; there are 'a', 'b'");
  CHECK(message("1,300\n", {.header = false, .feature_dtype = DType::u8}) ==
        title + "1: column '1' is '300', no u8");
  CHECK(message("a,b\n1,\"2\n", {}) == title + "2: a quote is not closed");
  CHECK(message("", {}) == title + "1: there is no row");
  CHECK(message("a\n1\n", {.delimiter = '"'}).find("CsvDataset: delimiter is a quote") == 0);
}

TEST_CASE("labels of tables: numbers, or texts that the dtype has numbers for") {
  const TemporaryFile file;
  const auto message = [&](const std::string& content, DType dtype) {
    write_file(file.path, content);
    return message_of([&] { CsvDataset(file.path, {.label = "k", .label_dtype = dtype}); });
  };
  const std::string title = "CsvDataset: file '" + file.path + "', line ";
  CHECK(message("x,k\n1,10\n2,9\n3,300\n", DType::u8) == title + "4: label 'k' is '300', no u8");
  CHECK(message("x,k\n1,10\n2,\n", DType::i64) == title + "3: label 'k' is '', no i64");
  CHECK(message("x,k\n1,\n2,\n", DType::i64) == title + "2: label 'k' is '', no i64");
  CHECK(message("x,k\n1,1.0\n2,0.0\n", DType::i64) == title + "2: label 'k' is '1.0', no i64");
  CHECK(message("x,k\n1,a\n2,7\n", DType::f32) == title + "2: label 'k' is 'a', no f32");
  CHECK(message("x,k\n1,99999999999999999999\n2,a\n", DType::i64) ==
        title + "2: label 'k' is '99999999999999999999', no i64");
  CHECK(message("x,k\n1,a\n2, \n", DType::i64) == title + "3: label 'k' is ' ', where others are texts");
  CHECK(message("x,k\n1,a\n2,b\n3,c\n", DType::boolean) ==
        title + "2: label 'k' has 3 distinct texts, more than bool has numbers for");
  CHECK(message("x,k\n1,a\n2,b\n", DType::boolean) == "no error");
  std::string many = "x,k\n";
  for (int i = 0; i < 128; ++i) many += "1,c" + std::to_string(i) + "\n";
  CHECK(message(many, DType::i8) == "no error");
  CHECK(message(many + "1,d\n", DType::i8) ==
        title + "2: label 'k' has 129 distinct texts, more than i8 has numbers for");
  CHECK(message("x,k\n1,\n2,7\n", DType::f32) == "no error");
  write_file(file.path, "x,k\r1,a\r\r2,\"b\"\r");
  const CsvDataset old(file.path, {.label = "k"});
  CHECK(old.classes() == std::vector<std::string>{"a", "b"});
  CHECK(old.read(1)[0].to_vector<float>() == std::vector<float>{2});
}

TEST_CASE("mapped npy files are datasets") {
  const TemporaryDirectory folder;
  save_npy(folder.file("x.npy"), arange(12).reshape({4, 3}));
  Loader loader(ArrayDataset({map_npy(folder.file("x.npy"))}), {.batch = 2});
  loader.next();
  CHECK(loader.next()[0].to_vector<float>() == std::vector<float>{6, 7, 8, 9, 10, 11});
}

TEST_CASE("vocabularies of bytes, characters and words") {
  const Vocabulary characters = Vocabulary::of_characters("za\xc3\xa4z\xe2\x82\xac");
  CHECK(characters.tokens() == std::vector<std::string>{"a", "z", "\xc3\xa4", "\xe2\x82\xac"});
  CHECK(characters.encode("\xe2\x82\xac\xc3\xa4z") == std::vector<std::int64_t>{3, 2, 1});
  CHECK(characters.decode({3, 2, 1}) == "\xe2\x82\xac\xc3\xa4z");
  CHECK(message_of([&] { characters.encode("b"); }) ==
        "Vocabulary: encode: 'b' is not among the 4 tokens; unknown names the id for such tokens");
  Vocabulary words = Vocabulary::of_words(" b a\nb  c a b", 2);
  CHECK(words.tokens() == std::vector<std::string>{"b", "a"});
  words.unknown = 2;
  CHECK(message_of([&] { words.encode("a c"); }) == "Vocabulary: unknown is 2; wanted an id below 2, or -1");
  words.unknown = 0;
  CHECK(words.encode("a c  b\t") == std::vector<std::int64_t>{1, 0, 0});
  CHECK(words.decode({1, 0}) == "a b");
  CHECK(Vocabulary::of_bytes().encode("\xff"
                                      "a") == std::vector<std::int64_t>{255, 97});
  CHECK(message_of([&] { words.decode({2}); }) == "Vocabulary: decode: id 2 of 2");
  CHECK(message_of([] {
          Vocabulary(Vocabulary::Unit::word, {"a", "a"});
        }) == "Vocabulary: token 'a' is in the list twice");
}

TEST_CASE("lines of text files, padded") {
  const TemporaryDirectory folder;
  write_file(folder.file("a.txt"), "ab\n\nabcd\r\n\r\n");
  write_file(folder.file("b.txt"), "a");
  write_file(folder.file("empty.txt"), "");
  const TextLines lines({folder.file("a.txt"), folder.file("empty.txt"), folder.file("b.txt")},
                        Vocabulary::of_bytes());
  CHECK(lines.size() == 3);
  CHECK(lines.line(1) == "abcd");
  CHECK(lines.length(1) == 4);
  Loader loader(lines, {.batch = 3, .pad = {-1}});
  const auto batch = loader.next();
  CHECK(batch[0].to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{97, 98, -1, -1, 97, 98, 99, 100, 97, -1, -1, -1});
  CHECK(batch[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 4, 1});
  Loader unknown(TextLines({folder.file("a.txt")}, Vocabulary::of_characters("ab")), {.batch = 2});
  CHECK(message_of([&] { unknown.next(); }) == "Loader: epoch 0, batch 0, example 1: file '" +
                                                   folder.file("a.txt") +
                                                   "', byte 4: Vocabulary: encode: 'c' is not among the 2 "
                                                   "tokens; unknown names the id for such tokens");
}

TEST_CASE("windows of a sequence") {
  const NDArray ids = arange(11, DType::i64);
  for (const std::int64_t stride : {0, 1, 3}) {
    const SequenceDataset windows(ids, 4, stride);
    CHECK(windows.size() == (stride == 0 ? 2 : stride == 1 ? 7 : 3));
    Loader loader(windows, {.batch = 2});
    loader.next();
    Loader plain(Subset(windows, {1}), {.batch = 1});
    const auto batch = plain.next();
    const std::int64_t begin = stride == 0 ? 4 : stride;
    for (std::int64_t i = 0; i < 4; ++i) {
      CHECK(batch[0].to_vector<std::int64_t>()[static_cast<std::size_t>(i)] == begin + i);
      CHECK(batch[1].to_vector<std::int64_t>()[static_cast<std::size_t>(i)] == begin + i + 1);
    }
    CHECK(windows.read(1)[1].to_vector<std::int64_t>() == batch[1].to_vector<std::int64_t>());
  }
  CHECK(message_of([&] { SequenceDataset(ids, 11); }).find("SequenceDataset: length 11 and stride 0") == 0);
}

TEST_CASE("subwords of a model that was learned") {
  const TemporaryDirectory folder;
  std::string text;
  const char* words[] = {"the", "cat",    "sat",     "on",       "mat",     "dog",
                         "log", "number", "weather", "mountain", "reading", "nothing"};
  std::uint32_t random = 1;
  for (int i = 0; i < 300; ++i) {
    for (int word = 0; word < 8; ++word) {
      random = random * 1664525 + 1013904223;
      text += std::string(word > 0 ? " " : "") + words[(random >> 16) % 12];
    }
    text += "\n";
  }
  write_file(folder.file("text"), text);
  Tokenizer::train(folder.file("text"), folder.file("model"), 60);
  const Tokenizer tokenizer(folder.file("model.model"));
  CHECK(tokenizer.size() <= 60);
  CHECK(tokenizer.size() > 15);
  CHECK(tokenizer.decode(tokenizer.encode("the dog sat on the mat")) == "the dog sat on the mat");
  CHECK(tokenizer.encode("the mountain the number").size() < 12);  // half of the characters
  Loader loader(
      TextLines({folder.file("text")}, [&](std::string_view line) { return tokenizer.encode(line); }),
      {.batch = 4});
  CHECK(loader.next()[0].size(0) == 4);
  CHECK(message_of([&] { tokenizer.decode({70}); }).find("Tokenizer: decode: id 70 of ") == 0);
  CHECK(message_of([&] {
          Tokenizer(folder.file("text"));
        }).find("file '" + folder.file("text") + "' is no model") == 0);
  CHECK(message_of([&] {
          Tokenizer::train(folder.file("a,b"), folder.file("m"), 40);
        }).find("Tokenizer: train: text_path '" + folder.file("a,b")) == 0);
  CHECK(message_of([&] { Tokenizer::train(folder.file("none"), folder.file("m"), 40); }) ==
        "file '" + folder.file("none") + "' cannot be opened: No such file or directory");
  CHECK(message_of([&] { Tokenizer(folder.file("none")); }).find("cannot be opened") != std::string::npos);
}

TEST_CASE("sound: channels, mono, formats, and files that are cut short") {
  const TemporaryDirectory folder;
  std::vector<float> samples;
  for (int i = 0; i < 20; ++i) samples.push_back(static_cast<float>(i - 10) / 16);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_FLOAT, SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                           SF_FORMAT_FLAC | SF_FORMAT_PCM_16}) {
    write_wav(folder.file("x"), samples, 2, format);
    const Audio audio = read_audio(folder.file("x"));
    CHECK(audio.rate == 8000);
    CHECK(audio.samples.shape() == Shape{2, 10});
    const auto values = audio.samples.to_vector<float>();
    for (std::size_t i = 0; i < 20; ++i) CHECK(std::abs(values[i % 2 * 10 + i / 2] - samples[i]) < 1e-4);
    const auto mono = read_audio(folder.file("x"), {.mono = true}).samples.to_vector<float>();
    for (std::size_t i = 0; i < 10; ++i)
      CHECK(std::abs(mono[i] - (samples[2 * i] + samples[2 * i + 1]) / 2) < 1e-4);
    if ((format & SF_FORMAT_TYPEMASK) == SF_FORMAT_WAV)
      check_cut(read_file(folder.file("x")), [](const std::string& path) { read_audio(path); });
  }
  CHECK(message_of([&] { read_audio(folder.file("x"), {.rate = 16000}); }) ==
        "read_audio: file '" + folder.file("x") + "' has 8000 frames a second; wanted 16000");
  CHECK(message_of([&] {
          read_audio(folder.file("x"), {.max_samples = 19});
        }).find("claims 10 frames of 2 channels") != std::string::npos);
  write_wav(folder.file("y"), {0.5f, 0.25f}, 1, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  write_wav(folder.file("z"), {0.125f}, 1, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  Loader loader(AudioFiles({folder.file("y"), folder.file("z")}, {3, 4}), {.batch = 2});
  const auto batch = loader.next();
  CHECK(batch[0].shape() == Shape{2, 1, 2});
  CHECK(batch[0].to_vector<float>() == std::vector<float>{0.5f, 0.25f, 0.125f, 0});
  CHECK(batch[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("sound whose chunks claim more than the file has is refused, and pipes are not waited for") {
  const TemporaryDirectory folder;
  std::vector<float> samples(40, 0.5f);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
                           SF_FORMAT_AU | SF_FORMAT_PCM_16}) {
    write_wav(folder.file("x"), samples, 1, format);
    CHECK(read_audio(folder.file("x")).samples.shape() == Shape{1, 40});
    const std::string bytes = read_file(folder.file("x"));
    write_file(folder.file("x"), bytes.substr(0, bytes.size() - 20));
    CHECK(message_of([&] {
            read_audio(folder.file("x"));
          }).find("the file ends here; its head says " + std::to_string(bytes.size())) != std::string::npos);
    if ((format & SF_FORMAT_TYPEMASK) != SF_FORMAT_WAV) continue;
    std::string claims = bytes;  // the chunk of data, but not the whole
    const std::size_t at = claims.find("data");
    REQUIRE(at != std::string::npos);
    claims[at + 5] = '\x7f';
    write_file(folder.file("x"), claims);
    CHECK(message_of([&] { read_audio(folder.file("x")); }).find("the file ends here") != std::string::npos);
  }
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string wanted = "file '" + pipe + "' is not a regular file";
  CHECK(message_of([&] { read_audio(pipe); }) == "read_audio: " + wanted);
  CHECK(message_of([&] { load_idx(pipe); }) == "load_idx: " + wanted);
  CHECK(message_of([&] { Tokenizer::train(pipe, folder.file("m"), 40); }) == wanted);
  CHECK(message_of([&] { InputSplit(pipe, 0, 1, InputSplit::Kind::text); }) ==
        "InputSplit: file '" + pipe + "' is neither a regular file nor a folder");
}

TEST_CASE("damaged records are errors of a split, whose reader stays within them") {
  const TemporaryDirectory folder;
  {
    RecordWriter writer(folder.file("r.rec"));
    for (std::size_t i = 0; i < 20; ++i) writer.write(std::string(i * 3, 'r'));
    writer.close();
    writer.close();
    CHECK(message_of([&] { writer.write("x"); }) == "file '" + folder.file("r.rec") + "' is closed");
  }
  const std::string bytes = read_file(folder.file("r.rec"));
  std::int64_t errors = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char flip : {'\x01', '\x40', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      write_file(folder.file("d.rec"), damaged);
      const std::string message = message_of([&] {
        InputSplit split(folder.file("d.rec"), 0, 1, InputSplit::Kind::records);
        while (const auto record = split.next()) CHECK(record->size() < bytes.size());
      });
      if (message == "no error") continue;
      ++errors;
      CHECK(message.find("InputSplit: '" + folder.file("d.rec") + "'") == 0);
      CHECK(message.find("Stack trace") == std::string::npos);
    }
  }
  CHECK(errors > 100);
  write_file(folder.file("d.rec"), bytes.substr(0, 7));
  CHECK(message_of([&] {
          InputSplit(folder.file("d.rec"), 0, 1, InputSplit::Kind::records);
        }).ends_with("file do not align by 4 bytes"));
}

TEST_CASE("a full disk is an error of the writer's close") {
  const auto fills = [](std::size_t bytes) {
    RecordWriter writer("/dev/full");
    const std::string written = message_of([&] { writer.write(std::string(bytes, 'x')); });
    return written + ", " + message_of([&] { writer.close(); });
  };
  const std::string full = "file '/dev/full' cannot be written: No space left on device";
  CHECK(fills(10) == "no error, " + full);
  CHECK(fills(100'000).find(full + ", file '/dev/full'") == 0);
  CHECK(message_of([] { RecordWriter("/none/x.rec"); }) ==
        "file '/none/x.rec' cannot be opened: No such file or directory");
}

TEST_CASE("names of splits are files, not patterns or options") {
  const TemporaryDirectory folder;
  write_file(folder.file("abc"), "one\n");
  write_file(folder.file("a?b"), "two\n");
  const auto message = [&](const std::string& uri) {
    return message_of([&] { InputSplit(uri, 0, 1, InputSplit::Kind::text); });
  };
  CHECK(message(folder.file("a.c")) ==
        "InputSplit: file '" + folder.file("a.c") + "' cannot be opened: No such file or directory");
  CHECK(message(folder.file("abc") + ";" + folder.file("none")).find("none' cannot be opened") !=
        std::string::npos);
  CHECK(message(folder.file("a?b")).find("names with '#' or '?' are not supported") != std::string::npos);
  CHECK(message(folder.file("abc") + "#cache").find("names with '#'") != std::string::npos);
  CHECK(message(folder.file("abc") + std::string(1, '\0')).find("zero byte") != std::string::npos);
  CHECK(message("").find("a file's name is empty") != std::string::npos);
  CHECK(InputSplit(folder.file("abc"), 0, 1, InputSplit::Kind::text).next() == "one");
  RecordWriter(folder.file("w#x")).write("r");
  CHECK(RecordFile(folder.file("w#x")).size() == 1);
}

TEST_CASE("records, also those with the magic number in them, and parts of files") {
  const TemporaryDirectory folder;
  std::string with_magic = "abcd";
  const std::uint32_t magic = 0xced7230a;
  with_magic.append(reinterpret_cast<const char*>(&magic), 4).append("efgh!");
  const std::vector<std::string> records{"first", with_magic, "", std::string(1000, 'x')};
  {
    RecordWriter writer(folder.file("r.rec"));
    for (const std::string& record : records) writer.write(record);
  }
  const RecordFile file(folder.file("r.rec"));
  REQUIRE(file.size() == 4);
  for (std::size_t i = 0; i < records.size(); ++i)
    CHECK(file.record(static_cast<std::int64_t>(i)) == records[i]);
  Loader loader(file, {.batch = 4});
  CHECK(loader.next()[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 13, 0, 1000});
  const std::string bytes = read_file(folder.file("r.rec"));
  const TemporaryFile cut;
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    write_file(cut.path, bytes.substr(0, size));
    CAPTURE(size);
    const std::string message = message_of([&] { CHECK(RecordFile(cut.path).size() < 4); });
    if (message != "no error") CHECK(message.find("file '" + cut.path + "', byte ") == 0);
  }
  for (std::size_t at = 0; at < 60; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ '\x81');
    write_file(cut.path, damaged);
    message_of([&] {
      const RecordFile broken(cut.path);
      for (std::int64_t i = 0; i < broken.size(); ++i) broken.record(i);
    });
  }
  std::vector<std::string> parts;
  for (int part = 0; part < 3; ++part) {
    InputSplit split(folder.file("r.rec"), part, 3, InputSplit::Kind::records);
    for (auto record = split.next(); record; record = split.next()) parts.push_back(*record);
  }
  CHECK(parts == records);
  write_file(folder.file("lines"), "one\ntwo\nthree\n");
  InputSplit lines(folder.file("lines"), 0, 1, InputSplit::Kind::text);
  for (int round = 0; round < 2; ++round) {
    CHECK(lines.next() == "one");
    CHECK(lines.next() == "two");
    CHECK(lines.next() == "three");
    CHECK(!lines.next());
    lines.restart();
  }
  CHECK(message_of([&] { RecordFile(folder.file("none")); }).find("cannot be opened") != std::string::npos);
}
