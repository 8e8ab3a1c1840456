// Copies and fills.
#include <cstdlib>
#include <cstring>

#include "runtime/runtime.h"

namespace heddle::emulated_gpu {
namespace {

// A copy from pageable memory is staged; CUDA may wait for the stream first if it has more bytes than this.
constexpr std::size_t kStagedAtOnce = 64 << 10;

enum class Side { device, pinned, pageable };

Side side_of(const void* begin, std::size_t bytes) {
  require(begin, cudaErrorInvalidValue);
  if (is_device_memory(begin)) {
    require(device_of_live(begin, bytes) >= 0, cudaErrorInvalidValue);
    return Side::device;
  }
  return is_pinned(begin, bytes) ? Side::pinned : Side::pageable;
}

void check_kind(cudaMemcpyKind kind, Side to, Side from) {
  const bool to_device = to == Side::device, from_device = from == Side::device;
  switch (kind) {
    case cudaMemcpyDefault:
      return;
    case cudaMemcpyHostToHost:
      return require(!to_device && !from_device, cudaErrorInvalidValue);
    case cudaMemcpyHostToDevice:
      return require(to_device && !from_device, cudaErrorInvalidValue);
    case cudaMemcpyDeviceToHost:
      return require(!to_device && from_device, cudaErrorInvalidValue);
    case cudaMemcpyDeviceToDevice:
      return require(to_device && from_device, cudaErrorInvalidValue);
  }
  throw Failure{cudaErrorInvalidMemcpyDirection};
}

// A pool's memory can be reached by its own device alone unless the pool says otherwise, which none does here: only a copy
// that names both devices goes from one to another one. Enabled peer access is for memory of cudaMalloc.
void check_access(const void* to, const void* from) {
  const bool same = device_of_live(to, 1) == device_of_live(from, 1);
  require(same || (!is_of_pool(to) && !is_of_pool(from)), cudaErrorInvalidValue);
}

std::size_t extent(std::size_t pitch, std::size_t width, std::size_t height) {
  return (height - 1) * pitch + width;
}

// Copies the rows to memory of the runtime's own, at which the call then points.
void stage(CopyCall& copy) {
  const std::size_t bytes = extent(copy.from_pitch, copy.width, copy.height);
  copy.staged = std::shared_ptr<void>(std::malloc(bytes), std::free);
  require(copy.staged != nullptr, cudaErrorMemoryAllocation);
  std::memcpy(copy.staged.get(), copy.from, bytes);
  copy.from = copy.staged.get();
}

// Enqueues the copy. With pageable memory the host waits as CUDA does.
void copy(CopyCall rows, cudaMemcpyKind kind, cudaStream_t handle, bool wait, bool names_devices = false) {
  require(rows.to_pitch >= rows.width && rows.from_pitch >= rows.width, cudaErrorInvalidPitchValue);
  await_room(handle);
  RecordingPtr last;
  int device = 0;
  {
    const std::lock_guard guard(runtime().mutex);
    CUstream_st& stream = stream_of(handle);
    device = stream.device;
    if (rows.width == 0 || rows.height == 0) return;
    const std::size_t bytes = extent(rows.from_pitch, rows.width, rows.height);
    const Side to = side_of(rows.to, extent(rows.to_pitch, rows.width, rows.height));
    const Side from = side_of(rows.from, bytes);
    check_kind(kind, to, from);
    if (to == Side::device && from == Side::device && !names_devices) check_access(rows.to, rows.from);
    if (!stream.capture) {
      wait = wait || to == Side::pageable;
      if (to == Side::device && from == Side::pageable) {
        // cudaMemcpy returns, too, when the memory has been read: streams that do not wait for the default one have to be
        // ordered behind it.
        if (wait || bytes > kStagedAtOnce) count_host_wait();
        wait = false;
        stage(rows);
      }
    } else if (wait) {
      refuse_in_capture(stream);
    }
    submit(stream, {std::move(rows)});
    if (wait && !stream.capture) last = record(stream);
  }
  if (!last) return;
  count_host_wait();
  await(last);
  check_device(device);
}

void fill(FillCall rows, cudaStream_t handle, bool wait) {
  require(rows.pitch >= rows.width * rows.element, cudaErrorInvalidPitchValue);
  await_room(handle);
  RecordingPtr last;
  {
    const std::lock_guard guard(runtime().mutex);
    CUstream_st& stream = stream_of(handle);
    if (rows.width == 0 || rows.height == 0) return;
    const Side to = side_of(rows.to, extent(rows.pitch, rows.width * rows.element, rows.height));
    require(to != Side::pageable, cudaErrorInvalidValue);
    if (wait) refuse_in_capture(stream);
    submit(stream, {rows});
    if (wait) last = record(stream);
  }
  if (!last) return;
  count_host_wait();
  await(last);
}

}  // namespace
}  // namespace heddle::emulated_gpu

using namespace heddle::emulated_gpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] { copy({to, bytes, from, bytes, bytes, 1}, kind, stream, false); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&] { copy({to, bytes, from, bytes, bytes, 1}, kind, nullptr, true); });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&] {
    copy({to, to_pitch, from, from_pitch, width, height}, kind, stream, false);
  });
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return call("cudaMemcpy2D", [&] {
    copy({to, to_pitch, from, from_pitch, width, height}, kind, nullptr, true);
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", [&] {
    require(
        bytes == 0 || (device_of_live(to, bytes) == to_device && device_of_live(from, bytes) == from_device),
        cudaErrorInvalidValue);
    copy({to, bytes, from, bytes, bytes, 1}, cudaMemcpyDefault, stream, false, true);
  });
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  return call("cudaMemcpyPeer", [&] {
    require(
        bytes == 0 || (device_of_live(to, bytes) == to_device && device_of_live(from, bytes) == from_device),
        cudaErrorInvalidValue);
    copy({to, bytes, from, bytes, bytes, 1}, cudaMemcpyDefault, nullptr, true, true);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&] {
    fill({to, bytes, static_cast<unsigned char>(value), 1, bytes, 1}, stream, false);
  });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", [&] {
    fill({to, bytes, static_cast<unsigned char>(value), 1, bytes, 1}, nullptr, true);
  });
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return call("cudaMemset2DAsync", [&] {
    fill({to, pitch, static_cast<unsigned char>(value), 1, width, height}, stream, false);
  });
}

}  // extern "C"
