#include <cstdint>
#include <files.h>
#include <filesystem>
#include <functional>
#include <iterator>
#include <message_of.h>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/csv.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/safetensors.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string problem_with(const std::string& path) {
  return message_of([&] { load_npy(path); });
}

std::string file_of(const std::string& header, std::size_t data_bytes, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + std::string(data_bytes, '\1');
}

std::string dictionary(const std::string& descr, const std::string& fortran, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

TEST_CASE("errors of files name the function that was called, and the line of the call") {
  const std::string missing = "/nowhere/at/all";
  const NDArray x = zeros({2});
  const std::pair<const char*, std::function<void(Where)>> calls[] = {
      {"load_npy", [&](Where where) { load_npy(missing, cpu(), where); }},
      {"map_npy", [&](Where where) { map_npy(missing, where); }},
      {"save_npy", [&](Where where) { save_npy(missing, x, where); }},
      {"load_npz", [&](Where where) { load_npz(missing, cpu(), where); }},
      {"save_npz",
       [&](Where where) {
         save_npz(missing, {{"x", x}}, {}, where);
       }},
      {"load_csv", [&](Where where) { load_csv(missing, {}, cpu(), where); }},
      {"save_csv", [&](Where where) { save_csv(missing, x, {}, where); }},
      {"load_safetensors", [&](Where where) { load_safetensors(missing, cpu(), where); }},
      {"map_safetensors", [&](Where where) { map_safetensors(missing, where); }},
      {"load_safetensors_metadata", [&](Where where) { load_safetensors_metadata(missing, where); }},
      {"save_safetensors",
       [&](Where where) {
         save_safetensors(missing, {.arrays = {{"x", x}}, .metadata = {}}, {}, where);
       }},
  };
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    const Where where = Where::current();
    std::string text;
    try {
      call(where);
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text.starts_with(name + std::string(": ")));
    CHECK(text.find(missing) != std::string::npos);
    CHECK(
        text.ends_with("; called at " + std::string(where.file_name()) + ":" + std::to_string(where.line())));
  }
  const std::string zero = message_of([] { load_npy(std::string("a\0b", 3)); });
  CHECK(zero.starts_with("load_npy: the path 'a' goes on"));
}

}  // namespace

TEST_CASE("what is saved is loaded") {
  const TemporaryFile file;
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::bf16) continue;  // .npy has no bf16
    for (const Shape& shape :
         {Shape{}, Shape{5}, Shape{2, 3}, Shape{0}, Shape{3, 0, 2}, Dims::filled(8, 2)}) {
      const NDArray a = arange(0, static_cast<double>(element_count(shape)), 1, dtype).view_as(shape);
      save_npy(file.path, a);
      const NDArray b = load_npy(file.path, cpu(1));
      CHECK(b.dtype() == dtype);
      CHECK(b.shape() == shape);
      CHECK(b.device() == cpu(1));
      CHECK(b.astype(DType::f64).to_vector<double>() == a.astype(DType::f64).to_vector<double>());
      CHECK((read_file(file.path).size() - a.storage()->bytes()) % 64 == 0);
    }
  }
}

TEST_CASE("views are saved as what they show") {
  const TemporaryFile file;
  const NDArray a = arange(0, 6).view_as({2, 3}).permuted({1, 0}).slice(0, {.step = -1});
  save_npy(file.path, a);
  CHECK(load_npy(file.path).to_vector<float>() == std::vector<float>{2, 5, 1, 4, 0, 3});
}

TEST_CASE("Fortran order is converted, versions 1 to 3 are read") {
  const TemporaryFile file;
  for (char version : {'\1', '\2', '\3'}) {
    std::string bytes = file_of(dictionary("|u1", "True", "(2, 3)"), 0, version);
    write_file(file.path, bytes + std::string("\1\2\3\4\5\6", 6));
    CHECK(load_npy(file.path).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 3, 5, 2, 4, 6});
  }
}

TEST_CASE("headers of Python 2, and bytes with an order of their own, are read") {
  const TemporaryFile file;
  for (const char* shape : {"(3L,)", "(3L, 1L)", "(1, 3L)"}) {
    write_file(file.path, file_of(dictionary("<f4", "False", shape), 0) + std::string(12, '\0'));
    CHECK(load_npy(file.path).to_vector<float>() == std::vector<float>{0, 0, 0});
  }
  for (const char* order : {"|", "<", ">", "="}) {
    for (const char* code : {"u1", "i1", "b1"}) {
      write_file(file.path, file_of(dictionary(order + std::string(code), "False", "(2,)"), 2));
      CHECK(load_npy(file.path).astype(DType::i64).to_vector<std::int64_t>() ==
            std::vector<std::int64_t>{1, 1});
    }
  }
  write_file(file.path, file_of(dictionary("=i2", "False", "(1,)"), 2));
  CHECK(load_npy(file.path).to_vector<std::int16_t>() == std::vector<std::int16_t>{0x0101});
  for (const char* code : {">f4", "|f4", "", "u1", "<u1x"}) {
    write_file(file.path, file_of(dictionary(code, "False", "(1,)"), 4));
    CHECK(problem_with(file.path).find("elements of type '" + std::string(code) + "'") != std::string::npos);
  }
}

