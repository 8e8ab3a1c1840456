// Registers the kernels of row-sparse arrays for GPUs.
#include <string>
#include <vector>

#include <heddle/error.h>

#include "core/data_error.h"
#include "core/kernel_table.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "cuda/sparse_rows.h"
#include "families/row_sparse/cuda/kernels.h"
#include "families/row_sparse/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using check::AccessKind;

// Entries without memory yet.
RowEntries entries_for(const char* op, std::int64_t count, const Shape& shape, DType dtype) {
  if (count > kLongestSort) throw Error(with_call_site(std::string(op) + ": more than 2^32 rows"));
  return {count, shape[0], row_width(shape), static_cast<int>(size_of(dtype)), nullptr};
}

// Throws the error for the rows of a row-sparse array or, for kBadRow, the one for a list of rows.
void check_rows(const KernelContext& context, const DataFault& fault, const char* op, std::int64_t bound,
                const NDArray& rows) {
  fault.check(context, [op, bound, refuse = index_refusal(op, rows, bound)](const FaultSlot& found) {
    if (found.kind != kBadRow) refuse_present(op, bound, found);
    FaultSlot at = found;
    at.place -= kIndexFault;
    refuse(at);
  });
}

void row_sparse_kernel(const KernelContext& context, const char* op, const NDArray& rows,
                       const NDArray& values, const RowSparse& y) {
  const DataFault fault(context);
  RowEntries entries = entries_for(op, rows.size(), y.shape(), y.dtype());
  const Scratch space(context, entries_bytes(entries));
  entries.space = space.as();
  const Indices at = index_list(rows, y.shape()[0], false, fault.slot());
  void* const stream = context.stream().native();
  check_launch(context, launch_row_entries(stream, at, read_address(values), true, entries));
  check_launch(context, sum_entries(stream, entries, sparse_rows(y)));
  check_rows(context, fault, op, y.shape()[0], rows);
}

void retain_kernel(const KernelContext& context, const NDArray& x, const NDArray& rows, const RowSparse& y) {
  const DataFault fault(context);
  RowEntries entries = entries_for("retain", rows.size(), x.shape(), x.dtype());
  const Scratch space(context, entries_bytes(entries));
  entries.space = space.as();
  const Indices at = index_list(rows, x.shape()[0], false, fault.slot());
  void* const stream = context.stream().native();
  check_launch(context, launch_row_entries(stream, at, read_address(x), false, entries));
  check_launch(context, copy_entries(stream, entries, read_address(x), nullptr, sparse_rows(y)));
  check_rows(context, fault, "retain", x.shape()[0], rows);
}

void retain_rows_kernel(const KernelContext& context, const RowSparse& x, const NDArray& rows,
                        const RowSparse& y) {
  const DataFault fault(context);
  RowEntries entries = entries_for("retain", rows.size(), x.shape(), x.dtype());
  const Scratch space(context, entries_bytes(entries));
  entries.space = space.as();
  const Indices at = index_list(rows, x.shape()[0], false, fault.slot());
  const PresentRows present = present_in(x, 0, fault);
  void* const stream = context.stream().native();
  check_launch(context, launch_check_rows(stream, present));
  check_launch(context, launch_row_entries(stream, at, nullptr, false, entries));
  check_launch(context, copy_entries(stream, entries, present.x.values, &present.x, sparse_rows(y)));
  check_rows(context, fault, "retain", x.shape()[0], rows);
}

void sum_rows_kernel(const KernelContext& context, std::span<const RowSparse> arrays, const RowSparse& y) {
  const DataFault fault(context);
  std::int64_t count = 0;
  for (const RowSparse& x : arrays) count += x.capacity();
  RowEntries entries = entries_for("sum", count, y.shape(), y.dtype());
  const Scratch space(context, entries_bytes(entries));
  entries.space = space.as();
  void* const stream = context.stream().native();
  long long first = 0;
  int number = 0;
  for (const RowSparse& x : arrays) {
    check_launch(context, launch_present_entries(stream, present_in(x, number++, fault), entries, first));
    first += x.capacity();
  }
  check_launch(context, sum_entries(stream, entries, sparse_rows(y)));
  fault.check(context,
              [bound = y.shape()[0]](const FaultSlot& found) { refuse_present("sum", bound, found); });
}

void add_rows_kernel(const KernelContext& context, const NDArray& dense, const RowSparse& x) {
  const DataFault fault(context);
  void* const to = dense.size() == 0 ? nullptr : address(dense, AccessKind::write);
  check_launch(context, launch_add_rows(context.stream().native(), present_in(x, 0, fault), to,
                                        row_width(x.shape()), static_cast<unsigned char>(x.dtype())));
  fault.check(context,
              [bound = x.shape()[0]](const FaultSlot& found) { refuse_present("add_rows", bound, found); });
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(row_sparse) {
  using namespace cuda_kernels;
  table.add<RowSparseKernel>("row_sparse", DeviceKind::cuda, row_sparse_kernel);
  table.add<RetainKernel>("retain", DeviceKind::cuda, retain_kernel);
  table.add<RetainRowsKernel>("retain_rows", DeviceKind::cuda, retain_rows_kernel);
  table.add<SumRowsKernel>("sum_rows", DeviceKind::cuda, sum_rows_kernel);
  table.add<AddRowsKernel>("add_rows", DeviceKind::cuda, add_rows_kernel);
}

}  // namespace heddle
