// A ConsensusStore in memory, whose clock the test sets. Requests can be lost, late or unanswered.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/error.h>

#include "membership/consensus_store.h"

namespace heddle::test {

class SharedStore {
 public:
  using Time = std::chrono::steady_clock::time_point;

  std::optional<kv_detail::StoreEntry> get(const std::string& key);
  std::optional<std::int64_t> put_if(const std::vector<kv_detail::StoreCondition>& conditions,
                                     const std::string& key, const std::string& value, std::int64_t lease);
  kv_detail::StoreLease grant(std::chrono::milliseconds time);
  std::chrono::milliseconds renew(std::int64_t lease);
  void revoke(std::int64_t lease);

  Time now{std::chrono::hours(1)};
  std::deque<std::function<void()>> late;  // requests that arrive later, when the test calls them
  std::vector<std::pair<std::string, std::string>> history;  // key and new value of each change

 private:
  struct Lease {
    std::chrono::milliseconds time;
    Time end;
  };
  void expire();
  std::map<std::string, kv_detail::StoreEntry> entries_;
  std::map<std::int64_t, Lease> leases_;
  std::int64_t revision_ = 1, last_lease_ = 0;
};

enum class Fate { done, lost, unanswered, late };

// A process's connection to the store.
class StoreLink final : public kv_detail::ConsensusStore {
 public:
  StoreLink(SharedStore& store, std::function<Fate()> fate) : store_(store), fate_(std::move(fate)) {}

  std::optional<kv_detail::StoreEntry> get(const std::string& key) override {
    return ask([store = &store_, key] { return store->get(key); });
  }
  std::optional<std::int64_t> put_if(const std::vector<kv_detail::StoreCondition>& conditions,
                                     const std::string& key, const std::string& value,
                                     std::int64_t lease) override {
    return ask([=, store = &store_] { return store->put_if(conditions, key, value, lease); });
  }
  kv_detail::StoreLease grant(std::chrono::milliseconds time) override {
    return ask([=, store = &store_] { return store->grant(time); });
  }
  std::chrono::milliseconds renew(std::int64_t lease) override {
    return ask([=, store = &store_] { return store->renew(lease); });
  }
  void revoke(std::int64_t lease) override {
    ask([=, store = &store_] { return store->revoke(lease), 0; });
  }

 private:
  template <class Request> std::invoke_result_t<const Request&> ask(const Request& request) {
    const Fate fate = fate_();
    if (fate == Fate::done) return request();
    if (fate == Fate::unanswered) request();
    if (fate == Fate::late)
      store_.late.push_back([request] {
        try {
          request();
        } catch (const Error&) {  // the process no longer waits for the answer
        }
      });
    throw Error("the store: no answer");
  }

  SharedStore& store_;
  const std::function<Fate()> fate_;
};

}  // namespace heddle::test
