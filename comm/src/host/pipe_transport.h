// A transport between the ranks of one host, over the pipes in their shared memory.
#pragma once

#include <string>

#include "core/transport.h"
#include "host/host_group.h"

namespace heddle::comm_detail {

class PipeTransport final : public Transport {
 public:
  explicit PipeTransport(HostGroup& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string name() const override { return "pipes"; }
  void begin(const CallRecord& call, const std::string& failure,
             std::span<const CallRecord> members) override;
  void transfer(const Transfer& transfer) override;
  Missing end() override;
  void abort(const std::string& why) noexcept override { group_.report_fault(Fault::aborted, rank(), why); }

 private:
  struct Outgoing;
  struct Incoming;
  bool push(Outgoing& out);
  bool pull(Incoming& in);
  bool read_header(Incoming& in);
  void read_body(Incoming& in, std::size_t bytes);
  void wait_for_either(const Outgoing& out, const Incoming& in);

  HostGroup& group_;
  CallRecord call_;
  Missing missing_;
  std::string text_;  // the text of missing_, as it is sent to other ranks
};

}  // namespace heddle::comm_detail
