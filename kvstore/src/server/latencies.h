// Measures how long requests take, with one reading of the clock that the caller has made anyhow.
//
// The messages that one poll of the transport receives are a batch. They arrive when the batch begins: what a
// message waits for those before it is the server's time. A reply is handed to the connection at the next
// reading of the clock, which is that of the next message, or of the end of the batch.
#pragma once

#include <array>
#include <vector>

#include <heddle/request_stats.h>

#include "server/job/outgoing.h"

namespace heddle::kv_detail {

// The times of a request until its reply is sent.
struct RequestTimes {
  Kind kind = Kind::ping;
  // `arrived` is that of the request; the epoch: it is not measured. `answerable` is that of the message or of
  // the moment that let the server answer: the request waited for other workers until then.
  Clock::time_point arrived{}, answerable{};
};

class Latencies {
 public:
  // To be called before each message or event is handled. The first call after end_batch() begins a batch.
  void read_clock(Clock::time_point now) {
    if (!sent_.empty()) count_sent(now);
    if (batch_ == Clock::time_point{}) batch_ = now;
  }
  void end_batch(Clock::time_point now) {
    if (!sent_.empty()) count_sent(now);
    batch_ = {};
  }
  bool has_sent() const { return !sent_.empty(); }
  // Arrival of what is being handled; `now` outside of a batch.
  Clock::time_point arrival(Clock::time_point now) const {
    return batch_ == Clock::time_point{} ? now : batch_;
  }
  void sent(const RequestTimes& times) {
    if (times.arrived != Clock::time_point{}) sent_.push_back(times);
  }
  std::vector<RequestStats> stats() const;

 private:
  static constexpr std::size_t kKinds = 5;
  struct Times {
    LatencyHistogram total, server, workers;
  };
  void count_sent(Clock::time_point now);

  Clock::time_point batch_{};  // the epoch: there is no batch
  std::vector<RequestTimes> sent_{};
  std::array<Times, kKinds> times_{};
};

}  // namespace heddle::kv_detail
