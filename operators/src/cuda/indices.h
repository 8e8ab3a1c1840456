// How kernels read arrays of indices: an index that is out of range is reported, and no memory is touched with it.
#pragma once

#include "cuda/report.h"
#include "cuda/strided.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

// A division of 64 bits takes several times as long as one of 32.
struct Split {
  long long quotient, rest;
};
HEDDLE_DEVICE inline Split split(long long number, long long by) {
  if (((number | by) >> 32) == 0) {
    const unsigned quotient = static_cast<unsigned>(number) / static_cast<unsigned>(by);
    return {quotient, static_cast<unsigned>(number) - quotient * static_cast<unsigned>(by)};
  }
  const long long quotient = number / by;
  return {quotient, number - quotient * by};
}

inline void contiguous_strides(int dims, const long long* sizes, long long* strides) {
  long long step = 1;
  for (int d = dims - 1; d >= 0; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
}

// Elements in row-major order, since the second array, the last one, is contiguous.
inline on_gpu::Layout<2> row_major_layout(const Strided& array) {
  long long order[kMostDims];
  contiguous_strides(array.dims, array.sizes, order);
  const long long* const strides[2] = {array.strides, order};
  return on_gpu::make_layout<2>(array.dims, array.sizes, strides);
}

struct IndexReader {
  const void* data;
  long long bound;
  FaultSlot* slot;
  on_gpu::Type type;
  bool is_unsigned, from_end;

  // The index at an offset, counted from the front; -1 if it is out of range. `place` orders errors. Of threads that read the
  // same index one reports it.
  HEDDLE_DEVICE long long read(on_gpu::Thread& thread, long long offset, long long place, int kind = 0,
                               bool reports = true) const {
    unsigned long long given;
    if (is_unsigned) {
      given = on_gpu::load<unsigned long long>(data, offset, type);
      if (given < static_cast<unsigned long long>(bound)) return static_cast<long long>(given);
    } else {
      const long long value = on_gpu::load<long long>(data, offset, type);
      const long long index = value < 0 && from_end ? value + bound : value;
      if (index >= 0 && index < bound) return index;
      given = static_cast<unsigned long long>(value);
    }
    if (slot && reports) report(thread, slot, place, given, kind);
    return -1;
  }
};

inline IndexReader reader_of(const Indices& indices) {
  const on_gpu::Type type{indices.array.type};
  const bool is_unsigned = type == on_gpu::Type::u8 || type == on_gpu::Type::u16 ||
                           type == on_gpu::Type::u32 || type == on_gpu::Type::u64;
  return {indices.array.data, indices.bound, indices.slot, type, is_unsigned, indices.from_end};
}

// All indices in row-major order.
struct IndexSequence {
  IndexReader reader;
  on_gpu::Layout<2> layout;
  bool flat;

  HEDDLE_DEVICE long long read(on_gpu::Thread& thread, long long i, long long place, int kind = 0,
                               bool reports = true) const {
    if (flat) return reader.read(thread, i, place, kind, reports);
    long long at[2];
    layout.locate(i, at);
    return reader.read(thread, at[0], place, kind, reports);
  }
  HEDDLE_DEVICE long long read(on_gpu::Thread& thread, long long i) const { return read(thread, i, i); }
};

inline IndexSequence sequence_of(const Indices& indices) {
  IndexSequence made{reader_of(indices), row_major_layout(indices.array), false};
  made.flat = made.layout.dims == 1 && made.layout.steps[0][0] == 1;
  return made;
}

}  // namespace heddle::cuda_kernels
