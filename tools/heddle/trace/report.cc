#include "report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

namespace heddle::tool {
namespace {

constexpr std::size_t kNameWidth = 40;

// Replaces control characters, which would move the terminal's cursor, and cuts the text to `most` bytes.
std::string printable(const std::string& text, std::size_t most = std::string::npos) {
  std::string out;
  for (const char c : text.substr(0, most))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return text.size() > most ? out + "..." : out;
}

std::string format(const char* pattern, auto... values) {
  const int length = std::snprintf(nullptr, 0, pattern, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, values...);
  text.pop_back();
  return text;
}

std::string duration(double nanoseconds) {
  if (nanoseconds < 1e3) return format("%.0f ns", nanoseconds);
  if (nanoseconds < 1e6) return format("%.2f us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return format("%.2f ms", nanoseconds / 1e6);
  return format("%.3f s", nanoseconds / 1e9);
}
std::string duration(std::int64_t nanoseconds) { return duration(static_cast<double>(nanoseconds)); }

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }
double share(std::int64_t part, std::int64_t whole) {
  return share(static_cast<double>(part), static_cast<double>(whole));
}

using Count = unsigned long long;

class Text {
 public:
  Text(const Trace& trace, const Analysis& analysis, const TextOptions& options)
      : trace_(trace), analysis_(analysis), options_(options), top_(options.top) {}
  std::string write();

 private:
  void summary();
  void lanes();
  void communication();
  void critical_path();
  void path_names();
  void path_ops();
  void names();
  void lines();
  void gaps();
  void and_more(std::size_t all);
  std::string name(const Slice& slice) const { return printable(trace_.strings[slice.name], kNameWidth); }
  bool is_costly_first(std::uint32_t slice) const {
    return std::any_of(analysis_.names.begin(), analysis_.names.end(),
                       [&](const NameUse& use) { return use.costly_first && use.first == slice; });
  }
  double span() const { return static_cast<double>(analysis_.span()); }

