// fit(): which arrays are put back after a step that fails or is skipped, and what the report of a loss that is not finite leaves.
#include <cmath>
#include <limits>
#include <memory>
#include <message_of.h>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using State = std::vector<std::vector<float>>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Eight batches of ten rows, of which row 45 is bad: without end, or with a label that is none.
struct Rows {
  explicit Rows(bool is_label) {
    is_label ? labels.slice(0, {45, 46}).fill(7) : x.slice(0, {45, 46}).fill(kInfinity);
  }
  NDArray x = Generator(2).normal({80, 4}), labels = zeros({80}, DType::i64);
  static FitOptions options() {
    FitOptions all;
    all.loss = "cross_entropy";
    all.verbose = all.shuffle = false;
    all.batch = 10;
    return all;
  }
  // Batches that are arrays of the program.
  struct List : Batches {
    std::vector<std::vector<NDArray>> all{};
    std::size_t at = 0;
    std::int64_t size() const override { return std::ssize(all); }
    void start(std::int64_t, std::int64_t first) override { at = static_cast<std::size_t>(first); }
    std::vector<NDArray> next() override { return at < all.size() ? all[at++] : std::vector<NDArray>(); }
  };
  List list() const {
    List batches;
    for (std::int64_t i = 0; i < 80; i += 10)
      batches.all.push_back({x.slice(0, {i, i + 10}).copy(), labels.slice(0, {i, i + 10}).copy()});
    return batches;
  }
};

// Keeps its input as a buffer.
struct Last : Module {
  explicit Last(bool saved) { last = buffer("last", zeros({10, 4}), saved); }
  NDArray last;
  NDArray forward(const NDArray& x) override {
    if (training()) last = set("last", x.detach());
    return x;
  }
};

std::vector<float> floats(const NDArray& array) { return array.to_vector<float>(); }

}  // namespace

TEST_CASE("fit: a buffer that is a batch of the data is not written, whatever undoes the step") {
  enum class Kind { infinite, label, scaler };
  for (const Kind kind : {Kind::infinite, Kind::label, Kind::scaler}) {
    for (const bool saved : {true, false}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(saved);
      Rows rows(kind == Kind::label);
      Last last(saved);
      Sequential net{last, Dense(4, 2)};
      Trainer trainer(net.parameters(),
                      {.scaler = kind == Kind::scaler ? std::optional(LossScaler()) : std::nullopt});
      const std::vector<float> before = floats(rows.x);
      std::string message = message_of([&] { fit(net, trainer, {rows.x, rows.labels}, Rows::options()); });
      CHECK((message == "no error") == (kind == Kind::scaler));
      CHECK(floats(rows.x) == before);
      Rows::List batches = rows.list();
      message = message_of([&] { fit(net, trainer, batches, Rows::options()); });
      CHECK((message == "no error") == (kind == Kind::scaler));
      for (std::size_t i = 0; i < 8; ++i)
        CHECK(floats(batches.all[i][0]) ==
              std::vector<float>(before.begin() + static_cast<std::ptrdiff_t>(40 * i),
                                 before.begin() + static_cast<std::ptrdiff_t>(40 * (i + 1))));
      arrays_of(net.state());  // are free of errors
    }
  }
}

TEST_CASE("fit: a buffer that is a parameter, or another buffer, is not written in its place") {
  struct Seen : Module {
    NDArray weight = parameter("weight", ones({4}));
    NDArray mean = buffer("mean", zeros({4})), first = buffer("first", full({4}, 5.0)),
            second = buffer("second", full({4}, 6.0));
    NDArray forward(const NDArray& x) override {
      if (training()) {
        mean.assign(mean + heddle::mean(x.detach(), {0}));
        first = set("first", weight.detach());
        second = set("second", mean.detach());
      }
      return x * weight;
    }
  };
  for (const bool is_label : {false, true}) {
    Rows rows(is_label);
    rows.x.slice(0, {0, 10}).assign(rows.x.slice(0, {40, 50}));  // the first batch is bad
    rows.labels.slice(0, {0, 10}).assign(rows.labels.slice(0, {40, 50}));
    Seen seen;
    Sequential net{seen, Dense(4, 2)};
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
    CHECK(contains(message_of([&] {
                     fit(net, trainer, {rows.x, rows.labels}, Rows::options());
                   }),
                   is_label ? "label 7 at row 5" : "batch 0: the loss is"));
    CHECK(floats(seen.weight) == std::vector<float>(4, 1));
    CHECK(floats(seen.mean) == std::vector<float>(4, 0));
  }
}

TEST_CASE("fit: a buffer whose elements share memory hides no error of a step") {
  struct Wide : Module {
    NDArray wide = buffer("wide", zeros({10, 4}));
    NDArray forward(const NDArray& x) override {
      if (training()) wide = set("wide", broadcast_to(mean(x.detach(), {0}), {10, 4}));
      return x;
    }
  };
  for (const bool scales : {false, true}) {
    Rows rows(false);
    Sequential net{Wide(), Dense(4, 2)};
    Trainer trainer(net.parameters(), {.scaler = scales ? std::optional(LossScaler()) : std::nullopt});
    const std::string message = message_of([&] {
      fit(net, trainer, {rows.x, rows.labels}, Rows::options());
    });
    CHECK(contains(message,
                   scales ? "no error" : "array 0 of the batch has infinity. The parameters are those"));
  }
}

