#include "train/networks/child.h"

#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/networks/network.h"
#include "train/timed_steps.h"

namespace heddle::bench {
namespace {

constexpr std::size_t kBatches = 4;

std::string parameter_key(std::size_t index) { return "parameter." + std::to_string(index); }
std::string batch_key(std::size_t batch, std::size_t index) {
  return "batch." + std::to_string(batch) + "." + std::to_string(index);
}

// The largest resident memory of this process: VmHWM, since getrusage() counts what was resident before exec.
double peak_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

class TrainingChild {
 public:
  explicit TrainingChild(const ChildOptions& options)
      : captured_(options.captured),
        bf16_(options.bf16),
        engine_({.workers = options.workers}),
        scope_(engine_),
        network_(network_kind(options.network).make()) {
    const std::map<std::string, NDArray> start = load_safetensors(options.start).arrays;
    const std::vector<Parameter> parameters = network_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const NoGrad no_grad;
      parameters[i].value.assign(start.at(parameter_key(i)));
    }
    batches_.resize(kBatches);
    for (std::size_t i = 0; i < kBatches; ++i)
      for (std::size_t k = 0; start.contains(batch_key(i, k)); ++k)
        batches_[i].push_back(start.at(batch_key(i, k)));
  }

  void print_losses(int steps) {
    network_->set_dropout(false);
    for (int i = 0; i < steps; ++i) std::cout << (i ? " " : "") << next_step().item<float>();
    network_->set_dropout(true);
    std::cout << std::endl;
  }

  void print_speed(int steps) {
    const TimedSteps timed = timed_steps(engine_, steps, [&] { return next_step(); });
    std::cout << steps / timed.seconds << " " << timed.loss.item<float>() << std::endl;
  }

 private:
  NDArray next_step() {
    const Autocast autocast(bf16_ ? DType::bf16 : DType::f32);
    return network_->step(batches_[step_++ % kBatches], captured_);
  }

  const bool captured_, bf16_;
  Engine engine_;
  const EngineScope scope_;
  const std::unique_ptr<Network> network_;
  std::vector<Arrays> batches_;
  std::size_t step_ = 0;
};

}  // namespace

void save_start(const std::string& network, const std::string& file) {
  Engine engine;
  const EngineScope scope(engine);
  default_generator() = Generator(1);
  const std::unique_ptr<Network> made = network_kind(network).make();
  Safetensors content;
  const std::vector<Parameter> parameters = made->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    content.arrays[parameter_key(i)] = parameters[i].value.detach();
  Generator random(2);
  for (std::size_t i = 0; i < kBatches; ++i) {
    const Arrays batch = made->draw_batch(random);
    for (std::size_t k = 0; k < batch.size(); ++k) content.arrays[batch_key(i, k)] = batch[k];
  }
  save_safetensors(file, content);
}

int train_on_command(const ChildOptions& options) {
  std::cout.precision(9);
  TrainingChild child(options);
  for (std::string command; std::cin >> command;) {
    int steps = 0;
    if (command == "memory") {
      std::cout << peak_mebibytes() << std::endl;
    } else if (!(std::cin >> steps) || steps < 1 || (command != "losses" && command != "steps")) {
      std::cerr << "unknown command: " << command << "\n";
      return 2;
    } else {
      command == "losses" ? child.print_losses(steps) : child.print_speed(steps);
    }
  }
  return 0;
}

}  // namespace heddle::bench
