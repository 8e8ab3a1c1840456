#include <files.h>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/npy.h>
#include <heddle/safetensors.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("a mapped npy file: values, changes that stay here, and the file that goes") {
  const TemporaryFile file;
  save_npy(file.path, arange(0, 6).view_as({2, 3}));
  const std::string bytes = read_file(file.path);
  NDArray x = map_npy(file.path);
  const NDArray other = map_npy(file.path);
  CHECK(x.shape() == Shape{2, 3});
  x.fill(7);
  CHECK(x.to_vector<float>() == Floats(6, 7));
  CHECK(other.to_vector<float>() == Floats{0, 1, 2, 3, 4, 5});
  CHECK(read_file(file.path) == bytes);
  save_npy(file.path, zeros({2}));  // replaces the file, while the contents of the old file stay mapped
  CHECK(other.to_vector<float>() == Floats{0, 1, 2, 3, 4, 5});
  std::filesystem::remove(file.path);
  CHECK(other.slice(0, {.begin = 1}).to_vector<float>() == Floats{3, 4, 5});
}

TEST_CASE("mapped npy files of all kinds") {
  const TemporaryFile file;
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::bf16) continue;
    save_npy(file.path, arange(0, 4, 1, dtype));
    CHECK(map_npy(file.path).astype(DType::f64).to_vector<double>() ==
          load_npy(file.path).astype(DType::f64).to_vector<double>());
  }
  save_npy(file.path, zeros({0, 3}));
  CHECK(map_npy(file.path).shape() == Shape{0, 3});
  save_npy(file.path, full({}, 3));
  CHECK(map_npy(file.path).item<float>() == 3);
  std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  const Floats values{1, 2, 3, 4, 5, 6};
  bytes += header + std::string(reinterpret_cast<const char*>(values.data()), 24);
  write_file(file.path, bytes);
  CHECK(map_npy(file.path).to_vector<float>() == Floats{1, 3, 5, 2, 4, 6});
  std::string flags("\x93NUMPY\x01\x00\x76\x00", 10);
  header.replace(0, 58, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }  ");
  header.resize(117, ' ');
  write_file(file.path, flags + header + "\n" + std::string("\2\0\1", 3));
  CHECK(map_npy(file.path).astype(DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, 0, 1});
}

TEST_CASE("a mapped npy file that is wrong is refused") {
  const TemporaryFile file;
  const auto message = [&] { return message_of([&] { map_npy(file.path); }); };
  CHECK(message() == "map_npy: file '" + file.path + "' cannot be opened: No such file or directory");
  write_file(file.path, "");
  CHECK(message() == "map_npy: file '" + file.path + "' is cut short");
  write_file(file.path, "some text that is no npy file");
  CHECK(message() == "map_npy: file '" + file.path + "' is no npy file");
  CHECK(message_of([&] { map_npy(file.directory.path.string()); }) ==
        "map_npy: file '" + file.directory.path.string() + "' is not a regular file");
}

TEST_CASE("a mapped safetensors file has the arrays and texts of a loaded one") {
  const TemporaryFile file;
  Safetensors content;
  for (const DType dtype : kAllDTypes)
    content.arrays[std::string("of ") + name_of(dtype)] = arange(0, 5, 1, dtype);
  content.arrays["none"] = zeros({0, 2});
  content.metadata["made by"] = "a test";
  for (const bool checksums : {false, true}) {
    save_safetensors(file.path, content, {.checksums = checksums});
    Safetensors mapped = map_safetensors(file.path);
    CHECK(mapped.metadata == content.metadata);
    REQUIRE(mapped.arrays.size() == content.arrays.size());
    for (const auto& [name, array] : content.arrays) {
      CAPTURE(name);
      CHECK(mapped.arrays.at(name).shape() == array.shape());
      CHECK(mapped.arrays.at(name).dtype() == array.dtype());
      CHECK(mapped.arrays.at(name).astype(DType::f64).to_vector<double>() ==
            array.astype(DType::f64).to_vector<double>());
    }
    const std::string bytes = read_file(file.path);
    mapped.arrays.at("of f32").fill(1);
    mapped.arrays.at("of f32").wait();
    CHECK(read_file(file.path) == bytes);
  }
  CHECK_THROWS_AS(map_safetensors(file.path + ".no"), Error);
}
