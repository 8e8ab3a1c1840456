#include "snapshot_report.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "server/reports/report.h"
#include "simulate/units.h"

namespace heddle::tool {
namespace {

using kv_detail::JobIndex;
using kv_detail::KeyIndex;
using Role = kv_detail::StateArray::Role;

constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;
constexpr std::size_t kMostClocks = 8;  // with more workers, a row shows the range of their clocks only

std::string bytes(std::uint64_t value) { return bytes_to_text(static_cast<double>(value)); }

// The clocks of workers as text: "3 3 2", or "2 to 3" for many workers.
std::string clocks_text(const std::vector<std::uint64_t>& clocks) {
  if (clocks.size() > kMostClocks) {
    const auto [least, most] = std::minmax_element(clocks.begin(), clocks.end());
    return std::to_string(*least) + " to " + std::to_string(*most);
  }
  std::string text;
  for (const std::uint64_t one : clocks) text += (text.empty() ? "" : " ") + std::to_string(one);
  return text;
}

Row row_of(const KeyIndex& key) {
  std::size_t waiting = 0;
  bool has_value = false;
  std::string state;
  for (const kv_detail::ArrayIndex& one : key.arrays) {
    waiting += one.array.role == Role::push;
    has_value = has_value || one.array.role == Role::value;
    if (one.array.role == Role::optimizer) state += (state.empty() ? "" : ", ") + printable(one.array.name);
  }
  return {printable(key.key.name),
          name_of(key.key.dtype),
          has_value ? bytes(key.key.bytes) : "no value yet",
          std::to_string(key.key.rounds),
          clocks_text(key.clocks.clocks),
          std::to_string(waiting),
          (state.empty() ? "-" : state) +
              (key.key.failure.empty() ? "" : "; failed: " + printable(key.key.failure))};
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> width{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += "    ";
    for (std::size_t i = 0; i + 1 < kColumns; ++i)
      text += row[i] + std::string(width[i] + 2 - row[i].size(), ' ');
    text += row.back() + "\n";
  }
  return text;
}

std::string job_text(const JobIndex& job) {
  const auto here = std::count_if(job.workers.begin(), job.workers.end(),
                                  [](const auto& one) { return one.greeted && !one.left && !one.dropped; });
  std::string text = "  job " + printable(job.job.name) + ": " + job.job.consistency + ", " +
                     std::to_string(job.job.workers) + " workers, of which " + std::to_string(here) +
                     " take part, optimizer " + (job.job.rule.empty() ? "none" : printable(job.job.rule)) +
                     "\n";
  std::vector<Row> rows = {{"KEY", "DTYPE", "SIZE", "ROUNDS", "PUSHES", "WAITING", "STATE"}};
  for (const KeyIndex& key : job.keys) rows.push_back(row_of(key));
  return text + table(rows);
}

}  // namespace

std::string snapshot_text(const kv_detail::SnapshotIndex& index) {
  std::string text = index.path + ": good, server " + std::to_string(index.header.number) + " of " +
                     std::to_string(index.header.servers) + ", taken at " +
                     kv_detail::utc_text(index.header.time) + ", " + bytes(index.bytes) + "\n";
  if (index.jobs.empty()) text += "  no jobs\n";
  for (const JobIndex& job : index.jobs) text += job_text(job);
  return text + "\n";
}

}  // namespace heddle::tool
