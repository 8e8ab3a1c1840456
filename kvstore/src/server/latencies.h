// Measures how long requests take. Uses only times that the caller has read from the clock anyhow.
//
// The messages that one poll of the transport receives are a batch. All of them count as arrived when the
// batch begins, so the time in which a message waits for earlier messages of its batch is the server's time.
// A reply counts as sent at the next reading of the clock, which is made for the next message, or at the end
// of the batch.
#pragma once

#include <array>
#include <vector>

#include <heddle/request_stats.h>

#include "server/job/outgoing.h"

namespace heddle::kv_detail {

// The times of a request until its reply is sent.
struct RequestTimes {
  Kind kind = Kind::ping;
  // arrived: time at which the request has arrived; Clock::time_point(): the request is not measured.
  // answerable: time of the message or event that let the server answer; until then the request waited for
  // other workers.
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
  // Time of arrival of the message that is being handled; `now` outside of a batch.
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

  Clock::time_point batch_{};  // begin of the batch; Clock::time_point(): there is no batch
  std::vector<RequestTimes> sent_{};
  std::array<Times, kKinds> times_{};
};

}  // namespace heddle::kv_detail
