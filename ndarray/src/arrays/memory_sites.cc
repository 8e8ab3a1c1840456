#include "arrays/memory_sites.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <heddle/call_site.h>
#include <heddle/memory_label.h>
#include <heddle/memory_report.h>
#include <heddle/number_text.h>

namespace heddle {
namespace ndarray_detail {

struct SiteCount {
  MemorySite site;
};

namespace {

bool wanted_from_the_start() {
  const char* const text = std::getenv("HEDDLE_MEMORY_SITES");
  return text && std::string_view(text) == "1";
}

struct Counts {
  std::atomic<bool> on{wanted_from_the_start()};
  std::mutex mutex;  // guards the members below
  std::map<std::pair<std::string, unsigned>, SiteCount> by_line;
  std::size_t bytes = 0, peak = 0;
  bool peak_noted = true;  // whether at_peak of each site belongs to the present peak

  void note_peak() {
    if (std::exchange(peak_noted, true)) return;
    for (auto& [line, count] : by_line) count.site.at_peak = count.site.bytes;
  }
};

// The counts are never destroyed, since static arrays may be destroyed after them.
Counts& counts() {
  static Counts& immortal = *new Counts;
  return immortal;
}

}  // namespace

SiteCount* count_storage() {
  Counts& all = counts();
  if (!all.on.load(std::memory_order_relaxed)) return nullptr;
  const std::string* const label = MemoryLabel::current();
  const Where where = label ? Where{} : CallSite::current(Where{});
  const std::lock_guard guard(all.mutex);
  // No file of a program begins with a null byte.
  SiteCount& count = all.by_line[{label ? std::string(1, '\0') + *label : where.file_name(), where.line()}];
  count.site.where = where;
  if (label) count.site.label = *label;
  ++count.site.arrays;
  return &count;
}

void count_memory(SiteCount& count, std::size_t bytes) {
  Counts& all = counts();
  const std::lock_guard guard(all.mutex);
  count.site.bytes += bytes;
  count.site.peak = std::max(count.site.peak, count.site.bytes);
  all.bytes += bytes;
  if (all.bytes <= all.peak) return;
  all.peak = all.bytes;
  all.peak_noted = false;
}

namespace {

// Call with counts().mutex held.
void take_off(Counts& all, SiteCount& count, std::size_t bytes) noexcept {
  if (bytes > 0 && all.bytes == all.peak) all.note_peak();
  count.site.bytes -= bytes;
  all.bytes -= bytes;
}

}  // namespace

void count_freed(SiteCount& count, std::size_t bytes) noexcept {
  Counts& all = counts();
  const std::lock_guard guard(all.mutex);
  take_off(all, count, bytes);
}

void end_count(SiteCount& count, std::size_t bytes) noexcept {
  Counts& all = counts();
  const std::lock_guard guard(all.mutex);
  take_off(all, count, bytes);
  --count.site.arrays;
}

}  // namespace ndarray_detail

namespace {

constinit thread_local const MemoryLabel* current_label = nullptr;

}  // namespace

MemoryLabel::MemoryLabel(std::string label)
    : label_(std::move(label)), outer_(std::exchange(current_label, this)) {}
MemoryLabel::~MemoryLabel() { current_label = outer_; }
const std::string* MemoryLabel::current() noexcept {
  return current_label ? &current_label->label_ : nullptr;
}

bool tracks_memory() noexcept { return ndarray_detail::counts().on.load(std::memory_order_relaxed); }

void track_memory(bool on) { ndarray_detail::counts().on.store(on); }

MemoryReport memory_report() {
  ndarray_detail::Counts& all = ndarray_detail::counts();
  MemoryReport report;
  {
    const std::lock_guard guard(all.mutex);
    all.note_peak();
    report.bytes = all.bytes;
    report.peak = all.peak;
    for (const auto& [line, count] : all.by_line) {
      report.arrays += count.site.arrays;
      const bool held = count.site.at_peak > 0 || (!count.site.label.empty() && count.site.peak > 0);
      if (count.site.arrays > 0 || held) report.sites.push_back(count.site);
    }
  }
  report.allocator = cpu_allocator_stats();
  std::stable_sort(report.sites.begin(), report.sites.end(), [](const MemorySite& a, const MemorySite& b) {
    return std::pair(a.bytes, a.at_peak) > std::pair(b.bytes, b.at_peak);
  });
  return report;
}

void reset_memory_peak() {
  ndarray_detail::Counts& all = ndarray_detail::counts();
  const std::lock_guard guard(all.mutex);
  all.peak = all.bytes;
  all.peak_noted = false;
  for (auto& [line, count] : all.by_line) count.site.peak = count.site.bytes;
  all.note_peak();
}

namespace {

std::string bytes_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < std::size(kUnits) - 1; ++unit) value /= 1024;
  return fixed_text(value, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string call_site_text(const std::source_location& where) {
  return where.line() == 0 ? "(not known)" : where.file_name() + (":" + std::to_string(where.line()));
}

}  // namespace

std::string MemoryReport::to_string(std::size_t most) const {
  char line[160] = "";
  std::string text = "arrays use " + bytes_text(allocator.in_use) + ", at most " +
                     bytes_text(allocator.peak) + "; " + bytes_text(allocator.cached) +
                     " are kept for reuse\n";
  if (sites.empty()) return text + "no arrays are counted by line; track_memory(true) counts new ones\n";
  std::snprintf(line, sizeof line, "%8s %11s %11s %11s  line\n", "arrays", "now", "at peak", "own peak");
  text += line;
  for (std::size_t i = 0; i < std::min(most, sites.size()); ++i) {
    const MemorySite& site = sites[i];
    std::snprintf(line, sizeof line, "%8lld %11s %11s %11s  ", static_cast<long long>(site.arrays),
                  bytes_text(site.bytes).c_str(), bytes_text(site.at_peak).c_str(),
                  bytes_text(site.peak).c_str());
    text += line + (site.label.empty() ? call_site_text(site.where) : site.label) + "\n";
  }
  if (sites.size() > most) text += "and " + std::to_string(sites.size() - most) + " more lines\n";
  std::snprintf(line, sizeof line, "%8lld %11s %11s\n", static_cast<long long>(arrays),
                bytes_text(bytes).c_str(), bytes_text(peak).c_str());
  return text + line;
}

}  // namespace heddle
