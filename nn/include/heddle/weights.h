// Weights of a model by their names, with a report of what did not fit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <heddle/module.h>
#include <heddle/ndarray.h>

namespace heddle {

struct WeightReport {
  std::vector<std::string> missing;      // parameters for which there is no array
  std::vector<std::string> unexpected;   // arrays for which there is no parameter
  std::vector<std::string> other_shape;  // "0.weight: (3, 4), wanted (4, 3)"

  bool complete() const { return missing.empty() && unexpected.empty() && other_shape.empty(); }
  std::string to_string() const;  // "all weights fit", or a line each of what did not
};

// Gives each parameter the values of the array of its name, converted to its dtype; those in the report are left as they are.
// Does not block. Arrays come from load_safetensors() or load_npz(), for example.
WeightReport load_weights(const std::vector<Parameter>& parameters,
                          const std::map<std::string, NDArray>& arrays, Where where = Where::current());

}  // namespace heddle
