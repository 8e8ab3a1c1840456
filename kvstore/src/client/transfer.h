// The requests of one op for one key: a push, and a pull behind it.
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
#include "client/client_key.h"

namespace heddle {

// Made when the op is pushed, or at each launch of a graph, and shared by the op and its calls. A pull is
// sent right behind the push of its key, without waiting for the push's answer, because a server handles the
// requests of a connection in order.
class Transfer {
 public:
  Transfer(std::shared_ptr<kv_detail::Client> client, std::shared_ptr<ClientKey> key)
      : client_(std::move(client)), key_(std::move(key)) {}

  // Sets the init or push to send. If `value` is undefined, the request is sent without a payload. The arrays
  // given to push() and pull() are contiguous, on a cpu.
  void push(const kv_detail::Request& request, NDArray value);
  void pull(NDArray to);
  std::shared_ptr<Transfer> again() const;  // a new transfer of the same arrays that has not been started
  const ClientKey& key() const { return *key_; }

  // Completes the op when all servers have answered, or fails it at once if the key is not initialised.
  void start(const std::shared_ptr<Transfer>& self, Completion done);

 private:
  kv_detail::Call push_call(const std::shared_ptr<Transfer>& self, ClientKeyPart& part);
  kv_detail::Call pull_call(const std::shared_ptr<Transfer>& self, const ClientKeyPart& part);
  void answered(std::exception_ptr error);

  std::shared_ptr<kv_detail::Client> client_;  // null once all servers have answered: see answered()
  const std::shared_ptr<ClientKey> key_;
  std::optional<kv_detail::Request> request_;  // the init or push; empty: there is only a pull
  NDArray value_, out_;
  std::optional<Completion> done_;
  std::atomic<std::size_t> left_{0};  // number of calls to servers that are not answered yet
  std::atomic<bool> failed_{false};   // whether a call to a server has failed: only the first one sets error_
  std::exception_ptr error_;
};

// The function of the engine op that starts a transfer. It runs when the arrays are computed.
struct StartTransfer {
  static constexpr bool immediate = true;
  std::shared_ptr<Transfer> transfer;
  bool repeats = false;  // true: the op is part of a graph, and each launch needs a new transfer
  void operator()(RunContext&, Completion done) const {
    const std::shared_ptr<Transfer> now = repeats ? transfer->again() : transfer;
    now->start(now, std::move(done));
  }
};

// The error of an op whose key was not initialised on its servers.
std::exception_ptr not_initialised(const std::string& key);

}  // namespace heddle
