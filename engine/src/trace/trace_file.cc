#include "trace/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <heddle/error.h>

namespace heddle::trace {
namespace {

constexpr std::size_t kWriteAt = std::size_t{256} << 10;
constexpr std::uint64_t kReserve = 4096;  // bytes of the file reserved for its last lines

// The length of the well-formed UTF-8 sequence at the start of text; 0 if there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (lead == 0xED && byte(1) > 0x9F) return 0;  // half of a surrogate pair
  if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // beyond Unicode
  return length;
}

bool plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
}

void append_escaped(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else {
    out += "\\u00";
    out += kHex[c >> 4];
    out += kHex[c & 15];
  }
}

void append_number(std::string& out, std::uint64_t value) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// A number unique among all engines of the process, and exact as a JavaScript number for 2^40 ops and 2^13
// engines.
std::uint64_t op_number(std::uint32_t engine, std::uint64_t sequence) {
  return (std::uint64_t{engine} << 40) + sequence;
}

int open_for_writing(const std::string& path) {
  // open() would take the part before the zero byte for the whole path.
  if (path.find('\0') != std::string::npos)
    throw InvalidArgument("trace: the path '" + std::string(path.c_str()) +
                          "' goes on behind a zero byte, which no path has");
  // The file is truncated only once it is locked, since another process may be writing it.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw Error("trace: cannot write " + path + ": " + std::strerror(errno));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    throw Error(
        "trace: " + path +
        " is being written by another trace; in a name '%p' stands for the process id, '%r' for the rank");
  }
  if (::ftruncate(file, 0) != 0 && errno != EINVAL) {  // EINVAL: a pipe or a device
    const int why = errno;
    ::close(file);
    throw Error("trace: cannot write " + path + ": " + std::strerror(why));
  }
  return file;
}

}  // namespace

