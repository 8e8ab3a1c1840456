// A process of Heddle's that trains a network on command, as networks_torch.py does of PyTorch's.
#pragma once

#include <string>

namespace heddle::bench {

// Writes a network's initial parameters and some batches, which all processes begin with. Blocks.
void save_start(const std::string& network, const std::string& file);

struct ChildOptions {
  std::string network, start;  // its name, and the file of save_start()
  bool captured = false;
  bool bf16 = false;  // each step in an Autocast to bf16
  int workers = 1;
};

// Commands are lines on stdin, answers lines on stdout, until stdin closes:
//   losses N   N steps without dropout: their losses
//   steps N    N steps: steps a second, and the last loss
//   memory     the largest resident memory so far, in MiB
// Returns the exit status.
int train_on_command(const ChildOptions& options);

}  // namespace heddle::bench
