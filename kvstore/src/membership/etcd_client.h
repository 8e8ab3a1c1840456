// etcd as a ConsensusStore, by its JSON gateway (/v3/..., since version 3.4) and libcurl.
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

// One thread, except for cancel(). A request goes to the member that answered last; if there is no answer
// within the limit, to the next ones in turn.
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

  void cancel() { cancelled_.store(true); }  // any thread: running and later calls end soon, with an Error

 private:
  class Request;
  std::string ask(const std::string& path, const std::string& body);

  const EtcdOptions options_;
  const std::vector<std::string> urls_;
  const std::chrono::milliseconds limit_;
  std::size_t latest_ = 0;  // index of the member that answered last
  std::atomic<bool> cancelled_{false};
  const std::unique_ptr<Request> request_;  // keeps its connections open between requests
};

}  // namespace heddle::kv_detail
