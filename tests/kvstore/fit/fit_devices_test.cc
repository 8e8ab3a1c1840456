// fit(), evaluate() and predict() of networks and data on several devices: the same bits as on one.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

struct Results {
  FitResult trained{};
  FitValues values{};
  std::vector<float> predicted{};
  bool operator==(const Results&) const = default;
};

// `net`, `inputs`, `labels`: devices. The trainer is made before the network is moved.
Results run_on(Device net, Device inputs, Device labels,
               const std::function<void(FitOptions&)>& change = {}) {
  FitProgram program;
  program.net.to(net);
  for (NDArray* const one : {&program.x, &program.other_x}) *one = one->copy_to(inputs);
  for (NDArray* const one : {&program.labels, &program.other_labels}) *one = one->copy_to(labels);
  FitOptions all = program.options(2);
  all.metrics = {"accuracy", "f1"};
  if (change) change(all);
  Results results{.trained = program.result(program.fit(all))};
  const std::vector<FitMetric> metrics{std::make_shared<F1>()};
  results.values = evaluate(program.net, {program.other_x, program.other_labels},
                            {.loss = "cross_entropy", .metrics = metrics});
  const NDArray predicted = predict(program.net, {program.other_x})[0];
  CHECK(predicted.device() == cpu());
  results.predicted = predicted.to_vector<float>();
  for (const Parameter& one : program.net.state()) CHECK(one.value.device() == net);
  return results;
}

}  // namespace

TEST_CASE("fit, evaluate and predict copy batches to the device of the network") {
  const Results wanted = run_on(cpu(), cpu(), cpu());
  CHECK(run_on(cpu(1), cpu(), cpu()) == wanted);
  CHECK(run_on(cpu(1), cpu(1), cpu()) == wanted);
  CHECK(run_on(cpu(1), cpu(1), cpu(1)) == wanted);
  CHECK(run_on(cpu(), cpu(), cpu(1)) == wanted);
  for (const FitCapture capture : {FitCapture::never, FitCapture::always}) {
    const auto change = [capture](FitOptions& all) {
      all.capture = capture;
      all.accumulate = 2;
      all.clip_norm = 0.5;
    };
    CHECK(run_on(cpu(1), cpu(), cpu(), change) == run_on(cpu(), cpu(), cpu(), change));
  }
}

TEST_CASE("fit on another device: a loss that is not finite is named, and its step changes nothing") {
  for (const double value : {1e30, std::nan("")}) {
    std::vector<std::string> messages;
    std::vector<std::vector<std::vector<float>>> states;
    for (const Device device : {cpu(), cpu(1)}) {
      WrongRow program;
      messages.push_back(program.fit(device, value));
      CHECK(program.trainer.steps() == 4);
      states.push_back(arrays_of(program.net.state()));
    }
    CHECK(contains(messages[0], "fit: epoch 0, batch 4: the loss is "));
    CHECK(messages[0] == messages[1]);
    CHECK(states[0] == states[1]);
  }
}

TEST_CASE("evaluate and predict of a network without arrays take data of any device") {
  Sequential net{Relu()};
  const NDArray x = arange(8).view({4, 2}).copy_to(cpu(1)), labels = ones({4, 2});
  CHECK(predict(net, {x})[0].to_vector<float>() == x.to_vector<float>());
  CHECK(evaluate(net, {x, labels.copy_to(cpu(1))}, {.loss = "mse_loss"}).at("loss") > 1);
}
