// Copies of large arrays, and of parts of them, between the CPU and a GPU, and the page-locked memory that they take.
#include <atomic>
#include <cstring>
#include <cuda_runtime_api.h>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/gpu_memory.h>
#include <heddle/ndarray.h>
#include <heddle/print_options.h>
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
  // Six copies under way: blocks of 8 MiB for three, of 4 MiB for three.
  CHECK(page_locked() - before <= 10 * kPiece);
  trimmed();
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

TEST_CASE("a large copy waits for no other one, whose array is not ready") {
  const NDArray late({2'500'000}), ready = full({2'500'000}, 3);
  std::promise<Completion> begun;
  current_engine().push_async([&](RunContext&, Completion done) { begun.set_value(std::move(done)); },
                              {.mutate = {late.var()}});
  const NDArray first = late.copy_to(gpu(0)), second = ready.copy_to(gpu(0));
  CHECK(second.copy_to(cpu())[2'499'999].item<float>() == 3);
  begun.get_future().get().done();
  first.wait();
  CHECK(problems() == "");
}

TEST_CASE("a large copy is one op to what other threads push on its arrays") {
  constexpr std::int64_t kSize = 12'000'000;  // six pieces
  const NDArray here = zeros({kSize}), there = zeros({kSize}, DType::f32, gpu(0));
  const auto ends = [](const NDArray& x) { return x.slice(0, {.step = kSize - 1}); };  // two elements
  std::atomic<bool> copying{false}, done{false};
  std::thread other([&] {
    for (int k = 1; !done;) {
      if (!copying) continue;
      ends(k % 2 ? here : there).fill(k);
      ++k;
    }
  });
  const auto check_ends = [&](const NDArray& x) {
    const NDArray two = ends(x).copy_to(cpu());
    CHECK(two[0].item<float>() == two[1].item<float>());
  };
  const auto copy = [&](const NDArray& from, const NDArray& to) {
    copying = true;
    to.assign(from);
    copying = false;
    check_ends(to);
  };
  for (int i = 0; i < 30; ++i) {
    copy(here, there);
    copy(there, here);
  }
  done = true;
  other.join();
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

}  // namespace
