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

// The arrays of one layer in one direction. `gates`: "4 * ", or nothing; `state`: the name of h's size.
std::vector<ArraySpec> network_arrays(const std::string& gates, const std::string& state,
                                      const std::string& input, const std::string& name) {
  const std::string rows = "(" + gates + "hidden_size";
  return {recurrent_array("weight_ih" + name, rows + ", " + input + ")"),
          recurrent_array("weight_hh" + name, rows + ", " + state + ")"),
          recurrent_array("bias_ih" + name, rows + ")", "bias"),
          recurrent_array("bias_hh" + name, rows + ")", "bias")};
}

// Those that only some layers have.
std::vector<ArraySpec> optional_arrays(const FindSize& find, const std::string& name) {
  std::vector<ArraySpec> all;
  if (const OperatorValue* const size = find("proj_size"); size && std::get<std::int64_t>(*size) > 0)
    all.push_back(recurrent_array("weight_hr" + name, "(proj_size, hidden_size)"));
  if (const OperatorValue* const given = find("peepholes"); given && std::get<bool>(*given))
    all.push_back(recurrent_array("weight_peepholes" + name, "(3 * hidden_size)"));
  return all;
}

// Those of all networks but the first, and the optional ones of that.
template <int gates> std::vector<ArraySpec> more_arrays(const FindSize& find) {
  const std::string times = gates == 1 ? "" : std::to_string(gates) + " * ",
                    state = gates == 4 ? "state_size" : "hidden_size";
  const auto layers = std::get<std::int64_t>(*find("layers"));
  const bool both = std::get<bool>(*find("bidirectional"));
  std::vector<ArraySpec> all;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (const bool reverse : {false, true}) {
      if (reverse && !both) continue;
      const std::string name = network_name(layer, reverse), input = layer == 0 ? "input_size"
                                                                     : both     ? "2 * " + state
                                                                                : state;
      std::vector<ArraySpec> own;
      if (layer > 0 || reverse) own = network_arrays(times, state, input, name);
      for (ArraySpec& one : own) all.push_back(std::move(one));
      for (ArraySpec& one : optional_arrays(find, name)) all.push_back(std::move(one));
    }
  return all;
}

// The arrays of each layer are made one by one: a number such as 2^40 would fill the memory. Adds the size `state_size` of an Lstm.
LayerCall with_checked_sizes(LayerCall call) {
  constexpr std::int64_t kMost = 1000;
  if (const auto layers = std::get<std::int64_t>(call.value("layers")); layers > kMost)
    throw InvalidArgument(call.info->name + ": layers is " + std::to_string(layers) + "; want 1 to " +
                          std::to_string(kMost));
  if (call.info->name != "Lstm") return call;
  const auto hidden = std::get<std::int64_t>(call.value("hidden_size")),
             projected = std::get<std::int64_t>(call.value("proj_size"));
  if (projected >= hidden && projected > 0)
    throw InvalidArgument(call.info->name + ": proj_size is " + std::to_string(projected) +
                          "; want 0, for none, or less than hidden_size, " + std::to_string(hidden));
  call.sizes.emplace_back("state_size", projected > 0 ? projected : hidden);
  return call;
}

// The arguments of all three, `more` behind the sizes and the number of layers, and `last` ones.
std::vector<ArgumentInfo> arguments_of(const std::vector<ArgumentInfo>& more,
                                       const std::vector<ArgumentInfo>& last) {
  std::vector<ArgumentInfo> all{inferred_size("input_size"), size_argument("hidden_size"),
                                integer_argument("layers", 1, 1)};
  all.insert(all.end(), more.begin(), more.end());
  for (ArgumentInfo argument :
       {switch_argument("bidirectional", false), switch_argument("bias", true), real_argument("dropout", 0.0),
        switch_argument("batch_first", true), switch_argument("last_only", false)})
    all.push_back(std::move(argument));
  all.insert(all.end(), last.begin(), last.end());
  for (ArgumentInfo argument : {device_argument(), generator_argument()}) all.push_back(std::move(argument));
  return all;
}