TEST_CASE("a bool in a file is true when its byte is not 0") {
  const TemporaryFile file;
  write_file(file.path, file_of(dictionary("|b1", "False", "(3,)"), 0) + std::string("\0\1\xff", 3));
  CHECK(load_npy(file.path).to_vector<bool>() == std::vector<bool>{false, true, true});
}

TEST_CASE("bad files are named with what is wrong") {
  const TemporaryFile file;
  const auto problem = [&](const std::string& bytes) {
    write_file(file.path, bytes);
    return problem_with(file.path);
  };
  const std::string good = dictionary("<f4", "False", "(2,)");
  CHECK(problem(file_of(good, 8)) == "no error");
  CHECK(problem(file_of(good, 7)).find("7 bytes of data") != std::string::npos);
  CHECK(problem(file_of(good, 12)).find("12 bytes of data") != std::string::npos);
  CHECK(problem(file_of(good, 8, 4)).find("version 4.0") != std::string::npos);
  CHECK(problem(file_of(dictionary(">f4", "False", "(2,)"), 8)).find(">f4") != std::string::npos);
  CHECK(problem(file_of(dictionary("<f4", "Maybe", "(2,)"), 8)).find("header") != std::string::npos);
  CHECK(problem(file_of(dictionary("<f4", "False", "(2)"), 8)).find("header") != std::string::npos);
  const std::string records =
      "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (2,), }\n";
  CHECK(problem(file_of(records, 16)) ==
        "load_npy: file '" + file.path + "' has a structured dtype, which is not supported");
  CHECK(problem(file_of(dictionary("<f4", "False", "(-2,)"), 8)).find("header") != std::string::npos);
  CHECK(problem(file_of(dictionary("<f4", "False", "(4611686018427387904, 4611686018427387904)"), 8)) !=
        "no error");
  CHECK(problem(file_of(dictionary("<f4", "False", "(99999999999999999999,)"), 8)) != "no error");
  CHECK(problem(file_of(dictionary("<f4", "False", "(4611686018427387904,)"), 0)) != "no error");
  CHECK(problem(file_of(dictionary("<f4", "False", "(1,1,1,1,1,1,1,1,1)"), 4)) != "no error");
  CHECK(problem(file_of("{'descr': '<f4', 'shape': (2,)}", 8)).find("missing") != std::string::npos);
  CHECK(problem(file_of("{'shape': (2,), 'shape': (2,)}", 8)).find("twice") != std::string::npos);
  CHECK(problem(file_of("{'color': (2,)}", 8)).find("color") != std::string::npos);
  CHECK(problem(file_of(good + "x", 8)).find("behind") != std::string::npos);
  CHECK(problem("PK\3\4 something else").find("no npy file") != std::string::npos);
  CHECK(problem("").find("cut short") != std::string::npos);
  CHECK(problem_with(file.path).find(file.path) != std::string::npos);
  std::string huge = file_of(good, 8, 2);
  huge[11] = '\x7f';
  CHECK(problem(huge).find("more than allowed") != std::string::npos);
}

TEST_CASE("no truncation and no changed byte does worse than throw Error") {
  const TemporaryFile file;
  save_npy(file.path, arange(0, 6, 1, DType::i32).view_as({2, 3}));
  const std::string whole = read_file(file.path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write_file(file.path, whole.substr(0, n));
    CHECK(problem_with(file.path) != "no error");
  }
  int loaded = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (unsigned flip : {0x01u, 0x08u, 0x20u, 0x80u, 0xffu}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ flip);
      write_file(file.path, bytes);
      try {
        load_npy(file.path).wait();
        ++loaded;
      } catch (const Error&) {
      }
    }
  }
  CHECK(loaded >= 24 * 5);  // files with a flip in one of the 24 data bytes are loaded, with a wrong value
}

TEST_CASE("saving says what went wrong and leaves the old file") {
  const TemporaryFile file;
  CHECK_THROWS_AS(save_npy(file.path + "/no/such/place.npy", zeros({1})), Error);
  CHECK_THROWS_AS(load_npy(file.path), Error);
  CHECK_THROWS_AS(load_npy(file.directory.path.string()), Error);
  CHECK_THROWS_AS(save_npy(file.path, NDArray()), InvalidArgument);
  save_npy(file.path, full({1}, 3));
  const NDArray broken({1});
  array_push("broken", {}, {broken}, [] { throw std::domain_error("as told"); });
  CHECK_THROWS_AS(save_npy(file.path, broken), std::domain_error);
  CHECK(load_npy(file.path).item<float>() == 3);
  CHECK(std::distance(std::filesystem::directory_iterator(file.directory.path), {}) == 1);
}
