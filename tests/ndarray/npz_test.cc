#include <cstdint>
#include <files.h>
#include <filesystem>
#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/npz.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::map<std::string, NDArray>;

// Runs Python with NumPy; false if NumPy is not installed.
bool python(const std::string& program) {
  const std::string found = "/usr/bin/python3 -c 'import numpy' 2> /dev/null";
  if (std::system(found.c_str()) != 0) return false;
  const std::string command = "/usr/bin/python3 -c \"" + program + "\"";
  REQUIRE(std::system(command.c_str()) == 0);
  return true;
}

Arrays samples() {
  Arrays arrays;
  for (const DType dtype : kAllDTypes) {
    if (dtype != DType::bf16) arrays[name_of(dtype)] = arange(0, 6, 1, dtype).view_as({2, 3});
  }
  arrays["empty"] = zeros({0, 4});
  arrays["scalar"] = full({}, 2.5);
  arrays["a/b c"] = arange(0, 1000);
  return arrays;
}

void check_equal(const NDArray& a, const NDArray& b) {
  CHECK(a.dtype() == b.dtype());
  CHECK(a.shape() == b.shape());
  CHECK(a.astype(DType::f64).to_vector<double>() == b.astype(DType::f64).to_vector<double>());
}

}  // namespace

TEST_CASE("what is saved in an npz file is loaded, stored and deflated") {
  const TemporaryFile file;
  for (const bool compressed : {false, true}) {
    const Arrays arrays = samples();
    save_npz(file.path, arrays, {.compressed = compressed});
    const std::string bytes = read_file(file.path);
    const Arrays loaded = load_npz(file.path, cpu(1));
    REQUIRE(loaded.size() == arrays.size());
    for (const auto& [name, array] : arrays) {
      CAPTURE(name);
      check_equal(loaded.at(name), array);
      CHECK(loaded.at(name).device() == cpu(1));
    }
    save_npz(file.path, arrays, {.compressed = compressed});
    CHECK(read_file(file.path) == bytes);
  }
}

TEST_CASE("no arrays make an npz file without entries") {
  const TemporaryFile file;
  save_npz(file.path, {{"x", ones({2})}});
  for (const bool compressed : {false, true}) {
    save_npz(file.path, {}, {.compressed = compressed});
    CHECK(read_file(file.path) == "PK\5\6" + std::string(18, '\0'));
    CHECK(load_npz(file.path).empty());
  }
  CHECK_THROWS_AS(save_npz(file.directory.file("no/such/x.npz"), {}), Error);
}

TEST_CASE("deflating makes an npz file of zeros small") {
  const TemporaryFile file;
  save_npz(file.path, {{"zeros", zeros({1000, 100})}}, {.compressed = true});
  CHECK(read_file(file.path).size() < 4000);
  save_npz(file.path, {{"zeros", zeros({1000, 100})}});
  CHECK(read_file(file.path).size() > 400000);
}

TEST_CASE("views are saved in an npz file as what they show, after ops that were pushed before") {
  const TemporaryFile file;
  NDArray x = arange(0, 6).view_as({2, 3});
  const NDArray view = x.permuted({1, 0}).slice(0, {.step = -1});
  array_push("late", {}, {x}, [at = x.detach()] { at.data<float>()[5] = 50; });
  save_npz(file.path, {{"view", view}, {"x", x}});
  const Arrays loaded = load_npz(file.path);
  CHECK(loaded.at("view").to_vector<float>() == std::vector<float>{2, 50, 1, 4, 0, 3});
  CHECK(loaded.at("x").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 50});
}

TEST_CASE("NumPy loads what we save, and we what it saves") {
  const TemporaryDirectory directory;
  const std::string ours = directory.file("ours.npz"), theirs = directory.file("theirs.npz");
  for (const bool compressed : {false, true}) {
    save_npz(ours, samples(), {.compressed = compressed});
    const std::string save = compressed ? "savez_compressed" : "savez";
    const std::string program = "import numpy as np\nx = dict(np.load('" + ours + "'))\nx['fortran'] = " +
                                "np.asfortranarray(np.arange(6.).reshape(2, 3))\nnp." + save + "('" + theirs +
                                "', **x)";
    if (!python(program)) return;
    Arrays expected = samples();
    expected["fortran"] = arange(0, 6, 1, DType::f64).view_as({2, 3});
    const Arrays loaded = load_npz(theirs);
    REQUIRE(loaded.size() == expected.size());
    for (const auto& [name, array] : expected) {
      CAPTURE(name);
      check_equal(loaded.at(name), array);
    }
  }
}

TEST_CASE("an npz file that is no such file, or damaged, is refused by name") {
  const TemporaryFile file;
  const auto message = [&] { return message_of([&] { load_npz(file.path); }); };
  CHECK(message() == "load_npz: npz file '" + file.path + "': cannot be opened: No such file");
  write_file(file.path, "text");
  CHECK(message() == "load_npz: npz file '" + file.path + "': cannot be opened: Not a zip archive");
  save_npz(file.path, {{"x", arange(0, 1000)}});
  std::string bytes = read_file(file.path);
  bytes[1500] = static_cast<char>(bytes[1500] ^ 1);
  write_file(file.path, bytes);
  CHECK(message() == "load_npz: npz file '" + file.path + "': 'x.npy' is damaged: CRC error");
  write_file(file.path, bytes.substr(0, bytes.size() / 2));
  CHECK(message().starts_with("load_npz: npz file '" + file.path + "': cannot be opened: "));
}

TEST_CASE("random changes of an npz file are refused or give arrays, whatever they are") {
  const TemporaryFile file;
  save_npz(file.path, {{"x", arange(0, 50)}, {"y", zeros({3}, DType::boolean)}}, {.compressed = true});
  const std::string bytes = read_file(file.path);
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string changed = bytes;
    for (std::uint64_t i = 0; i <= random(3); ++i)
      changed[random(changed.size())] = static_cast<char>(random(256));
    write_file(file.path, changed);
    try {
      for (const auto& [name, array] : load_npz(file.path)) array.wait();
    } catch (const std::exception&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("what cannot be saved in an npz file leaves the old one") {
  const TemporaryFile file;
  save_npz(file.path, {{"x", ones({2})}});
  const std::string bytes = read_file(file.path);
  CHECK(message_of([&] {
          save_npz(file.path, {{"b", zeros({2}, DType::bf16)}});
        }) == "save_npz: 'b': npz files have no bf16; save_safetensors() keeps it, or cast to f32");
  CHECK_THROWS_AS(save_npz(file.path, {{std::string("a\0b", 3), ones({2})}}), InvalidArgument);
  CHECK_THROWS_AS(save_npz(file.path, {{std::string(65532, 'x'), ones({2})}}), InvalidArgument);
  NDArray bad = ones({2});
  array_push("fails", {}, {bad}, [] { throw std::runtime_error("no value"); });
  CHECK_THROWS(save_npz(file.path, {{"x", ones({3})}, {"bad", bad}}));
  CHECK(read_file(file.path) == bytes);
  CHECK_THROWS_AS(save_npz(file.directory.file("no/such/x.npz"), {{"x", ones({2})}}), Error);
}
