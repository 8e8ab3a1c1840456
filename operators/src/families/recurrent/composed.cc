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

// `x` and `h`: the gates' parts (batch, gates * hidden) from the input and from the state.
States next_states(const RecurrentProblem& p, const NDArray& x, const NDArray& h, const States& before) {
  const auto gate = [&](const NDArray& part, std::int64_t i) {
    return part.slice(1, {i * p.hidden, (i + 1) * p.hidden});
  };
  switch (p.cell) {
    case RecurrentCell::tanh:
      return {tanh(x + h), {}};
    case RecurrentCell::relu:
      return {relu(x + h), {}};
    case RecurrentCell::lstm: {
      const NDArray all = x + h;
      const NDArray c = sigmoid(gate(all, 1)) * before.c + sigmoid(gate(all, 0)) * tanh(gate(all, 2));
      return {sigmoid(gate(all, 3)) * tanh(c), c};
    }
    case RecurrentCell::gru:
      break;
  }
  const NDArray r = sigmoid(gate(x, 0) + gate(h, 0)), z = sigmoid(gate(x, 1) + gate(h, 1));
  const NDArray n = tanh(gate(x, 2) + r * gate(h, 2));
  return {n + z * (before.h - n), {}};
}

NDArray initial(const RecurrentProblem& p, const NDArray& state, const NDArray& like) {
  return state.defined() ? state : zeros({p.batch, p.hidden}, like.dtype(), like.device());
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
  States now{initial(p, in.h, in.x), p.has_cell_state() ? initial(p, in.c, in.x) : NDArray()};
  std::vector<NDArray> outputs(static_cast<std::size_t>(p.steps));
  for (std::int64_t step = 0; step < p.steps; ++step) {
    const std::int64_t time = p.reverse ? p.steps - 1 - step : step;
    const NDArray x = squeeze(of_x.slice(time_axis, {time, time + 1}), {time_axis});
    States next = next_states(p, x, linear(now.h, in.weight_hh, in.bias_hh), now);
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
  if (p.has_cell_state()) results.push_back(reshape(now.c, {p.state_size()}));
  return concat(results);
}

}  // namespace heddle::operators_detail
