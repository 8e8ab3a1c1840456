#include <algorithm>
#include <arguments.h>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <files.h>
#include <filesystem>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/random.h>
#include <heddle/safetensors.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string with_header(const std::string& header, std::size_t data_bytes) {
  std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string problem_with(const std::string& path) {
  return message_of([&] { load_safetensors(path); });
}

Safetensors sample() {
  return {.arrays = {{"weight", array<float>({1.5f, -2, 3, 4, 5, 6}, {2, 3})},
                     {"steps", array<std::int64_t>({-7})},
                     {"precise", array<double>({1e300})},
                     {"labels", array<std::uint8_t>({0, 255, 3})},
                     {"mask", array<bool>({true, false})},
                     {"half", array<Float16>({Float16(-1.5), Float16(65504)})},
                     {"brain", array<BFloat16>({BFloat16(0.5), BFloat16(-1)}, {2, 1})},
                     {"byte", array<std::int8_t>({-128, 127, 0})},
                     {"small", array<std::int32_t>({-1, 2}, {2, 1})},
                     {"scalar", full(Shape{}, 2.5)},
                     {"empty", zeros({0, 4})}},
          .metadata = {{"made by", "a test"}, {"umlaut", "\xc3\xa4"}}};
}

// Which bits of byte i of the file the test flips, one after the other.
std::vector<int> bits_of(std::size_t i) {
  if (kSanitized) return {static_cast<int>(i % 8)};
  return {0, 1, 2, 3, 4, 5, 6, 7};
}

}  // namespace

TEST_CASE("what is saved is loaded: every dtype, scalars, empty arrays, metadata") {
  TemporaryFile file;
  Safetensors saved = sample();
  save_safetensors(file.path, saved);
  Safetensors loaded = load_safetensors(file.path, cpu(1));
  CHECK(loaded.metadata == saved.metadata);
  REQUIRE(loaded.arrays.size() == saved.arrays.size());
  for (const auto& [name, array] : saved.arrays) {
    CAPTURE(name);
    const NDArray& other = loaded.arrays.at(name);
    CHECK(other.device() == cpu(1));
    CHECK(other.shape() == array.shape());
    REQUIRE(other.dtype() == array.dtype());
    visit_dtype(array.dtype(), [&]<class T>() { CHECK(other.to_vector<T>() == array.to_vector<T>()); });
  }
}

TEST_CASE("views are saved as they look, and the same content gives the same bytes") {
  TemporaryFile file;
  NDArray base = arange(0, 12).view_as({3, 4});
  Safetensors content{.arrays = {{"t", base.permuted({1, 0})}, {"row", base[1]}}, .metadata = {}};
  save_safetensors(file.path, content);
  std::string first = read_file(file.path);
  save_safetensors(file.path, content);
  CHECK(read_file(file.path) == first);
  Safetensors loaded = load_safetensors(file.path);
  CHECK(loaded.arrays.at("t").to_vector<float>() == base.permuted({1, 0}).to_vector<float>());
  CHECK(loaded.arrays.at("row").to_vector<float>() == std::vector<float>{4, 5, 6, 7});
}

TEST_CASE("what is saved while another thread writes was there between two ops") {
  TemporaryFile file;
  // One op rewrites a and b with the same number. If a save mixes two states, the saved arrays differ from
  // each other or within themselves.
  NDArray a = zeros({std::int64_t{1} << 20}), b = zeros({std::int64_t{1} << 20});
  std::atomic<bool> stop{false};
  std::thread writer([a, b, &stop] {
    for (int i = 1; !stop; ++i) {
      array_push("rewrite", {}, {a, b}, [a, b, i] {
        std::fill_n(a.data<float>(), a.size(), static_cast<float>(i));
        std::fill_n(b.data<float>(), b.size(), static_cast<float>(i));
      });
      a.wait();
    }
  });
  for (int round = 0; round < 10; ++round) {
    save_safetensors(file.path, {.arrays = {{"a", a}, {"b", b}}, .metadata = {}});
    const Safetensors loaded = load_safetensors(file.path);
    const auto first = loaded.arrays.at("a").to_vector<float>(),
               second = loaded.arrays.at("b").to_vector<float>();
    CHECK(std::count(first.begin(), first.end(), first[0]) == a.size());
    CHECK(second == first);
  }
  stop = true;
  writer.join();
}