std::int64_t rank_of_process() {
  // The variables in the order in which a communicator tries them.
  for (const char* name : {"HEDDLE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    if (!text || !*text) continue;
    std::int32_t rank = -1;  // stays -1 if the variable's text is not a number
    const char* end = text + std::strlen(text);
    const auto [stopped, error] = std::from_chars(text, end, rank);
    return error == std::errc() && stopped == end && rank >= 0 ? rank : -1;
  }
  return -1;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t length = 0;
    while (length < text.size() && plain(text[length])) ++length;
    out.append(text.substr(0, length));
    text.remove_prefix(length);
    if (text.empty()) break;
    const auto c = static_cast<unsigned char>(text[0]);
    length = utf8_length(text);
    if (length > 1) {
      out.append(text.substr(0, length));
    } else if (length == 1) {
      append_escaped(out, c);
    } else {
      out += "\\ufffd";
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  out += '"';
}

TraceFile::TraceFile(std::string path, std::uint64_t most_bytes)
    : path_(std::move(path)),
      most_bytes_(most_bytes),
      process_(static_cast<std::uint64_t>(::getpid())),
      file_(open_for_writing(path_)) {
  out_.reserve(kWriteAt + kReserve);
}

TraceFile::~TraceFile() {
  ::flock(file_, LOCK_UN);  // explicit unlock: the child of a fork has the file open too
  ::close(file_);
}

void TraceFile::give_up(std::string why) {
  error_ = std::move(why);
  out_.clear();
}

void TraceFile::flush() {
  const char* at = out_.data();
  std::size_t left = out_.size();
  while (left > 0 && open()) {
    const ssize_t count = ::write(file_, at, left);
    if (count < 0) {
      if (errno != EINTR) give_up("cannot write " + path_ + ": " + std::strerror(errno));
      continue;
    }
    at += count;
    left -= static_cast<std::size_t>(count);
    written_ += static_cast<std::uint64_t>(count);
  }
  out_.clear();
}

void TraceFile::key(std::string_view name) {
  if (out_.back() != '{') out_ += ',';
  out_ += '"';
  out_ += name;
  out_ += "\":";
}

void TraceFile::number(std::string_view name, std::uint64_t value) {
  key(name);
  append_number(out_, value);
}

void TraceFile::text(std::string_view name, std::string_view value) {
  key(name);
  append_json_string(out_, value);
}

// Writes the time in microseconds, as the format requires.
void TraceFile::time(std::string_view name, std::uint64_t nanoseconds) {
  number(name, nanoseconds / 1000);
  out_ += '.';
  for (const std::uint64_t unit : {100, 10, 1}) out_ += static_cast<char>('0' + nanoseconds / unit % 10);
}

void TraceFile::begin_event(std::string_view phase, std::string_view category) {
  out_ += first_ ? "{" : ",\n{";
  first_ = false;
  text("ph", phase);
  if (!category.empty()) text("cat", category);
}

void TraceFile::place(std::uint32_t lane, std::uint64_t nanoseconds) {
  time("ts", nanoseconds);
  number("pid", process_);
  number("tid", lane);
}

void TraceFile::begin(std::uint64_t unix_nanoseconds) {
  out_ += "[\n";
  begin_event("M", {});
  text("name", "heddle_trace");
  number("pid", process_);
  key("args");
  out_ += '{';
  number("version", 1);
  number("unix_ns", unix_nanoseconds);
  const std::int64_t rank = rank_of_process();
  if (rank >= 0) number("rank", static_cast<std::uint64_t>(rank));
  out_ += "}}";
  flush();
}

void TraceFile::end(std::uint64_t records, std::uint64_t dropped) {
  if (!open()) return;
  begin_event("M", {});
  text("name", "heddle_trace_end");
  number("pid", process_);
  key("args");
  out_ += '{';
  number("records", records);
  number("dropped", dropped);
  out_ += "}}\n]\n";
  flush();
}

void TraceFile::name_lane(std::uint32_t lane) {
  last_lane_ = lane;
  if (!lanes_.insert(lane).second) return;
  std::string name = "thread " + std::to_string(lane);
  if (lane >= kFirstWorkerLane) {
    const std::uint32_t worker = lane - kFirstWorkerLane;
    const std::uint32_t number = worker % kLanesPerEngine;
    const bool stream = number >= kFirstStreamLane;
    name = "engine " + std::to_string(worker / kLanesPerEngine) + (stream ? " stream " : " worker ") +
           std::to_string(stream ? number - kFirstStreamLane : number);
  }
  begin_event("M", {});
  text("name", "thread_name");
  number("pid", process_);
  number("tid", lane);
  key("args");
  out_ += '{';
  text("name", name);
  out_ += "}}";
}

void TraceFile::op_arguments(const Record& record) {
  key("args");
  out_ += '{';
  if (record.engine != 0) number("engine", record.engine);
  if (record.sequence != kNone) number("seq", record.sequence);
  if (record.kind == Kind::gap) {
    number("records", record.other);
  } else if (record.other != kNone) {
    number("by", record.other);
  }
  if (record.file && *record.file) {
    key("at");
    append_json_string(out_, record.file);
    out_.pop_back();
    out_ += ':';
    append_number(out_, record.line);
    out_ += '"';
  }
  out_ += "}}";
}

// A viewer attaches the end of an arrow to the slice around it.
void TraceFile::arrow_end(std::string_view phase, ArrowEnd end) {
  begin_event(phase, "dep");
  text("name", "dep");
  number("id", arrow_count_);
  place(end.lane, end.nanoseconds);
  if (phase == "f") text("bp", "e");
  out_ += '}';
}

// Each arrow has an id of its own: of arrows that share an id, viewers draw only some.
void TraceFile::arrow(ArrowEnd from, ArrowEnd to) {
  ++arrow_count_;
  arrow_end("s", from);
  arrow_end("f", to);
}

void TraceFile::start_arrows(const Record& record, std::uint64_t nanoseconds) {
  const ArrowEnd from{record.lane, nanoseconds};
  for (const ArrowEnd to : arrows_.add_start(op_number(record.engine, record.sequence), from))
    arrow(from, to);
}

void TraceFile::end_arrow(const Record& record, std::uint64_t nanoseconds) {
  const ArrowEnd to{record.lane, nanoseconds};
  if (const auto from = arrows_.add_end(op_number(record.engine, record.other), to)) arrow(*from, to);
}

// Adds the arrow ends at this record's op. The arrows of an asynchronous op end at its function, its only
// slice on a lane. No other record names a graph's op: to other ops the launch is one op, which has the
// number of the first one.
void TraceFile::arrows(const Record& record, std::uint64_t start, std::uint64_t end) {
  const std::uint64_t last = end > start ? end - 1 : start;  // a time within the slice
  if (record.kind == Kind::op) start_arrows(record, last);
  if (record.kind == Kind::completed) start_arrows(record, start);
  if (record.other == kNone) return;
  if (record.kind == Kind::op || record.kind == Kind::issue) end_arrow(record, start);
  if (record.kind == Kind::wait || record.kind == Kind::blocked) end_arrow(record, last);
}

void TraceFile::add_slice(const Record& record, const Clock& clock) {
  constexpr std::string_view kCategories[] = {"op", "op", "issue", "async", "wait", "gap", "blocked"};
  const std::uint64_t start = clock.nanoseconds(record.start);
  // The counters of two cores may differ by a few ticks, so that the end could lie before the start.
  const std::uint64_t end = std::max(start, clock.nanoseconds(record.end));
  const bool async = record.kind == Kind::completed;
  begin_event(async ? "b" : "X", kCategories[static_cast<std::size_t>(record.kind)]);
  text("name", record.name ? record.name : "");
  place(record.lane, start);
  time("dur", end - start);  // for a "b" event only `heddle trace` reads the duration
  if (async) number("id", op_number(record.engine, record.sequence));
  op_arguments(record);
  if (async) {
    begin_event("e", "async");
    text("name", record.name ? record.name : "");
    place(record.lane, end);
    number("id", op_number(record.engine, record.sequence));
    out_ += '}';
  }
  arrows(record, start, end);
}

void TraceFile::add(const Record& record, const Clock& clock) {
  if (!open()) return;
  if (record.lane != last_lane_) name_lane(record.lane);
  add_slice(record, clock);
  if (out_.size() >= kWriteAt) flush();
  if (open() && written_ + out_.size() + kReserve > most_bytes_) {
    flush();
    // The bracket makes the file valid JSON.
    out_ = "\n]\n";
    flush();
    if (open())
      give_up(path_ + " has reached the " + std::to_string(most_bytes_) +
              " bytes it may have: nothing is recorded from there on");
  }
}

}  // namespace heddle::trace
