// A rendezvous of some of a communicator's ranks, by its sends and recvs: the first of them gathers for all.
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

// Collective. The ranks with this rank's colour, ordered by key, then rank; none if the colour is negative.
std::vector<Member> members_of(CommState& state, int colour, int key, const std::source_location& where);

class PairRendezvous final : public Rendezvous {
 public:
  PairRendezvous(CommState& state, const std::vector<Member>& members, const std::source_location& where);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  // Throws CommError if make() has failed on one of the ranks.
  std::vector<std::string> all_gather(const std::string& mine) override;

  // Returns the result of make(), if it succeeds on all ranks. Throws its exception on this rank, or CommError with
  // that of another one. No rank waits in an all_gather for a rank whose make() has failed; other waits of make() need
  // their own timeouts.
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
  std::string over_;  // the error of a rank that has failed, after which no rank gathers any more
  std::uint32_t epoch_ = 0;
};

}  // namespace heddle::comm_detail
