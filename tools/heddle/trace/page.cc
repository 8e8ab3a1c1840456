#include "page.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "report.h"

namespace heddle::tool {
namespace {

constexpr std::string_view kDataGoesHere = "HEDDLE_TRACE_DATA";

// Where a slice is drawn. A lane has several rows, so that overlapping slices are in different rows.
struct Position {
  std::uint32_t slice, lane, row;
};

class Page {
 public:
  Page(const Trace& trace, const Analysis& analysis) : trace_(trace), analysis_(analysis) {}
  std::string write();

 private:
  void name_lanes();
  std::uint32_t drawn_lane(const Slice& slice) const;
  void place_slices();
  void write_slices();
  void write_dependencies();
  void write_list(const char* name, const std::vector<std::string>& texts);
  void number(std::int64_t value);
  void begin_numbers(const char* name);
  void end_numbers();

  const Trace& trace_;
  const Analysis& analysis_;
  std::vector<std::string> lanes_;
  std::vector<std::uint32_t> thread_lanes_;  // for each lane of the trace, its index in lanes_
  // The lanes for asynchronous ops: indices in lanes_, by process and engine.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> async_lanes_;
  std::vector<std::uint32_t> rows_;   // number of rows of each lane in lanes_
  std::vector<Position> positions_;   // sorted by lane, row and start
  std::vector<std::uint32_t> index_;  // for each slice of the trace, its index in positions_
  std::string out_;
};

// Names the drawn lanes: one for each thread, and one for the asynchronous ops of each engine, which occupy
// no thread; the latter follow the threads of their process.
void Page::name_lanes() {
  for (const Slice& slice : trace_.slices) {
    if (slice.kind == SliceKind::async) async_lanes_[{slice.process, slice.engine}] = 0;
  }
  auto async = async_lanes_.begin();
  for (std::uint32_t lane = 0; lane < trace_.lanes.size(); ++lane) {
    thread_lanes_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    lanes_.push_back(lane_name(trace_, lane));
    const std::uint64_t process = trace_.lanes[lane].process;
    if (lane + 1 < trace_.lanes.size() && trace_.lanes[lane + 1].process == process) continue;
    for (; async != async_lanes_.end() && async->first.first == process; ++async) {
      async->second = static_cast<std::uint32_t>(lanes_.size());
      lanes_.push_back(process_prefix(trace_, process) + "engine " + std::to_string(async->first.second) +
                       " asynchronous");
    }
  }
}

std::uint32_t Page::drawn_lane(const Slice& slice) const {
  return slice.kind == SliceKind::async ? async_lanes_.at({slice.process, slice.engine})
                                        : thread_lanes_[slice.lane];
}

void Page::place_slices() {
  for (std::uint32_t i = 0; i < trace_.slices.size(); ++i)
    positions_.push_back({i, drawn_lane(trace_.slices[i]), 0});
  const auto key = [&](const Position& place) {
    const Slice& slice = trace_.slices[place.slice];
    return std::tuple(place.lane, place.row, slice.start, -slice.duration, place.slice);
  };
  const auto less = [&](const Position& a, const Position& b) { return key(a) < key(b); };
  std::sort(positions_.begin(), positions_.end(), less);
  rows_.assign(lanes_.size(), 0);
  std::vector<std::int64_t> free_from;  // for each row of the lane, the time from which it is free
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    Position& place = positions_[i];
    if (i == 0 || positions_[i - 1].lane != place.lane) free_from.clear();
    const Slice& slice = trace_.slices[place.slice];
    const auto row = std::find_if(free_from.begin(), free_from.end(),
                                  [&](std::int64_t time) { return time <= slice.start; });
    place.row = static_cast<std::uint32_t>(row - free_from.begin());
    // A lane has at most 100 rows: further overlapping slices are drawn over each other.
    place.row = std::min(place.row, 99u);
    if (place.row == free_from.size()) free_from.push_back(0);
    free_from[place.row] = slice.end();
    rows_[place.lane] = std::max(rows_[place.lane], place.row + 1);
  }
  std::sort(positions_.begin(), positions_.end(), less);
  index_.resize(positions_.size());
  for (std::uint32_t i = 0; i < positions_.size(); ++i) index_[positions_[i].slice] = i;
}

void Page::begin_numbers(const char* name) { out_ += std::string(",\"") + name + "\":["; }
void Page::number(std::int64_t value) {
  out_ += std::to_string(value);
  out_ += ',';
}
void Page::end_numbers() {
  if (out_.back() == ',') out_.pop_back();
  out_ += ']';
}

void Page::write_list(const char* name, const std::vector<std::string>& texts) {
  const nlohmann::json list = texts;
  std::string text = list.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  // Escapes '<', so that no name in the data can end the page's script element.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  out_ += std::string(",\"") + name + "\":" + text;
}

// Writes eight numbers for each slice: lane, row, kind, name, where, sequence (-1: none), start, duration.
void Page::write_slices() {
  begin_numbers("slices");
  for (const Position& place : positions_) {
    const Slice& slice = trace_.slices[place.slice];
    number(place.lane);
    number(place.row);
    number(static_cast<std::int64_t>(slice.kind));
    number(slice.name);
    number(slice.where);
    number(static_cast<std::int64_t>(slice.sequence));
    number(slice.start - analysis_.start);
    number(slice.duration);
  }
  end_numbers();
}

void Page::write_dependencies() {
  begin_numbers("dependencies");
  for (const Dependency& one : trace_.dependencies) {
    number(index_[one.from]);
    number(index_[one.to]);
  }
  for (const BlockedPush& one : trace_.blocked) {
    if (one.from != kNobody) {
      number(index_[one.from]);
      number(index_[one.push]);
    }
    number(index_[one.push]);
    number(index_[one.to]);
  }
  end_numbers();
  begin_numbers("path");
  for (const std::uint32_t op : analysis_.path.ops) number(index_[op]);
  end_numbers();
}

std::string Page::write() {
  name_lanes();
  place_slices();
  const std::size_t at = kTimelinePage.find(kDataGoesHere);
  out_ = kTimelinePage.substr(0, at);
  out_ += "{\"span\":" + std::to_string(analysis_.span()) + ",\"ops\":" + std::to_string(analysis_.ops) +
          ",\"dropped\":" + std::to_string(trace_.dropped) +
          ",\"inside\":" + std::to_string(analysis_.path.inside);
  write_list("lanes", lanes_);
  write_list("strings", trace_.strings);
  begin_numbers("rows");
  for (const std::uint32_t rows : rows_) number(rows);
  end_numbers();
  write_slices();
  write_dependencies();
  out_ += '}';
  out_ += kTimelinePage.substr(at + kDataGoesHere.size());
  return std::move(out_);
}

}  // namespace

std::string html_page(const Trace& trace, const Analysis& analysis) { return Page(trace, analysis).write(); }

}  // namespace heddle::tool
