// gpu_bench: how fast ops, kernels, copies and memory of gpu(0) are, each against what CUDA itself does there.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <heddle/default_engine.h>
#include <heddle/elementwise.h>
#include <heddle/error.h>
#include <heddle/gpu_memory.h>
#include <heddle/graph.h>
#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/stream_ops.h>

#include "command_line.h"
#include "gpu/gpu_events.h"

using namespace heddle;
using namespace heddle::bench;

namespace {

int failures = 0;  // measurements that failed

struct Options {
  std::string filter;
  int runs = 7;
  bool quick = false;

  // Bytes of a large array: 1 GiB, or a twelfth of the free memory. The emulated GPU is 10,000 times slower.
  std::size_t large() const {
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total));
    if (quick) return std::size_t{256} << 10;
    return std::min(std::size_t{1} << 30, free / 12 >> 20 << 20);
  }
  int count(int normal) const { return quick ? std::max(1, normal / 100) : normal; }
  // Calls between two events, so that what an event takes does not count. large() leaves room for their results.
  int calls() const { return quick ? 2 : 10; }
};

void print(const std::string& name, double value, const char* unit, double ratio = 0,
           const char* against = "") {
  std::printf("%-34s %12.4g %-9s", name.c_str(), value, unit);
  if (ratio > 0) std::printf(" %7.3f of %s", ratio, against);
  std::puts("");
  std::fflush(stdout);
}

// Other measurements go on.
void failed(const std::string& name, const std::exception& error) {
  std::printf("%-34s FAILED: %s\n", name.c_str(), error.what());
  std::fflush(stdout);
  ++failures;
}

void not_run(const std::string& name, const std::string& why) {
  std::printf("%-34s not run: %s\n", name.c_str(), why.c_str());
  std::fflush(stdout);
}

NDArray on_gpu(std::int64_t elements, DType dtype = DType::f32) {
  NDArray x = full({elements}, 1.5, dtype, gpu(0));
  x.wait();
  return x;
}

// Bytes a second, read and written, of copies within the device that CUDA makes.
double copy_rate(const Options& options) {
  static double rate = 0;
  if (rate > 0) return rate;
  const std::size_t bytes = options.large();
  void *from = nullptr, *to = nullptr;
  check_cuda(cudaMalloc(&from, bytes));
  check_cuda(cudaMalloc(&to, bytes));
  const NDArray order = on_gpu(1);
  Engine& engine = order.engine();
  const double seconds = median_of(options.runs, [&] {
    return device_seconds(order, options.calls(), [&] {
      engine.push_on(engine.stream(gpu(0)), [=](Stream& stream) { stream.copy(to, from, bytes); },
                     {.read = {order.var()}});
    });
  });
  check_cuda(cudaFree(from));
  check_cuda(cudaFree(to));
  return rate = 2.0 * static_cast<double>(bytes) / seconds;
}

void copies(const Options& options) { print("copy_within_device", copy_rate(options) / 1e9, "GB/s"); }

// From the call on the host until it returns, and until the value is there.
void ops(const Options& options) {
  const NDArray x = on_gpu(256);
  const int count = options.count(2000);
  double pushed = 0;
  const double ended = median_of(options.runs, [&] {
    NDArray y;
    return seconds_of([&] {
      pushed = seconds_of([&] {
        for (int i = 0; i < count; ++i) y = negative(x);
      });
      y.wait();
    });
  });
  print("small_op_push", pushed / count * 1e9, "ns");
  print("small_op_end", ended / count * 1e9, "ns");
  print("small_op_push_and_wait",
        median_of(options.runs, [&] { return seconds_of([&] { negative(x).wait(); }); }) * 1e6, "us");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, 1024));
  const double memset = median_of(options.runs, [&] {
    return seconds_of([&] {
      for (int i = 0; i < count; ++i) check_cuda(cudaMemsetAsync(memory, 0, 1024, stream));
      check_cuda(cudaStreamSynchronize(stream));
    });
  });
  print("small_op_end_over_memset", ended / count * 1e9, "ns", memset / ended, "cudaMemsetAsync's rate");
  check_cuda(cudaFree(memory));
  check_cuda(cudaStreamDestroy(stream));
}

