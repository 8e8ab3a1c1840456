// The networks of `train_bench --networks`. networks_torch.py has the same ones, with parameters in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <heddle/heddle.h>

namespace heddle::bench {

using Arrays = std::vector<NDArray>;

// How a network is to be trained; the default is what `train_bench --networks` measures.
struct NetworkSetup {
  std::int64_t batch = 0;                                // images a step; 0: the network's own number
  std::function<std::shared_ptr<KVStore>()> make_store;  // of each trainer; null: a local one

  std::shared_ptr<KVStore> store() const { return make_store ? make_store() : nullptr; }
};

// A network with its optimizers, on the engine that was the current one when it was made.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::vector<Parameter> parameters() const = 0;
  virtual Arrays draw_batch(Generator& random) const = 0;
  // Forward, backward and the optimizers' steps, run eagerly or as captured steps; returns the loss.
  virtual NDArray step(const Arrays& batch, bool captured) = 0;
  // Whether elements are dropped; they are at first. Of networks without dropout it changes nothing.
  virtual void set_dropout(bool) {}
};

// One network and one trainer.
class TrainedModule : public Network {
 public:
  using Loss = std::function<NDArray(const Arrays& batch)>;
  using Draw = std::function<Arrays(Generator& random)>;
  TrainedModule(std::shared_ptr<Module> net, TrainerOptions options, Loss loss, Draw draw);

  std::vector<Parameter> parameters() const override { return net_->parameters(); }
  Arrays draw_batch(Generator& random) const override { return draw_(random); }
  NDArray step(const Arrays& batch, bool captured) override;

 protected:
  const std::shared_ptr<Module> net_;

 private:
  NDArray step_now(const Arrays& batch);

  const Loss loss_;
  const Draw draw_;
  Trainer trainer_;
  CapturedStep captured_;
};

struct NetworkKind {
  std::string name;  // as in --only
  std::string text;  // sizes and optimizer, for people
  std::function<std::unique_ptr<Network>()> make;
  // Words that add PyTorch settings: "images", which may lie with the channels last; "lengths", which may be packed.
  std::string layout = "";
};

const std::vector<NetworkKind>& network_kinds();
const NetworkKind& network_kind(const std::string& name);  // throws std::out_of_range

std::unique_ptr<Network> make_mlp();
std::unique_ptr<Network> make_cnn();
std::unique_ptr<Network> make_resnet();
std::unique_ptr<Network> make_lstm(bool lengths);
std::unique_ptr<Network> make_transformer();
std::unique_ptr<Network> make_hep_cnn(const NetworkSetup& setup = {});
std::unique_ptr<Network> make_cosmogan(const NetworkSetup& setup = {});
std::unique_ptr<Network> make_recommender();

}  // namespace heddle::bench