  const Trace& trace_;
  const Analysis& analysis_;
  const TextOptions options_;
  const std::size_t top_;
  std::string out_;
};

void Text::and_more(std::size_t all) {
  if (all > top_) out_ += format("  ... and %zu more\n", all - top_);
}

void Text::summary() {
  out_ += format("%llu ops in %s, %.2f at once on average; no op ran for %s (%.1f %%)\n",
                 static_cast<Count>(analysis_.ops), duration(analysis_.span()).c_str(),
                 share(analysis_.total, span()), duration(analysis_.nobody).c_str(),
                 100 * share(analysis_.nobody, analysis_.span()));
  if (trace_.cut_off) out_ += "The file has no end: its process was killed, or is still running.\n";
  if (trace_.dropped > 0) {
    out_ += format("%llu records were lost when it was recorded: what follows is not the whole truth.\n",
                   static_cast<Count>(trace_.dropped));
  }
}

void Text::lanes() {
  out_ += format("\n%-40s %10s %9s %9s\n", "lane", "ops", "busy", "waiting");
  for (const LaneUse& use : analysis_.lanes) {
    out_ += format("%-40s %10llu %7.1f %% %7.1f %%\n", printable(lane_name(trace_, use.lane)).c_str(),
                   static_cast<Count>(use.ops), 100 * share(use.busy, analysis_.span()),
                   100 * share(use.waiting, analysis_.span()));
  }
}

// Writes the communication of each process, and a last line with the sum over all processes.
void Text::communication() {
  const std::string of = trace_.ranks ? "rank" : "process";
  out_ += format("\n%-40s %10s %12s %9s %9s\n", ("communication of " + of).c_str(), "ops", "under way",
                 "of span", "hidden");
  std::int64_t time = 0, hidden = 0;
  for (const CommunicationUse& use : analysis_.communication) {
    out_ += format("%-40llu %10llu %12s %7.1f %% %7.1f %%\n", static_cast<Count>(use.process),
                   static_cast<Count>(use.ops), duration(use.time).c_str(),
                   100 * share(use.time, analysis_.span()), 100 * share(use.hidden, use.time));
    time += use.time;
    hidden += use.hidden;
  }
  out_ += format(
      "%.1f %% of the communication was hidden: the %s computed meanwhile, by ops that do not communicate\n",
      100 * share(hidden, time), of.c_str());
}

void Text::critical_path() {
  const CriticalPath& path = analysis_.path;
  out_ +=
      format("\nCritical path: %zu ops, %s in them (%.1f %% of the span), %s between them (%.1f %%)\n",
             path.ops.size() - path.blocked, duration(path.inside).c_str(), 100 * share(path.inside, span()),
             duration(path.between).c_str(), 100 * share(path.between, span()));
  if (path.blocked > 0) {
    out_ += format("%zu pushes on it waited for room: max_ops or max_bytes holds the program back.\n",
                   path.blocked);
  }
  if (trace_.dependencies.empty()) out_ += "The trace holds no dependencies: this is only the longest op.\n";
  path_names();
  if (options_.path) path_ops();
}

// Writes the ops on the critical path, summed by name. Their shares of the time inside the path's ops add up
// to 100 %.
void Text::path_names() {
  const CriticalPath& path = analysis_.path;
  out_ += format("  %-42s %10s %12s %12s %12s\n", "op", "of path", "count", "total", "mean");
  for (std::size_t i = 0; i < std::min(top_, path.names.size()); ++i) {
    const NameUse& use = path.names[i];
    out_ +=
        format("  %-42s %8.1f %% %12llu %12s %12s\n", printable(trace_.strings[use.name], kNameWidth).c_str(),
               100 * share(use.total, path.inside), static_cast<Count>(use.count),
               duration(use.total).c_str(), duration(use.total / static_cast<double>(use.count)).c_str());
  }
  and_more(path.names.size());
}

void Text::path_ops() {
  const CriticalPath& path = analysis_.path;
  out_ += format("\n  %-42s %12s %12s  %s\n", "its ops, in order", "starts at", "takes", "pushed at");
  for (std::size_t i = 0; i < std::min(top_, path.ops.size()); ++i) {
    const Slice& op = trace_.slices[path.ops[i]];
    out_ +=
        format("  %-42s %12s %12s  %s%s\n", name(op).c_str(), duration(op.start - analysis_.start).c_str(),
               duration(op.duration).c_str(), printable(trace_.strings[op.where]).c_str(),
               is_costly_first(path.ops[i]) ? "  (first call)" : "");
  }
  and_more(path.ops.size());
}

void Text::names() {
  out_ += format("\n%-44s %10s %12s %12s %12s\n", "op", "count", "total", "mean", "max");
  for (std::size_t i = 0; i < std::min(top_, analysis_.names.size()); ++i) {
    const NameUse& use = analysis_.names[i];
    out_ += format("%-44s %10llu %12s %12s %12s%s\n", printable(trace_.strings[use.name], kNameWidth).c_str(),
                   static_cast<Count>(use.count), duration(use.total).c_str(),
                   duration(use.total / static_cast<double>(use.count)).c_str(),
                   duration(use.longest).c_str(), use.costly_first ? "  (first call)" : "");
  }
  and_more(analysis_.names.size());
  if (analysis_.first_calls > 0) {
    out_ += format("First calls took %s more than later ones of the same name.\n",
                   duration(analysis_.first_calls).c_str());
  }
}

void Text::lines() {
  out_ += format("\n%-44s %10s %12s %12s  %s\n", "op and line", "count", "total", "mean", "pushed at");
  for (std::size_t i = 0; i < std::min(top_, analysis_.lines.size()); ++i) {
    const NameUse& use = analysis_.lines[i];
    const std::string where = printable(trace_.strings[use.where]);
    out_ += format("%-44s %10llu %12s %12s  %s\n", printable(trace_.strings[use.name], kNameWidth).c_str(),
                   static_cast<Count>(use.count), duration(use.total).c_str(),
                   duration(use.total / static_cast<double>(use.count)).c_str(),
                   where.empty() ? "(not known)" : where.c_str());
  }
  and_more(analysis_.lines.size());
}

void Text::gaps() {
  out_ += format("\nIdle: %llu gaps between ops of one lane; the longest:\n",
                 static_cast<Count>(analysis_.gap_count));
  for (const Gap& gap : analysis_.gaps) {
    out_ +=
        format("  %12s from %s on %s, after %s, before %s\n", duration(gap.end - gap.start).c_str(),
               duration(gap.start - analysis_.start).c_str(), printable(lane_name(trace_, gap.lane)).c_str(),
               name(trace_.slices[gap.before]).c_str(), name(trace_.slices[gap.after]).c_str());
  }
}

std::string Text::write() {
  summary();
  if (!analysis_.lanes.empty()) lanes();
  if (!analysis_.communication.empty()) communication();
  if (analysis_.ops > 0) {
    critical_path();
    names();
    lines();
    gaps();
  }
  return std::move(out_);
}

nlohmann::json op_json(const Trace& trace, const Slice& op) {
  return {{"name", trace.strings[op.name]},
          {"at", trace.strings[op.where]},
          {"process", op.process},
          {"engine", op.engine},
          {"seq", op.sequence},
          {"lane", lane_name(trace, op.lane)},
          {"blocked_push", op.kind == SliceKind::blocked},
          {"start", op.start},
          {"duration", op.duration}};
}

nlohmann::json use_json(const Trace& trace, const NameUse& use) {
  return {{"name", trace.strings[use.name]},
          {"count", use.count},
          {"total", use.total},
          {"mean", use.total / static_cast<double>(use.count)},
          {"max", use.longest}};
}

nlohmann::json path_json(const Trace& trace, const Analysis& analysis) {
  nlohmann::json ops = nlohmann::json::array();
  for (const std::uint32_t index : analysis.path.ops) ops.push_back(op_json(trace, trace.slices[index]));
  nlohmann::json names = nlohmann::json::array();
  for (const NameUse& use : analysis.path.names) {
    names.push_back(use_json(trace, use));
    names.back()["share"] = share(use.total, analysis.path.inside);
  }
  return {{"blocked_pushes", analysis.path.blocked},
          {"inside", analysis.path.inside},
          {"between", analysis.path.between},
          {"share", share(analysis.path.inside, static_cast<double>(analysis.span()))},
          {"names", std::move(names)},
          {"ops", std::move(ops)}};
}

nlohmann::json lanes_json(const Trace& trace, const Analysis& analysis) {
  nlohmann::json lanes = nlohmann::json::array();
  for (const LaneUse& use : analysis.lanes) {
    lanes.push_back({{"name", lane_name(trace, use.lane)},
                     {"ops", use.ops},
                     {"busy", use.busy},
                     {"busy_share", share(use.busy, analysis.span())},
                     {"waiting", use.waiting}});
  }
  return lanes;
}

nlohmann::json names_json(const Trace& trace, const Analysis& analysis) {
  nlohmann::json names = nlohmann::json::array();
  for (const NameUse& use : analysis.names) {
    names.push_back(use_json(trace, use));
    if (use.costly_first) names.back()["first"] = trace.slices[use.first].duration;
  }
  return names;
}

nlohmann::json lines_json(const Trace& trace, const Analysis& analysis) {
  nlohmann::json lines = nlohmann::json::array();
  for (const NameUse& use : analysis.lines) {
    lines.push_back(use_json(trace, use));
    lines.back()["at"] = trace.strings[use.where];
  }
  return lines;
}

nlohmann::json communication_json(const Analysis& analysis) {
  nlohmann::json uses = nlohmann::json::array();
  for (const CommunicationUse& use : analysis.communication) {
    uses.push_back({{"process", use.process},
                    {"ops", use.ops},
                    {"time", use.time},
                    {"hidden", use.hidden},
                    {"hidden_share", share(use.hidden, use.time)}});
  }
  return uses;
}

nlohmann::json gaps_json(const Trace& trace, const Analysis& analysis) {
  nlohmann::json gaps = nlohmann::json::array();
  for (const Gap& gap : analysis.gaps) {
    gaps.push_back({{"lane", lane_name(trace, gap.lane)},
                    {"start", gap.start},
                    {"duration", gap.end - gap.start},
                    {"after", trace.strings[trace.slices[gap.before].name]},
                    {"before", trace.strings[trace.slices[gap.after].name]}});
  }
  return gaps;
}

}  // namespace

std::string process_prefix(const Trace& trace, std::uint64_t process) {
  const bool several = trace.ranks || trace.lanes.front().process != trace.lanes.back().process;
  if (!several) return "";
  return (trace.ranks ? "rank " : "process ") + std::to_string(process) + " ";
}

std::string lane_name(const Trace& trace, std::uint32_t lane) {
  const Lane& one = trace.lanes[lane];
  return process_prefix(trace, one.process) + one.name;
}

std::string text_report(const Trace& trace, const Analysis& analysis, const TextOptions& options) {
  return Text(trace, analysis, options).write();
}

std::string json_report(const Trace& trace, const Analysis& analysis) {
  const nlohmann::json report = {{"span", analysis.span()},
                                 {"ops", analysis.ops},
                                 {"op_time", analysis.total},
                                 {"first_calls", analysis.first_calls},
                                 {"idle", analysis.nobody},
                                 {"dropped", trace.dropped},
                                 {"cut_off", trace.cut_off},
                                 {"dependencies", trace.dependencies.size()},
                                 {"dependencies_ignored", trace.ignored},
                                 {"lanes", lanes_json(trace, analysis)},
                                 {"communication", communication_json(analysis)},
                                 {"critical_path", path_json(trace, analysis)},
                                 {"names", names_json(trace, analysis)},
                                 {"lines", lines_json(trace, analysis)},
                                 {"gap_count", analysis.gap_count},
                                 {"gaps", gaps_json(trace, analysis)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace heddle::tool
