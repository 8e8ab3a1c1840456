#include <heddle/c/report.h>
#include <heddle/memory_report.h>
#include <heddle/print_options.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_print_options_get(heddle_print_options* options, heddle_error** error) {
  return called(error, [&] {
    check_struct(options, "heddle_print_options_get", "heddle_print_options");
    const PrintOptions now = print_options();
    *options = {.struct_size = sizeof *options,
                .precision = now.precision,
                .suppress = now.suppress ? 1 : 0,
                .threshold = now.threshold,
                .edgeitems = now.edgeitems,
                .linewidth = now.linewidth};
  });
}

heddle_status heddle_print_options_set(const heddle_print_options* options, heddle_error** error) {
  return called(error, [&] {
    check_struct(options, "heddle_print_options_set", "heddle_print_options");
    set_print_options({.precision = options->precision,
                       .threshold = options->threshold,
                       .edgeitems = options->edgeitems,
                       .linewidth = options->linewidth,
                       .suppress = options->suppress != 0});
  });
}

heddle_status heddle_memory_track(int32_t on, heddle_error** error) {
  return called(error, [&] { track_memory(on != 0); });
}

heddle_status heddle_memory_report(char** text, heddle_error** error) {
  return called(error, [&] {
    check_out(text, "heddle_memory_report", "text");
    *text = make_text(memory_report().to_string());
  });
}
