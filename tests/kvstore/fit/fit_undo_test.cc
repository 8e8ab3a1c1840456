// fit(): batches that cannot be trained, losses that are not finite, loss scalers: what a step that fails leaves.
#include <cmath>
#include <functional>
#include <memory>
#include <message_of.h>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using State = std::vector<std::vector<float>>;

// Eight batches of a rank, of which one may be bad.
struct EightBatches {
  Generator initial{1};
  BatchNorm norm{3};
  Sequential net{norm, Dense(3, 2, {}, initial)};
  Trainer trainer;
  NDArray x, labels = zeros({64}, DType::i64);

  EightBatches(std::size_t rank, TrainerOptions options)
      : trainer(net.parameters(), std::move(options)), x(Generator(2 + rank).normal({64, 3})) {}
  void spoil(std::int64_t batch, bool is_label) {
    const std::int64_t row = 8 * batch + 4;
    if (is_label) {
      labels.slice(0, {row, row + 1}).fill(7);
    } else {
      x.slice(0, {row, row + 1}).fill(std::nan(""));
    }
  }
  FitOptions options() const {
    FitOptions all;
    all.loss = "cross_entropy";
    all.verbose = false;
    return all;
  }
  void fit(const FitOptions& all, std::int64_t count = 8) {
    ArrayBatches batches({x.slice(0, {0, 8 * count}), labels.slice(0, {0, 8 * count})}, {.batch = 8});
    heddle::fit(net, trainer, batches, all);
  }
  State state() const { return arrays_of(net.state()); }
};

// What fit() says of a batch that is spoilt.
std::string refusal(std::int64_t batch, bool is_label) {
  return is_label ? "cross_entropy: label 7 at row 4 is outside 0 .. 1"
                  : "fit: epoch 0, batch " + std::to_string(batch) +
                        ": the loss is nan: array 0 of the batch has NaN";
}

// Calls body(rank, options of a trainer) for the only rank of one, or on a thread for each of two.
std::vector<std::string> on_ranks(int size, const std::function<void(std::size_t, TrainerOptions)>& body) {
  if (size == 2)
    return on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
      body(rank, {.params = {{"lr", 0.1}}, .store = std::move(store)});
    });
  return {message_of([&] { body(0, {.params = {{"lr", 0.1}}}); })};
}

}  // namespace

TEST_CASE("fit: a loss scaler changes nothing but the scale, captured, accumulated and clipped") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const int accumulate : {1, 2}) {
      for (const double clip : {0.0, 0.1}) {
        CAPTURE(accumulate);
        CAPTURE(clip);
        std::vector<std::vector<std::vector<float>>> results;
        for (const bool scales : {false, true}) {
          FitProgram program(
              {.params = {{"lr", 0.1}}, .scaler = scales ? std::optional(LossScaler()) : std::nullopt});
          FitOptions all = program.options(2);
          all.capture = capture;
          all.accumulate = accumulate;
          all.clip_norm = clip;
          program.fit(all);
          results.push_back(arrays_of(program.net.parameters()));
        }
        for (std::size_t i = 0; i < results[0].size(); ++i)
          for (std::size_t k = 0; k < results[0][i].size(); ++k)
            CHECK(results[1][i][k] == doctest::Approx(results[0][i][k]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("fit: with a loss scaler a step whose loss is not finite is skipped") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    Sequential net{Dense(3, 1)};
    LossScaler scaler;
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}, .scaler = scaler});
    const NDArray x = Generator(2).normal({32, 3});
    x.slice(0, {9, 10}).fill(std::nan(""));
    FitOptions all;
    all.loss = "mse_loss";
    all.batch = 8;
    all.shuffle = all.verbose = false;
    all.capture = capture;
    const History history = fit(net, trainer, {x, ones({32, 1})}, all);
    CHECK(std::isnan(history["loss"][0]));
    CHECK(scaler.skipped().item<std::int64_t>() == 1);
    for (const auto& values : arrays_of(net.parameters()))
      for (const float value : values) CHECK(std::isfinite(value));
  }
}

TEST_CASE("fit: a batch with NaN is named, and spoils no statistics") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const bool reads : {false, true}) {
      Sequential net{BatchNorm(3), Dense(3, 1)};
      Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
      const NDArray x = Generator(2).normal({64, 3});
      x.slice(0, {20, 21}).fill(std::nan(""));
      std::vector<std::vector<float>> before;
      const auto watch = std::make_shared<TestCallback>();
      watch->batch_begin = [&](FitRun& run) {
        if (run.batch() == 2) before = arrays_of(net.state());
      };
      watch->batch_end = [&](FitRun& run) {
        if (reads && run.batch() == 3) run.value("batch_loss").item();
      };
      FitOptions all;
      all.loss = "mse_loss";
      all.batch = 8;
      all.shuffle = all.verbose = false;
      all.capture = capture;
      all.callbacks = {watch};
      const std::string message = message_of([&] { fit(net, trainer, {x, ones({64, 1})}, all); });
      CAPTURE(message);
      CHECK(contains(message, "epoch 0, batch 2"));
      CHECK(contains(message, "array 0 of the batch has NaN"));
      REQUIRE(before.size() == net.state().size());
      CHECK(arrays_of(net.state()) == before);
    }
  }
}

