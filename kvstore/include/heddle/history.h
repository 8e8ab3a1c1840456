// The numbers of a training by fit().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

// Numbers by name: "loss", "accuracy", "val_loss", "lr" ...
using FitValues = std::map<std::string, double>;

// What fit() returns: the values of each epoch.
struct History {
  std::vector<std::int64_t> epochs{};                   // numbers of the epochs, from 0
  std::map<std::string, std::vector<double>> values{};  // one for each epoch
  bool interrupted = false;                             // by Ctrl-C
  std::string stopped{};  // why it ended before its last epoch; empty: it did not

  // Throws InvalidArgument that lists the names.
  const std::vector<double>& operator[](const std::string& name) const;
};

}  // namespace heddle