template <class Options>
OperatorValues values_of(std::int64_t input, std::int64_t hidden, const Options& options,
                         Generator& generator) {
  OperatorValues values{inferred_value(input), hidden, options.layers};
  if constexpr (requires { options.relu; }) values.emplace_back(options.relu);
  for (OperatorValue value :
       {OperatorValue(options.bidirectional), OperatorValue(options.bias), OperatorValue(options.dropout),
        OperatorValue(options.batch_first), OperatorValue(options.last_only)})
    values.push_back(std::move(value));
  if constexpr (requires { options.proj_size; }) values.emplace_back(options.proj_size);
  if constexpr (requires { options.peepholes; }) values.emplace_back(options.peepholes);
  if constexpr (requires { options.reset_after; }) values.emplace_back(options.reset_after);
  values.emplace_back(options.device);
  values.emplace_back(&generator);
  return values;
}

}  // namespace

RecurrentLayer::RecurrentLayer(const LayerCall& call) : Layer(with_checked_sizes(call)) {
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

RecurrentOutput RecurrentLayer::compute_one(const NDArray& x, const RecurrentStates& states,
                                            std::int64_t layer, bool reverse) {
  const std::string name = network_name(layer, reverse);
  const auto of = [&](const char* kind) { return array((kind + name).c_str()); };
  const std::int64_t at = boolean("bidirectional") ? 2 * layer + (reverse ? 1 : 0) : layer;
  const auto state = [&](const NDArray& all) {
    return all.defined() ? squeeze(all.slice(0, {at, at + 1}), {0}) : all;
  };
  RecurrentWeights weights{of("weight_ih"), of("weight_hh"), of("bias_ih"), of("bias_hh")};
  RecurrentOptions options{states.lengths, reverse, boolean("batch_first")};
  if (info().name == "Lstm") {
    weights.hr = of("weight_hr");
    weights.peepholes = of("weight_peepholes");
    auto made = lstm(x, weights, state(states.h), state(states.c), options);
    return {std::move(made[0]), std::move(made[1]), std::move(made[2])};
  }
  const bool is_gru = info().name == "Gru";
  if (is_gru) options.reset_after = boolean("reset_after");
  auto made = is_gru ? gru(x, weights, state(states.h), options)
                     : rnn(x, weights, state(states.h), boolean("relu"), options);
  return {std::move(made[0]), std::move(made[1]), {}};
}

std::vector<NDArray> RecurrentLayer::compute_all(std::span<const NDArray> inputs) {
  const bool has_c = info().more_outputs.size() == 2;
  const std::int64_t layers = integer("layers"), directions = boolean("bidirectional") ? 2 : 1;
  NDArray x = inputs[0];
  const auto check_state = [&](std::size_t i, std::int64_t size) {
    const Shape wanted{layers * directions, x.shape()[boolean("batch_first") ? 0 : 1], size};
    if (inputs[i].defined() && inputs[i].shape() != wanted)
      refuse_input(inputs[i], wanted.to_string(), info().more_inputs[i - 1].name);
  };
  const std::int64_t projected = has_c ? integer("proj_size") : 0;
  check_state(1, projected > 0 ? projected : integer("hidden_size"));
  if (has_c) check_state(2, integer("hidden_size"));
  const RecurrentStates states{inputs[1], has_c ? inputs[2] : NDArray(), inputs.back()};
  std::vector<NDArray> final_h, final_c;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<NDArray> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      RecurrentOutput made = compute_one(x, states, layer, direction == 1);
      outputs.push_back(std::move(made.output));
      final_h.push_back(std::move(made.h));
      if (has_c) final_c.push_back(std::move(made.c));
    }
    x = directions == 2 ? concat(outputs, 2) : outputs[0];
    if (layer + 1 < layers && real("dropout") > 0)
      x = dropout(x, real("dropout"), default_generator(), training());
  }
  if (boolean("last_only"))
    x = directions == 2 ? concat({final_h.end() - 2, final_h.end()}, 1) : final_h.back();
  std::vector<NDArray> results{x, stack(final_h)};
  if (has_c) results.push_back(stack(final_c));
  return results;
}

