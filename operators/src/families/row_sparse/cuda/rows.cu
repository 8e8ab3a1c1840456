// Kernels that read row-sparse arrays.
#include "cuda/indices.h"
#include "cuda/read_present.h"
#include "cuda/row_keys.h"
#include "families/row_sparse/cuda/kernels.h"

// Rows without elements have no address. Then any other one stands for it, since null means that there is no row.
namespace heddle::cuda_kernels {
namespace {

struct FillRows {
  IndexSequence indices;
  EntryLists entries;
  const unsigned char* values;
  long long count, row_bytes;
  bool in_order;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long row = indices.read(thread, i, kIndexFault + i, kBadRow);
      store_key(entries, i, row < 0 ? indices.reader.bound : row);
      entries.rows[i] = row < 0 ? nullptr : values + (in_order ? i : row) * row_bytes;
    }
  }
};

struct CheckRows {
  PresentRows rows;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = present_count(thread, rows);
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      present_row(thread, rows, i);
  }
};

struct FillPresent {
  PresentRows rows;
  EntryLists entries;
  long long first, row_bytes;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = present_count(thread, rows);
    const auto* const values = static_cast<const unsigned char*>(rows.x.values);
    for (long long i = thread.global_index(); i < rows.x.capacity; i += thread.global_size()) {
      const long long row = i < count ? present_row(thread, rows, i) : -1;
      store_key(entries, first + i, row < 0 ? rows.bound : row);
      entries.rows[first + i] = row < 0 ? nullptr : values + i * row_bytes;
    }
  }
};

template <class T> struct AddRows {
  PresentRows rows;
  void* dense;
  long long width;
  on_gpu::Type type;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long total = present_count(thread, rows) * width;
    for (long long at = thread.global_index(); at < total; at += thread.global_size()) {
      const Split place = split(at, width);
      const long long row = present_row(thread, rows, place.quotient);
      if (row < 0) continue;
      const long long to = row * width + place.rest;
      on_gpu::store(dense, to, type,
                    on_gpu::load<T>(dense, to, type) + on_gpu::load<T>(rows.x.values, at, type));
    }
  }
};

}  // namespace

const char* launch_row_entries(void* on, const Indices& rows, const void* values, bool in_order,
                               const RowEntries& entries) {
  if (entries.count == 0) return nullptr;
  const FillRows fill{sequence_of(rows),
                      lists_of(entries),
                      static_cast<const unsigned char*>(values ? values : entries.space),
                      entries.count,
                      entries.width * entries.element_bytes,
                      in_order};
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), entries.count, fill);
}

const char* launch_check_rows(void* on, const PresentRows& rows) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), rows.x.capacity, CheckRows{rows});
}

const char* launch_present_entries(void* on, const PresentRows& rows, const RowEntries& entries,
                                   long long first) {
  FillPresent fill{rows, lists_of(entries), first, entries.width * entries.element_bytes};
  if (!fill.rows.x.values) fill.rows.x.values = entries.space;
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), rows.x.capacity, fill);
}

const char* launch_add_rows(void* on, const PresentRows& rows, void* dense, long long width,
                            unsigned char dtype) {
  const auto stream = static_cast<cudaStream_t>(on);
  const on_gpu::Type type{dtype};
  if (width == 0) return launch_check_rows(on, rows);
  if (type == on_gpu::Type::f64)
    return on_gpu::launch_over(stream, rows.x.capacity * width, AddRows<double>{rows, dense, width, type});
  return on_gpu::launch_over(stream, rows.x.capacity * width, AddRows<float>{rows, dense, width, type});
}

}  // namespace heddle::cuda_kernels
