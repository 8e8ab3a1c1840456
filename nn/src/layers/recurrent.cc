#include <string>
#include <vector>

#include <heddle/dropout.h>
#include <heddle/layers/recurrent.h>
#include <heddle/number_text.h>
#include <heddle/recurrent.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

std::string network_name(std::int64_t layer, bool reverse) {
  return "_l" + std::to_string(layer) + (reverse ? "_reverse" : "");
}

// The arrays of one layer in one direction. `gates`: "4 * ", or nothing.
std::vector<ArraySpec> network_arrays(const std::string& gates, const std::string& input,
                                      const std::string& name) {
  const std::string rows = "(" + gates + "hidden_size";
  return {recurrent_array("weight_ih" + name, rows + ", " + input + ")"),
          recurrent_array("weight_hh" + name, rows + ", hidden_size)"),
          recurrent_array("bias_ih" + name, rows + ")", "bias"),
          recurrent_array("bias_hh" + name, rows + ")", "bias")};
}

// Those of all networks but the first.
template <int gates> std::vector<ArraySpec> more_arrays(const FindSize& find) {
  const std::string times = gates == 1 ? "" : std::to_string(gates) + " * ";
  const auto layers = std::get<std::int64_t>(*find("layers"));
  const bool both = std::get<bool>(*find("bidirectional"));
  std::vector<ArraySpec> all;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (const bool reverse : {false, true}) {
      if ((layer == 0 && !reverse) || (reverse && !both)) continue;
      const char* const input = layer == 0 ? "input_size" : both ? "2 * hidden_size" : "hidden_size";
      for (ArraySpec& one : network_arrays(times, input, network_name(layer, reverse)))
        all.push_back(std::move(one));
    }
  return all;
}

// The arrays of each layer are made one by one: a number such as 2^40 would fill the memory.
LayerCall with_checked_layers(LayerCall call) {
  constexpr std::int64_t kMost = 1000;
  if (const auto layers = std::get<std::int64_t>(call.value("layers")); layers > kMost)
    throw InvalidArgument(call.info->name + ": layers is " + std::to_string(layers) + "; want 1 to " +
                          std::to_string(kMost));
  return call;
}

// The arguments of all three, and `more` behind the sizes and the number of layers.
std::vector<ArgumentInfo> arguments_of(const std::vector<ArgumentInfo>& more = {}) {
  std::vector<ArgumentInfo> all{inferred_size("input_size"), size_argument("hidden_size"),
                                integer_argument("layers", 1, 1)};
  all.insert(all.end(), more.begin(), more.end());
  for (ArgumentInfo argument :
       {switch_argument("bidirectional", false), switch_argument("bias", true), real_argument("dropout", 0.0),
        switch_argument("batch_first", true), device_argument(), generator_argument()})
    all.push_back(std::move(argument));
  return all;
}

template <class Options>
OperatorValues values_of(std::int64_t input, std::int64_t hidden, const Options& options,
                         Generator& generator) {
  OperatorValues values{inferred_value(input), hidden, options.layers};
  if constexpr (requires { options.relu; }) values.emplace_back(options.relu);
  for (OperatorValue value :
       {OperatorValue(options.bidirectional), OperatorValue(options.bias), OperatorValue(options.dropout),
        OperatorValue(options.batch_first), OperatorValue(options.device), OperatorValue(&generator)})
    values.push_back(std::move(value));
  return values;
}

}  // namespace

RecurrentLayer::RecurrentLayer(const LayerCall& call) : Layer(with_checked_layers(call)) {
  const double probability = real("dropout");
  if (probability >= 0 && probability < 1) return;
  throw InvalidArgument(info().name + ": dropout is " + number_text(probability) +
                        "; want 0 or more, and less than 1");
}

RecurrentOutput RecurrentLayer::operator()(const NDArray& x, const RecurrentStates& states, Where where) {
  const bool has_c = info().more_outputs.size() == 2;
  if (!has_c && states.c.defined()) {
    const CallSite site(where);
    throw InvalidArgument(to_string() + ": c is given; only an Lstm has it");
  }
  std::vector<NDArray> all =
      has_c ? run({x, states.h, states.c, states.lengths}, where) : run({x, states.h, states.lengths}, where);
  return {std::move(all[0]), std::move(all[1]), has_c ? std::move(all[2]) : NDArray()};
}

