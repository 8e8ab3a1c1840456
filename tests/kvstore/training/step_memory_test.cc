// memory_report() of training steps: which module takes how much.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("step memory: parameters, gradients, moments and activations of each module") {
  EngineOptions options;
  SUBCASE("one worker") { options = {.workers = 1}; }
  SUBCASE("four workers") { options = {.workers = 4}; }
  SUBCASE("naive") { options = {.scheduler = Scheduler::naive}; }
  SUBCASE("fuzz") { options = {.scheduler = Scheduler::fuzz, .seed = 3}; }
  Engine engine(options);
  const EngineScope scope(engine);
  Sequential net{Dense(64, 128, {.relu = true}), Dense(128, 256), Dense(256, 10)};
  Trainer trainer(net.parameters(), {.optimizer = "adam"});
  const NDArray x = ones({512, 64});
  const NDArray y = zeros({512}, DType::i64);
  const StepMemory memory = memory_report(net, trainer, [&] {
    backward(cross_entropy(net(x), y));
    trainer.step();
  });
  REQUIRE(memory.rows.size() == 4);
  const ModuleMemory &all = memory.rows[0], &first = memory.rows[1], &second = memory.rows[2];
  CHECK(all.path.empty());
  CHECK(first.path == "0");
  CHECK(first.text == net.children()[0].module->to_string());
  CHECK(first.parameters == 4 * (64 * 128 + 128));
  CHECK(first.gradients == first.parameters);
  CHECK(first.state == 2 * first.parameters + 2 * 8);
  CHECK(all.parameters == first.parameters + second.parameters + memory.rows[3].parameters);
  CHECK(all.state == first.state + second.state + memory.rows[3].state);
  CHECK(first.activations >= 4 * 512 * 128);
  CHECK(all.activations == first.activations + second.activations + memory.rows[3].activations);
  CHECK(second.activations >= 4 * 512 * 256);
  CHECK(memory.rows[3].activations >= 4 * 512 * 10);
  CHECK(memory.peak <= all.activations + memory.others);
  CHECK(memory.peak >= second.activations);
  CHECK(trainer.steps() == 2);
  const std::string text = memory.to_string();
  CHECK(text.starts_with("module "));
  CHECK(text.find("  1: Dense(128, 256") != std::string::npos);
  CHECK_FALSE(tracks_memory());
}

TEST_CASE("step memory: recompute() keeps less of a module's activations") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  struct Net : Module {
    Sequential first = child("first", Sequential{Dense(64, 256, {.relu = true}), Dense(256, 64)});
    Sequential second = child("second", Sequential{Dense(64, 256, {.relu = true}), Dense(256, 64)});
    bool again = false;
    NDArray forward(const NDArray& x) override {
      return again ? recompute(second)(recompute(first)(x)) : second(first(x));
    }
  } net;
  Trainer trainer(net.parameters());
  const NDArray x = ones({512, 64});
  const auto peak = [&](bool again) {
    net.again = again;
    return memory_report(net, trainer,
                         [&] {
                           backward(sum(square(net(x))));
                           trainer.step();
                         })
        .peak;
  };
  CHECK(peak(true) < peak(false));
}

TEST_CASE("step memory: an empty function is refused, and an error of the step leaves nothing on") {
  Dense net(2, 2);
  Trainer trainer(net.parameters());
  CHECK(message_of<InvalidArgument>([&] { (void)memory_report(net, trainer, {}); }) ==
        "memory_report: step is an empty function");
  CHECK_THROWS_AS((void)memory_report(net, trainer, [&] { (void)net(ones({1, 3})); }), InvalidArgument);
  CHECK_FALSE(tracks_memory());
}
