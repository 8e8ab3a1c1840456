// sort, argsort, topk and unique: elements become keys, which a stable sort orders together with their positions.
#include <cstdint>

#include "cuda/compact.h"
#include "cuda/indices.h"
#include "cuda/radix_sort.h"
#include "cuda/sort_key.h"
#include "families/sorting/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

// With `descending` keys are inverted, so that equal elements keep their order.
template <class Key> struct MakeKeys {
  KeyRule rule;
  const void* x;
  long long count;
  Key* keys;
  bool descending;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const unsigned long long key = rule.key_at(x, i);
      keys[i] = static_cast<Key>(descending ? ~key & rule.all : key);
    }
  }
};

struct WriteSorted {
  SortLines job;
  const unsigned* order;
  int size;  // of an element
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long total = job.lines * job.count;
    for (long long i = thread.global_index(); i < total; i += thread.global_size()) {
      const Split at = split(i, job.count);
      const long long line = at.quotient * job.length;
      const unsigned index = order[line + job.first + at.rest];
      if (job.values) store_bits(job.values, i, size, load_bits(job.x, line + index, size));
      if (job.indices) job.indices[i] = index;
    }
  }
};

SortJob sort_of(long long lines, long long length, Type type, std::byte* space) {
  const int size = on_gpu::size_of(type);
  return {lines, length, size == 8 ? 8 : 4, 8 * size, space};
}

const char* sort_elements(cudaStream_t stream, const void* x, Type type, bool descending, const SortJob& sort,
                          SortedKeys& sorted) {
  const KeyRule rule = key_rule(type);
  const long long count = sort.lines * sort.length;
  void* const keys = keys_to_sort(sort);
  const char* const problem =
      sort.key_bytes == 8
          ? on_gpu::launch_over(
                stream, count,
                MakeKeys<std::uint64_t>{rule, x, count, static_cast<std::uint64_t*>(keys), descending})
          : on_gpu::launch_over(
                stream, count,
                MakeKeys<std::uint32_t>{rule, x, count, static_cast<std::uint32_t*>(keys), descending});
  return problem ? problem : sort_keys(stream, sort, sorted);
}

// Sorted elements of one line.
struct SortedLine {
  const void* keys;
  const unsigned* order;
  unsigned long long nan;  // the key of NaN
  int key_bytes;
  HEDDLE_DEVICE unsigned long long key(long long i) const { return load_bits(keys, i, key_bytes); }
};

struct IsNew {
  SortedLine line;
  bool apart;  // NaNs are not equal
  HEDDLE_DEVICE bool operator()(long long i) const {
    if (i == 0) return true;
    const unsigned long long key = line.key(i);
    return key != line.key(i - 1) || (apart && key == line.nan);
  }
};

struct WriteUnique {
  SortedLine line;
  UniqueJob job;
  long long* starts;
  int size;
  HEDDLE_DEVICE void operator()(long long i, bool flag, long long before) const {
    const unsigned index = line.order[i];
    const long long number = before + (flag ? 0 : -1);
    if (flag) store_bits(job.values, number, size, load_bits(job.x, index, size));
    if (!job.indices) return;
    if (flag) job.indices[number] = index, starts[number] = i;
    job.inverse[index] = number;
  }
};

struct WriteCounts {
  const long long *number, *starts;
  long long* counts;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long distinct = *number;
    for (long long i = thread.global_index(); i < distinct; i += thread.global_size())
      counts[i] = (i + 1 < distinct ? starts[i + 1] : count) - starts[i];
  }
};

}  // namespace

std::size_t sort_space(const SortLines& job) {
  const SortJob sort = sort_of(job.lines, job.length, Type{job.type}, nullptr);
  return sort_bytes(sort.lines, sort.length, sort.key_bytes);
}

const char* launch_sort(void* on, const SortLines& job, std::byte* space) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Type type{job.type};
  if (job.lines * job.count == 0) return nullptr;
  SortedKeys sorted;
  if (const char* problem = sort_elements(stream, job.x, type, job.descending,
                                          sort_of(job.lines, job.length, type, space), sorted))
    return problem;
  return on_gpu::launch_over(stream, job.lines * job.count,
                             WriteSorted{job, sorted.order, on_gpu::size_of(type)});
}

std::size_t unique_space(const UniqueJob& job) {
  const SortJob sort = sort_of(1, job.count, Type{job.type}, nullptr);
  return sort_bytes(1, job.count, sort.key_bytes) +
         static_cast<std::size_t>(compact_space(job.count) + job.count) * sizeof(long long);
}

const char* launch_unique(void* on, const UniqueJob& job, std::byte* space) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Type type{job.type};
  const SortJob sort = sort_of(1, job.count, type, space);
  SortedKeys sorted;
  if (const char* problem = sort_elements(stream, job.x, type, false, sort, sorted)) return problem;
  auto* const starts = reinterpret_cast<long long*>(space + sort_bytes(1, job.count, sort.key_bytes));
  const KeyRule rule = key_rule(type);
  const SortedLine line{sorted.keys, sorted.order, rule.all, sort.key_bytes};
  const WriteUnique sink{line, job, starts, rule.size};
  if (const char* problem = number_flags(stream, job.count, IsNew{line, !job.equal_nan && rule.infinity != 0},
                                         sink, starts + job.count, job.number))
    return problem;
  if (!job.counts) return nullptr;
  return on_gpu::launch_over(stream, job.count, WriteCounts{job.number, starts, job.counts, job.count});
}

}  // namespace heddle::cuda_kernels
