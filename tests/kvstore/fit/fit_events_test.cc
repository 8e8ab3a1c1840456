// Callbacks that throw, and states of callbacks with arrays that are not there yet.
#include <files.h>
#include <limits>
#include <map>
#include <memory>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Keeps an array that is not there at first, and one that is.
struct Keeps : Callback {
  NDArray early = zeros({1}), late{};
  std::vector<std::string> got{};
  bool fails = false;
  CallbackState state() const override {
    return {.arrays = {{"a", late}, {"b", early}}, .of_rank = {{"c", late}, {"d", early}}};
  }
  void set_state(const CallbackState& state) override {
    if (fails) throw Error("no state");
    got.clear();
    for (const auto* const arrays : {&state.arrays, &state.of_rank})
      for (const auto& [name, array] : *arrays) got.push_back(name + (array.defined() ? "" : "?"));
  }
};

}  // namespace

TEST_CASE("fit: each validation that has begun ends, also if the end of another one throws") {
  for (const bool begin_throws : {false, true}) {
    FitProgram program;
    std::vector<std::string> events;
    const auto watch = [&](const std::string& name, bool throws) {
      auto one = std::make_shared<TestCallback>();
      one->validation_begin = [&events, name, throws, begin_throws](FitRun&) {
        events.push_back(name + "+");
        if (throws && begin_throws) throw Error("no begin of " + name);
      };
      one->validation_end = [&events, name, throws](FitRun&) {
        events.push_back(name + "-");
        if (throws) throw Error("no end of " + name);
      };
      return one;
    };
    FitOptions all = program.options(1);
    all.callbacks = {watch("a", false), watch("b", true), watch("c", false), watch("d", true)};
    const std::string message = message_of([&] { program.fit(all); });
    using Events = std::vector<std::string>;
    CHECK(message == (begin_throws ? "no begin of b" : "no end of b"));
    CHECK(events == (begin_throws ? Events{"a+", "b+", "a-", "b-"}
                                  : Events{"a+", "b+", "c+", "d+", "a-", "b-", "c-", "d-"}));
  }
}

TEST_CASE("fit: the state of a callback may have undefined arrays, which are not saved") {
  TemporaryDirectory directory;
  const auto train = [&](std::size_t, TrainerOptions options, bool resumes, bool fails) {
    FitProgram program(std::move(options));
    FitOptions all = program.options(resumes ? 2 : 1);
    const auto keeps = std::make_shared<Keeps>();
    keeps->fails = fails;
    all.callbacks = {keeps, ModelCheckpoint(directory.file("run"))};
    if (resumes) all.resume = directory.file("run");
    const std::string message = message_of([&] { program.fit(all); });
    CHECK(contains(message, fails ? "no state" : "no error"));
    return keeps->got;
  };
  using Names = std::vector<std::string>;
  CHECK(train(0, {}, false, false).empty());
  CHECK(train(0, {}, true, true).empty());
  CHECK(train(0, {}, true, false) == Names{"b", "d"});
  for (const bool resumes : {false, true}) {
    std::vector<Names> got(2);
    const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
      got[rank] = train(rank, {.store = std::move(store)}, resumes, false);
    });
    CHECK(errors == kNone);
    CHECK(got == std::vector<Names>(2, resumes ? Names{"b", "d"} : Names()));
  }
}

TEST_CASE("fit: a resume that fails gives a callback its state back, with arrays that are not there") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(1);
  const auto keeps = std::make_shared<Keeps>();
  struct Fails : Callback {
    bool fails = false;
    CallbackState state() const override { return {.numbers = {{"n", 1}}}; }
    void set_state(const CallbackState&) override {
      if (fails) throw Error("no state");
    }
  };
  const auto throws = std::make_shared<Fails>();
  all.callbacks = {keeps, throws, ModelCheckpoint(directory.file("run"))};
  program.fit(all);
  all.resume = directory.file("run");
  throws->fails = true;
  CHECK(message_of([&] { program.fit(all); }) == "no state");
  CHECK(keeps->got == std::vector<std::string>{"a?", "b", "c?", "d"});
}

TEST_CASE(
    "fit: arrays of a callback are free of the error of a refused batch, behind one that is not there") {
  FitProgram program;
  program.labels.slice(0, {50, 51}).fill(9);
  FitOptions all = program.options(1);
  all.shuffle = false;
  struct Sums : Keeps {
    void on_batch_end(FitRun& run) override {
      early.assign(early + run.value("batch_loss").astype(DType::f32));
    }
  };
  const auto sums = std::make_shared<Sums>();
  all.callbacks = {sums};
  CHECK(contains(message_of([&] { program.fit(all); }), "label 9 at row 2"));
  CHECK(sums->early.item<float>() > 0);
}
