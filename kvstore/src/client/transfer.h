// What one op of a store sends and receives: values that are pushed, and values that are pulled behind them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ndarray.h>
#include <heddle/op_table.h>

#include "client/client.h"
#include "client/store_key.h"

namespace heddle {

// Made when the op is pushed, and shared by the op and its calls; of an op of a graph, with each launch. A pull is sent right behind the push of its key: the
// server answers the requests of a connection in order, so it does not wait for the push to be acknowledged.
class Transfer {
 public:
  Transfer(std::shared_ptr<kv_detail::Client> client, std::shared_ptr<StoreKey> key)
      : client_(std::move(client)), key_(std::move(key)) {}

  // An init or a push; an undefined value: one that counts without it. The array is contiguous on the cpu, as is that of
  // pull().
  void push(const kv_detail::Request& request, NDArray value);
  void pull(NDArray to);
  std::shared_ptr<Transfer> again() const;  // the same, not started
  const StoreKey& key() const { return *key_; }

  // Ends the op when all is answered, or at once if it cannot begin.
  void start(const std::shared_ptr<Transfer>& self, Completion done);

 private:
  kv_detail::Call push_call(const std::shared_ptr<Transfer>& self, StoreKeyPart& part);
  kv_detail::Call pull_call(const std::shared_ptr<Transfer>& self, const StoreKeyPart& part);
  void answered(std::exception_ptr error);

  std::shared_ptr<kv_detail::Client> client_;  // null when all is answered: see answered()
  const std::shared_ptr<StoreKey> key_;
  std::optional<kv_detail::Request> request_;  // of the push
  NDArray value_, out_;
  std::optional<Completion> done_;
  std::atomic<std::size_t> left_{0};  // calls without an answer
  std::atomic<bool> failed_{false};   // `error_` belongs to the first call that fails
  std::exception_ptr error_;
};

// The function of the op: it only announces that the arrays are there.
struct StartTransfer {
  static constexpr bool immediate = true;
  std::shared_ptr<Transfer> transfer;
  bool repeats = false;  // the op is one of a graph
  void operator()(RunContext&, Completion done) const {
    const std::shared_ptr<Transfer> now = repeats ? transfer->again() : transfer;
    now->start(now, std::move(done));
  }
};

// What an op fails with whose key has no number on its servers.
std::exception_ptr not_initialised(const std::string& key);

}  // namespace heddle