TEST_CASE("EarlyStopping: a buffer that is a batch of the data is not written") {
  Rows rows(false);
  rows.x.slice(0, {45, 46}).fill(1);
  Last last(true);
  Sequential net{last, Dense(4, 2)};
  Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
  FitOptions all = Rows::options();
  all.epochs = 2;
  all.callbacks = {EarlyStopping({.monitor = "loss", .restore_best = true}),
                   at_step(11, [](FitRun& run) { run.stop("enough"); })};
  const std::vector<float> before = floats(rows.x);
  fit(net, trainer, {rows.x, rows.labels}, all);
  CHECK(floats(rows.x) == before);
}

TEST_CASE("fit: buffers that are not saved are as before a step that fails or is skipped") {
  struct Sum : Module {
    NDArray sum = buffer("sum", zeros({4}), false), table = parameter("table", ones({3, 4}));
    NDArray forward(const NDArray& x) override {
      const NDArray rows = x.dtype() == DType::i64 ? embedding(table, x) : x * table.slice(0, {0, 1});
      if (training()) sum.assign(sum + mean(rows.detach(), {0}));
      return rows;
    }
  };
  enum class Kind { infinite, label, scaler, index };
  for (const Kind kind : {Kind::infinite, Kind::label, Kind::scaler, Kind::index}) {
    for (const FitCapture capture : {FitCapture::never, FitCapture::always}) {
      CAPTURE(static_cast<int>(kind));
      Rows rows(kind == Kind::label);
      if (kind == Kind::index) {
        rows.x = zeros({80}, DType::i64);
        rows.x.slice(0, {45, 46}).fill(3);
      }
      Sum sum;
      Sequential net{sum, Dense(4, 2)};
      Trainer trainer(net.parameters(),
                      {.params = {{"lr", 0.1}},
                       .scaler = kind == Kind::scaler ? std::optional(LossScaler()) : std::nullopt});
      std::vector<float> before, after;
      const auto watch = std::make_shared<TestCallback>();
      watch->batch_begin = [&](FitRun& run) {
        if (run.batch() == 4) before = floats(sum.sum);
        if (run.batch() == 5 && kind == Kind::scaler) after = floats(sum.sum);
      };
      FitOptions all = Rows::options();
      all.capture = capture;
      all.callbacks = {watch};
      const std::string message = message_of([&] { fit(net, trainer, {rows.x, rows.labels}, all); });
      CHECK((message == "no error") == (kind == Kind::scaler));
      if (kind != Kind::scaler) after = floats(sum.sum);
      CHECK(before.size() == 4);
      CHECK(after == before);
    }
  }
}

TEST_CASE("fit: generators stand before a batch whose loss is refused, which the report computes again") {
  for (const int accumulate : {1, 2}) {
    for (const bool fails : {false, true}) {
      CAPTURE(accumulate);
      CAPTURE(fails);
      Rows rows(false);
      rows.x.slice(0, {45, 46}).fill(1);
      Sequential net{Dense(4, 8), Dropout(0.5), Dense(8, 2)};
      Generator own(5);
      Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
      std::uint64_t before = 0, own_before = 0;
      int calls = 0, calls_before = 0;
      const auto watch = std::make_shared<TestCallback>();
      watch->batch_begin = [&](FitRun& run) {
        if (run.batch() != 4) return;
        before = default_generator().position();
        own_before = own.position();
        calls_before = calls;
      };
      FitOptions all = Rows::options();
      all.accumulate = accumulate;
      all.generators = {{"own", &own}};
      all.callbacks = {watch};
      all.loss = [&](const std::vector<NDArray>& y, const std::vector<NDArray>& labels) {
        const int call = calls++;
        if (fails && call > calls_before && call >= 8) throw Error("no more losses");
        const NDArray noise = own.uniform({1});
        const NDArray value = cross_entropy(y[0], labels[0]) + sum(noise) * 0;
        return call == 4 ? value * std::nan("") : value;
      };
      if (fails) all.capture = FitCapture::never;
      const std::string message = message_of([&] { fit(net, trainer, {rows.x, rows.labels}, all); });
      CHECK(message == std::string("fit: epoch 0, batch 4: the loss is nan: computed again it ") +
                           (fails ? "fails: no more losses" : "is finite") +
                           ". The parameters are those before this batch");
      CHECK(before > 0);
      CHECK(default_generator().position() == before);
      CHECK(own.position() == own_before);
    }
  }
}

TEST_CASE("fit: an error of a metric hides no batch that has failed") {
  for (const bool is_label : {false, true}) {
    CAPTURE(is_label);
    Rows rows(is_label);
    BatchNorm norm(4);
    Sequential net{norm, Dense(4, 2)};
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}});
    FitOptions all = Rows::options();
    State before;
    const auto watch = std::make_shared<TestCallback>();
    watch->batch_begin = [&](FitRun& run) {
      if (run.batch() == 4) before = arrays_of(net.state());
    };
    all.callbacks = {watch};
    // From batch 4 on the metric misses its output.
    struct Short : Module {
      explicit Short(const Sequential& net) : inner(child("inner", net)) {}
      Sequential inner;
      int calls = 0;
      std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
        const NDArray y = inner(inputs[0]);
        return calls++ < 4 ? std::vector{y, y} : std::vector{y};
      }
    } shorter(net);
    all.loss = [](const std::vector<NDArray>& y, const std::vector<NDArray>& labels) {
      return cross_entropy(y[0], labels[0]);
    };
    all.metrics = {{"accuracy", 1}};
    all.labels = 2;
    const std::string message = message_of([&] {
      fit(shorter, trainer, {rows.x, rows.labels, rows.labels}, all);
    });
    CHECK(contains(message, is_label ? "fit: metric 'output_1_accuracy' is of output 1; there are 1 outputs"
                                     : "batch 4: the loss is"));
    REQUIRE(before.size() == 6);
    CHECK(arrays_of(net.state()) == before);
  }
}
