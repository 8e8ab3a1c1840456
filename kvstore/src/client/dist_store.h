// The store whose values are on server processes. Every call is an engine op, which ends when the servers have answered: a
// push reads its value's var and mutates the key's, a pull reads the key's and mutates its destination's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/kvstore.h>
#include <heddle/store_error.h>

#include "client/client.h"

namespace heddle {

class DistStore final : public KVStore {
 public:
  // `type` as given to create(). Blocks until all servers have let this worker in; throws StoreError.
  DistStore(std::string type, const kv_detail::ClientOptions& options);
  ~DistStore() override;

  std::string type() const override { return type_; }
  int rank() const override { return client_->options().rank; }
  int workers() const override { return client_->options().workers; }
  std::map<std::string, NDArray> optimizer_state() const override;

 private:
  static constexpr std::uint32_t kNone = ~0u;
  // The elements of a key that one server has.
  struct Part {
    std::size_t server = 0;
    std::size_t offset = 0, bytes = 0;
    std::uint32_t number =
        kNone;  // of the key on that server. This and `clock`: used by ops on the key's var only
    std::uint64_t clock = 0;  // pushes that the server has acknowledged
  };
  struct Entry {
    std::string name;
    Shape shape;
    DType dtype;
    std::size_t row_bytes;  // 0: it has no rows
    std::int32_t priority;
    Var var;
    std::vector<Part> parts;
    bool is_known() const {  // by its servers
      return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.number != kNone; });
    }
    bool has_whole_rows() const;  // in each part
    std::size_t bytes() const { return static_cast<std::size_t>(element_count(shape)) * size_of(dtype); }
  };
  using Entries = std::shared_ptr<Entry>;
  void do_init(Key key, const NDArray& value) override;
  void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) override;
  void do_pull(Key key, std::span<const NDArray> out) override;
  void do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) override;
  RowSparse do_pull_rows(Key key, const NDArray& rows) override;
  void do_assign(Key key, const NDArray& value) override;
  void do_set_optimizer(const std::string& name, const OptimizerParams& params) override;
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  void do_clear_errors() override;
  void do_barrier() override;

  const Entries& entry_of(const char* call, Key key) const;
  const Entries& checked(const char* call, Key key, std::span<const NDArray> arrays) const;
  std::vector<Part> place(const Entry& entry) const;
  void push_value(const char* name, const Entries& entry, const NDArray& value, kv_detail::Request request);
  // In dist_rows.cc: what is about rows.
  void check_parts(const char* call, Key key, const Entry& entry) const;
  static void send_rows(kv_detail::Client& client, const Entries& entry, std::span<const std::int64_t> rows,
                        const NDArray& values, const kv_detail::Request& request, Completion& completion);
  static void fetch_rows(kv_detail::Client& client, const Entries& entry, std::vector<std::int64_t> numbers,
                         const RowSparse& found, Completion& completion);
  void call_all(const kv_detail::Request& request) const;
  void wait_for_ops() const;
  void check_state(const std::map<std::string, NDArray>& state) const;
  void send_state(const std::map<std::string, NDArray>& state) const;
  std::map<std::string, NDArray> state_of(const Entry& entry) const;

  const std::string type_;
  Engine& engine_;
  std::shared_ptr<kv_detail::Client> client_;
  const Var order_;  // read by all ops: who mutates it comes after those before, and before those after
  std::map<Key, Entries> entries_;
  std::unique_ptr<Optimizer> optimizer_;  // keeps no state: checks the options of pushes
};

// "dist_sync", "dist_async", "dist_ssp:3": such a store, as the environment says (docs/kvstore.md). Throws
// InvalidArgument naming the variable that is missing or wrong.
std::unique_ptr<KVStore> make_dist_store(const std::string& type);
bool is_dist_type(const std::string& type);

}  // namespace heddle
