#include "trace_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "json_reader.h"

namespace heddle::tool {
namespace {

constexpr double kLatestDate = 4e18;  // the latest valid date, in nanoseconds since 1970: in the year 2096
// The largest valid time in nanoseconds (a hundred days) and the largest valid integer. It is below 2^53, up
// to which a double is exact.
constexpr double kLatest = 9e15;

// The fields of an event of the Chrome trace format that are used.
struct Event {
  std::string phase, category, name, where, lane_name;
  double start = -1, duration = -1, process = 0, thread = 0;  // start and duration are in microseconds
  double engine = 0, sequence = -1, released_by = -1, dropped = 0;
  double unix_time = -1, rank = -1;  // unix_time is in nanoseconds since 1970
  void clear() {
    for (std::string* text : {&phase, &category, &name, &where, &lane_name}) text->clear();
    start = duration = sequence = released_by = unix_time = rank = -1;
    process = thread = engine = dropped = 0;
  }
};

auto op_key(const Slice& slice) { return std::tuple(slice.process, slice.engine, slice.sequence); }

// Collects slices and lanes, and builds a Trace of them.
class Builder {
 public:
  Builder() { intern(""); }
  std::uint32_t intern(std::string_view text);
  std::uint32_t lane_of(std::uint64_t process, std::uint64_t thread);
  void name_lane(std::uint32_t lane, const std::string& name) { trace_.lanes[lane].name = name; }
  void add(const Slice& slice) { trace_.slices.push_back(slice); }
  void count_dropped(std::uint64_t records) { trace_.dropped += records; }
  void cut_off() { trace_.cut_off = true; }
  // Adds all of `part` as the trace of rank `rank`, with its times shifted by `later` nanoseconds.
  void take(Builder part, std::uint64_t rank, std::int64_t later);
  Trace build();

 private:
  void sort_lanes();
  void link();
  void link_blocked();
  std::uint32_t find(std::uint64_t process, std::uint32_t engine, std::uint64_t sequence) const;
  void depend(std::uint32_t from, std::uint32_t to);

  Trace trace_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> lanes_;
};

std::uint32_t Builder::intern(std::string_view text) {
  const auto [place, added] =
      strings_.try_emplace(std::string(text), static_cast<std::uint32_t>(strings_.size()));
  if (added) trace_.strings.emplace_back(text);
  return place->second;
}

std::uint32_t Builder::lane_of(std::uint64_t process, std::uint64_t thread) {
  const auto [place, added] =
      lanes_.try_emplace({process, thread}, static_cast<std::uint32_t>(lanes_.size()));
  if (added) trace_.lanes.push_back({process, thread, "thread " + std::to_string(thread)});
  return place->second;
}

// Sorts the ops by push order, and collects the dependencies, each of which leads from an earlier to a later
// op.
void Builder::link() {
  const auto ops_end = std::stable_partition(trace_.slices.begin(), trace_.slices.end(),
                                             [](const Slice& slice) { return slice.is_op(); });
  trace_.ops = static_cast<std::size_t>(ops_end - trace_.slices.begin());
  // The launch of a graph is an asynchronous op with the same sequence number as the graph's first op. The
  // launch is sorted before that op, since other ops wait for the launch.
  const auto order = [](const Slice& slice) {
    return std::tuple_cat(op_key(slice), std::tuple(slice.kind != SliceKind::async));
  };
  std::stable_sort(trace_.slices.begin(), ops_end,
                   [&](const Slice& a, const Slice& b) { return order(a) < order(b); });
  for (std::uint32_t i = 0; i < trace_.ops; ++i) {
    const Slice& slice = trace_.slices[i];
    if (slice.released_by == kNoSequence || slice.sequence == kNoSequence) continue;
    depend(find(slice.process, slice.engine, slice.released_by), i);
  }
}

void Builder::link_blocked() {
  for (std::uint32_t i = static_cast<std::uint32_t>(trace_.ops); i < trace_.slices.size(); ++i) {
    const Slice& push = trace_.slices[i];
    if (push.kind != SliceKind::blocked) continue;
    const std::uint32_t from = find(push.process, push.engine, push.released_by);
    const std::uint32_t to = find(push.process, push.engine, push.sequence);
    if (to != kNobody) trace_.blocked.push_back({i, from < to ? from : kNobody, to});
  }
  std::sort(trace_.blocked.begin(), trace_.blocked.end(),
            [](const BlockedPush& a, const BlockedPush& b) { return a.to < b.to; });
}

std::uint32_t Builder::find(std::uint64_t process, std::uint32_t engine, std::uint64_t sequence) const {
  const auto end = trace_.slices.begin() + static_cast<std::ptrdiff_t>(trace_.ops);
  const auto wanted = std::tuple(process, engine, sequence);
  const auto place =
      std::lower_bound(trace_.slices.begin(), end, wanted,
                       [](const Slice& slice, const auto& key) { return op_key(slice) < key; });
  if (place == end || op_key(*place) != wanted) return kNobody;
  return static_cast<std::uint32_t>(place - trace_.slices.begin());
}

void Builder::depend(std::uint32_t from, std::uint32_t to) {
  if (from == kNobody || to == kNobody || from >= to) {
    ++trace_.ignored;
  } else {
    trace_.dependencies.push_back({from, to});
  }
}

void Builder::sort_lanes() {
  std::vector<Lane> sorted;
  std::vector<std::uint32_t> place(trace_.lanes.size());
  for (const auto& [key, index] : lanes_) {
    place[index] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(trace_.lanes[index]));
  }
  trace_.lanes = std::move(sorted);
  for (Slice& slice : trace_.slices) slice.lane = place[slice.lane];
}

void Builder::take(Builder part, std::uint64_t rank, std::int64_t later) {
  std::vector<std::uint32_t> lanes, strings;
  for (const Lane& lane : part.trace_.lanes) {
    lanes.push_back(lane_of(rank, lane.thread));
    name_lane(lanes.back(), lane.name);
  }
  for (const std::string& text : part.trace_.strings) strings.push_back(intern(text));
  for (Slice slice : part.trace_.slices) {
    slice.process = rank;
    slice.start += later;
    slice.lane = lanes[slice.lane];
    slice.name = strings[slice.name];
    slice.where = strings[slice.where];
    add(slice);
  }
  count_dropped(part.trace_.dropped);
  trace_.cut_off = trace_.cut_off || part.trace_.cut_off;
  trace_.ranks = true;
}

Trace Builder::build() {
  sort_lanes();
  link();
  link_blocked();
  return std::move(trace_);
}

// Reads one trace file, event by event.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path), reader_(path) {}
  void read();
  Builder take_parts() { return std::move(parts_); }
  const std::string& path() const { return path_; }
  // The time of day and the rank that the file states; -1 if it does not. A double holds the time of day to
  // 256 ns; the clocks of two hosts differ by more than that.
  double unix_time() const { return unix_time_; }
  double rank() const { return rank_; }

