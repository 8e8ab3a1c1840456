// Kernels on the elements where a mask is true.
#include <cstdint>

#include "cuda/compact.h"
#include "cuda/indices.h"
#include "families/indexing/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

struct InMask {
  const unsigned char* mask;
  HEDDLE_DEVICE bool operator()(long long i) const { return mask[i] != 0; }
};

// The number-th true element is exchanged with element `number` of the other array, which has `room` elements.
template <class Unit> struct MoveMasked {
  const Unit* x;
  Unit* y;
  long long room;
  bool into;
  HEDDLE_DEVICE void operator()(long long i, bool flag, long long number) const {
    if (!flag || number >= room) return;
    if (into)
      y[i] = x[number];
    else
      y[number] = x[i];
  }
};

struct WritePlaces {
  NonzeroJob job;
  HEDDLE_DEVICE void operator()(long long i, bool flag, long long number) const {
    if (!flag || number >= job.room) return;
    long long rest = i;
    for (int d = job.dims - 1; d >= 0; --d) {
      const Split at = split(rest, job.sizes[d]);
      job.y[d * job.strides[0] + number * job.strides[1]] = at.rest;
      rest = at.quotient;
    }
  }
};

// Reports a wrong number of true elements. Writes zeros to `rest` behind them, unless that is null.
struct EndMasked {
  const long long* total;
  long long room, room_bytes;
  int element_bytes;
  bool exact;
  unsigned char* rest;
  FaultSlot* slot;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long found = *total;
    if (thread.global_index() == 0 && (exact ? found != room : found > room))
      report(thread, slot, 0, static_cast<unsigned long long>(found));
    if (!rest) return;
    for (long long i = found * element_bytes + thread.global_index(); i < room_bytes;
         i += thread.global_size())
      rest[i] = 0;
  }
};

template <class Unit>
const char* move_masked(cudaStream_t stream, const MaskJob& job, long long* space, long long* total) {
  const MoveMasked<Unit> sink{static_cast<const Unit*>(job.x), static_cast<Unit*>(job.y), job.room, job.into};
  return number_flags(stream, job.count, InMask{job.mask}, sink, space, total);
}

const char* move_by_size(cudaStream_t stream, const MaskJob& job, long long* space, long long* total) {
  switch (job.element_bytes) {
    case 8:
      return move_masked<std::uint64_t>(stream, job, space, total);
    case 4:
      return move_masked<std::uint32_t>(stream, job, space, total);
    case 2:
      return move_masked<std::uint16_t>(stream, job, space, total);
    default:
      return move_masked<std::uint8_t>(stream, job, space, total);
  }
}

}  // namespace

std::size_t mask_bytes(long long count) {
  return static_cast<std::size_t>(compact_space(count) + 1) * sizeof(long long);
}

const char* launch_masked(void* on, const MaskJob& job, std::byte* memory) {
  const auto stream = static_cast<cudaStream_t>(on);
  auto* const total = reinterpret_cast<long long*>(memory);
  if (const char* problem = move_by_size(stream, job, total + 1, total)) return problem;
  const long long bytes = job.into ? 0 : job.room * job.element_bytes;
  const EndMasked end{total,     job.room,
                      bytes,     job.element_bytes,
                      job.exact, job.into ? nullptr : static_cast<unsigned char*>(job.y),
                      job.slot};
  return on_gpu::launch_over(stream, job.exact ? 1 : bytes, end);
}

const char* launch_nonzero(void* on, const NonzeroJob& job, std::byte* memory) {
  const auto stream = static_cast<cudaStream_t>(on);
  auto* const total = reinterpret_cast<long long*>(memory);
  if (const char* problem =
          number_flags(stream, job.count, InMask{job.mask}, WritePlaces{job}, total + 1, total))
    return problem;
  return on_gpu::launch_over(stream, 1, EndMasked{total, job.room, 0, 8, true, nullptr, job.slot});
}

}  // namespace heddle::cuda_kernels
