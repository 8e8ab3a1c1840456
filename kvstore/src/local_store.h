// The key-value store of one process.
#pragma once

#include <heddle/kvstore.h>

namespace heddle {

class LocalStore : public KVStore {
 public:
  std::string type() const override { return "local"; }
  void do_init(Key key, const NDArray& value) override;
  void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) override;
  void do_pull(Key key, std::span<const NDArray> out) override;
  void do_assign(Key key, const NDArray& value) override;
  void do_set_optimizer(const std::string& name, const OptimizerParams& params) override;
  std::map<std::string, NDArray> optimizer_state() const override;
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override;
  void do_clear_errors() override;
  // One process has one order of pushes, so there is nobody to wait for.
  void do_barrier() override {}

  // What is stored, after a check that the arrays are like it; throws InvalidArgument in the name of `call`.
  const NDArray& checked(const char* call, Key key, std::span<const NDArray> arrays) const;
  // Throws InvalidArgument, naming the call, if the key is unknown.
  const NDArray& at(const char* call, Key key) const;

 private:
  std::map<Key, NDArray> values_;
  std::unique_ptr<Optimizer> optimizer_;
};

// One op that adds the values of all devices, in their order, on `device`; of a single one, its copy there if it is not.
NDArray push_sum(std::span<const NDArray> values, Device device);

}  // namespace heddle