// Launches of a captured chain of small ops, against those of a graph that CUDA has captured from as many memsets.
void graphs(const Options& options) {
  constexpr int kOps = 50;
  const int count = options.count(500);
  const NDArray x = on_gpu(256), y = on_gpu(256);
  const Graph graph = current_engine().capture([&] {
    for (int i = 0; i < kOps; ++i) y.assign(negative(i % 2 ? y : x));
  });
  const auto launches = [&](const auto& launch, const auto& wait) {
    return median_of(options.runs, [&] {
      return seconds_of([&] {
        for (int i = 0; i < count; ++i) launch();
        wait();
      });
    });
  };
  const double replayed = launches([&] { graph.launch(); }, [&] { y.wait(); }) / count;
  const double called = launches(
                            [&] {
                              for (int i = 0; i < kOps; ++i) y.assign(negative(i % 2 ? y : x));
                            },
                            [&] { y.wait(); }) /
                        count;
  cudaStream_t stream = nullptr;
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  void* memory = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check_cuda(cudaMalloc(&memory, 1024));
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 2 * kOps; ++i) check_cuda(cudaMemsetAsync(memory, 0, 1024, stream));
  check_cuda(cudaStreamEndCapture(stream, &captured));
  check_cuda(cudaGraphInstantiate(&executable, captured, 0));
  const double bare = launches([&] { check_cuda(cudaGraphLaunch(executable, stream)); },
                               [&] { check_cuda(cudaStreamSynchronize(stream)); }) /
                      count;
  print("graph_of_100_ops_called", called * 1e6, "us");
  print("graph_of_100_ops", replayed * 1e6, "us", bare / replayed, "a CUDA graph of memsets");
  check_cuda(cudaGraphExecDestroy(executable));
  check_cuda(cudaGraphDestroy(captured));
  check_cuda(cudaFree(memory));
  check_cuda(cudaStreamDestroy(stream));
}

// An operator on large arrays against the rate of copies. `bytes` is what it has to read and write.
void against_copies(const Options& options, const std::string& name, const NDArray& x, double bytes,
                    const std::function<NDArray()>& call) {
  try {
    const double seconds =
        median_of(options.runs, [&] { return device_seconds(x, options.calls(), [&] { call(); }); });
    current_engine().wait_all();  // throws the errors of the calls
    print(name, bytes / seconds / 1e9, "GB/s", bytes / seconds / copy_rate(options), "copy_within_device");
  } catch (const std::exception& error) {
    failed(name, error);
  }
}

void kernels(const Options& options) {
  const auto elements = static_cast<std::int64_t>(options.large() / sizeof(float));
  const double array = static_cast<double>(options.large());
  const NDArray x = on_gpu(elements), y = on_gpu(elements);
  against_copies(options, "relu", x, 2 * array, [&] { return relu(x); });
  against_copies(options, "exp", x, 2 * array, [&] { return exp(x); });
  against_copies(options, "add", x, 3 * array, [&] { return add(x, y); });
  against_copies(options, "add_number", x, 2 * array, [&] { return add(x, 2.5); });
  against_copies(options, "less", x, 2.25 * array, [&] { return less(x, y); });
  against_copies(options, "astype_f16", x, 1.5 * array, [&] { return x.astype(DType::f16); });
  std::int64_t side = 1;
  while (4 * side * side <= elements) side *= 2;
  const double square = 8.0 * static_cast<double>(side * side);
  const NDArray matrix = x.slice(0, {.begin = 0, .end = side * side}).view({side, side});
  const NDArray row = x.slice(0, {.begin = 0, .end = side}), column = row.view({side, 1});
  against_copies(options, "copy", x, 2 * array, [&] { return x.copy(); });
  against_copies(options, "copy_transposed", x, square, [&] { return matrix.permuted({1, 0}).copy(); });
  against_copies(options, "copy_every_second", x, 1.5 * array,
                 [&] { return x.slice(0, {.step = 2}).copy(); });
  against_copies(options, "add_row", x, square, [&] { return add(matrix, row); });
  against_copies(options, "add_column", x, square, [&] { return add(matrix, column); });
  const auto unary = [&](const char* name, double bytes, const NDArray& of,
                         std::vector<NamedValue> named = {}) {
    against_copies(options, name, x, bytes,
                   [&, named] { return std::get<NDArray>(call_operator(name, {of}, named).at(0)); });
  };
  unary("sum", array, x);
  unary("softmax", square, matrix, {{"axis", std::int64_t{-1}}});
}

struct Chunks {
  std::vector<NDArray> in, there, out;  // page-locked, on the GPU, page-locked
};

