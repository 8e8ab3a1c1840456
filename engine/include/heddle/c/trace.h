// Traces of all engines of the process: which op ran where and when, as a Chrome trace that Perfetto opens.
#pragma once

#include <heddle/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bounds of a trace; 0: the default. Beyond them records are dropped and counted.
typedef struct heddle_trace_options {
  size_t struct_size;     // sizeof(heddle_trace_options)
  uint64_t memory_bytes;  // bound of the records not written yet; by default 256 MiB
  uint64_t file_bytes;    // bound of the file's size; by default 4 GiB
} heddle_trace_options;

// The result of a trace.
typedef struct heddle_trace_summary {
  size_t struct_size;  // sizeof(heddle_trace_summary), set by the caller
  uint64_t records;    // records written: ops, waits, dependencies
  uint64_t dropped;    // records not written
  uint64_t bytes;      // size of the file
} heddle_trace_summary;

// Starts a trace into the file `path`, in which %p is the process id, %r the rank. Null options: the
// defaults. Fails if the file cannot be opened or a trace is running.
HEDDLE_API heddle_status heddle_trace_start(const char* path, const heddle_trace_options* options,
                                            heddle_error** error);
// Writes all records made so far, so that they survive the end of the process.
HEDDLE_API heddle_status heddle_trace_flush(heddle_error** error);
// Ends the trace and closes its file; safe while ops run. HEDDLE_FAILED if the file is not complete. `summary` may be null;
// it is written in any case. Does nothing if no trace is running.
HEDDLE_API heddle_status heddle_trace_stop(heddle_trace_summary* summary, heddle_error** error);

#ifdef __cplusplus
}
#endif