std::vector<NDArray> RecurrentLayer::compute_all(std::span<const NDArray> inputs) {
  const bool has_c = info().more_outputs.size() == 2, first = boolean("batch_first");
  const std::int64_t layers = integer("layers"), directions = boolean("bidirectional") ? 2 : 1;
  NDArray x = inputs[0];
  const Shape wanted{layers * directions, x.shape()[first ? 0 : 1], integer("hidden_size")};
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if ((i == 1 || has_c) && inputs[i].defined() && inputs[i].shape() != wanted)
      refuse_input(inputs[i], wanted.to_string(), info().more_inputs[i - 1].name);
  std::vector<NDArray> final_h, final_c;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<NDArray> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string name = network_name(layer, direction == 1);
      const auto of = [&](const char* kind) { return array((kind + name).c_str()); };
      const auto state = [&](const NDArray& all) {
        const std::int64_t at = layer * directions + direction;
        return all.defined() ? squeeze(all.slice(0, {at, at + 1}), {0}) : all;
      };
      const RecurrentWeights weights{of("weight_ih"), of("weight_hh"), of("bias_ih"), of("bias_hh")};
      const RecurrentOptions options{inputs.back(), direction == 1, first};
      const NDArray h = state(inputs[1]);
      if (has_c) {
        const auto made = lstm(x, weights, h, state(inputs[2]), options);
        final_c.push_back(made[2]);
        outputs.push_back(made[0]), final_h.push_back(made[1]);
      } else {
        const auto made =
            info().name == "Gru" ? gru(x, weights, h, options) : rnn(x, weights, h, boolean("relu"), options);
        outputs.push_back(made[0]), final_h.push_back(made[1]);
      }
    }
    x = directions == 2 ? concat(outputs, 2) : outputs[0];
    if (layer + 1 < layers && real("dropout") > 0)
      x = dropout(x, real("dropout"), default_generator(), training());
  }
  std::vector<NDArray> results{x, stack(final_h)};
  if (has_c) results.push_back(stack(final_c));
  return results;
}

Rnn::Rnn(std::int64_t input, std::int64_t hidden, const RnnLayerOptions& options, Generator& generator,
         Where where)
    : RecurrentLayer(call_of("Rnn", values_of(input, hidden, options, generator), where)) {}

Lstm::Lstm(std::int64_t input, std::int64_t hidden, const RecurrentLayerOptions& options,
           Generator& generator, Where where)
    : RecurrentLayer(call_of("Lstm", values_of(input, hidden, options, generator), where)) {}

Gru::Gru(std::int64_t input, std::int64_t hidden, const RecurrentLayerOptions& options, Generator& generator,
         Where where)
    : RecurrentLayer(call_of("Gru", values_of(input, hidden, options, generator), where)) {}

HEDDLE_LAYERS(recurrent) {
  table.family("Recurrent layers");
  const char* const states = "(networks, batch, hidden_size)";
  const LayerPort h{
      "h", states,
      "The initial states, one for each layer and direction: l0, l0_reverse, l1, ...; 0 if left out."};
  const LayerPort c{"c", states, "The initial cell states; 0 if left out."};
  const LayerPort lengths{
      "lengths", "(batch)",
      "Integers: the number of steps of each sequence. The output is 0 behind it, and the final states are "
      "those of its last step."};
  const LayerPort final_h{"h", states, "The states after the last step."};
  const LayerPort final_c{"c", states, "The cell states after the last step."};
  const char* const in = "(batch, steps, input_size)";
  const char* const out = "(batch, steps, directions * hidden_size)";
  const char* const more =
      "The same for further layers, l1, l2, ..., whose weight_ih has directions * hidden_size columns, and "
      "for the "
      "second direction, with _reverse behind the name. Without batch_first, batch and steps are exchanged. "
      "`generator` draws initial values alone; dropout draws from the calling thread's generator.";
  table.add<Rnn>({.name = "Rnn",
                  .documentation =
                      "h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) for each step, or "
                      "max(0, .) if `relu`.",
                  .arguments = arguments_of({switch_argument("relu", false)}),
                  .arrays = network_arrays("", "input_size", "_l0"),
                  .input = in,
                  .output = out,
                  .more_inputs = {h, lengths},
                  .more_outputs = {final_h},
                  .more_arrays = {more, more_arrays<1>}});
  table.add<Lstm>(
      {.name = "Lstm",
       .documentation = "Long short-term memory: the operator lstm, in `layers` on top of each other.",
       .arguments = arguments_of(),
       .arrays = network_arrays("4 * ", "input_size", "_l0"),
       .input = in,
       .output = out,
       .more_inputs = {h, c, lengths},
       .more_outputs = {final_h, final_c},
       .more_arrays = {more, more_arrays<4>}});
  table.add<Gru>(
      {.name = "Gru",
       .documentation = "Gated recurrent units: the operator gru, in `layers` on top of each other.",
       .arguments = arguments_of(),
       .arrays = network_arrays("3 * ", "input_size", "_l0"),
       .input = in,
       .output = out,
       .more_inputs = {h, lengths},
       .more_outputs = {final_h},
       .more_arrays = {more, more_arrays<3>}});
}

}  // namespace heddle
