// A program that runs a sample kernel or a small program with a planted bug, with several seeds, and says how it was
// found: "found: ..." for a wrong result or an error of the runtime. A sanitizer ends the process with its report.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "emulated_gpu.h"
#include "samples/kernels.h"
#include "samples/memory.h"
#include "samples/samples.h"

namespace heddle::test {
namespace {

// Runs a program with its bug. True if the result is right.
using Program = std::function<bool()>;

constexpr int kColumns = 700;

bool right_softmax(Bug bug) {
  std::vector<float> in(4 * kColumns);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 37 % 101) * 0.05f;
  const OnDevice<float> on(in), out(in.size()), want(in.size());
  const TestStream stream;
  check(softmax_rows(stream, bug, on.data(), out.data(), 4, kColumns));
  check(softmax_rows(stream, Bug::none, on.data(), want.data(), 4, kColumns));
  return out.values(stream) == want.values(stream);
}

bool right_sum(Bug bug, int shared_bytes = -1, std::size_t count = 4000) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  const OnDevice<double> in(values), total(std::vector<double>{0});
  const TestStream stream;
  check(sum(stream, bug, in.data(), total.data(), static_cast<long long>(count), 6, shared_bytes));
  return total.values(stream)[0] == std::accumulate(values.begin(), values.end(), 0.0);
}

bool right_transpose(Bug bug) {
  std::vector<float> in(45 * 70);
  std::iota(in.begin(), in.end(), 0.0f);
  const OnDevice<float> on(in), out(in.size()), want(in.size());
  const TestStream stream;
  check(transpose(stream, bug, on.data(), out.data(), 45, 70));
  stream.wait();
  check(transpose(stream, Bug::none, on.data(), want.data(), 45, 70));
  return out.values(stream) == want.values(stream);
}

bool right_histogram(Bug bug) {
  std::vector<int> values(4000), want(kBins);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i * i % kBins);
    ++want[static_cast<std::size_t>(values[i])];
  }
  const OnDevice<int> in(values), counts(std::vector<int>(kBins, 0));
  const TestStream stream;
  check(histogram(stream, bug, in.data(), counts.data(), static_cast<long long>(values.size()), 6));
  return counts.values(stream) == want;
}

bool right_scan(Bug bug) {
  std::vector<int> values(1000), want(1000);
  std::iota(values.begin(), values.end(), 1);
  std::partial_sum(values.begin(), values.end(), want.begin());
  const OnDevice<int> in(values), out(values.size()), sums(kBlock);
  const TestStream stream;
  check(scan(stream, bug, in.data(), out.data(), sums.data(), 1000));
  return out.values(stream) == want;
}

bool vector_off_by_one() {
  const OnDevice<float> a(std::vector<float>(1000, 1)), b(std::vector<float>(1000, 2)), out(1000);
  const TestStream stream;
  check(vector_add(stream, Bug::off_by_one, a.data(), b.data(), out.data(), 1000));
  return out.values(stream) == std::vector<float>(1000, 3);
}

// A copy that does not wait for the kernel on another stream.
bool event_not_waited_for() {
  const OnDevice<float> x(std::vector<float>(10000, 0));
  const InPinned<float> out(10000);
  const TestStream compute, copies;
  check(fill(compute, x.data(), 4, 10000));
  check(cudaMemcpyAsync(out.data(), x.data(), x.bytes(), cudaMemcpyDefault, copies));
  copies.wait();
  compute.wait();
  return std::count(out.data(), out.data() + 10000, 4.0f) == 10000;
}

// The next round's copy overwrites what the kernel still reads.
bool overwritten_early() {
  const OnDevice<float> x(std::vector<float>(10000, 1)), y(10000);
  const InPinned<float> next(10000);
  std::fill_n(next.data(), 10000, 5.0f);
  const TestStream compute, copies;
  check(vector_add(compute, Bug::none, x.data(), x.data(), y.data(), 10000));
  check(cudaMemcpyAsync(x.data(), next.data(), x.bytes(), cudaMemcpyDefault, copies));
  copies.wait();
  return y.values(compute) == std::vector<float>(10000, 2);
}

