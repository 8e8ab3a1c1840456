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

// What the three have in common:
//   layers         1 to 1000; each takes the outputs of the one below
//   bidirectional  a second network from the last step to the first; outputs are joined along the last axis
//   dropout        in training, of what each layer but the last one gives to the next
//   batch_first    x is (batch, steps, features); false: (steps, batch, features)
//   last_only      the output is (batch, directions * state): of each sequence's last step, and of its first one for the second
//                  direction, so that a layer for (batch, features) may follow in a Sequential
struct RnnLayerOptions {
  std::int64_t layers = 1;
  bool relu = false;  // instead of tanh
  bool bidirectional = false, bias = true;
  double dropout = 0;
  bool batch_first = true, last_only = false;
  Device device{};
};

struct LstmLayerOptions {
  std::int64_t layers = 1;
  bool bidirectional = false, bias = true;
  double dropout = 0;
  bool batch_first = true, last_only = false;
  std::int64_t proj_size = 0;  // less than hidden: h is a projection of that many numbers; 0: without
  bool peepholes = false;      // gates see the cell state, by one weight for each unit
  Device device{};
};

struct GruLayerOptions {
  std::int64_t layers = 1;
  bool bidirectional = false, bias = true;
  double dropout = 0;
  bool batch_first = true, last_only = false;
  bool reset_after = true;  // see RecurrentOptions
  Device device{};
};

// What a call may be given beside x. States are (layers * directions, batch, hidden), in the order layer 0, layer 0 reverse, layer 1,
// ...; undefined ones are 0; h of an Lstm with a projection has proj_size numbers in place of hidden. lengths (batch): see RecurrentOptions.
struct RecurrentStates {
  NDArray h{}, c{}, lengths{};  // c: of an Lstm alone
};
struct RecurrentOutput {
  // Of all steps: (batch, steps, directions * hidden), or with batch and steps exchanged; (batch, directions * hidden) of one with
  // last_only. An element without steps has its initial state there.
  NDArray output;
  NDArray h, c;  // final states, as in RecurrentStates; c is undefined but for an Lstm
};

// Parameters, with PyTorch's names: weight_ih_l0 (gates * hidden, input), weight_hh_l0 (gates * hidden, hidden), bias_ih_l0 and
// bias_hh_l0 (gates * hidden), of an Lstm also weight_hr_l0 (proj_size, hidden) and weight_peepholes_l0
// (3 * hidden), those of the reverse direction with _reverse behind them, then l1 and so on. All begin uniform in
// +-1 / sqrt(hidden), drawn from `generator`; dropout draws from the calling thread's. `input` may be kInferred.
class RecurrentLayer : public Layer {
 public:
  explicit RecurrentLayer(const LayerCall& call);
  using Module::operator();
  RecurrentOutput operator()(const NDArray& x, const RecurrentStates& states, Where where = Where::current());

 private:
  std::vector<NDArray> compute_all(std::span<const NDArray> inputs) override;
  RecurrentOutput compute_one(const NDArray& x, const RecurrentStates& states, std::int64_t layer,
                              bool reverse);
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
  Lstm(std::int64_t input, std::int64_t hidden, const LstmLayerOptions& options = {},
       Generator& generator = default_generator(), Where where = Where::current());
};

// gru(): three gates.
class Gru : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;
  Gru(std::int64_t input, std::int64_t hidden, const GruLayerOptions& options = {},
      Generator& generator = default_generator(), Where where = Where::current());
};

}  // namespace heddle
