// Weights of a model by their names, with a report of what did not fit.
//
//   // A state_dict of PyTorch, saved by safetensors.torch.save_file() from a model wrapped in DistributedDataParallel.
//   const WeightReport report = load_weights(net, "resnet.safetensors", {.rename = {{"module", ""}, {"module.fc", "9"}}});
//   if (!report.complete()) std::cout << report.to_string() << "\n";
#pragma once

#include <map>
#include <string>
#include <vector>

#include <heddle/module.h>
#include <heddle/ndarray.h>

namespace heddle {

struct WeightReport {
  std::vector<std::string> missing;  // parameters for which there is no array
  std::vector<std::string>
      unexpected;  // arrays for which there is no parameter; "head.bias, as 9.bias" if it was renamed
  std::vector<std::string> other_shape;  // "0.weight: (3, 4), wanted (4, 3)"
  // Floating point in place of integers or the other way, or integers that may not fit: "0.weight: f32, wanted i8".
  std::vector<std::string> other_dtype;

  bool complete() const {
    return missing.empty() && unexpected.empty() && other_shape.empty() && other_dtype.empty();
  }
  std::string to_string() const;  // "all weights fit", or a line each of what did not
};

struct WeightOptions {
  // What stands in the network's names in place of names of the arrays, or of their beginnings up to a dot; the longest one that
  // fits a name counts. {"encoder.fc1", "0"} loads encoder.fc1.weight to 0.weight, {"module", ""} takes "module." away, and
  // {"", "backbone"} puts "backbone." before names that no other fits. One that fits no array is an error.
  std::map<std::string, std::string> rename = {};
  // Names of arrays that are not wanted, before they are renamed; * stands for any text, ? for a character.
  std::vector<std::string> ignore = {"*num_batches_tracked"};
  bool strict =
      false;  // throws InvalidArgument with the report, before anything is changed, unless all weights fit
  // Arrays that cannot be read: their dtypes by name, as "F8_E4M3". Those that are wanted are in the report.
  std::map<std::string, std::string> unreadable = {};
};

// Gives each parameter the values of the array of its name, converted to its dtype; those in the report are left as they are.
// Does not block. Arrays come from load_safetensors() or load_npz(), for example. Throws InvalidArgument, before anything is
// changed, for two arrays that are renamed alike and for undefined arrays.
WeightReport load_weights(const std::vector<Parameter>& parameters,
                          const std::map<std::string, NDArray>& arrays, const WeightOptions& options = {},
                          Where where = Where::current());
// Loads net.state(), all parameters and saved buffers, from a file .npz or .safetensors as the function above does from a map. The file is
// mapped: only what is loaded is read, and arrays of a dtype that there is not are in the report if they are wanted. Throws Error
// that names the file.
WeightReport load_weights(const Module& net, const std::string& path, const WeightOptions& options = {},
                          Where where = Where::current());

}  // namespace heddle
