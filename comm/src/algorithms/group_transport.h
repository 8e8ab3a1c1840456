// A subset of a transport's ranks, with ranks numbered from 0.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/transport.h"

namespace heddle::comm_detail {

// Lets an algorithm run on some of the ranks. Messages belong to the current call of the whole transport.
class GroupTransport final : public Transport {
 public:
  // Rank r of this transport is rank members[r] of `all`. The calling rank must be a member.
  GroupTransport(Transport& all, std::vector<int> members)
      : all_(all),
        members_(std::move(members)),
        rank_(static_cast<int>(std::find(members_.begin(), members_.end(), all.rank()) - members_.begin())) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string name() const override { return all_.name(); }
  void begin(const CallRecord&, const std::string&, std::span<const CallRecord>) override {}
  void transfer(const Transfer& transfer) override {
    Transfer renamed = transfer;
    for (int* rank : {&renamed.to, &renamed.from}) {
      if (*rank >= 0) *rank = members_[static_cast<std::size_t>(*rank)];
    }
    all_.transfer(renamed);
  }
  Missing end() override { return {}; }
  void abort(const std::string& why) noexcept override { all_.abort(why); }

 private:
  Transport& all_;
  const std::vector<int> members_;
  const int rank_;
};

}  // namespace heddle::comm_detail
