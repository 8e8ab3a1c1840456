// Kernels of embedding_bag. A thread has one column of one bag, whose rows it adds up in their order.
#include "cuda/indices.h"
#include "cuda/row_keys.h"
#include "families/indexing/cuda/bags.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

enum Mode : unsigned char { kSum, kMean, kMax };  // BagMode's numbers

// Offsets that are refused become ones that no bag reads beyond the indices with.
struct CheckOffsets {
  IndexSequence offsets;  // with the bound total + 1
  long long count, total;
  long long* begins;
  FaultSlot* slot;

  HEDDLE_DEVICE long long offset(on_gpu::Thread& thread, long long bag) const {
    const long long given = offsets.read(thread, bag, kBagFault * kBadOffset + bag, kBadOffset);
    return given < 0 ? total : given;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long bag = thread.global_index(); bag <= count; bag += thread.global_size()) {
      const long long begin = bag == count ? total : offset(thread, bag);
      begins[bag] = begin;
      if (bag == count) continue;
      if (bag == 0) {
        if (begin != 0)
          report(thread, slot, kBagFault * kBadFirst, static_cast<unsigned long long>(begin), kBadFirst);
        continue;
      }
      const long long previous = offset(thread, bag - 1);
      if (begin < previous)
        report(thread, slot, kBagFault * kFalling + bag, static_cast<unsigned long long>(begin), kFalling,
               static_cast<unsigned long long>(previous));
    }
  }
};

struct MakeLists {
  IndexSequence indices;
  long long total, padding;
  long long* rows;
  long long bags, length;
  long long* begins;  // null: made from offsets
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const long long row = indices.read(thread, i, i, kBadIndex);
      rows[i] = row == padding ? -1 : row;
    }
    if (!begins) return;
    for (long long bag = thread.global_index(); bag <= bags; bag += thread.global_size())
      begins[bag] = bag * length;
  }
};

struct CountRows {
  BagLists lists;
  long long bags;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long bag = thread.global_index(); bag < bags; bag += thread.global_size()) {
      long long count = 0;
      for (long long i = lists.begins[bag]; i < lists.begins[bag + 1]; ++i) count += lists.rows[i] >= 0;
      lists.counts[bag] = count < 1 ? 1 : count;
    }
  }
};

template <class T> struct SumBags {
  BagLists lists;
  BagSums sums;
  long long total;  // elements of y
  Type type;
  Mode mode;

  HEDDLE_DEVICE T sum(long long begin, long long end, long long column) const {
    T result = 0;
    long long count = 0;
    for (long long i = begin; i < end; ++i) {
      const long long row = lists.rows[i];
      if (row < 0) continue;
      ++count;
      const T factor = sums.factors ? on_gpu::load<T>(sums.factors, i, type) : T{1};
      result += on_gpu::load<T>(sums.weight, row * sums.width + column, type) * factor;
    }
    return mode == kMean && count > 1 ? result / static_cast<T>(count) : result;
  }
  HEDDLE_DEVICE T most(long long begin, long long end, long long column, long long& place) const {
    T result = 0;
    place = -1;
    for (long long i = begin; i < end; ++i) {
      const long long row = lists.rows[i];
      if (row < 0) continue;
      const T value = on_gpu::load<T>(sums.weight, row * sums.width + column, type);
      if (place >= 0 && !(value > result || (value != value && result == result))) continue;
      result = value;
      place = row;
    }
    return result;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const Split at = split(i, sums.width);
      const long long begin = lists.begins[at.quotient], end = lists.begins[at.quotient + 1];
      long long place = -1;
      const T value = mode == kMax ? most(begin, end, at.rest, place) : sum(begin, end, at.rest);
      on_gpu::store(sums.y, i, type, value);
      if (sums.places) sums.places[i] = place;
    }
  }
};

struct FillEntries {
  BagLists lists;
  EntryLists entries;
  const unsigned char* gradient;
  long long bags, total, bound, row_bytes;
  long long* part_of;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const long long bag = count_below(lists.begins, bags, i, true) - 1, row = lists.rows[i];
      const bool counts = row >= 0 && bag >= 0;
      store_key(entries, i, counts ? row : bound);
      entries.rows[i] = counts ? gradient + bag * row_bytes : nullptr;
      part_of[i] = counts ? bag : 0;
    }
  }
};

}  // namespace

std::size_t lists_bytes(const Bags& bags) {
  return static_cast<std::size_t>(bags.total + 2 * bags.count + 1) * sizeof(long long);
}

BagLists bag_lists(const Bags& bags, std::byte* space) {
  auto* const rows = reinterpret_cast<long long*>(space);
  return {rows, rows + bags.total, rows + bags.total + bags.count + 1};
}

const char* launch_bags(void* on, const Bags& bags, const BagLists& lists, bool counts) {
  const auto stream = static_cast<cudaStream_t>(on);
  const MakeLists make{sequence_of(bags.indices),
                       bags.total,
                       bags.padding,
                       lists.rows,
                       bags.count,
                       bags.length,
                       bags.has_offsets ? nullptr : lists.begins};
  const long long most = bags.total > bags.count ? bags.total : bags.count + 1;
  if (const char* problem = on_gpu::launch_over(stream, most, make)) return problem;
  if (bags.has_offsets) {
    const Indices offsets{bags.offsets, bags.total + 1, false, bags.indices.slot};
    const CheckOffsets check{sequence_of(offsets), bags.count, bags.total, lists.begins, bags.indices.slot};
    if (const char* problem = on_gpu::launch_over(stream, bags.count + 1, check)) return problem;
  }
  return counts ? on_gpu::launch_over(stream, bags.count, CountRows{lists, bags.count}) : nullptr;
}

const char* launch_bag_sums(void* on, const Bags& bags, const BagLists& lists, const BagSums& sums) {
  const auto stream = static_cast<cudaStream_t>(on);
  const long long total = bags.count * sums.width;
  if (total == 0) return nullptr;
  const Type type{sums.type};
  if (type == Type::f64)
    return on_gpu::launch_over(stream, total, SumBags<double>{lists, sums, total, type, Mode{bags.mode}});
  return on_gpu::launch_over(stream, total, SumBags<float>{lists, sums, total, type, Mode{bags.mode}});
}

const char* launch_bag_entries(void* on, const Bags& bags, const BagLists& lists, const void* gradient,
                               const RowEntries& entries, long long* part_of) {
  if (bags.total == 0) return nullptr;
  const FillEntries fill{lists,
                         lists_of(entries),
                         static_cast<const unsigned char*>(gradient ? gradient : entries.space),
                         bags.count,
                         bags.total,
                         entries.bound,
                         entries.width * entries.element_bytes,
                         part_of};
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), bags.total, fill);
}

}  // namespace heddle::cuda_kernels