 private:
  void read_events();
  void read_event();
  void read_arguments();
  bool read_known_number(double& value);
  void read_text(std::string& value);
  void use_event();
  void add_slice(SliceKind kind);
  std::uint64_t whole(double value, const char* what);
  std::uint32_t whole32(double value, const char* what);

  const std::string path_;
  JsonReader reader_;
  double unix_time_ = -1, rank_ = -1;
  Event event_;
  std::string key_;
  std::uint64_t events_ = 0;
  Builder parts_;
};

std::uint64_t FileReader::whole(double value, const char* what) {
  if (!(value >= 0 && value <= kLatest && value == std::floor(value))) {
    reader_.fail("event " + std::to_string(events_) + ": '" + what + "' is no whole number from 0 to 9e15");
  }
  return static_cast<std::uint64_t>(value);
}

std::uint32_t FileReader::whole32(double value, const char* what) {
  const std::uint64_t number = whole(value, what);
  if (number >= kNobody) reader_.fail("event " + std::to_string(events_) + ": '" + what + "' is too large");
  return static_cast<std::uint32_t>(number);
}

// Reads a number. Returns false after skipping anything else: traces of other programs may have text where
// traces of Heddle have numbers.
bool FileReader::read_known_number(double& value) {
  const char c = reader_.peek();
  if (c != '-' && (c < '0' || c > '9')) {
    reader_.skip_value();
    return false;
  }
  value = reader_.read_number();
  return true;
}

void FileReader::read_text(std::string& value) {
  if (reader_.peek() == '"') {
    reader_.read_string(value);
  } else {
    reader_.skip_value();
  }
}

void FileReader::read_arguments() {
  if (reader_.peek() != '{') return reader_.skip_value();
  reader_.expect('{');
  for (bool first = true; reader_.next_key(key_, first); first = false) {
    if (key_ == "engine") {
      read_known_number(event_.engine);
    } else if (key_ == "seq") {
      read_known_number(event_.sequence);
    } else if (key_ == "by") {
      read_known_number(event_.released_by);
    } else if (key_ == "dropped") {
      read_known_number(event_.dropped);
    } else if (key_ == "unix_ns") {
      read_known_number(event_.unix_time);
    } else if (key_ == "rank") {
      read_known_number(event_.rank);
    } else if (key_ == "at") {
      read_text(event_.where);
    } else if (key_ == "name") {
      read_text(event_.lane_name);
    } else {
      reader_.skip_value();
    }
  }
}

void FileReader::read_event() {
  event_.clear();
  reader_.expect('{');
  for (bool first = true; reader_.next_key(key_, first); first = false) {
    if (key_ == "ph") {
      read_text(event_.phase);
    } else if (key_ == "cat") {
      read_text(event_.category);
    } else if (key_ == "name") {
      read_text(event_.name);
    } else if (key_ == "ts") {
      read_known_number(event_.start);
    } else if (key_ == "dur") {
      read_known_number(event_.duration);
    } else if (key_ == "pid") {
      read_known_number(event_.process);
    } else if (key_ == "tid") {
      read_known_number(event_.thread);
    } else if (key_ == "args") {
      read_arguments();
    } else {
      reader_.skip_value();
    }
  }
}