// Freed on another stream than the one that uses it.
bool freed_early(bool writes) {
  const TestStream compute, other;
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 40000, compute));
  auto* x = static_cast<float*>(memory);
  check(fill(compute, x, 1, 10000));
  compute.wait();
  const OnDevice<float> y(10000);
  if (writes) {
    check(fill(compute, x, 2, 10000));
  } else {
    check(vector_add(compute, Bug::none, x, x, y.data(), 10000));
  }
  check(cudaFreeAsync(memory, other));
  compute.wait();
  other.wait();
  check(cudaDeviceSynchronize());
  return writes || y.values(compute) == std::vector<float>(10000, 2);
}

// Used on another stream than the one that allocates it, before the memory is there.
bool used_before_allocated() {
  const TestStream first, second;
  const InPinned<float> out(10000);
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 40000, first));
  check(cudaMemsetAsync(memory, 0, 40000, second));
  check(cudaMemcpyAsync(out.data(), memory, 40000, cudaMemcpyDefault, second));
  second.wait();
  check(cudaFreeAsync(memory, second));
  first.wait();
  second.wait();
  return std::count(out.data(), out.data() + 10000, 0.0f) == 10000;
}

// Nobody has written the second half.
bool never_written() {
  const OnDevice<float> x(1000);
  const TestStream stream;
  check(fill(stream, x.data(), 1, 500));
  return x.values(stream) == std::vector<float>(1000, 1);
}

bool host_reads_device() {
  const OnDevice<float> x(std::vector<float>(10, 1));
  check(cudaDeviceSynchronize());
  return *const_cast<const volatile float*>(x.data()) == 1;
}

const std::map<std::string, Program>& programs() {
  static const std::map<std::string, Program> all{
      {"none",
       [] {
         return right_sum(Bug::none) && right_scan(Bug::none) && right_transpose(Bug::none) &&
                right_histogram(Bug::none) && right_softmax(Bug::none);
       }},
      {"sum-barrier", [] { return right_sum(Bug::barrier_dropped); }},
      {"sum-race", [] { return right_sum(Bug::not_atomic); }},
      {"sum-lane", [] { return right_sum(Bug::wrong_lane); }},
      {"sum-early-return", [] { return right_sum(Bug::early_return, -1, 1500); }},
      {"sum-shared", [] { return right_sum(Bug::none, 56); }},
      {"softmax-barrier", [] { return right_softmax(Bug::barrier_dropped); }},
      {"softmax-divergent", [] { return right_softmax(Bug::divergent); }},
      {"transpose-barrier", [] { return right_transpose(Bug::barrier_dropped); }},
      {"transpose-off-by-one", [] { return right_transpose(Bug::off_by_one); }},
      {"histogram-barrier", [] { return right_histogram(Bug::barrier_dropped); }},
      {"histogram-race", [] { return right_histogram(Bug::not_atomic); }},
      {"scan-barrier", [] { return right_scan(Bug::barrier_dropped); }},
      {"add-off-by-one", vector_off_by_one},
      {"event", event_not_waited_for},
      {"overwritten", overwritten_early},
      {"freed-read", [] { return freed_early(false); }},
      {"freed-written", [] { return freed_early(true); }},
      {"not-allocated", used_before_allocated},
      {"never-written", never_written},
      {"host-read", host_reads_device},
  };
  return all;
}

// How the bug shows with that seed, if it does.
std::optional<std::string> result_of(const Program& program, std::uint64_t seed, bool stepped) {
  emulated_gpu::Settings settings = emulated_gpu::settings();
  settings.seed = seed;
  settings.stepped = stepped;
  settings.delay = 20;
  emulated_gpu::configure(settings);
  std::optional<std::string> result;
  try {
    if (!program()) result = "a wrong result";
  } catch (const std::exception& error) {
    result = error.what();
  }
  for (const std::string& problem : emulated_gpu::take_problems()) result = problem;
  for (int device = 0; device < settings.devices; ++device) emulated_gpu::revive(device);
  cudaGetLastError();
  return result;
}

int find(const std::string& name, bool stepped) {
  const auto found = programs().find(name);
  if (found == programs().end()) {
    std::printf("there is no bug '%s'\n", name.c_str());
    return 2;
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    if (const auto result = result_of(found->second, seed, stepped)) {
      std::printf("found: with seed %d: %s\n", static_cast<int>(seed), result->c_str());
      return 0;
    }
  }
  std::printf("nothing wrong with 20 seeds\n");
  return 1;
}

}  // namespace
}  // namespace heddle::test

// bugs NAME [threaded]
int main(int argc, char** argv) { return argc < 2 ? 2 : heddle::test::find(argv[1], argc < 3); }