Rnn::Rnn(std::int64_t input, std::int64_t hidden, const RnnLayerOptions& options, Generator& generator,
         Where where)
    : RecurrentLayer(call_of("Rnn", values_of(input, hidden, options, generator), where)) {}

Lstm::Lstm(std::int64_t input, std::int64_t hidden, const LstmLayerOptions& options, Generator& generator,
           Where where)
    : RecurrentLayer(call_of("Lstm", values_of(input, hidden, options, generator), where)) {}

Gru::Gru(std::int64_t input, std::int64_t hidden, const GruLayerOptions& options, Generator& generator,
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
  const LayerPort projected_h{"h", "(networks, batch, state_size)",
                              "The initial states, as those of the other layers; state_size is proj_size, or "
                              "hidden_size without it."};
  const LayerPort final_h{"h", states, "The states after the last step."};
  const LayerPort final_projected_h{"h", "(networks, batch, state_size)", "The states after the last step."};
  const LayerPort final_c{"c", states, "The cell states after the last step."};
  const char* const in = "(batch, steps, input_size)";
  const char* const out = "(batch, steps, directions * hidden_size)";
  const char* const more =
      "The same for further layers, l1, l2, ..., whose weight_ih has directions * hidden_size columns, and "
      "for the "
      "second direction, with _reverse behind the name. With `last_only` the output is that of the last step "
      "of "
      "each sequence, and of the first one for the second direction: (batch, directions * hidden_size). "
      "Without "
      "batch_first, batch and steps are exchanged. "
      "`generator` draws initial values alone; dropout draws from the calling thread's generator.";
  const std::string more_of_lstm = std::string(
                                       "state_size is proj_size, or hidden_size if that is 0. With "
                                       "proj_size, h is projected by weight_hr_l0 "
                                       "(proj_size, hidden_size); with `peepholes`, weight_peepholes_l0 (3 * "
                                       "hidden_size) times the cell state "
                                       "is added to the gates i, f and o. ") +
                                   more;
  table.add<Rnn>({.name = "Rnn",
                  .documentation =
                      "h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) for each step, or "
                      "max(0, .) if `relu`.",
                  .arguments = arguments_of({switch_argument("relu", false)}, {}),
                  .arrays = network_arrays("", "hidden_size", "input_size", "_l0"),
                  .input = in,
                  .output = out,
                  .more_inputs = {h, lengths},
                  .more_outputs = {final_h},
                  .more_arrays = {more, more_arrays<1>}});
  table.add<Lstm>(
      {.name = "Lstm",
       .documentation = "Long short-term memory: the operator lstm, in `layers` on top of each other.",
       .arguments = arguments_of({}, {integer_argument("proj_size", 0), switch_argument("peepholes", false)}),
       .arrays = network_arrays("4 * ", "state_size", "input_size", "_l0"),
       .input = in,
       .output = "(batch, steps, directions * state_size)",
       .more_inputs = {projected_h, c, lengths},
       .more_outputs = {final_projected_h, final_c},
       .more_arrays = {more_of_lstm.c_str(), more_arrays<4>}});
  table.add<Gru>(
      {.name = "Gru",
       .documentation = "Gated recurrent units: the operator gru, in `layers` on top of each other.",
       .arguments = arguments_of({}, {switch_argument("reset_after", true)}),
       .arrays = network_arrays("3 * ", "hidden_size", "input_size", "_l0"),
       .input = in,
       .output = out,
       .more_inputs = {h, lengths},
       .more_outputs = {final_h},
       .more_arrays = {more, more_arrays<3>}});
}

}  // namespace heddle
