// The store type "local", in one process, and checks that other stores share.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/kvstore.h>

namespace heddle {

class LocalStore : public KVStore {
 public:
  std::string type() const override { return "local"; }
  void do_init(Key key, const NDArray& value) override;
  void do_adopt(Key key, const NDArray& value) override;
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
  std::uint64_t do_generation() const override { return optimizer_ ? optimizer_->generation() : 0; }
  // Sets what pushes do. With a null optimizer they add to the stored value if `adds`, and replace it
  // otherwise.
  void set_optimizer(std::unique_ptr<Optimizer> optimizer, bool adds) {
    optimizer_ = std::move(optimizer);
    adds_ = adds;
  }
  bool adds() const { return adds_; }
  // Returns a new optimizer like that of the store, but with this state. Returns null if pushes add to stored
  // values and the state is empty. Changes nothing. Throws what set_optimizer_state() throws.
  std::unique_ptr<Optimizer> optimizer_with(const std::map<std::string, NDArray>& state) const;
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  void do_clear_errors() override;
  // Does nothing: there are no other workers to wait for.
  void do_barrier() override {}

  // checked_push(), checked_pull(), checked_assign(), checked_rows() and check_list() check all arguments of
  // push(), pull(), assign(), pull_rows() and calls with lists. They throw InvalidArgument, whose message
  // names the call. checked_...() return the stored value.
  const NDArray& checked_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) const;
  const NDArray& checked_push(Key key, const RowSparse& value, const UpdateOptions& options) const;
  const NDArray& checked_pull(Key key, std::span<const NDArray> out) const;
  const NDArray& checked_assign(Key key, const NDArray& value) const;
  const NDArray& checked_rows(Key key, const NDArray& rows, const NDArray* out) const;
  void check_list(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
                  const UpdateOptions& options) const;
  // Throws InvalidArgument if init() must refuse this key or value.
  void check_new(Key key, const NDArray& value) const;
  // Returns the stored value. Throws InvalidArgument, naming the call, if the key is unknown.
  const NDArray& at(const char* call, Key key) const;

 private:
  void update(Key key, const NDArray& value, std::span<const NDArray> values, const UpdateOptions& options);
  static void copy_to(const NDArray& value, std::span<const NDArray> out);
  // Keys without repeats, and their stored values.
  struct Listed {
    std::vector<Key> keys;
    std::vector<NDArray> stored;
  };
  const Listed* listed(std::span<const Key> keys);
  bool update_list(const Listed& list, std::span<const NDArray> values, std::span<const NDArray> out,
                   const UpdateOptions& options);
  std::map<Key, NDArray> values_;
  std::vector<std::unique_ptr<const Listed>> lists_;  // of the last calls with lists
  void check_update(Key key, const NDArray& value, const UpdateOptions& options) const;
  std::unique_ptr<Optimizer> optimizer_;
  bool adds_ = false;  // whether pushes add to the stored value; optimizer_ is null then
};

// Texts for errors. describe(): "f32 (3,)" or "an undefined array". who_says(): "KVStore::push, key 7: ".
std::string describe(const NDArray& array);
std::string who_says(const char* call, KVStore::Key key);

// Throws InvalidArgument, naming the call, if the array belongs to another engine.
void check_engine(const char* call, KVStore::Key key, const NDArray& array, const Engine& engine);

// check_arrays() and check_targets() throw InvalidArgument, naming the call, for an empty list, and for an
// array of another shape, dtype or engine. check_targets() also refuses arrays whose elements share memory,
// since the call writes to them.
void check_arrays(const char* call, KVStore::Key key, std::span<const NDArray> arrays, const Shape& shape,
                  DType dtype, const Engine& engine);
void check_targets(const char* call, KVStore::Key key, std::span<const NDArray> out, const Shape& shape,
                   DType dtype, const Engine& engine);
void check_writable(const char* call, KVStore::Key key, const NDArray& out);

// Adds the values in their order on `device`, by one op. A single value is returned, or copied to `device`.
NDArray push_sum(std::span<const NDArray> values, Device device);
// The same in memory of the host, which is page-locked if one value comes from a GPU.
NDArray host_sum(std::span<const NDArray> values);

}  // namespace heddle
