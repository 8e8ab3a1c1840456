// Copies, conversions, fills and ranges on GPUs have the values of the CPU.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>
#include <heddle/npy.h>
#include <heddle/safetensors.h>

#include "problems.h"

using namespace heddle;

namespace {

// The bytes of the elements in row-major order.
std::vector<std::byte> bytes_of(const NDArray& x) {
  const NDArray values = x.copy_to(cpu());
  values.wait();
  const auto* begin = values.data<const std::byte>();
  return {begin, begin + static_cast<std::size_t>(values.size()) * size_of(values.dtype())};
}

// Random numbers, among them infinities, NaN and the ends of ranges, in every dtype.
NDArray random_array(std::mt19937_64& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    const std::uint64_t what = random() % 16;
    const double number = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    values.push_back(what == 0   ? INFINITY
                     : what == 1 ? -INFINITY
                     : what == 2 ? NAN
                     : what == 3 ? number * 1e300
                     : what == 4 ? number * 1e-40
                     : what == 5 ? number * 0x1p64
                                 : number * 300);
  }
  return array(values, shape).astype(dtype);
}

TEST_CASE("arrays go to a GPU and back") {
  for (const std::int64_t size : {0, 1, 31, 32, 33, 1023, 1024, 1025, 70000}) {
    const NDArray x = arange(size);
    const NDArray there = x.copy_to(gpu(0));
    CHECK(there.device() == gpu(0));
    CHECK(there.to_vector<float>() == x.to_vector<float>());
    CHECK(there.copy().to_vector<float>() == x.to_vector<float>());
  }
  CHECK(array(std::vector<float>{1, 2}, {2}, gpu(0)).to_string() == "[1. 2.]");
  CHECK(array(std::vector<float>{7}, {}, gpu(0)).item<float>() == 7);
  CHECK(problems() == "");
}

TEST_CASE("views with strides, reversed, transposed and broadcast, are copied on the GPU") {
  const NDArray x = arange(2 * 3 * 40 * 5, DType::i32).view({2, 3, 40, 5});
  const NDArray there = x.copy_to(gpu(0));
  const auto views = [](const NDArray& of) {
    return std::vector{of.slice(2, {.step = -3}), of.permuted({3, 1, 0, 2}), of[1],
                       of.slice(3, {.begin = 1, .end = 2}).broadcast_view({2, 3, 40, 7}),
                       of.slice(1, {.begin = 3})};
  };
  const auto here = views(x), on_gpu = views(there);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(bytes_of(on_gpu[i]) == bytes_of(here[i]));
    CHECK(bytes_of(on_gpu[i].copy()) == bytes_of(here[i]));
    CHECK(bytes_of(here[i].copy_to(gpu(0))) == bytes_of(here[i]));
  }
  x.slice(2, {.step = 2}).assign(x.slice(2, {.begin = 1, .step = 2}));
  there.slice(2, {.step = 2}).assign(there.slice(2, {.begin = 1, .step = 2}));
  there[0].permuted({1, 0, 2}).assign(x[1].permuted({1, 0, 2}));  // from the CPU
  x[0].permuted({1, 0, 2}).assign(x[1].permuted({1, 0, 2}));
  CHECK(bytes_of(there) == bytes_of(x));
  CHECK(problems() == "");
}