// Copies to the GPU, kernels and copies from it, of several chunks: the time of all together against the longest of the three.
void overlap(const Options& options) {
  constexpr int kChunks = 8;
  const std::size_t bytes =
      options.quick ? std::size_t{64} << 10 : std::min(std::size_t{64} << 20, options.large() / kChunks);
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
  Chunks chunks;
  for (int i = 0; i < kChunks; ++i) {
    chunks.in.push_back(full({elements}, 1.5, DType::f32).copy_to(cpu_pinned()));
    chunks.there.push_back(on_gpu(elements));
    chunks.out.push_back(chunks.in.back().copy());
  }
  int repeats = 1;
  const auto lanes = [&](bool in, bool compute, bool out) {
    const auto work = [&] {
      for (std::size_t i = 0; i < kChunks; ++i) {
        NDArray x = in ? chunks.in[i].copy_to(gpu(0)) : chunks.there[i];
        for (int k = 0; compute && k < repeats; ++k) x = negative(x);
        if (out) chunks.out[i].assign(x);
      }
      current_engine().wait_all();
    };
    return median_of(options.runs, [&] { return seconds_of(work); });
  };
  const double in = lanes(true, false, false), out = lanes(false, false, true);
  if (!options.quick) repeats = std::clamp(static_cast<int>(in / lanes(false, true, false)), 1, 500);
  const double compute = lanes(false, true, false), all = lanes(true, true, true);
  const double total = kChunks * static_cast<double>(bytes);
  print("copy_in", total / in / 1e9, "GB/s");
  print("copy_out", total / out / 1e9, "GB/s");
  print("compute_of_overlap", compute * 1e3, "ms");
  print("overlap", all * 1e3, "ms", std::max({in, compute, out}) / all, "one over the longest lane");
  print("overlap_over_one_by_one", all * 1e3, "ms", all / (in + compute + out),
        "the three one after the other");
}

// Memory from the device's pool, as ops take it, against cudaMalloc.
void allocation(const Options& options) {
  Engine& engine = current_engine();
  const Var order = engine.new_var();
  const int count = options.count(1000);
  for (const std::size_t bytes :
       {std::size_t{4096}, options.quick ? std::size_t{65536} : std::size_t{64} << 20}) {
    double from_pool = 0;
    const auto once = [&] {
      engine.push_on(engine.stream(gpu(0)),
                     [&](Stream& stream) {
                       from_pool = seconds_of([&] {
                         for (int i = 0; i < count; ++i) gpu_free(gpu_allocate(stream, stream, bytes));
                       });
                     },
                     {.mutate = {order}});
      engine.wait(order);
      return from_pool / count;
    };
    const double pool = median_of(options.runs, once);
    const double plain = median_of(options.runs, [&] {
      return seconds_of([&] {
        void* memory = nullptr;
        check_cuda(cudaMalloc(&memory, bytes));
        check_cuda(cudaFree(memory));
      });
    });
    print("allocation_" + std::to_string(bytes >> 10) + "K", pool * 1e9, "ns", pool / plain,
          "cudaMalloc and cudaFree");
  }
}

void peers(const Options& options) {
  if (gpu_count() < 2) return not_run("copy_to_peer", "there is one GPU");
  const NDArray x = on_gpu(static_cast<std::int64_t>(options.large() / sizeof(float)));
  const double seconds =
      median_of(options.runs, [&] { return seconds_of([&] { x.copy_to(gpu(1)).wait(); }); });
  const double rate = static_cast<double>(options.large()) / seconds;
  print("copy_to_peer", rate / 1e9, "GB/s", rate / copy_rate(options), "copy_within_device");
}

// GPUs that were idle are slow for some tenths of a second.
void warm_up(const Options& options) {
  const NDArray x = on_gpu(static_cast<std::int64_t>(options.large() / sizeof(float)));
  for (int i = 0; i < options.count(500); ++i) negative(x);
  current_engine().wait_all();
}

int run(const Options& options) {
  if (gpu_count() == 0) {
    std::puts("no GPU: nothing was run.");
    return 77;
  }
  check_cuda(cudaSetDevice(0));
  std::printf("%-34s %zu bytes an array\n", "large", options.large());
  const std::pair<const char*, void (*)(const Options&)> parts[] = {
      {"copies", copies},   {"ops", ops},         {"graphs", graphs},
      {"kernels", kernels}, {"overlap", overlap}, {"allocation", allocation},
      {"peers", peers}};
  try {
    warm_up(options);
  } catch (const std::exception& error) {
    failed("warm_up", error);
  }
  for (const auto& [name, part] : parts) {
    if (std::string(name).find(options.filter) == std::string::npos) continue;
    try {
      part(options);
      current_engine().wait_all();
    } catch (const std::exception& error) {
      failed(name, error);
    }
  }
  return failures ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  command_line::Program program(
      "gpu_bench", "Measures ops, kernels, copies and memory of gpu(0) against what CUDA does there.");
  program.add_option(
      "--filter", options.filter,
      "only parts whose name contains this: copies, ops, graphs, kernels, overlap, allocation, peers");
  program.add_option("--runs", options.runs, "measured runs, of which the median is printed")
      .positive()
      .show_default();
  program.add_flag("--quick", options.quick,
                   "tiny arrays and few ops: shows that it works, on the emulated GPU too");
  if (const auto status = program.parse(argc, argv)) return *status;
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
