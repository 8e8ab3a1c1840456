// Stands in for cuda/stream.cc and cuda/memory.cc in a build without CUDA: no GPUs, and an error that says why.
#include <heddle/error.h>
#include <heddle/gpu_event.h>
#include <heddle/gpu_info.h>
#include <heddle/gpu_memory.h>

#include "stream/gpu.h"

namespace heddle {

namespace {

[[noreturn]] void refuse_memory() {
  throw Error("memory of GPUs: this build has no CUDA; configure with -DHEDDLE_CUDA=ON");
}

}  // namespace

int gpu_count() { return 0; }
GpuInfo gpu_info() { return {}; }

std::string gpu_refusal(Device) { return "this build has no CUDA"; }
std::byte* gpu_allocate(Stream&, Stream&, std::size_t) { refuse_memory(); }
std::byte* gpu_allocate_for_all(Stream&, std::size_t) { refuse_memory(); }
void gpu_free(std::byte*) noexcept {}
void gpu_copy_between(Stream&, std::byte*, Device, const std::byte*, Device, std::size_t) { refuse_memory(); }
GpuMemoryStats gpu_memory_stats(Device device) {
  detail::check_memory_of("gpu_memory_stats", device);
  refuse_memory();
}
void gpu_memory_trim(Device device) { detail::check_memory_of("gpu_memory_trim", device); }
bool is_page_locked(const void*, std::size_t) noexcept { return false; }
std::byte* gpu_allocate_pinned(std::size_t) { refuse_memory(); }
void gpu_free_pinned(std::byte*) noexcept {}

GpuEvent::GpuEvent(Device device) : device_(device) {
  throw Error("events of " + device_.to_string() +
              ": this build has no CUDA; configure with -DHEDDLE_CUDA=ON");
}
GpuEvent::~GpuEvent() = default;
void GpuEvent::record(void*) {}
bool GpuEvent::try_record(void*) noexcept { return false; }
void GpuEvent::wait() const {}
void GpuEvent::hold(void*) const {}
std::optional<Device> gpu_with(const void*) { return std::nullopt; }
Device gpu_of_memory(const void*) { throw InvalidArgument("the memory is no GPU's: this build has no CUDA"); }

namespace detail {

void gpu_stream_begins(void*, int) {}
void gpu_stream_ends(void*) noexcept {}

GpuCalls::GpuCalls(Device) {}
GpuCalls::~GpuCalls() = default;

std::unique_ptr<Stream> make_gpu_stream(Device device, Lane) {
  throw Error(device.to_string() + ": this build has no CUDA; configure with -DHEDDLE_CUDA=ON");
}

}  // namespace detail
}  // namespace heddle
