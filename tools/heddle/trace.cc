// heddle trace: reads a trace, and writes a report or a timeline page.
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "command.h"
#include "trace/analysis.h"
#include "trace/page.h"
#include "trace/report.h"
#include "trace/trace_file.h"

namespace heddle::tool {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string html;
  TextOptions text;
  bool json = false;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

int run(const Options& options) {
  const Trace trace = read_traces(options.files);
  const Analysis analysis = analyse(trace, options.text.top);
  const std::string text =
      options.json ? json_report(trace, analysis) : text_report(trace, analysis, options.text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!options.html.empty()) write_file(options.html, html_page(trace, analysis));
  return 0;
}

}  // namespace

void add_trace(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command(
      "trace",
      "Reads a trace and says how long it took, who was busy, which chain of ops the time went into,\n"
      "which ops took most, where workers had nothing to do, and how much of the communication with\n"
      "other processes was hidden: other ops computed meanwhile.");
  command
      .add_option("file", options->files,
                  "a trace that HEDDLE_TRACE=FILE wrote; - is stdin. Several: of the ranks of one job,\n"
                  "which HEDDLE_TRACE=out.%r.json wrote; laid on one clock")
      .required();
  command.add_option("--html", options->html, "draw the timeline, as one page that needs no network")
      .type_name("FILE");
  command.add_option("--top", options->text.top, "how many ops and gaps to list")
      .show_default()
      .range(0, 1'000'000)
      .type_name("N");
  command.add_flag("--path", options->text.path,
                   "list the single ops of the critical path too, from first to last");
  command.add_flag("--json", options->json, "print JSON; times are in nanoseconds");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
