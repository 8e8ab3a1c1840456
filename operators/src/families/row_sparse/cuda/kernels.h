// Kernels of row-sparse arrays for GPUs, in plain types. Functions enqueue work on a cudaStream_t and return why they could not; null
// if they could.
#pragma once

#include "cuda/present_rows.h"
#include "cuda/strided.h"

namespace heddle::cuda_kernels {

// Entries with these indices. Their rows are rows of `values`: those at the indices, or with `in_order` one after another. Errors are
// reported behind those of row-sparse arrays.
const char* launch_row_entries(void* stream, const Indices& rows, const void* values, bool in_order,
                               const RowEntries& entries);

// Looks at the count and the rows. The other kernels that read a row-sparse array do so too.
const char* launch_check_rows(void* stream, const PresentRows& rows);
// Entries from `first` on: the rows that are present; the rest of x's capacity are entries without an index.
const char* launch_present_entries(void* stream, const PresentRows& rows, const RowEntries& entries,
                                   long long first);
// dense += x, whose rows have `width` elements of a DType.
const char* launch_add_rows(void* stream, const PresentRows& rows, void* dense, long long width,
                            unsigned char type);

}  // namespace heddle::cuda_kernels
