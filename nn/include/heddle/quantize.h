// quantize(): networks whose products are of 8-bit integers, after training (Jacob et al., CVPR'18).
//
//   net.train(false);
//   fold_batch_norms(net);
//   std::cout << quantize(net, {images.slice(0, {0, 512})}).to_string();
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

struct QuantizeOptions {
  // The range of an input: 100, from its smallest to its largest number in calibration; less, in (50, 100): so much of it, as the mean over
  // the batches of this percentile and of that from below. What is outside is cut off.
  double percentile = 100;
  double max_error =
      std::numeric_limits<double>::infinity();  // layers whose error is larger stay as they are
  std::vector<std::string> skip{};              // paths of layers that stay as they are
  // Called before each batch and before the module is changed; what it throws ends the call, and the module is as before.
  std::function<void()> check_interrupt{};
};

struct QuantizeReport {
  struct Row {
    std::string path, layer;  // "0", "Dense(784, 128)"
    double scale = 1;         // of the input
    int zero_point = 0;
    double error =
        0;  // ||y - y'|| / ||y||, where y' is the layer's output in 8 bits of the same inputs, in calibration
  };
  struct Kept {
    std::string path, reason;
  };
  std::vector<Row> layers{};
  std::vector<Kept> kept{};
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the state
  std::string to_string() const;                   // a line for each layer
};

// Replaces each Dense and Conv in a Sequential or a Model, here or deep inside, by a layer whose weights are i8, with one scale for each output,
// and whose input becomes u8. A Relu behind it becomes part of it. Ranges of inputs, and errors, come from calls with `batches`, each an input of
// the net; a few hundred examples do. In place, and blocks. Not while other threads call the module. Recurrent layers and the products in
// attention stay f32, and so do layers in a class of the program's own, which the report names. Throws InvalidArgument, before
// anything is changed, in training mode, without batches, and for inputs of a layer that are NaN or infinite.
QuantizeReport quantize(Module& net, const std::vector<NDArray>& batches, const QuantizeOptions& options = {},
                        Where where = Where::current());
// The same for a net of several inputs: `calibrate` calls it, on its thread. It is called twice. check_interrupt() before each time.
QuantizeReport quantize(Module& net, const std::function<void()>& calibrate,
                        const QuantizeOptions& options = {}, Where where = Where::current());

}  // namespace heddle
