// A rendezvous of some of a communicator's ranks, over that communicator: the first of them gathers for all.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "communicator/comm_state.h"

namespace heddle::comm_detail {

struct Member {
  int colour, key, rank;
};

// Collective. Those of this rank's colour, by key, then rank; none if it is negative.
std::vector<Member> members_of(CommState& state, int colour, int key, const std::source_location& where);

class PairRendezvous final : public Rendezvous {
 public:
  PairRendezvous(CommState& state, const std::vector<Member>& members, const std::source_location& where);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  // Throws CommError if one of the ranks has come to an end without what was to be made.
  std::vector<std::string> all_gather(const std::string& mine) override;

  // The outcome of make(), if it has worked on all ranks; throws what it threw on this one, or CommError with what another
  // says. None waits for one that has failed before it came to an all_gather of make; what else
  // make waits for has limits of its own.
  std::unique_ptr<Backend> make(const std::function<std::unique_ptr<Backend>()>& make);

 private:
  std::vector<std::string> gather_words(const std::string& mine);
  void send(int member, const std::string& text);
  std::string recv(int member);
  void move(Kind kind, int member, std::byte* data, std::size_t bytes);

  CommState& state_;
  const std::vector<Member> members_;
  const std::source_location where_;
  int rank_ = 0;
  std::string over_;  // what a rank has said that has failed: nobody gathers any more
  std::uint32_t epoch_ = 0;
};

}  // namespace heddle::comm_detail
