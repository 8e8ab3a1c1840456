#include "runtime/operation.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "executor/executor.h"
#include "runtime/access.h"
#include "runtime/call.h"
#include "runtime/memory.h"
#include "runtime/runtime.h"

namespace heddle::emulated_gpu {
namespace {

std::atomic<std::uint64_t> launches[kMostDevices];
std::atomic<std::uint64_t> executor_seed{0};
std::atomic<int> executor_threads{1};

struct Run {
  int device;
  std::uint64_t failures;

  void operator()(std::monostate) const {}

  void operator()(const KernelCall& call) const {
    const DeviceAccess access;
    catch_faults();
    const std::uint64_t base = executor_seed.load(std::memory_order_relaxed);
    const std::uint64_t number = launches[device].fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t seed = base == 0 ? 0 : (base << 20) + number * 2 + 1;
    const KernelFailure failure =
        run_grid({call.kernel, call.argument.get(), call.grid, call.block, call.shared_bytes, seed,
                  executor_threads.load(std::memory_order_relaxed)});
    if (failure.error != cudaSuccess) fail_device(device, failure.error, failure.text.c_str());
  }

  bool may_use(const void* begin, std::size_t bytes, const char* what) const {
    const int owner = device_of_memory(begin);
    if (owner >= 0 && has_failed_since(owner, failures)) return false;
    const std::string wrong = check_use(begin, bytes);
    if (wrong.empty()) return true;
    fail_device(device, cudaErrorIllegalAddress, (std::string(what) + " uses " + wrong).c_str());
    return false;
  }

  void operator()(const CopyCall& call) const {
    if (call.width == 0 || call.height == 0) return;
    const std::size_t to_bytes = (call.height - 1) * call.to_pitch + call.width;
    const std::size_t from_bytes = (call.height - 1) * call.from_pitch + call.width;
    if (!may_use(call.to, to_bytes, "a copy") || !may_use(call.from, from_bytes, "a copy")) return;
    const DeviceAccess access;
    for (std::size_t row = 0; row < call.height; ++row) {
      std::memmove(static_cast<char*>(call.to) + row * call.to_pitch,
                   static_cast<const char*>(call.from) + row * call.from_pitch, call.width);
    }
  }

  void operator()(const FillCall& call) const {
    if (call.width == 0 || call.height == 0) return;
    const std::size_t row_bytes = call.width * call.element;
    if (!may_use(call.to, (call.height - 1) * call.pitch + row_bytes, "a memset")) return;
    const DeviceAccess access;
    for (std::size_t row = 0; row < call.height; ++row) {
      char* to = static_cast<char*>(call.to) + row * call.pitch;
      if (call.element == 1) {
        std::memset(to, static_cast<int>(call.value), call.width);
        continue;
      }
      for (std::size_t i = 0; i < call.width; ++i)
        std::memcpy(to + i * call.element, &call.value, call.element);
    }
  }

  void operator()(const HostCall& call) const {
    const InHostFunction inside;
    call.fn(call.data);
  }
};

}  // namespace

cudaGraphNodeType type_of(const Operation& operation) {
  constexpr cudaGraphNodeType types[] = {cudaGraphNodeTypeEmpty, cudaGraphNodeTypeKernel,
                                         cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset,
                                         cudaGraphNodeTypeHost};
  return types[operation.what.index()];
}

void run(const Operation& operation, int device, std::uint64_t failures) noexcept {
  std::optional<Working> working;
  if (!std::holds_alternative<HostCall>(operation.what))
    working.emplace(device);  // the host's functions may lock
  if (has_failed_since(device, failures)) return;
  try {
    std::visit(Run{device, failures}, operation.what);
  } catch (const std::exception& error) {
    fail_device(device, cudaErrorUnknown, error.what());
  }
}

KernelCall checked_launch(const void* function, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared_bytes, int shared_limit) {
  const auto* kernel = static_cast<const on_gpu::emulated::Kernel*>(function);
  require(kernel && kernel->magic == on_gpu::emulated::Kernel::kMagic, cudaErrorInvalidDeviceFunction);
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  const bool block_fits =
      threads > 0 && threads <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64;
  const bool grid_fits =
      grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
  require(block_fits && grid_fits, cudaErrorInvalidConfiguration);
  require(shared_bytes <= static_cast<std::size_t>(shared_limit), cudaErrorInvalidValue);
  require(arguments && arguments[0], cudaErrorInvalidValue);
  const std::size_t rounded = (kernel->bytes + 63) / 64 * 64;
  std::shared_ptr<void> argument(std::aligned_alloc(64, rounded), std::free);
  require(argument != nullptr, cudaErrorMemoryAllocation);
  std::memcpy(argument.get(), arguments[0], kernel->bytes);
  const Settings& settings = runtime().settings;
  executor_seed.store(settings.seed, std::memory_order_relaxed);
  executor_threads.store(settings.host_threads, std::memory_order_relaxed);
  return {kernel, grid, block, shared_bytes, std::move(argument)};
}

}  // namespace heddle::emulated_gpu
