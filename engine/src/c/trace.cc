#include <heddle/c/trace.h>
#include <heddle/trace.h>

#include "c/boundary.h"

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_trace_start(const char* path, const heddle_trace_options* options,
                                 heddle_error** error) {
  return guarded(error, [&] {
    if (!path) throw_null("heddle_trace_start", "path");
    trace::TraceOptions bounds;
    if (options) {
      check_struct(options, "heddle_trace_start", "heddle_trace_options");
      if (options->memory_bytes > 0) bounds.memory = options->memory_bytes;
      if (options->file_bytes > 0) bounds.file = options->file_bytes;
    }
    trace::start(path, bounds);
  });
}

heddle_status heddle_trace_flush(heddle_error** error) {
  return guarded(error, [&] { trace::flush(); });
}

heddle_status heddle_trace_stop(heddle_trace_summary* summary, heddle_error** error) {
  return guarded(error, [&] {
    if (summary) check_struct(summary, "heddle_trace_stop", "heddle_trace_summary");
    const trace::TraceSummary result = trace::stop();
    if (summary) *summary = {sizeof *summary, result.records, result.dropped, result.bytes};
    if (!result.error.empty()) throw Error("trace " + result.path + ": " + result.error);
  });
}
