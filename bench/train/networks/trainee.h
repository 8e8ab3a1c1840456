// A process that trains a network, of Heddle or of PyTorch, and the settings of PyTorch.
#pragma once

#include <string>
#include <vector>

#include "support/peer_process.h"
#include "train/networks/network.h"
#include "train/train_network.h"

namespace heddle::bench {

class Trainee {
 public:
  // Starts the process and lets it make its first steps. Throws std::runtime_error if it ends or says what nobody asked.
  Trainee(const std::vector<std::string>& command,
          const std::vector<std::pair<std::string, std::string>>& environment);

  double first_step() const {
    return first_step_;
  }  // seconds from the start of the process to the first loss
  const std::vector<double>& losses() const { return losses_; }  // of the first steps

  // Warms up, and chooses the number of steps of a run that takes so long. Returns steps a second.
  double prepare(double seconds);
  double run();          // steps a second of one run
  double peak_memory();  // MiB

 private:
  std::vector<double> ask(const std::string& command, std::size_t numbers);
  double speed(int steps) { return ask("steps " + std::to_string(steps), 2)[0]; }

  PeerProcess process_;
  double first_step_ = 0;
  std::vector<double> losses_;
  int steps_ = 1;
};

// What PyTorch is tried with for a network; `compile`: also compiled.
std::vector<TorchSetting> network_settings(const NetworkKind& kind, int threads, bool compile);

// The largest difference of two processes' losses, relative to the larger loss.
double loss_difference(const Trainee& a, const Trainee& b);

}  // namespace heddle::bench
