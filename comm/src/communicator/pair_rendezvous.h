// A rendezvous of some of a communicator's ranks, through sends and recvs of that communicator: the first of them
// gathers the texts of all.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "communicator/comm_state.h"

namespace heddle::comm_detail {

struct Member {
  int colour, key, rank;  // colour and key as in Communicator::split; rank in the communicator that is split
};

// Collective. The ranks with this rank's colour, ordered by key, then rank; none if the colour is negative.
std::vector<Member> members_of(CommState& state, int colour, int key, const std::source_location& where);

class PairRendezvous final : public Rendezvous {
 public:
  PairRendezvous(CommState& state, const std::vector<Member>& members, const std::source_location& where);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  // Throws CommError if one of the ranks has failed in make(); after that every later call throws it, too.
  std::vector<std::string> all_gather(const std::string& mine) override;

  // Collective. Calls make() and returns its result if it succeeds on all ranks. Throws what make threw on
  // this rank, or CommError with what it threw on another. A rank that fails before an all_gather of make()
  // still takes part in it, to report the failure; other waits in make() need limits of their own.
  std::unique_ptr<Backend> make(const std::function<std::unique_ptr<Backend>()>& make);

 private:
  std::vector<std::string> gather_texts(const std::string& mine);
  void send(int member, const std::string& text);
  std::string recv(int member);
  void move(Kind kind, int member, std::byte* data, std::size_t bytes);

  CommState& state_;
  const std::vector<Member> members_;
  const std::source_location where_;
  int rank_ = 0;
  std::string failure_;  // the first known failure of a rank: later all_gathers throw it
  std::uint32_t epoch_ = 0;
};

}  // namespace heddle::comm_detail
