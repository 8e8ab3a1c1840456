// Recurrent layers that are trained on a GPU as on the CPU, also with the loss of connectionist temporal classification.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "problems.h"

using namespace heddle;

namespace {

using Step = std::function<NDArray(const std::vector<NDArray>& batch)>;

struct Run {
  std::vector<double> losses;
  std::vector<NDArray> state;
};

constexpr int kSteps = 6;

Run run(Device device, std::vector<NDArray> batch, std::vector<Parameter> parameters, const Step& loss_of,
        bool captured) {
  Trainer trainer(parameters, {.optimizer = "adam", .schedule = constant_schedule(0.01)});
  for (NDArray& one : batch) one = one.copy_to(device);
  const auto step = [&](const std::vector<NDArray>& given) {
    const NDArray loss = loss_of(given);
    loss.backward();
    trainer.step();
    return loss;
  };
  CapturedStep capture = trainer.capture(CapturedStep::OneResult(step));
  Run made;
  for (int i = 0; i < kSteps; ++i)
    made.losses.push_back((captured ? capture(batch) : step(batch)).item<float>());
  for (const Parameter& one : parameters) made.state.push_back(one.value.detach().copy_to(cpu()));
  return made;
}

void check_near(const Run& here, const Run& there) {
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    CHECK(there.losses[i] == doctest::Approx(here.losses[i]).epsilon(1e-4));
  CHECK(there.losses.back() < there.losses.front());
}

void check_same(const Run& called, const Run& captured) {
  CHECK(captured.losses == called.losses);
  for (std::size_t i = 0; i < called.state.size(); ++i)
    CHECK(all(equal(called.state[i], captured.state[i])).item<bool>());
}

// A layer and a Dense behind the last states.
template <class Layer> Run trained(Device device, const auto& options, bool captured) {
  manual_seed(3);
  Layer layer(6, 8, options);
  Dense head(16, 4);
  layer.to(device);
  head.to(device);
  std::vector<Parameter> parameters = layer.parameters();
  for (const Parameter& one : head.parameters()) parameters.push_back(one);
  const std::vector<NDArray> batch{Generator(5).normal({8, 5, 6}),
                                   array<std::int64_t>({5, 1, 0, 3, 5, 2, 4, 5}),
                                   Generator(6).integers({8}, 0, 4)};
  const auto loss_of = [&](const std::vector<NDArray>& given) {
    const RecurrentOutput made = layer(given[0], {.lengths = given[1]});
    return cross_entropy(head(made.output), given[2]);
  };
  return run(device, batch, parameters, loss_of, captured);
}

// A network for speech: features of 20 steps, two layers in both directions, classes of each step, labels without an alignment.
Run trained_speech(Device device, bool captured) {
  manual_seed(4);
  Dense features(10, 12, {.relu = true});
  Lstm layer(12, 8, {.layers = 2, .bidirectional = true});
  Dense classes(16, 7);
  std::vector<Parameter> parameters;
  for (Module* const one :
       {static_cast<Module*>(&features), static_cast<Module*>(&layer), static_cast<Module*>(&classes)}) {
    one->to(device);
    for (const Parameter& parameter : one->parameters()) parameters.push_back(parameter);
  }
  const std::vector<NDArray> batch{Generator(7).normal({4, 20, 10}), array<std::int64_t>({20, 12, 17, 9}),
                                   Generator(8).integers({4, 5}, 1, 7), array<std::int64_t>({5, 3, 0, 4})};
  const auto loss_of = [&](const std::vector<NDArray>& given) {
    const NDArray hidden = layer(features(given[0]), {.lengths = given[1]}).output;
    return ctc_loss(swapaxes(log_softmax(classes(hidden), 2), 0, 1), given[2], given[1], given[3]);
  };
  return run(device, batch, parameters, loss_of, captured);
}

}  // namespace

TEST_CASE("recurrent layers are trained on a GPU as on the CPU") {
  const auto check = [](const auto& trained_on) {
    const Run here = trained_on(cpu(), false), called = trained_on(gpu(0), false),
              captured = trained_on(gpu(0), true);
    check_near(here, called);
    check_same(called, captured);
  };
  check([](Device device, bool captured) {
    return trained<Lstm>(
        device, LstmLayerOptions{.layers = 2, .bidirectional = true, .dropout = 0.2, .last_only = true},
        captured);
  });
  check([](Device device, bool captured) {
    return trained<Gru>(device, GruLayerOptions{.layers = 2, .bidirectional = true, .last_only = true},
                        captured);
  });
  check([](Device device, bool captured) {
    return trained<Rnn>(device, RnnLayerOptions{.bidirectional = true, .last_only = true}, captured);
  });
  CHECK(problems() == "");
}

TEST_CASE("a network for speech is trained with CTC on a GPU as on the CPU") {
  const Run here = trained_speech(cpu(), false), called = trained_speech(gpu(0), false);
  check_near(here, called);
  check_same(called, trained_speech(gpu(0), true));
  CHECK(problems() == "");
}
