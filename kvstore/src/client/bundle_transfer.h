// What one op of a store sends and receives for several keys with small values: one message a server for all pushes, and one
// for all pulls behind them.
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
#include "client/store_key.h"

namespace heddle {

// A key of a bundle: pushed if it has a value, pulled if it has memory for one. Both arrays are contiguous on the cpu.
struct BundledKey {
  std::shared_ptr<StoreKey> key;
  NDArray value{}, out{};
};

class BundleTransfer {
 public:
  // Values of at most this many bytes may be in a bundle, which has no more than that altogether.
  static constexpr std::size_t kMostBytes = 64 << 10;
  static bool may_have(const StoreKey& key) { return key.parts.size() == 1 && key.bytes() <= kMostBytes; }

  // `push`: what all pushes share, if there are any.
  BundleTransfer(std::shared_ptr<kv_detail::Client> client, std::vector<BundledKey> keys,
                 const std::optional<kv_detail::Request>& push)
      : client_(std::move(client)), keys_(std::move(keys)), push_(push) {}

  const std::vector<BundledKey>& keys() const { return keys_; }
  std::shared_ptr<BundleTransfer> again() const {  // the same, not started
    return std::make_shared<BundleTransfer>(client_, keys_, push_);
  }
  // Ends the op when all is answered, or at once if it cannot begin.
  void start(const std::shared_ptr<BundleTransfer>& self, Completion done);

 private:
  // What one server has of the bundle.
  struct Share {
    std::vector<BundledKey*> keys{};
    std::vector<std::byte> values{}, results{};
    std::vector<std::byte*> into{};    // by key: where its value goes; known inside the op
    std::vector<std::byte> counted{};  // by push, if one of them failed
  };
  void send(const std::shared_ptr<BundleTransfer>& self, std::size_t server,
            std::vector<kv_detail::ServerCall>& calls);
  kv_detail::Request request_for(kv_detail::Kind kind, const Share& share) const;
  void pushed(Share& share, std::exception_ptr error);
  void pulled(Share& share, std::exception_ptr error);
  void answered(std::exception_ptr error);

  std::shared_ptr<kv_detail::Client> client_;  // null when all is answered: see answered()
  std::vector<BundledKey> keys_;
  const std::optional<kv_detail::Request> push_;
  std::vector<Share> shares_;  // by server
  std::optional<Completion> done_;
  std::atomic<std::size_t> left_{0};  // calls without an answer
  std::atomic<bool> failed_{false};   // `error_` belongs to the first call that fails
  std::exception_ptr error_;
};

struct StartBundle {
  static constexpr bool immediate = true;
  std::shared_ptr<BundleTransfer> transfer;
  bool repeats = false;  // the op is one of a graph
  void operator()(RunContext&, Completion done) const {
    const std::shared_ptr<BundleTransfer> now = repeats ? transfer->again() : transfer;
    now->start(now, std::move(done));
  }
};

}  // namespace heddle