TEST_CASE("nothing is left behind by a save that fails, nothing but the file by one that does not") {
  TemporaryFile file;
  NDArray bad = zeros({2});
  bad.engine().push([] { throw std::domain_error("no value"); }, {.mutate = {bad.var()}});
  save_safetensors(file.path, sample());
  std::string before = read_file(file.path);
  CHECK_THROWS_AS(save_safetensors(file.path, {.arrays = {{"bad", bad}}, .metadata = {}}), std::domain_error);
  CHECK(read_file(file.path) == before);
  std::filesystem::directory_iterator entries(file.directory.path);
  CHECK(std::distance(begin(entries), end(entries)) == 1);
  std::string nowhere = file.directory.file("none/x");
  CHECK_THROWS_AS(save_safetensors(nowhere, sample()), Error);
  CHECK_THROWS_AS(save_safetensors(file.path, {.arrays = {{"x", NDArray()}}, .metadata = {}}), Error);
  CHECK_THROWS_AS(save_safetensors(file.path, {.arrays = {{"__metadata__", ones({1})}}, .metadata = {}}),
                  Error);
  CHECK_THROWS_AS(save_safetensors(file.path, {.arrays = {}, .metadata = {{"x", "\xff"}}}), Error);
}

TEST_CASE("broken files are refused with their name and the reason") {
  TemporaryFile file;
  struct Case {
    std::string bytes, reason;
  };
  auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  const std::string huge(8, '\xff');
  const std::vector<Case> cases{
      {"", "first 8 bytes"},
      {std::string(7, '\0'), "first 8 bytes"},
      {huge, "limit"},
      {with_header("{}", 0).substr(0, 9), "ends within its header"},
      {with_header("", 0), "does not begin with '{'"},
      {with_header("[]", 0), "does not begin with '{'"},
      {with_header("{", 0), "no JSON"},
      {with_header("{}", 1), "the file has 1"},
      {with_header("{\"x\":1}", 0), "no JSON object"},
      {with_header("{\"__metadata__\":{\"a\":1}}", 0), "is no string"},
      {with_header("{\"__metadata__\":[]}", 0), "no JSON object"},
      {with_header("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "has no data_offsets"},
      {with_header(entry("\"F8_E5M2\"", "[1]", "[0,1]"), 1),
       "dtype F8_E5M2; known are F32, F64, I32, I64, U8, BOOL, F16, BF16, I8"},
      {with_header(entry("7", "[1]", "[0,2]"), 2), "dtype 7"},
      {with_header(entry("\"F32\"", "1", "[0,4]"), 4), "its shape"},
      {with_header(entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "its shape"},
      {with_header(entry("\"F32\"", "[-1]", "[0,4]"), 4), "-1 is no natural number"},
      {with_header(entry("\"F32\"", "[1.0]", "[0,4]"), 4), "1.0 is no natural number"},
      {with_header(entry("\"F32\"", "[18446744073709551615]", "[0,4]"), 4), "too large"},
      {with_header(entry("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0), "overflows"},
      {with_header(entry("\"F32\"", "[0,4611686018427387904,4611686018427387904]", "[0,4]"), 4), "offsets"},
      {with_header(entry("\"F32\"", "[1]", "[0,4,8]"), 4), "no pair"},
      {with_header(entry("\"F32\"", "[1]", "[4,0]"), 4), "offsets are [4, 0)"},
      {with_header(entry("\"F32\"", "[2]", "[0,4]"), 4), "takes 8 bytes"},
      {with_header(entry("\"F32\"", "[1]", "[4,8]"), 8), "hole"},
      {with_header(entry("\"F32\"", "[1]", "[0,4]"), 8), "the file has 8"},
      {with_header(entry("\"F32\"", "[2]", "[0,8]"), 4), "the file has 4"},
      {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                   3),
       "overlaps"},
      {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                   1),
       "appears twice"},
      {with_header(std::string(100'000, '['), 0), "does not begin"},
      {with_header("{\"x\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0),
       "no JSON object"},
  };
  for (const Case& broken : cases) {
    write_file(file.path, broken.bytes);
    std::string problem = problem_with(file.path);
    CAPTURE(broken.bytes.substr(0, 120));
    CAPTURE(problem);
    CHECK(problem.find(file.path) != std::string::npos);
    CHECK(problem.find(broken.reason) != std::string::npos);
  }
  write_file(file.path, with_header(entry("\"BOOL\"", "[1]", "[0,1]"), 0) + "\x02");
  CHECK(problem_with(file.path).find("a bool above 1") != std::string::npos);
  CHECK(problem_with(file.path + ".none").find("cannot be opened") != std::string::npos);
  CHECK(problem_with(file.directory.path.string()) != "no error");
}

TEST_CASE("a file of very many arrays is loaded in time that grows as they do") {
  const TemporaryFile file;
  // With this many arrays, loading in quadratic time would take half an hour.
  constexpr int kArrays = test::kSanitized ? 30'000 : 200'000;
  std::string header = "{\"__metadata__\":{\"by\":\"a test\"}";
  for (int i = 0; i < kArrays; ++i) {
    const std::string offset = std::to_string(i), end = std::to_string(i + 1);
    header += ",\"layer." + offset + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + offset + "," +
              end + "]}";
  }
  write_file(file.path, with_header(header + "}", kArrays));
  CHECK(load_safetensors_metadata(file.path).at("by") == "a test");
  const Safetensors mapped = map_safetensors(file.path);
  CHECK(mapped.arrays.size() == kArrays);
  CHECK(mapped.arrays.at("layer.777").shape() == Shape{1});
}

TEST_CASE("values that the format does not have are passed over, however deep") {
  const TemporaryFile file;
  const std::string deep = std::string(1000, '[') + "1" + std::string(1000, ']');
  write_file(file.path, with_header("{\"x\":{\"more\":{\"a\":[{\"b\":{\"dtype\":1}}, 2],\"c\":" + deep +
                                        "},\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                                    2));
  CHECK(load_safetensors(file.path).arrays.at("x").shape() == Shape{2});
}

TEST_CASE("every truncation and every flipped bit is refused or read, never worse") {
  TemporaryFile file;
  save_safetensors(file.path, sample());
  const std::string good = read_file(file.path);
  int refused = 0;
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_file(file.path, good.substr(0, length));
    refused += problem_with(file.path) != "no error";
  }
  CHECK(refused == static_cast<int>(good.size()));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit : bits_of(i)) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      write_file(file.path, flipped);
      std::string problem = problem_with(file.path);
      bool tells = problem == "no error" || problem.find(file.path) != std::string::npos;
      if (!tells) FAIL_CHECK(problem);
    }
  }
}

TEST_CASE("a file with checksums is loaded as it was saved, and is the same file each time") {
  TemporaryFile file;
  const Safetensors saved = sample();
  save_safetensors(file.path, saved, {.checksums = true});
  const std::string bytes = read_file(file.path);
  save_safetensors(file.path, saved, {.checksums = true});
  CHECK(read_file(file.path) == bytes);
  const Safetensors loaded = load_safetensors(file.path);
  CHECK(loaded.metadata == saved.metadata);
  CHECK(load_safetensors_metadata(file.path) == saved.metadata);
  CHECK(loaded.arrays.at("weight").to_vector<float>() == saved.arrays.at("weight").to_vector<float>());
  // The checksums are zlib's crc32 of the arrays' 8, 24 and 3 bytes.
  CHECK(bytes.find("\"heddle.crc32:steps\":\"e72bd69b\"") != std::string::npos);
  CHECK(bytes.find("\"heddle.crc32:weight\":\"69fb0d0b\"") != std::string::npos);
  CHECK(bytes.find("\"heddle.crc32:labels\":\"f56c75da\"") != std::string::npos);
  CHECK_THROWS_WITH_AS(save_safetensors(file.path, {.arrays = {}, .metadata = {{"heddle.crc32", "0"}}}),
                       doctest::Contains("heddle.crc32"), Error);
  save_safetensors(file.path, {.arrays = {{"none", array<float>({}, {0})}}, .metadata = {}},
                   {.checksums = true});
  CHECK(read_file(file.path).find("\"heddle.crc32:none\":\"00000000\"") != std::string::npos);
  CHECK(load_safetensors(file.path).arrays.at("none").shape() == Shape{0});
  save_safetensors(file.path, {}, {.checksums = true});
  CHECK(load_safetensors(file.path).arrays.empty());
}

TEST_CASE("with checksums every flipped bit is found, and the damaged array is named") {
  TemporaryFile file;
  const Safetensors content{.arrays = {{"first", array<float>({1, 2})}, {"second", array<bool>({true})}},
                            .metadata = {{"epoch", "3"}}};
  save_safetensors(file.path, content, {.checksums = true});
  const std::string good = read_file(file.path);
  std::uint64_t header = 0;
  good.copy(reinterpret_cast<char*>(&header), sizeof header);
  const std::size_t first = sizeof header + header, second = first + 8;
  REQUIRE(good.size() == second + 1);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit : bits_of(i)) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      write_file(file.path, flipped);
      const std::string problem = problem_with(file.path);
      CAPTURE(i);
      CAPTURE(problem);
      CHECK(problem.find(file.path) != std::string::npos);
      if (i < first) continue;
      CHECK(problem.find(i < second ? "array 'first' has the CRC-32" : "array 'second' has the CRC-32") !=
            std::string::npos);
    }
  }
}

TEST_CASE("Python reads what is written, and what Python writes is read") {
  if (std::system("python3 -c 1 >/dev/null 2>&1") != 0) {
    MESSAGE("there is no python3 to check against");
    return;
  }
  TemporaryFile file;
  save_safetensors(file.path, sample());
  std::string script = file.directory.file("check.py"), back = file.directory.file("back");
  write_file(script, R"(
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
length, = struct.unpack('<Q', data[:8])
header = json.loads(data[8:8 + length])
body = data[8 + length:]
assert length % 8 == 0 and header.pop('__metadata__') == {'made by': 'a test', 'umlaut': '\u00e4'}
codes = {'F32': 'f', 'F64': 'd', 'I32': 'i', 'I64': 'q', 'U8': 'B', 'BOOL': '?', 'F16': 'e', 'BF16': 'H', 'I8': 'b'}
def values(name):
    begin, end = header[name]['data_offsets']
    code = codes[header[name]['dtype']]
    assert begin % struct.calcsize(code) == 0, name
    return list(struct.unpack('<%d%s' % ((end - begin) // struct.calcsize(code), code), body[begin:end]))
expected = {'weight': ([2, 3], [1.5, -2, 3, 4, 5, 6]), 'steps': ([1], [-7]), 'precise': ([1], [1e300]),
            'labels': ([3], [0, 255, 3]), 'mask': ([2], [True, False]), 'small': ([2, 1], [-1, 2]),
            'scalar': ([], [2.5]), 'empty': ([0, 4], []), 'half': ([2], [-1.5, 65504]),
            'brain': ([2, 1], [0x3f00, 0xbf80]), 'byte': ([3], [-128, 127, 0])}
assert set(header) == set(expected)
for name, (shape, content) in expected.items():
    assert header[name]['shape'] == shape and values(name) == content, name
head = json.dumps({'b': {'dtype': 'I32', 'shape': [2], 'data_offsets': [8, 16]},
                   'a': {'dtype': 'F32', 'shape': [1, 2], 'data_offsets': [0, 8]},
                   '__metadata__': {'who': 'python'}}, indent=1).encode()
open(sys.argv[2], 'wb').write(struct.pack('<Q', len(head)) + head + struct.pack('<2f2i', 0.5, -1, 3, -4))
)");
  REQUIRE(std::system(("python3 " + script + " " + file.path + " " + back).c_str()) == 0);
  Safetensors loaded = load_safetensors(back);
  CHECK(loaded.metadata.at("who") == "python");
  CHECK(loaded.arrays.at("a").shape() == Shape{1, 2});
  CHECK(loaded.arrays.at("a").to_vector<float>() == std::vector<float>{0.5f, -1});
  CHECK(loaded.arrays.at("b").to_vector<std::int32_t>() == std::vector<std::int32_t>{3, -4});
}
