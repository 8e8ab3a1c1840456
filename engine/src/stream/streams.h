// The streams of one engine.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <heddle/host_stream.h>

#include "base/spin_lock.h"
#include "op/op_node.h"
#include "stream/issue_gate.h"
#include "stream/issuer.h"
#include "stream/poller.h"
#include "trace/trace.h"

namespace heddle::detail {

// A stream with the state for issuing ops on it. Lives as long as the engine runs.
struct StreamLane {
  StreamLane(std::unique_ptr<Stream> stream, Poller& poller, bool is_shared, std::size_t its_number)
      : issuer(std::move(stream), poller), shared(is_shared), number(its_number) {}
  std::string name() const;  // "stream 0 (cpu(0), compute)"

  // Records in the trace that op, which was issued at `issued`, is done now. The trace shows the ops on a
  // stream one after another.
  void trace_done(const OpNode& op, std::uint32_t engine, trace::Tick issued) noexcept;

  Issuer issuer;
  IssueGate<OpNode> gate;
  const bool shared;         // whether Streams::shared() returns this stream for its device and lane
  const std::size_t number;  // index in the order of creation
  StreamLane* next = nullptr;

 private:
  SpinLock trace_lock_;  // guards last_done_; nothing else is locked while it is held
  trace::Tick last_done_ = 0;
};

// Thread-safe, except for stop().
class Streams {
 public:
  using Make = std::function<std::unique_ptr<Stream>()>;

  Stream& add(std::unique_ptr<Stream> stream);
  // The shared stream of that device and lane; made by `make` at the first call.
  Stream& shared(Device device, Lane lane, const Make& make);
  // Null if the stream is not this engine's.
  StreamLane* find(const Stream& stream) const;

  // For schedulers that run stepped host streams. stepped(): their number. step(): one step of the first stream, from
  // that number on, that has something to do; false if none has.
  std::size_t stepped() const { return stepped_count_.load(std::memory_order_acquire); }
  bool step(std::size_t first);

  // Call when all issued work is done, and no more will be issued.
  void stop() noexcept;

 private:
  Stream& append(std::unique_ptr<Stream> stream, bool shared);
  HostStream* stepped_at(std::size_t i) const;

  Poller poller_;
  // Guards lanes_ and stepped_; held while a stream is made, which may lock anything.
  mutable std::mutex mutex_;
  std::deque<StreamLane> lanes_;
  std::vector<HostStream*> stepped_;
  std::atomic<std::size_t> stepped_count_{0};
  std::atomic<StreamLane*> newest_{nullptr};  // head of the list of all lanes, for readers without the mutex
};

}  // namespace heddle::detail
