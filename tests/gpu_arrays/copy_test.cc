// Copies, conversions, fills and ranges on GPUs have the values of the CPU.
#include <algorithm>
#include <cstring>
#include <cuda_runtime_api.h>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/gpu_memory.h>
#include <heddle/ndarray.h>
#include <heddle/npy.h>
#include <heddle/print_options.h>
#include <heddle/safetensors.h>
#include <heddle/storage.h>

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

constexpr std::size_t kPiece = std::size_t{8} << 20;  // copies of more bytes are made in pieces

// The page-locked memory of the process, after all ops.
std::size_t page_locked() {
  current_engine().wait_all();
  const GpuMemoryStats stats = gpu_memory_stats(cpu_pinned());
  return stats.in_use + stats.cached;
}

// Gives back all page-locked memory that nobody has. What is left.
std::size_t trimmed() {
  current_engine().wait_all();
  gpu_memory_trim(cpu_pinned());
  return page_locked();
}

TEST_CASE("large arrays are copied in pieces, through a bounded amount of page-locked memory") {
  const std::size_t before = trimmed();
  for (const std::int64_t size : {2 << 20, (2 << 20) + 1, 5'000'001}) {
    const NDArray x = arange(size, DType::i32);
    const std::uint64_t waits = host_waits();
    const NDArray back = x.copy_to(gpu(0)).copy_to(cpu());
    back.wait();
    CHECK(host_waits() == waits);
    CHECK(bytes_of(back) == bytes_of(x));
  }
  std::vector<NDArray> results;
  for (int i = 0; i < 3; ++i)
    results.push_back(full({2'500'000}, i, DType::i32).copy_to(gpu(0)).copy_to(cpu()));
  for (int i = 0; i < 3; ++i) CHECK(results[static_cast<std::size_t>(i)][2'499'999].item<int>() == i);
  // Two blocks a direction, and two that the copy before has not given back yet.
  CHECK(page_locked() - before <= 6 * kPiece);
  CHECK(problems() == "");
}

TEST_CASE("large strided arrays of the CPU are copied in pieces, and converted") {
  const NDArray x = arange(6'000'000, DType::i32);
  const NDArray turned = x.view_as({2000, 3000}).permuted({1, 0});
  CHECK(bytes_of(turned.copy_to(gpu(0))) == bytes_of(turned));
  // Rows longer than a piece.
  const NDArray rows = x.view_as({2, 3'000'000}).slice(1, {.begin = 1, .end = 2'500'000});
  const NDArray there = zeros({2, 2'499'999}, DType::f32, gpu(0));
  there.assign(rows);
  CHECK(bytes_of(there) == bytes_of(rows.astype(DType::f32)));
  const NDArray to = zeros({2, 2'600'000}, DType::i32);
  to.slice(1, {.end = 2'499'999}).assign(there);
  CHECK(bytes_of(to.slice(1, {.end = 2'499'999})) == bytes_of(there.astype(DType::i32)));
  CHECK(to[1][2'499'999].item<int>() == 0);
  CHECK(problems() == "");
}

TEST_CASE("a large copy keeps the error of its source, and ends that of its target") {
  const NDArray bad({2'500'000}), good = ones({2'500'000});
  const auto spoil = [](const NDArray& x) {
    array_push("bad", {}, {x}, [](RunContext&) { throw std::runtime_error("the data are spoilt"); });
  };
  spoil(bad);
  const NDArray there = bad.copy_to(gpu(0)), back = there.copy_to(cpu());
  CHECK_THROWS_WITH(there.wait(), doctest::Contains("the data are spoilt"));
  CHECK_THROWS_WITH(back.wait(), doctest::Contains("the data are spoilt"));
  there.assign(good);
  CHECK(there.copy_to(cpu())[2'499'999].item<float>() == 1);
  back.assign(there);
  CHECK(back[0].item<float>() == 1);
  CHECK(problems() == "");
}

TEST_CASE("arrays in page-locked memory, also that of another library, are copied without a block between") {
  constexpr std::int64_t kSize = 3'000'000;
  const std::size_t before = trimmed();
  std::vector<float> memory(kSize, 7);
  REQUIRE(cudaHostRegister(memory.data(), kSize * sizeof(float), cudaHostRegisterDefault) == cudaSuccess);
  {
    const std::shared_ptr<std::byte> lent(reinterpret_cast<std::byte*>(memory.data()), [](std::byte*) {});
    const NDArray x(std::make_shared<Storage>(current_engine(), cpu(), kSize * sizeof(float), lent), {kSize},
                    DType::f32);
    const NDArray there = x.copy_to(gpu(0));
    there.wait();
    there.fill(8);
    x.assign(there);
    CHECK(page_locked() == before);
    CHECK(memory[kSize - 1] == 8);
  }
  current_engine().wait_all();
  CHECK(cudaHostUnregister(memory.data()) == cudaSuccess);
  CHECK(problems() == "");
}

TEST_CASE("printing copies what is shown alone") {
  const std::size_t before = trimmed();
  for (const Shape& shape :
       {Shape{3'000'000}, {7, 400'000}, {2000, 1000}, {3, 50, 9, 2000}, {5, 6}, {}, {0, 4}}) {
    CAPTURE(shape.to_string());
    const NDArray there = arange(element_count(shape), DType::i32, gpu(0)).view_as(shape);
    CHECK(there.to_string() == there.copy_to(cpu()).to_string());
  }
  const NDArray wide = arange(3'000'000, DType::f32, gpu(0)).view_as({3000, 1000});
  trimmed();
  const PrintOptions options = set_print_options({.threshold = 20, .edgeitems = 2});
  const std::string text = wide.permuted({1, 0}).slice(0, {.step = -1}).to_string();
  set_print_options(options);
  CHECK(page_locked() - before <= 8192);
  CHECK(text.starts_with("[[9.990000e+02 1.999000e+03 ... 2.998999e+06 2.999999e+06]\n"));
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
