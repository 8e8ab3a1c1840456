// The messages of one op for several keys with small values: to each server one message with all pushes, and
// then one with all pulls.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ndarray.h>
#include <heddle/op_table.h>

#include "client/client.h"
#include "client/client_key.h"

namespace heddle {

// A key of a bundle. It is pushed if `value` is defined, pulled if `out` is; both are contiguous, on a cpu.
struct BundledKey {
  std::shared_ptr<ClientKey> key;
  NDArray value{}, out{};
};

class BundleTransfer {
 public:
  // Most bytes of a value that may be in a bundle, and of all values of a bundle together.
  static constexpr std::size_t kMostBytes = 64 << 10;
  static bool may_have(const ClientKey& key) { return key.parts.size() == 1 && key.bytes() <= kMostBytes; }

  // `push`: the request fields that the pushes of all keys share; empty: the bundle only pulls.
  BundleTransfer(std::shared_ptr<kv_detail::Client> client, std::vector<BundledKey> keys,
                 const std::optional<kv_detail::Request>& push)
      : client_(std::move(client)), keys_(std::move(keys)), push_(push) {}

  const std::vector<BundledKey>& keys() const { return keys_; }
  // Returns a new transfer of the same keys that has not been started.
  std::shared_ptr<BundleTransfer> again() const {
    return std::make_shared<BundleTransfer>(client_, keys_, push_);
  }
  // Completes the op when all servers have answered, or fails it at once if a key is not initialised.
  void start(const std::shared_ptr<BundleTransfer>& self, Completion done);

 private:
  // The keys of the bundle that are on one server.
  struct Share {
    std::vector<BundledKey*> keys{};
    std::vector<std::byte> values{}, results{};
    std::vector<std::byte*> into{};  // where to write the pulled value of each key; set when the op runs
    // A byte for each key, filled only if the push of a key failed: 1 if the server counts the push of this
    // key.
    std::vector<std::byte> counted{};
  };
  void send(const std::shared_ptr<BundleTransfer>& self, std::size_t server,
            std::vector<kv_detail::ServerCall>& calls);
  kv_detail::Request request_for(kv_detail::Kind kind, const Share& share) const;
  void pushed(Share& share, std::exception_ptr error);
  void pulled(Share& share, std::exception_ptr error);
  void answered(std::exception_ptr error);

  std::shared_ptr<kv_detail::Client> client_;  // null once all servers have answered: see answered()
  std::vector<BundledKey> keys_;
  const std::optional<kv_detail::Request> push_;
  std::vector<Share> shares_;  // one share for each server
  std::optional<Completion> done_;
  std::atomic<std::size_t> left_{0};  // number of calls to servers that are not answered yet
  std::atomic<bool> failed_{false};   // whether a call to a server has failed: only the first one sets error_
  std::exception_ptr error_;
};

struct StartBundle {
  static constexpr bool immediate = true;
  std::shared_ptr<BundleTransfer> transfer;
  bool repeats = false;  // true: the op is part of a graph, and each launch needs a new transfer
  void operator()(RunContext&, Completion done) const {
    const std::shared_ptr<BundleTransfer> now = repeats ? transfer->again() : transfer;
    now->start(now, std::move(done));
  }
};

}  // namespace heddle
