// Options for printing arrays, and a report of the memory of arrays by call site.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// Options of heddle_array_to_text, like those of numpy.set_printoptions. Each thread has its own. Defaults:
// precision 8, threshold 1000, edgeitems 3, linewidth 75, suppress 0.
typedef struct heddle_print_options {
  size_t struct_size;  // sizeof(heddle_print_options), set by the caller
  int32_t precision;   // largest number of digits behind the decimal point
  int32_t suppress;    // 1: no exponents for small numbers, which are rounded to `precision` digits instead
  int64_t threshold;   // arrays with more elements are printed as a summary
  int64_t edgeitems;   // elements that a summary shows at each end of an axis; 1 or more
  int64_t linewidth;   // characters of a line; 1 or more
} heddle_print_options;

HEDDLE_API heddle_status heddle_print_options_get(heddle_print_options* options, heddle_error** error);
HEDDLE_API heddle_status heddle_print_options_set(const heddle_print_options* options, heddle_error** error);

// `on` 1: the memory of new arrays is counted by the call site that makes them (heddle_site_set), which costs
// a lock and a look-up for each array; 0: it is not counted.
HEDDLE_API heddle_status heddle_memory_track(int32_t on, heddle_error** error);
// A table of the bytes of the arrays that heddle_memory_track counts, current and highest, by call site, and
// of the allocator's cached memory. The caller frees *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_memory_report(char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
