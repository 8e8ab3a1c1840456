#include "host/pipe_transport.h"

#include <algorithm>
#include <cstring>

#include "core/mismatch.h"

namespace heddle::comm_detail {
namespace {

// A message takes whole cache lines of its pipe, so that no element is cut in two where the ring wraps around.
constexpr std::size_t lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Bytes that are copied at a time. The receiver copies a piece while the sender writes the next one.
constexpr std::size_t kPiece = kPipe / 8;

void put(Pipe& pipe, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  if (!bytes) return;  // `from` may be null, which memcpy does not allow
  const std::size_t begin = at % kPipe, first = std::min(bytes, kPipe - begin);
  std::memcpy(pipe.data + begin, from, first);
  if (bytes > first) std::memcpy(pipe.data, from + first, bytes - first);
}

void get(const Pipe& pipe, std::uint64_t at, void* to, std::size_t bytes) {
  if (!bytes) return;
  const std::size_t begin = at % kPipe, first = std::min(bytes, kPipe - begin);
  std::memcpy(to, pipe.data + begin, first);
  if (bytes > first) std::memcpy(static_cast<std::byte*>(to) + first, pipe.data, bytes - first);
}

// A message's header has the length of its body in the field of the call's time.
std::size_t length_of(const CallRecord& header) { return static_cast<std::size_t>(header.nanoseconds); }
void set_length(CallRecord& header, std::size_t bytes) {
  header.nanoseconds = static_cast<std::int64_t>(bytes);
}

std::uint64_t of(const Counter& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

struct PipeTransport::Outgoing {
  Pipe* pipe;
  int to;
  CallRecord header;
  std::span<const std::byte> body;
  std::size_t sent = 0;  // bytes of header and body, in whole cache lines
  bool done() const { return to < 0 || sent == sizeof header + lines(body.size()); }
};

struct PipeTransport::Incoming {
  Pipe* pipe;
  int from;
  const Transfer& wanted;
  bool has_header = false;
  std::string text{};  // why there are no data, as received instead of them
  // left: bytes still to read, in whole cache lines. got: bytes of the body that have been read.
  std::size_t left = 0, got = 0;
  bool done() const { return from < 0 || (has_header && left == 0); }
};

void PipeTransport::begin(const CallRecord& call, const std::string& failure, std::span<const CallRecord>) {
  call_ = call;
  missing_ = {};
  if (call.failed) missing_ = {rank(), failure};
}

Transport::Missing PipeTransport::end() { return std::exchange(missing_, {}); }

bool PipeTransport::push(Outgoing& out) {
  if (out.done()) return false;
  const std::uint64_t head = of(out.pipe->head);
  std::size_t room = kPipe - (head - out.pipe->tail.load(std::memory_order_acquire));
  if (room < kLine) return false;
  std::uint64_t at = head;
  if (out.sent == 0) {
    if (room < sizeof out.header) return false;
    put(*out.pipe, at, reinterpret_cast<const std::byte*>(&out.header), sizeof out.header);
    at += out.sent = sizeof out.header;
    room -= sizeof out.header;
  }
  const std::size_t begin = out.sent - sizeof out.header;
  const std::size_t bytes = std::min({out.body.size() - std::min(begin, out.body.size()), room, kPiece});
  put(*out.pipe, at, out.body.data() + begin, bytes);
  out.sent += lines(bytes);
  group_.publish_to(out.to, out.pipe->head, at + lines(bytes));
  return true;
}

bool PipeTransport::read_header(Incoming& in) {
  const std::uint64_t tail = of(in.pipe->tail);
  CallRecord header;
  get(*in.pipe, tail, &header, sizeof header);
  const std::size_t wanted = in.wanted.in.size();
  const auto length = length_of(header);
  const CallOf sender{in.from, header}, receiver{rank(), call_};
  if (!header.valid() || header.agreement != call_.agreement || (header.failed && length > kText))
    group_.fail(Fault::mismatch, in.from, different_calls(sender, receiver));
  if (!header.failed && length != wanted)
    group_.fail(Fault::mismatch, in.from, different_lengths(sender, length, receiver, wanted));
  if (header.failed) in.text.resize(length);
  in.left = lines(length);
  in.has_header = true;
  group_.publish_to(in.from, in.pipe->tail, tail + sizeof header);
  return true;
}

void PipeTransport::read_body(Incoming& in, std::size_t bytes) {
  const std::uint64_t tail = of(in.pipe->tail);
  if (!in.text.empty()) {
    get(*in.pipe, tail, in.text.data() + in.got, bytes);
  } else if (!in.wanted.combine) {
    get(*in.pipe, tail, in.wanted.in.data() + in.got, bytes);
  } else {
    const std::size_t element = size_of(call_.dtype);
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t begin = (tail + done) % kPipe, here = std::min(bytes - done, kPipe - begin);
      std::byte* to = in.wanted.in.data() + in.got + done;
      const std::byte* arriving = in.pipe->data + begin;
      in.wanted.arriving_first ? in.wanted.combine(to, arriving, to, here / element)
                               : in.wanted.combine(to, to, arriving, here / element);
      done += here;
    }
  }
  in.got += bytes;
}

bool PipeTransport::pull(Incoming& in) {
  if (in.done()) return false;
  const std::size_t there = in.pipe->head.load(std::memory_order_acquire) - of(in.pipe->tail);
  if (!in.has_header) return there >= sizeof(CallRecord) && read_header(in);
  const std::size_t length = in.text.empty() ? in.wanted.in.size() : in.text.size();
  const std::size_t taken = std::min({in.left, there, kPiece});
  if (taken == 0) return false;
  read_body(in, std::min(taken, length - in.got));
  in.left -= taken;
  group_.publish_to(in.from, in.pipe->tail, of(in.pipe->tail) + taken);
  return true;
}

void PipeTransport::wait_for_either(const Outgoing& out, const Incoming& in) {
  HostGroup::Alternatives wait{};
  if (!out.done()) {
    const std::size_t room = out.sent == 0 ? sizeof(CallRecord) : kLine;
    wait.of[wait.count++] = {&out.pipe->tail, of(out.pipe->head) + room - kPipe, out.to};
  }
  if (!in.done()) {
    const std::size_t more = in.has_header ? kLine : sizeof(CallRecord);
    wait.of[wait.count++] = {&in.pipe->head, of(in.pipe->tail) + more, in.from};
  }
  group_.await_any(wait);
}

void PipeTransport::transfer(const Transfer& transfer) {
  Outgoing out{nullptr, transfer.to, call_, transfer.out};
  Incoming in{nullptr, transfer.from, transfer};
  if (out.to >= 0) out.pipe = &group_.segment().pipe(rank(), out.to);
  if (in.from >= 0) in.pipe = &group_.segment().pipe(in.from, rank());
  if (missing_.rank >= 0) {
    text_ = std::to_string(missing_.rank) + " " + missing_.why;
    if (text_.size() > kText) text_.resize(kText);
    out.header.failed = 1;
    out.body = std::as_bytes(std::span(text_));
  }
  set_length(out.header, out.body.size());
  while (!out.done() || !in.done()) {
    const bool sent = push(out), received = pull(in);
    if (!sent && !received) wait_for_either(out, in);
  }
  if (in.text.empty() || missing_.rank >= 0) return;
  missing_.rank = std::atoi(in.text.c_str());
  missing_.why = in.text.substr(std::min(in.text.size(), in.text.find(' ') + 1));
}

}  // namespace heddle::comm_detail
