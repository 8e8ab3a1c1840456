#include "families/recurrent/composed.h"

#include <utility>
#include <vector>

#include <heddle/activations.h>
#include <heddle/creation.h>
#include <heddle/default_engine.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/matmul.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {
namespace {

struct States {
  NDArray h, c;
};

// Part i of an axis: of one gate, or of several.
NDArray part(const RecurrentProblem& p, const NDArray& all, int axis, std::int64_t i,
             std::int64_t count = 1) {
  return all.defined() ? all.slice(axis, {i * p.hidden, (i + count) * p.hidden}) : all;
}

States next_lstm(const RecurrentProblem& p, const RecurrentArrays& in, const NDArray& gates,
                 const NDArray& before) {
  const auto gate = [&](std::int64_t i, std::int64_t peephole, const NDArray& cell) {
    const NDArray own = part(p, gates, 1, i);
    return sigmoid(in.peepholes.defined() ? own + part(p, in.peepholes, 0, peephole) * cell : own);
  };
  const NDArray c = gate(1, 1, before) * before + gate(0, 0, before) * tanh(part(p, gates, 1, 2));
  const NDArray h = gate(3, 2, c) * tanh(c);
  return {p.projected ? linear(h, in.weight_hr) : h, c};
}

// `x`: the gates' parts (batch, gates * hidden) from the input.
States next_states(const RecurrentProblem& p, const RecurrentArrays& in, const NDArray& x,
                   const States& before) {
  if (p.cell == RecurrentCell::gru_reset_before) {
    const NDArray both = sigmoid(
        part(p, x, 1, 0, 2) + linear(before.h, part(p, in.weight_hh, 0, 0, 2), part(p, in.bias_hh, 0, 0, 2)));
    const NDArray of_h =
        linear(part(p, both, 1, 0) * before.h, part(p, in.weight_hh, 0, 2), part(p, in.bias_hh, 0, 2));
    const NDArray n = tanh(part(p, x, 1, 2) + of_h);
    return {n + part(p, both, 1, 1) * (before.h - n), {}};
  }
  const NDArray h = linear(before.h, in.weight_hh, in.bias_hh);
  switch (p.cell) {
    case RecurrentCell::tanh:
      return {tanh(x + h), {}};
    case RecurrentCell::relu:
      return {relu(x + h), {}};
    case RecurrentCell::lstm:
      return next_lstm(p, in, x + h, before.c);
    case RecurrentCell::gru:
    case RecurrentCell::gru_reset_before:
      break;
  }
  const NDArray r = sigmoid(part(p, x, 1, 0) + part(p, h, 1, 0)),
                z = sigmoid(part(p, x, 1, 1) + part(p, h, 1, 1));
  const NDArray n = tanh(part(p, x, 1, 2) + r * part(p, h, 1, 2));
  return {n + z * (before.h - n), {}};
}

NDArray initial(const NDArray& state, const Shape& shape, const NDArray& like) {
  return state.defined() ? state : zeros(shape, like.dtype(), like.device());
}

// x with 0 behind the lengths, where it may hold anything: NaN times 0 would be NaN in the gradients of weights.
NDArray without_padding(const RecurrentProblem& p, const NDArray& x, const NDArray& lengths) {
  const EngineScope scope(x.engine());
  const NDArray times = arange(p.steps, DType::i64, x.device());
  const NDArray has_step =
      p.batch_first ? times < expand_dims(lengths, 1) : expand_dims(times, 1) < lengths;  // (N, T) or (T, N)
  return where(expand_dims(has_step, 2), x, 0.0);
}

}  // namespace

NDArray composed_recurrent(const RecurrentProblem& p, const RecurrentArrays& in) {
  const int time_axis = p.batch_first ? 1 : 0;
  const NDArray lengths = in.lengths.defined() ? in.lengths.astype(DType::i64) : NDArray();
  const NDArray x_of_steps = lengths.defined() ? without_padding(p, in.x, lengths) : in.x;
  const NDArray of_x = linear(x_of_steps, in.weight_ih, in.bias_ih);
  States now{initial(in.h, {p.batch, p.state}, in.x),
             p.has_cell_state() ? initial(in.c, {p.batch, p.hidden}, in.x) : NDArray()};
  std::vector<NDArray> outputs(static_cast<std::size_t>(p.steps));
  for (std::int64_t step = 0; step < p.steps; ++step) {
    const std::int64_t time = p.reverse ? p.steps - 1 - step : step;
    const NDArray x = squeeze(of_x.slice(time_axis, {time, time + 1}), {time_axis});
    States next = next_states(p, in, x, now);
    NDArray output = next.h;
    if (lengths.defined()) {
      const NDArray has_step = expand_dims(lengths > time, 1);
      output = where(has_step, next.h, 0.0);
      next.h = where(has_step, next.h, now.h);
      if (next.c.defined()) next.c = where(has_step, next.c, now.c);
    }
    outputs[static_cast<std::size_t>(time)] = output;
    now = std::move(next);
  }
  std::vector<NDArray> results;
  if (p.steps > 0) results.push_back(reshape(stack(outputs, time_axis), {p.output_size()}));
  results.push_back(reshape(now.h, {p.state_size()}));
  if (p.has_cell_state()) results.push_back(reshape(now.c, {p.cell_size()}));
  return concat(results);
}

}  // namespace heddle::operators_detail
