// Scatter in a fixed order. The indices of each line along the axis are sorted stably together with their positions. Then those of one
// element are neighbours, and one thread adds them up in the order of their positions. So the sums are the CPU's bits. Lines of few
// indices need no sort: one thread takes each.
#include <cstdint>

#include "cuda/indices.h"
#include "cuda/radix_sort.h"
#include "cuda/row_keys.h"
#include "families/indexing/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

constexpr long long kFew = 64;                        // up to so many indices of a line are not sorted
enum How : unsigned char { kSet, kAdd, kMin, kMax };  // Scatter's numbers

// The array's elements of a lane of lines: indices, their positions for errors, sorted keys, source, y.
constexpr int kIndex = 0, kPlace = 1, kKey = 2, kSource = 3, kTarget = 4;

struct Lines {
  on_gpu::Layout<5> layout;  // of the lines
  long long steps[5];        // along the axis
  long long length;
  const void* source;
  void* y;
  Type type;
  How how;

  template <class T> HEDDLE_DEVICE T change(T old, T given) const {
    // Adds bools as a maximum.
    if (how == kAdd) return type == Type::boolean ? (old > given ? old : given) : static_cast<T>(old + given);
    if (how == kMin) return given < old || given != given ? given : old;
    if (how == kMax) return given > old || given != given ? given : old;
    return given;
  }
};

template <class T> struct ScatterFew {
  Lines lines;
  IndexSequence shared;
  bool is_shared;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < lines.layout.count; i += thread.global_size()) {
      long long at[5];
      lines.layout.locate(i, at);
      for (long long j = 0; j < lines.length; ++j) {
        const long long index = is_shared ? shared.read(thread, j, j, 0, i == 0)
                                          : shared.reader.read(thread, at[kIndex] + j * lines.steps[kIndex],
                                                               at[kPlace] + j * lines.steps[kPlace]);
        if (index < 0) continue;
        const long long to = at[kTarget] + index * lines.steps[kTarget];
        const T given = on_gpu::load<T>(lines.source, at[kSource] + j * lines.steps[kSource], lines.type);
        on_gpu::store(
            lines.y, to, lines.type,
            lines.how == kSet ? given : lines.change(on_gpu::load<T>(lines.y, to, lines.type), given));
      }
    }
  }
};

// Keys are indices; the bound stands for one out of range. The arrays of the layout: indices, places, keys.
template <class Key> struct FillKeys {
  on_gpu::Layout<3> layout;
  IndexReader indices;
  Key* keys;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[3];
      layout.locate(i, at);
      const long long index = indices.read(thread, at[0], at[1]);
      keys[at[2]] = static_cast<Key>(index < 0 ? indices.bound : index);
    }
  }
};

// A thread has one sorted key of a line, and works if the key is the first of its value; to set, if it is the last.
template <class T, class Key> struct ScatterSorted {
  Lines lines;
  const Key* keys;
  const unsigned* order;
  long long bound;

  HEDDLE_DEVICE T given(const long long (&at)[5], long long k) const {
    const long long j = order[at[kKey] + k];
    return on_gpu::load<T>(lines.source, at[kSource] + j * lines.steps[kSource], lines.type);
  }
  HEDDLE_DEVICE void take(const long long (&at)[5], long long k) const {
    const Key key = keys[at[kKey] + k];
    if (static_cast<long long>(key) >= bound) return;
    const long long to = at[kTarget] + static_cast<long long>(key) * lines.steps[kTarget];
    if (lines.how == kSet) {
      if (k + 1 < lines.length && keys[at[kKey] + k + 1] == key) return;
      return on_gpu::store(lines.y, to, lines.type, given(at, k));
    }
    if (k > 0 && keys[at[kKey] + k - 1] == key) return;
    T value = on_gpu::load<T>(lines.y, to, lines.type);
    // Loads several elements before it adds them: of an index that is there often, the loads would follow each other else.
    constexpr int kAtOnce = 8;
    const long long end = run_end(k, lines.length, [&](long long i) { return keys[at[kKey] + i]; });
    for (; k + kAtOnce <= end; k += kAtOnce) {
      T values[kAtOnce];
      HEDDLE_UNROLL
      for (int i = 0; i < kAtOnce; ++i) values[i] = given(at, k + i);
      HEDDLE_UNROLL
      for (int i = 0; i < kAtOnce; ++i) value = lines.change(value, values[i]);
    }
    for (; k < end; ++k) value = lines.change(value, given(at, k));
    on_gpu::store(lines.y, to, lines.type, value);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long total = lines.layout.count * lines.length;
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const Split place = split(i, lines.layout.count);
      long long at[5];
      lines.layout.locate(place.rest, at);
      take(at, place.quotient);
    }
  }
};

// The axis of an array moved behind all others, or with `drop` left out.
void move_axis(const Strided& array, const long long* strides, int axis, bool drop, long long* sizes,
               long long* moved) {
  int to = 0;
  for (int d = 0; d < array.dims; ++d) {
    if (d == axis) continue;
    sizes[to] = array.sizes[d];
    moved[to++] = strides[d];
  }
  if (drop) return;
  sizes[to] = array.sizes[axis];
  moved[to] = strides[axis];
}