TEST_CASE("transposes of all sizes are copied on the GPU, from any element on") {
  std::mt19937_64 random(9);
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{7, 40},
                               {8, 8},
                               {32, 32},
                               {33, 65},
                               {1, 31, 100},
                               {3, 40, 9},
                               {2, 10, 3, 33},
                               {9, 2, 5, 12}}) {
      CAPTURE(name_of(dtype));
      CAPTURE(shape.to_string());
      const std::int64_t offset = static_cast<std::int64_t>(random() % 4), count = element_count(shape);
      const NDArray all = random_array(random, {offset + count}, dtype), other = all.copy_to(gpu(0));
      std::vector<int> order(static_cast<std::size_t>(shape.size()));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      Dims axes;
      for (const int axis : order) axes.push_back(axis);
      const auto turned = [&](const NDArray& x, bool reversed) {
        const NDArray image = x.slice(0, {.begin = offset}).view(shape).permuted(axes);
        return reversed ? image.slice(-1, {.step = -1}).slice(0, {.step = -1}) : image;
      };
      for (const bool reversed : {false, true}) {
        const NDArray here = turned(all, reversed), there = turned(other, reversed);
        CHECK(bytes_of(there.copy()) == bytes_of(here));
        const NDArray to = zeros({offset + count}, dtype), to_there = zeros({offset + count}, dtype, gpu(0));
        const NDArray plain = all.slice(0, {.begin = offset}).view(shape).permuted(axes).copy();
        turned(to, reversed).assign(plain);
        turned(to_there, reversed).assign(plain.copy_to(gpu(0)));
        CHECK(bytes_of(to_there) == bytes_of(to));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("every dtype converts to every other one as on the CPU") {
  std::mt19937_64 random(5);
  for (const DType from : kAllDTypes) {
    const NDArray x = random_array(random, {401}, from);
    const NDArray there = x.copy_to(gpu(0));
    for (const DType to : kAllDTypes) {
      CAPTURE(name_of(from));
      CAPTURE(name_of(to));
      CHECK(bytes_of(there.astype(to)) == bytes_of(x.astype(to)));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("fills and ranges have the values of the CPU") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    for (const std::int64_t size : {0, 1, 33, 1025}) {
      CHECK(bytes_of(full({size}, 300.7, dtype, gpu(0))) == bytes_of(full({size}, 300.7, dtype)));
      CHECK(bytes_of(ones({size}, dtype, gpu(0))) == bytes_of(ones({size}, dtype)));
    }
    const Scalar huge = std::uint64_t{1} << 63;
    if (dtype == DType::u64)
      CHECK(bytes_of(full({3}, huge, dtype, gpu(0))) == bytes_of(full({3}, huge, dtype)));
    CHECK(bytes_of(arange(5, 105, 3, dtype, gpu(0))) == bytes_of(arange(5, 105, 3, dtype)));
    CHECK(bytes_of(arange(-2.5, 7, 0.1, dtype, gpu(0))) == bytes_of(arange(-2.5, 7, 0.1, dtype)));
    CHECK(bytes_of(arange(300, -300, -1, dtype, gpu(0))) == bytes_of(arange(300, -300, -1, dtype)));
    CHECK(bytes_of(eye(5, dtype, gpu(0))) == bytes_of(eye(5, dtype)));
  }
  const NDArray x = zeros({4, 6}, DType::f32, gpu(0));
  x.slice(1, {.begin = 1, .step = 2}).fill(3);
  CHECK(x.to_vector<float>()[7] == 3);
  CHECK(x.to_vector<float>()[8] == 0);
  CHECK(problems() == "");
}

TEST_CASE("arrays go from one GPU to another one") {
  if (gpu_count() < 2) return;
  const NDArray x = arange(1000, DType::i64, gpu(0));
  const NDArray y = x.copy_to(gpu(1));
  CHECK(y.device() == gpu(1));
  CHECK(bytes_of(y) == bytes_of(arange(1000, DType::i64)));
  const NDArray z = zeros({1000}, DType::f32, gpu(1));
  z.slice(0, {.step = 2}).assign(x.slice(0, {.step = 2}));
  CHECK(z.to_vector<float>()[998] == 998);
  CHECK(problems() == "");
}

TEST_CASE("copies and kernels make no host wait") {
  const NDArray x = arange(5000);
  x.wait();
  const NDArray warm = x.copy_to(gpu(0));
  warm.to_vector<float>();
  const std::uint64_t before = host_waits();
  NDArray y = x.copy_to(gpu(0));
  for (int i = 0; i < 20; ++i) y = y.astype(i % 2 ? DType::f32 : DType::f64);
  const NDArray back = y.copy_to(cpu());
  back.wait();
  CHECK(host_waits() == before);
  CHECK(back.to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("files keep arrays of a GPU") {
  const std::string path = std::filesystem::temp_directory_path() / "heddle_gpu_arrays";
  const NDArray x = arange(100, DType::f32, gpu(0)).view({10, 10}).permuted({1, 0});
  save_npy(path, x);
  CHECK(bytes_of(load_npy(path, gpu(0))) == bytes_of(x));
  save_safetensors(path, {.arrays = {{"x", x}}, .metadata = {}});
  CHECK(bytes_of(load_safetensors(path, gpu(0)).arrays.at("x")) == bytes_of(x));
  std::filesystem::remove(path);
}

}  // namespace
