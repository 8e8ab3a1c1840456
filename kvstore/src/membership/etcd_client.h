// Implements ConsensusStore with etcd, by libcurl and etcd's JSON gateway (/v3/..., since etcd 3.4).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <heddle/etcd.h>

#include "membership/consensus_store.h"

namespace heddle::kv_detail {

// The addresses of etcd's members. Throws InvalidArgument for an invalid address, and for settings that
// contradict each other.
std::vector<std::string> checked_urls(const EtcdOptions& options);

// All functions but cancel() are called on one thread. A request goes to the member of etcd that has answered
// last. If that does not answer within the limit, the request goes to the other members in turn.
class EtcdClient final : public ConsensusStore {
 public:
  EtcdClient(const EtcdOptions& options, std::chrono::milliseconds limit);
  ~EtcdClient() override;

  std::optional<StoreEntry> get(const std::string& key) override;
  std::optional<std::int64_t> put_if(const std::vector<StoreCondition>& conditions, const std::string& key,
                                     const std::string& value, std::int64_t lease) override;
  StoreLease grant(std::chrono::milliseconds time) override;
  std::chrono::milliseconds renew(std::int64_t lease) override;
  void revoke(std::int64_t lease) override;

  // Makes the running call and later calls end soon, with an Error. Any thread.
  void cancel() { cancelled_.store(true); }

 private:
  class Request;
  std::string ask(const std::string& path, const std::string& body);

  const EtcdOptions options_;
  const std::vector<std::string> urls_;
  const std::chrono::milliseconds limit_;
  std::size_t latest_ = 0;  // index in urls_ of the member that has answered last
  std::atomic<bool> cancelled_{false};
  const std::unique_ptr<Request> request_;  // used for all requests, since it keeps its connections open
};

}  // namespace heddle::kv_detail
