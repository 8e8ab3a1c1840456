// Kernels that read elements at indices.
#include <cstdint>

#include "cuda/indices.h"
#include "families/indexing/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

struct CheckIndices {
  IndexSequence indices;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) indices.read(thread, i);
  }
};

struct alignas(16) Sixteen {
  std::uint64_t words[2];
};

// Entries are runs of `units` units.
template <class Unit> struct TakeEntries {
  IndexSequence indices;
  long long number, total, units;  // of indices; units in y; units of an entry
  const Unit* x;
  Unit* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const Split entry = split(i, units), place = split(entry.quotient, number);
      const bool first = entry.rest == 0 && place.quotient == 0;
      const long long index = indices.read(thread, place.rest, place.rest, 0, first);
      if (index >= 0) y[i] = x[(place.quotient * indices.reader.bound + index) * units + entry.rest];
    }
  }
};

template <class Unit> struct OneHot {
  IndexSequence labels;
  long long total, classes;
  Unit one;
  Unit* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const Split at = split(i, classes);
      const long long label = labels.read(thread, at.quotient, at.quotient, 0, at.rest == 0);
      y[i] = label == at.rest ? one : Unit{0};
    }
  }
};

// The arrays of the layout: x, indices, places, y.
template <class Unit> struct Gather {
  on_gpu::Layout<4> layout;
  IndexReader indices;
  long long step;  // of x along the axis
  const Unit* x;
  Unit* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[4];
      layout.locate(i, at);
      const long long index = indices.read(thread, at[1], at[2]);
      if (index >= 0) y[at[3]] = x[at[0] + index * step];
    }
  }
};

struct FlatPositions {
  int count;
  long long total;
  IndexSequence indices[kMostDims];
  long long* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      long long at = 0;
      for (int k = 0; k < count; ++k) {
        // Of errors in several arrays that in the first one counts.
        const long long index = indices[k].read(thread, i, k * total + i, k);
        at = at * indices[k].reader.bound + (index < 0 ? 0 : index);
      }
      y[i] = at;
    }
  }
};

template <class Unit>
const char* take_units(cudaStream_t stream, const Indices& indices, long long outer, long long units,
                       const void* x, void* y) {
  const long long number = count_of(indices.array);
  const TakeEntries<Unit> kernel{sequence_of(indices),        number,
                                 outer * number * units,      units,
                                 static_cast<const Unit*>(x), static_cast<Unit*>(y)};
  return on_gpu::launch_over(stream, kernel.total, kernel);
}

template <class Unit>
const char* one_hot(cudaStream_t stream, const Indices& labels, unsigned long long one, void* y) {
  const OneHot<Unit> kernel{sequence_of(labels), count_of(labels.array) * labels.bound, labels.bound,
                            static_cast<Unit>(one), static_cast<Unit*>(y)};
  return on_gpu::launch_over(stream, kernel.total, kernel);
}

template <class Unit>
const char* gather(cudaStream_t stream, const Strided& x, const Indices& indices, const long long* places,
                   const Strided& y, int axis) {
  Strided along = x;
  along.strides[axis] = 0;
  const long long* const strides[4] = {along.strides, indices.array.strides, places, y.strides};
  const Gather<Unit> kernel{on_gpu::make_layout<4>(y.dims, y.sizes, strides), reader_of(indices),
                            x.strides[axis], static_cast<const Unit*>(x.data), static_cast<Unit*>(y.data)};
  return on_gpu::launch_over(stream, kernel.layout.count, kernel);
}

}  // namespace

const char* launch_check(void* on, const Indices& indices) {
  const long long count = count_of(indices.array);
  if (count == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), count, CheckIndices{sequence_of(indices), count});
}

const char* launch_take(void* on, const Indices& indices, long long outer, long long inner, int element_bytes,
                        const void* x, void* y) {
  if (outer * inner * count_of(indices.array) == 0) return launch_check(on, indices);
  const auto stream = static_cast<cudaStream_t>(on);
  const long long bytes = inner * element_bytes;
  const auto together = static_cast<unsigned long long>(bytes) | reinterpret_cast<unsigned long long>(x) |
                        reinterpret_cast<unsigned long long>(y);
  if (together % 16 == 0) return take_units<Sixteen>(stream, indices, outer, bytes / 16, x, y);
  if (together % 8 == 0) return take_units<std::uint64_t>(stream, indices, outer, bytes / 8, x, y);
  if (together % 4 == 0) return take_units<std::uint32_t>(stream, indices, outer, bytes / 4, x, y);
  if (together % 2 == 0) return take_units<std::uint16_t>(stream, indices, outer, bytes / 2, x, y);
  return take_units<std::uint8_t>(stream, indices, outer, bytes, x, y);
}

const char* launch_one_hot(void* on, const Indices& labels, int element_bytes, unsigned long long one,
                           void* y) {
  if (labels.bound == 0 || count_of(labels.array) == 0) return launch_check(on, labels);
  const auto stream = static_cast<cudaStream_t>(on);
  if (element_bytes == 8) return one_hot<std::uint64_t>(stream, labels, one, y);
  if (element_bytes == 4) return one_hot<std::uint32_t>(stream, labels, one, y);
  if (element_bytes == 2) return one_hot<std::uint16_t>(stream, labels, one, y);
  return one_hot<std::uint8_t>(stream, labels, one, y);
}

const char* launch_gather(void* on, const Strided& x, const Indices& indices, const long long* places,
                          const Strided& y, int axis) {
  const auto stream = static_cast<cudaStream_t>(on);
  switch (on_gpu::size_of(on_gpu::Type{y.type})) {
    case 8:
      return gather<std::uint64_t>(stream, x, indices, places, y, axis);
    case 4:
      return gather<std::uint32_t>(stream, x, indices, places, y, axis);
    case 2:
      return gather<std::uint16_t>(stream, x, indices, places, y, axis);
    default:
      return gather<std::uint8_t>(stream, x, indices, places, y, axis);
  }
}

const char* launch_flat_indices(void* on, const FlatIndices& job) {
  FlatPositions kernel{job.count, count_of(job.indices[0].array), {}, job.y};
  for (int k = 0; k < job.count; ++k) kernel.indices[k] = sequence_of(job.indices[k]);
  if (kernel.total == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), kernel.total, kernel);
}

}  // namespace heddle::cuda_kernels
