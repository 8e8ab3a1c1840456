// The key-value store of one process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <heddle/kvstore.h>

namespace heddle {

class LocalStore : public KVStore {
 public:
  std::string type() const override { return "local"; }
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
  std::map<std::string, NDArray> optimizer_state() const override;
  // Null: pushes add to what is stored, or replace it.
  void set_optimizer(std::unique_ptr<Optimizer> optimizer, bool adds) {
    optimizer_ = std::move(optimizer);
    adds_ = adds;
  }
  bool adds() const { return adds_; }
  // One like the store's with this state, null for no state of one that adds; changes nothing. Throws what
  // set_optimizer_state throws.
  std::unique_ptr<Optimizer> optimizer_with(const std::map<std::string, NDArray>& state) const;
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  void do_clear_errors() override;
  // One process has one order of pushes, so there is nobody to wait for.
  void do_barrier() override {}

  // What is stored, after a check of all that the call of this name refuses; throw InvalidArgument in its name.
  const NDArray& checked_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) const;
  const NDArray& checked_push(Key key, const RowSparse& value, const UpdateOptions& options) const;
  const NDArray& checked_pull(Key key, std::span<const NDArray> out) const;
  const NDArray& checked_assign(Key key, const NDArray& value) const;
  const NDArray& checked_rows(Key key, const NDArray& rows, const NDArray* out) const;
  void check_list(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
                  const UpdateOptions& options) const;
  // Throws InvalidArgument as init does.
  void check_new(Key key, const NDArray& value) const;
  // Throws InvalidArgument, naming the call, if the key is unknown.
  const NDArray& at(const char* call, Key key) const;

 private:
  void update(Key key, const NDArray& value, std::span<const NDArray> values, const UpdateOptions& options);
  static void copy_to(const NDArray& value, std::span<const NDArray> out);
  std::map<Key, NDArray> values_;
  void check_update(Key key, const NDArray& value, const UpdateOptions& options) const;
  std::unique_ptr<Optimizer> optimizer_;
  bool adds_ = false;  // without an optimizer
};

// For errors: "f32 (3,)", or that it is undefined; "KVStore::push, key 7: ".
std::string describe(const NDArray& array);
std::string who_says(const char* call, KVStore::Key key);

// Throws InvalidArgument, naming the call, for an array of another engine.
void check_engine(const char* call, KVStore::Key key, const NDArray& array, const Engine& engine);

// Throw InvalidArgument, naming the call, for no arrays, and for those that are unlike what is stored or of another engine.
// Targets are written: their elements must not share memory, either.
void check_arrays(const char* call, KVStore::Key key, std::span<const NDArray> arrays, const Shape& shape,
                  DType dtype, const Engine& engine);
void check_targets(const char* call, KVStore::Key key, std::span<const NDArray> out, const Shape& shape,
                   DType dtype, const Engine& engine);
void check_writable(const char* call, KVStore::Key key, const NDArray& out);

// One op that adds the values of all devices, in their order, on `device`; of a single one, its copy there if it is not.
NDArray push_sum(std::span<const NDArray> values, Device device);

}  // namespace heddle
