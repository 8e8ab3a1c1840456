// The "dist_" store types, whose values are on server processes. A push or pull is an engine op that ends
// when the servers have answered. A push reads its value's var and mutates the key's; a pull reads the key's
// var and mutates its destination's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/kvstore.h>
#include <heddle/store_error.h>

#include "client/bundle_transfer.h"
#include "client/client.h"
#include "client/client_key.h"
#include "client/placement.h"
#include "client/transfer.h"

namespace heddle {

class DistStore final : public KVStore {
 public:
  // Codecs of large f32 values between processes; null: not compressed.
  struct Codecs {
    std::shared_ptr<const Codec> push, pull;
  };
  // `type` as given to create(). Blocks until all servers have accepted this worker; throws StoreError.
  DistStore(std::string type, const kv_detail::ClientOptions& options, Codecs codecs);
  DistStore(std::string type, const kv_detail::ClientOptions& options)
      : DistStore(std::move(type), options, Codecs()) {}
  ~DistStore() override;

  std::string type() const override { return type_; }
  int rank() const override { return client_->options().rank; }
  int workers() const override { return client_->options().workers; }
  std::map<std::string, NDArray> optimizer_state() const override;
  std::map<std::string, NDArray> do_residuals() const override;

 private:
  using KeyPtr = std::shared_ptr<ClientKey>;
  void do_init(Key key, const NDArray& value) override;
  void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) override;
  void do_pull(Key key, std::span<const NDArray> out) override;
  void do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) override;
  RowSparse do_pull_rows(Key key, const NDArray& rows, const NDArray* out) override;
  void do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                    const UpdateOptions& options) override;
  void do_list(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
               const UpdateOptions& options) override;
  void do_assign(Key key, const NDArray& value) override;
  void do_set_optimizer(const std::string& name, const OptimizerParams& params,
                        const std::string& weights) override;
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  std::map<std::string, NDArray> do_set_residuals(const ReadResiduals& read, bool only_check) override;
  void do_clear_errors() override;
  void do_barrier() override;

  const KeyPtr& entry_of(const char* call, Key key) const;
  const KeyPtr& checked(const char* call, Key key, std::span<const NDArray> arrays) const;
  const KeyPtr& checked_pull(Key key, std::span<const NDArray> out) const;
  std::vector<ClientKeyPart> place(const ClientKey& entry);
  void push_value(const char* name, const KeyPtr& entry, const NDArray& value, kv_detail::Request request);
  kv_detail::Request push_request(Key key, const ClientKey& entry, const UpdateOptions& options) const;
  void pull_value(const KeyPtr& entry, const NDArray& out);
  void push_and_pull(const KeyPtr& entry, const NDArray& value, const NDArray& out,
                     kv_detail::Request request);
  // Defined in dist_compression.cc.
  void set_codecs(ClientKey& entry) const;
  struct Pulled;
  void pull_compressed(const KeyPtr& entry, const NDArray& out);
  NDArray compressed(const KeyPtr& entry, const NDArray& value, kv_detail::Request& request) const;
  // Defined in store_lists.cc.
  class Bundle;
  std::vector<KeyPtr> checked_list(std::span<const Key> keys, std::span<const NDArray> values,
                                   std::span<const NDArray> out, const UpdateOptions& options) const;
  void send_bundle(std::vector<BundledKey> keys, const kv_detail::Request* push,
                   const std::vector<NDArray>& outs);
  // Memory that a value pulled to `out` is received in: `out` itself, or an array to assign to `out` later.
  static NDArray receiver_for(const NDArray& out);
  // Defined in dist_rows.cc.
  void check_parts(const char* call, Key key, const ClientKey& entry) const;
  static void send_rows(kv_detail::Client& client, const KeyPtr& entry, std::span<const std::int64_t> rows,
                        const NDArray& values, const kv_detail::Request& request, Completion& completion);
  static void fetch_rows(kv_detail::Client& client, const KeyPtr& entry, std::vector<std::int64_t> numbers,
                         const RowSparse& found, Completion& completion);
  void check_residuals_of(const std::map<std::string, NDArray>& residuals) const;
  void check_together(const std::function<void()>& mine) const;
  Engine& engine() const;  // throws Error if the engine is destroyed
  void call_all(const kv_detail::Request& request) const;
  void wait_for_ops() const;
  void check_state(const std::map<std::string, NDArray>& state) const;
  void send_state(const std::map<std::string, NDArray>& state) const;
  std::map<std::string, NDArray> state_of(const ClientKey& entry) const;

  const std::string type_;
  const Codecs codecs_;
  std::shared_ptr<kv_detail::Client> client_;
  kv_detail::KeyPlacer key_placer_;
  // Var that each init reads and mutates if placement depends on the order of keys: once an init has failed,
  // later inits fail, too.
  const Var inits_;
  // The var that all ops read. An op that mutates it runs after all earlier ones and before all later ones.
  const Var order_;
  // std::uncaught_exceptions() when the store was made; the destructor compares with it.
  const int exceptions_;
  std::map<Key, KeyPtr> entries_;
  std::uint64_t bundles_ = 0;  // number of bundles sent so far
  void check_update(Key key, const ClientKey& entry, const UpdateOptions& options) const;
  std::unique_ptr<Optimizer> optimizer_;  // checks the options of pushes; has no state, which servers keep
  bool adds_ = false;                     // whether the servers' update rule is "add"
};

// Makes a store of the type "dist_sync", "dist_async" or "dist_ssp:3" from environment variables
// (docs/kvstore.md). Throws InvalidArgument naming the variable that is missing or wrong.
std::unique_ptr<KVStore> make_dist_store(const std::string& type, const KVStoreOptions& options);

}  // namespace heddle
