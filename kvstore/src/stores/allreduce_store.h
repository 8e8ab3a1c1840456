// The store of a job in which every rank keeps everything: pushes are summed over the ranks by all_reduce.
//
// Gradients are small and many, and a reduction has its price whatever its size. So pushes that follow each other are
// copied into a bucket, which is reduced as a whole when it is full or somebody asks for what is in it. A copy is an op
// like others: it runs when its gradient is there, and the reduction when the last of its bucket is, while the backward
// pass computes the gradients of the next one. (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.)
//
// A large gradient is a reduction of its own, in memory that it may be computed in.
#pragma once

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
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  std::map<std::string, NDArray> do_residuals() const override;
  std::map<std::string, NDArray> do_set_residuals(const ReadResiduals& read, bool only_check) override;
  void do_clear_errors() override;
  NDArray gradient_memory(Key key) override;
  void do_barrier() override;

 private:
  struct Entry {
    Key key;
    Shape shape;
    std::int64_t offset;  // elements
    UpdateOptions options;
    Where where;  // of the push
  };
  // With compression: what the residuals are those of.
  using Layout = std::vector<std::pair<Key, std::int64_t>>;
  struct Bucket {
    NDArray data{};  // memory that the ranks share, where they share a host
    std::int64_t used = 0;
    std::vector<Entry> entries{};
    std::unique_ptr<CompressedReduce> compressed{};
    Layout layout{};
  };
  using Buckets = std::map<std::size_t, Bucket>;  // by their place in buckets_
  Buckets buckets_with(const std::map<std::string, NDArray>& residuals) const;
  void check_capture(const char* call) const;
  void add(Key key, std::span<const NDArray> values, const UpdateOptions& options);  // to a bucket
  bool goes_alone(const NDArray& value) const;
  const NDArray& memory_of(std::map<Key, NDArray>& all, Key key, const NDArray& value) const;
  void push_alone(Key key, const NDArray& sum, const UpdateOptions& options);
  NDArray room_for(const NDArray& value);
  void reduce_data(Bucket& bucket, const NDArray& data, const std::vector<Entry>& entries) const;
  void reduce();  // the bucket that is being filled
  std::int64_t most_rows(const RowSparse& value) const;
  void finish_all();  // and begins with the first bucket again
  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<const Codec> codec_;  // null: none
  LocalStore local_;
  std::vector<Bucket> buckets_;  // used again in each step, in one order
  std::size_t current_ = 0;
  std::map<Key, NDArray> lent_, copies_;  // of large ones, in memory like a bucket's
};

}  // namespace heddle
