// Recurrent layers over whole sequences: several on top of each other, in one direction or both, for elements of different lengths.
//   Lstm lstm(8, 16, {.layers = 2});
//   lstm(x);                                             // x (batch, steps, 8) -> (batch, steps, 16)
//   const auto [y, h, c] = lstm(x, {.lengths = lengths});
//   const auto [y, h, c] = lstm(x, RecurrentStates{});      // without any
#pragma once

#include <cstdint>

#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

struct RecurrentLayerOptions {
  std::int64_t layers = 1;  // 1 to 1000; each takes the outputs of the one below
  bool bidirectional =
      false;  // a second network from the last step to the first; outputs are joined along the last axis
  bool bias = true;
  double dropout = 0;       // in training, of what each layer but the last one gives to the next
  bool batch_first = true;  // x (batch, steps, features); false: (steps, batch, features)
  Device device{};
};

struct RnnLayerOptions {
  std::int64_t layers = 1;
  bool relu = false;  // instead of tanh
  bool bidirectional = false, bias = true;
  double dropout = 0;
  bool batch_first = true;
  Device device{};
};

// What a call may be given beside x. States are (layers * directions, batch, hidden), in the order layer 0, layer 0 reverse, layer 1,
// ...; undefined ones are 0. lengths (batch): see RecurrentOptions.
struct RecurrentStates {
  NDArray h{}, c{}, lengths{};  // c: of an Lstm alone
};
struct RecurrentOutput {
  NDArray output;  // of all steps: (batch, steps, directions * hidden), or with batch and steps exchanged
  NDArray h, c;    // final states, as in RecurrentStates; c is undefined but for an Lstm
};

// Parameters, with PyTorch's names: weight_ih_l0 (gates * hidden, input), weight_hh_l0 (gates * hidden, hidden), bias_ih_l0 and
// bias_hh_l0 (gates * hidden), those of the reverse direction with _reverse behind them, then l1 and so on. All begin uniform in
// +-1 / sqrt(hidden), drawn from `generator`; dropout draws from the calling thread's. `input` may be kInferred.
class RecurrentLayer : public Layer {
 public:
  explicit RecurrentLayer(const LayerCall& call);
  using Module::operator();
  RecurrentOutput operator()(const NDArray& x, const RecurrentStates& states, Where where = Where::current());

 private:
  std::vector<NDArray> compute_all(std::span<const NDArray> inputs) override;
};

// rnn(): h = tanh(x weight_ih^T + h weight_hh^T + biases), or max(0, .).
class Rnn : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;
  Rnn(std::int64_t input, std::int64_t hidden, const RnnLayerOptions& options = {},
      Generator& generator = default_generator(), Where where = Where::current());
};

// lstm(): four gates and a cell state.
class Lstm : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;
  Lstm(std::int64_t input, std::int64_t hidden, const RecurrentLayerOptions& options = {},
       Generator& generator = default_generator(), Where where = Where::current());
};

// gru(): three gates.
class Gru : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;
  Gru(std::int64_t input, std::int64_t hidden, const RecurrentLayerOptions& options = {},
      Generator& generator = default_generator(), Where where = Where::current());
};

}  // namespace heddle
