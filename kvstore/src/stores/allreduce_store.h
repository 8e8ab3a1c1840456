// The store type "allreduce": every rank keeps all values, and pushes are summed over the ranks by
// all_reduce.
//
// Gradients are small and many, and each reduction has a fixed cost. So consecutive pushes are copied into a
// bucket, which is reduced as a whole when it is full or a value is needed. A copy is an op that runs when
// its gradient is computed. The reduction of a bucket runs after its last copy, while the backward pass
// computes the gradients of the next bucket. (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.)
//
// A large gradient is reduced alone, without a copy if it was computed in memory of gradient_memory().
//
// Buckets of values on the communicator's GPU are on that GPU. Gradients on other GPUs, and those that are compressed, are
// copied to a bucket on the CPU, and the sum is copied back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/compression.h>

#include "stores/local_store.h"

namespace heddle {

class AllReduceStore final : public KVStore {
 public:
  AllReduceStore(std::shared_ptr<Communicator> ranks, const KVStoreOptions& options);

  std::string type() const override { return "allreduce"; }
  int rank() const override { return ranks_->rank(); }
  int workers() const override { return ranks_->size(); }
  std::shared_ptr<Communicator> communicator() const override { return ranks_; }
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
  std::map<std::string, NDArray> optimizer_state() const override { return local_.optimizer_state(); }
  std::uint64_t do_generation() const override { return local_.do_generation(); }
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  std::map<std::string, NDArray> do_residuals() const override;
  std::map<std::string, NDArray> do_set_residuals(const ReadResiduals& read, bool only_check) override;
  void do_clear_errors() override;
  NDArray gradient_memory(Key key) override;
  void do_max(const NDArray& array) override;
  void do_barrier() override;

 private:
  struct Entry {
    Key key;
    Shape shape;
    std::int64_t offset;  // offset of the gradient in the bucket, in elements
    UpdateOptions options;
    Where where;  // call site of the push
  };
  // The keys of a bucket and their offsets. Residuals of the bucket are valid for this layout only.
  using Layout = std::vector<std::pair<Key, std::int64_t>>;
  struct Bucket {
    NDArray data{};  // memory of the bucket; ranks on one host share it, unless it is on a GPU
    std::int64_t used = 0;
    std::vector<Entry> entries{};
    std::unique_ptr<CompressedReduce> compressed{};
    Layout layout{};
  };
  using Buckets = std::map<std::size_t, Bucket>;  // keyed by index in buckets_
  Buckets buckets_with(const std::map<std::string, NDArray>& residuals) const;
  void check_capture(const char* call) const;
  // Adds a push to a bucket, or reduces it alone if the value is large.
  void add(Key key, std::span<const NDArray> values, const UpdateOptions& options);
  bool goes_alone(const NDArray& value) const;
  // The device on which gradients of `value` are reduced: the communicator's GPU, if the value is there, else cpu().
  Device reduced_on(const NDArray& value) const;
  NDArray memory_on(Device device, const Shape& shape, DType dtype) const;
  void on_reducible(const NDArray& value, const std::function<void(const NDArray&)>& call) const;
  const NDArray& memory_of(std::map<Key, NDArray>& all, Key key, const NDArray& value) const;
  void push_alone(Key key, const NDArray& sum, const UpdateOptions& options);
  NDArray room_for(const NDArray& value, Device device);
  void reduce_data(Bucket& bucket, const NDArray& data, const std::vector<Entry>& entries) const;
  void reduce();  // reduces the bucket that is being filled
  std::int64_t most_rows(const RowSparse& value) const;
  void finish_all();  // reduces the bucket that is being filled; the next push goes to the first bucket
  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<const Codec> codec_;  // null: no compression
  LocalStore local_;
  std::vector<Bucket> buckets_;  // reused in each step, in the same order
  std::size_t current_ = 0;
  // Memory for gradients that are reduced alone; ranks on one host share it. lent_: memory of
  // gradient_memory(). copies_: memory that other gradients are copied to.
  std::map<Key, NDArray> lent_, copies_;
};

}  // namespace heddle