TEST_CASE("fit: after a batch that cannot be trained all is as before it, whatever looks at the loss") {
  enum class Kind { stops, goes_on, scaler };
  for (const int size : {1, 2}) {
    for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
      for (const Kind kind : {Kind::stops, Kind::goes_on, Kind::scaler}) {
        for (const int accumulate : {1, 2}) {
          for (const std::int64_t bad : {0, 2, 7}) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(size);
            CAPTURE(accumulate);
            CAPTURE(bad);
            std::vector<State> before(2), after(2);
            std::vector<std::string> messages(2);
            std::vector<std::int64_t> steps(2);
            const auto errors = on_ranks(size, [&](std::size_t rank, TrainerOptions options) {
              if (kind == Kind::scaler) options.scaler = LossScaler();
              EightBatches program(rank, std::move(options));
              if (rank + 1 == static_cast<std::size_t>(size)) program.spoil(bad, true);
              const auto watch = std::make_shared<TestCallback>();
              watch->batch_begin = [&](FitRun& run) {
                if (run.batch() == bad / accumulate * accumulate) before[rank] = program.state();
              };
              FitOptions all = program.options();
              all.capture = capture;
              all.accumulate = accumulate;
              all.stop_on_nan = kind != Kind::goes_on;
              all.callbacks = {watch};
              messages[rank] = message_of([&] { program.fit(all); });
              after[rank] = program.state();
              program.trainer.clear_errors();
              steps[rank] = program.trainer.steps();
              program.labels.fill(0);
              program.fit(program.options());
              program.state();
            });
            CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size), "no error"));
            for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
              CAPTURE(messages[rank]);
              CHECK(contains(messages[rank], "label"));
              REQUIRE(before[rank].size() == 6);
              CHECK(after[rank] == before[rank]);
              CHECK(steps[rank] == bad / accumulate);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("fit: a step that a loss scaler skips changes no statistics, on all ranks") {
  for (const int size : {1, 2}) {
    for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
      for (const int accumulate : {1, 2}) {
        for (const bool stops : {true, false}) {
          for (const std::int64_t bad : {0, 5, 7}) {
            CAPTURE(size);
            CAPTURE(accumulate);
            CAPTURE(stops);
            CAPTURE(bad);
            std::vector<std::vector<State>> seen(2);
            const auto errors = on_ranks(size, [&](std::size_t rank, TrainerOptions options) {
              options.scaler = LossScaler();
              EightBatches program(rank, std::move(options));
              if (rank + 1 == static_cast<std::size_t>(size)) program.spoil(bad, false);
              const auto watch = std::make_shared<TestCallback>();
              watch->batch_begin = [&](FitRun&) { seen[rank].push_back(program.state()); };
              watch->train_end = [&](FitRun&) { seen[rank].push_back(program.state()); };
              FitOptions all = program.options();
              all.capture = capture;
              all.accumulate = accumulate;
              all.stop_on_nan = stops;
              all.callbacks = {watch};
              program.fit(all);
              CHECK(program.trainer.scaler()->skipped().item<std::int64_t>() == 1);
            });
            CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size), "no error"));
            for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
              REQUIRE(seen[rank].size() == static_cast<std::size_t>(8 / accumulate + 1));
              for (std::size_t i = 0; i + 1 < seen[rank].size(); ++i)
                CHECK((seen[rank][i] == seen[rank][i + 1]) ==
                      (i == static_cast<std::size_t>(bad / accumulate)));
              for (const std::vector<float>& array : seen[rank].back())
                for (const float value : array) CHECK(std::isfinite(value));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("fit: statistics that begin to change in mid-run are those before a batch that fails") {
  // A buffer that changes from a call on, whatever the mode.
  struct Late : Module {
    NDArray count = buffer("count", zeros({1}));
    std::shared_ptr<int> calls = std::make_shared<int>(0);
    NDArray forward(const NDArray& x) override {
      if (++*calls > 3) count.assign(count + 1);
      return x;
    }
  };
  for (const bool is_label : {true, false}) {
    for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
      for (const std::int64_t bad : {3, 4, 6}) {
        CAPTURE(is_label);
        CAPTURE(bad);
        EightBatches program(0, {.params = {{"lr", 0.1}}});
        program.spoil(bad, is_label);
        program.norm.train(false);
        State before;
        const auto watch = std::make_shared<TestCallback>();
        watch->batch_begin = [&](FitRun& run) {
          if (run.batch() == bad) before = program.state();
        };
        watch->batch_end = [&](FitRun& run) {
          if (run.batch() == 3) program.norm.train();
        };
        FitOptions all = program.options();
        all.capture = capture;
        all.callbacks = {watch};
        CHECK(contains(message_of([&] { program.fit(all); }), refusal(bad, is_label)));
        REQUIRE(before.size() == 6);
        CHECK(program.state() == before);
      }
    }
    Late late;
    Sequential net{late, Dense(3, 2)};
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
    EightBatches program(0, {});
    program.spoil(5, is_label);
    ArrayBatches batches({program.x, program.labels}, {.batch = 8});
    CHECK(contains(message_of([&] { fit(net, trainer, batches, program.options()); }), refusal(5, is_label)));
    CHECK(late.count.item<float>() == 2);  // of batches 3 and 4
  }
}