Type type_of(const ScatterJob& job) {
  const Type type{job.y.type};
  if (How{job.how} != kSet) return type;
  switch (on_gpu::size_of(type)) {  // bits are moved
    case 8:
      return Type::u64;
    case 4:
      return Type::u32;
    case 2:
      return Type::u16;
    default:
      return Type::u8;
  }
}

Lines lines_of(const ScatterJob& job) {
  Lines made{};
  const int axis = job.axis;
  made.length = job.source.sizes[axis];
  made.source = job.source.data;
  made.y = job.y.data;
  made.type = type_of(job);
  made.how = How{job.how};
  long long sizes[kMostDims] = {}, strides[5][kMostDims] = {};
  move_axis(job.source, job.source.strides, axis, true, sizes, strides[kSource]);
  move_axis(job.source, job.y.strides, axis, true, sizes, strides[kTarget]);
  made.steps[kSource] = job.source.strides[axis];
  made.steps[kTarget] = job.y.strides[axis];
  made.steps[kKey] = 1;
  if (!job.shared) {
    move_axis(job.source, job.indices.array.strides, axis, true, sizes, strides[kIndex]);
    move_axis(job.source, job.places, axis, true, sizes, strides[kPlace]);
    made.steps[kIndex] = job.indices.array.strides[axis];
    made.steps[kPlace] = job.places[axis];
    contiguous_strides(job.source.dims - 1, sizes, strides[kKey]);
    for (int d = 0; d < job.source.dims - 1; ++d) strides[kKey][d] *= made.length;
  }
  const long long* const all[5] = {strides[0], strides[1], strides[2], strides[3], strides[4]};
  made.layout = on_gpu::make_layout<5>(job.source.dims - 1, sizes, all);
  return made;
}

template <class Key> FillKeys<Key> fill_of(const ScatterJob& job, void* keys) {
  FillKeys<Key> made{{}, reader_of(job.indices), static_cast<Key*>(keys)};
  long long sizes[kMostDims] = {}, strides[3][kMostDims] = {};
  const Strided& shape = job.shared ? job.indices.array : job.source;
  if (job.shared) {
    for (int d = 0; d < shape.dims; ++d) sizes[d] = shape.sizes[d], strides[0][d] = shape.strides[d];
    contiguous_strides(shape.dims, sizes, strides[1]);
  } else {
    move_axis(shape, job.indices.array.strides, job.axis, false, sizes, strides[0]);
    move_axis(shape, job.places, job.axis, false, sizes, strides[1]);
  }
  contiguous_strides(shape.dims, sizes, strides[2]);
  const long long* const all[3] = {strides[0], strides[1], strides[2]};
  made.layout = on_gpu::make_layout<3>(shape.dims, sizes, all);
  return made;
}

SortJob sort_of(const ScatterJob& job, std::byte* space) {
  SortJob made{1, job.source.sizes[job.axis], 4, 1, space};
  if (!job.shared && made.length > 0) made.lines = count_of(job.source) / made.length;
  while (made.bits < 63 && job.indices.bound >> made.bits) ++made.bits;
  if (made.bits > 32) made.key_bytes = 8;
  return made;
}

template <class T, class Key>
const char* scatter_sorted(cudaStream_t stream, const ScatterJob& job, const SortJob& sort) {
  const FillKeys<Key> fill = fill_of<Key>(job, keys_to_sort(sort));
  if (const char* problem = on_gpu::launch_over(stream, fill.layout.count, fill)) return problem;
  SortedKeys sorted;
  if (const char* problem = sort_keys(stream, sort, sorted)) return problem;
  const Lines lines = lines_of(job);
  return on_gpu::launch_over(
      stream, lines.layout.count * lines.length,
      ScatterSorted<T, Key>{lines, static_cast<const Key*>(sorted.keys), sorted.order, job.indices.bound});
}

template <class T> const char* scatter_as(cudaStream_t stream, const ScatterJob& job, std::byte* space) {
  if (job.source.sizes[job.axis] <= kFew) {
    const ScatterFew<T> kernel{lines_of(job), sequence_of(job.indices), job.shared};
    return on_gpu::launch_over(stream, kernel.lines.layout.count, kernel);
  }
  const SortJob sort = sort_of(job, space);
  return sort.key_bytes == 4 ? scatter_sorted<T, std::uint32_t>(stream, job, sort)
                             : scatter_sorted<T, std::uint64_t>(stream, job, sort);
}

}  // namespace

std::size_t scatter_bytes(const ScatterJob& job) {
  if (job.source.sizes[job.axis] <= kFew || count_of(job.source) == 0) return 0;
  const SortJob sort = sort_of(job, nullptr);
  return sort_bytes(sort.lines, sort.length, sort.key_bytes);
}

const char* launch_scatter(void* on, const ScatterJob& job, std::byte* space) {
  const auto stream = static_cast<cudaStream_t>(on);
  if (count_of(job.source) == 0) return nullptr;
  switch (type_of(job)) {
    case Type::f32:
      return scatter_as<float>(stream, job, space);
    case Type::f64:
      return scatter_as<double>(stream, job, space);
    case Type::i8:
    case Type::i16:
    case Type::i32:
    case Type::i64:
      // Sums of signed integers wrap around as those of unsigned ones.
      return scatter_as<long long>(stream, job, space);
    default:
      return scatter_as<unsigned long long>(stream, job, space);
  }
}

}  // namespace heddle::cuda_kernels
