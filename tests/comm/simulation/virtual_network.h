// Runs algorithms in virtual time: records what each rank sends, receives and combines, and replays it on a
// network in which every message takes exactly its latency and its bytes.
#pragma once

#include <functional>
#include <vector>

#include <heddle/cost_model.h>

#include "algorithms/algorithms.h"

namespace heddle::test {

// One step of a rank: a transfer, or the combining of bytes, for which `to` and `from` are -1.
struct Deed {
  int to = -1, from = -1;
  double out = 0, combined = 0;
};

// Records the steps of one rank's algorithm. Moves no data, since no algorithm's steps depend on the data.
class RecordingTransport final : public comm_detail::Transport {
 public:
  RecordingTransport(int rank, int size, std::vector<int> hosts = {})
      : rank_(rank), size_(size), hosts_(std::move(hosts)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "recording"; }
  const std::vector<int>& hosts() const override { return hosts_; }
  void begin(const comm_detail::CallRecord&, const std::string&,
             std::span<const comm_detail::CallRecord>) override {}
  void transfer(const comm_detail::Transfer& transfer) override;
  Missing end() override { return {}; }
  void abort(const std::string&) noexcept override {}
  // Used as an operand's combine function: records the number of bytes that the algorithm combines.
  static void combine(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes);

  std::vector<Deed> take() { return std::move(deeds_); }

 private:
  const int rank_, size_;
  const std::vector<int> hosts_;
  std::vector<Deed> deeds_;
};

using ReduceBytes = std::function<void(comm_detail::Transport&, const comm_detail::Operand&)>;

// Runs the algorithm on all ranks in virtual time. Returns the seconds until the last rank is done. A message
// starts when both its ends are ready. Messages from a host to other hosts share the host's link evenly.
double virtual_seconds(const ReduceBytes& algorithm, const NetworkCost& network, int ranks,
                       std::size_t bytes);

// Runs an all_reduce of this kind as a communicator runs it.
ReduceBytes algorithm_of(AllReduce kind, int ranks, int ranks_per_host);

}  // namespace heddle::test
