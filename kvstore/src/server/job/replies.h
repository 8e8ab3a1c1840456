// The replies of a job to its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/job/job_key.h"
#include "server/job/workers.h"

namespace heddle::kv_detail {

class BundleReply;

// Counts that replies carry. A worker sends them to a server that was restored from a snapshot, to tell it
// what the snapshot lacks; see Kind::resume.
struct JobCounts {
  std::uint64_t settings = 0;     // number of completed set_states and set_optimizers
  std::uint64_t collectives = 1;  // 1 + number of completed barriers and set_optimizers
};

class Replies {
 public:
  Replies(Workers& workers, const JobCounts& counts, std::vector<Outgoing>& out)
      : workers_(workers), counts_(counts), out_(out) {}
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  void done(std::uint32_t rank, const Request& request, const std::string& text = {});
  void fail(std::uint32_t rank, const Request& request, const std::string& why);
  // Answers an init. `clock`: number of pushes of the key that the server has had from the worker.
  void initialised(const WaitingRequest& init, std::uint64_t clock);
  // Answers a pull or get_state. `number`: version of the value, if the pull is compressed.
  void value(const WaitingRequest& pull, std::uint64_t rounds, const Payload& value,
             std::uint32_t number = 0);

 private:
  friend class BundleReply;
  BundleReply* bundle_of(std::uint32_t rank, const Request& request) const;

  Workers& workers_;
  const JobCounts& counts_;
  std::vector<Outgoing>& out_;
  BundleReply* bundle_ = nullptr;  // reply to the push_many that is being handled; null: none
};

// The reply to a push_many, whose pushes are done one by one. While this object lives, it collects the
// replies to those pushes. Other requests, which may have waited for the pushes, are answered as usual.
class BundleReply {
 public:
  BundleReply(Replies& replies, std::uint32_t rank, const Request& request);
  ~BundleReply() { replies_.bundle_ = nullptr; }
  BundleReply(const BundleReply&) = delete;
  BundleReply& operator=(const BundleReply&) = delete;
  void next() { ++at_; }  // to be called after each push
  void send();            // to be called after the last push

 private:
  friend class Replies;
  void failed(const std::string& why);

  Replies& replies_;
  const std::uint32_t rank_;
  const Request& request_;
  std::size_t at_ = 0;
  std::vector<std::byte> counted_;  // a byte for each push of the push_many: 1 if the push was not refused
  std::string why_{};               // error of the first push that the server refused
};

}  // namespace heddle::kv_detail