void FileReader::add_slice(SliceKind kind) {
  Slice slice;
  slice.kind = kind;
  slice.start = static_cast<std::int64_t>(whole(std::round(event_.start * 1000), "ts"));
  slice.duration = static_cast<std::int64_t>(whole(std::round(event_.duration * 1000), "dur"));
  slice.process = whole(event_.process, "pid");
  slice.lane = parts_.lane_of(slice.process, whole(event_.thread, "tid"));
  slice.engine = whole32(event_.engine, "engine");
  if (event_.sequence != -1) slice.sequence = whole(event_.sequence, "seq");
  if (event_.released_by != -1) slice.released_by = whole(event_.released_by, "by");
  slice.name = parts_.intern(event_.name);
  slice.where = parts_.intern(event_.where);
  if (events_ >= kNobody) reader_.fail("more than four thousand million events");
  parts_.add(slice);
}

void FileReader::use_event() {
  if (event_.phase == "M") {
    if (event_.name == "thread_name") {
      parts_.name_lane(parts_.lane_of(whole(event_.process, "pid"), whole(event_.thread, "tid")),
                       event_.lane_name);
    } else if (event_.name == "heddle_trace") {
      unix_time_ = event_.unix_time;
      if (event_.rank != -1) rank_ = whole32(event_.rank, "rank");
    } else if (event_.name == "heddle_trace_end") {
      parts_.count_dropped(whole(event_.dropped, "dropped"));
    }
  } else if (event_.phase == "X") {
    const std::string& category = event_.category;
    add_slice(category == "wait"      ? SliceKind::wait
              : category == "issue"   ? SliceKind::issue
              : category == "gap"     ? SliceKind::gap
              : category == "blocked" ? SliceKind::blocked
                                      : SliceKind::op);
  } else if (event_.phase == "b" && event_.duration >= 0) {
    add_slice(SliceKind::async);
  }
}

// Reads a file of the form [ event, event, ... ] or { "traceEvents": [ ... ], ... }. A missing end is no
// error.
void FileReader::read_events() {
  if (reader_.accept('{')) {
    bool first = true;
    do {
      if (!reader_.next_key(key_, std::exchange(first, false))) reader_.fail("no \"traceEvents\" in it");
      if (key_ != "traceEvents") reader_.skip_value();
    } while (key_ != "traceEvents");
  }
  if (reader_.peek() != '[')
    reader_.fail("want a trace: a JSON array of events, or an object with \"traceEvents\"");
  reader_.expect('[');
  while (!reader_.accept(']')) {
    if (events_ > 0) {
      reader_.expect(',');
      // Some writers put a comma behind the last event.
      if (reader_.accept(']')) return;
    }
    ++events_;
    if (reader_.peek() != '{') reader_.expect('{');
    read_event();
    use_event();
  }
}

void FileReader::read() {
  if (reader_.at_end()) reader_.fail("the file is empty");
  try {
    read_events();
  } catch (const EndOfFile&) {
    if (events_ == 0) throw;
    parts_.cut_off();
  }
}

// The rank of each file: the rank that the file states, or its position in the list if no file states a rank.
std::vector<std::uint64_t> ranks_of(const std::vector<std::unique_ptr<FileReader>>& files) {
  const bool known =
      std::any_of(files.begin(), files.end(), [](const auto& file) { return file->rank() >= 0; });
  std::map<std::uint64_t, std::string> seen;
  std::vector<std::uint64_t> ranks;
  for (const auto& file : files) {
    if (known && file->rank() < 0)
      throw std::runtime_error(file->path() + ": does not say of which rank it is");
    ranks.push_back(known ? static_cast<std::uint64_t>(file->rank()) : ranks.size());
    const auto [other, is_new] = seen.emplace(ranks.back(), file->path());
    if (is_new) continue;
    throw std::runtime_error(file->path() + ": is of rank " + std::to_string(ranks.back()) + ", as " +
                             other->second);
  }
  return ranks;
}

}  // namespace

Trace read_traces(const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<FileReader>> files;
  for (const std::string& path : paths) {
    files.push_back(std::make_unique<FileReader>(path));
    files.back()->read();
  }
  if (files.size() == 1) return files[0]->take_parts().build();
  double zero = std::numeric_limits<double>::infinity();
  for (const auto& file : files) {
    if (!(file->unix_time() >= 0 && file->unix_time() <= kLatestDate))
      throw std::runtime_error(file->path() + ": does not say at what time of day it begins");
    zero = std::min(zero, file->unix_time());
  }
  const std::vector<std::uint64_t> ranks = ranks_of(files);
  Builder all;
  for (std::size_t i = 0; i < files.size(); ++i)
    all.take(files[i]->take_parts(), ranks[i], static_cast<std::int64_t>(files[i]->unix_time() - zero));
  return all.build();
}

}  // namespace heddle::tool
