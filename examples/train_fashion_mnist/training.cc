#include "training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

using namespace heddle;

namespace {

// How many steps are pushed before the program waits for the numbers of the first of them: enough to keep the
// workers busy, few enough to bound the memory.
constexpr std::size_t kStepsInFlight = 6;
constexpr std::int64_t kTestBatch = 250;
constexpr std::int64_t kPointsAnEpoch = 20;
constexpr std::int64_t kHidden = 128;

Sequential make_net(Generator& initial, Generator& noise) {
  return Sequential{Conv2d(1, 32, 3, {.padding = 1, .relu = true}, initial),
                    MaxPool2d(2),
                    Conv2d(32, 64, 3, {.padding = 1, .relu = true}, initial),
                    MaxPool2d(2),
                    Flatten(),
                    Dense(64 * 7 * 7, kHidden, {.relu = true}, initial),
                    Dropout(0.25, noise),
                    Dense(kHidden, 10, {.init = Init::xavier}, initial)};
}

Schedule make_schedule(const Options& options, std::int64_t steps_an_epoch) {
  std::int64_t steps = options.epochs * steps_an_epoch;
  double lr = options.learning_rate();
  Schedule schedule = constant_schedule(lr);
  if (options.schedule == "cosine") schedule = cosine_schedule(lr, steps);
  if (options.schedule == "step") schedule = step_schedule(lr, std::max<std::int64_t>(1, steps / 3), 0.2);
  return warm_up(std::clamp<std::int64_t>(steps / 10, 1, 200), std::move(schedule));
}

OptimizerParams optimizer_params(const Options& options) {
  if (options.optimizer != "sgd") return {{"lr", options.learning_rate()}};
  return {{"lr", options.learning_rate()}, {"momentum", 0.9}, {"weight_decay", 5e-4}};
}

// The number of pictures that are classified correctly: the rows of logits (n, 10) whose largest value is in
// the column of their label.
std::int64_t count_correct(const NDArray& logits, const NDArray& labels) {
  std::int64_t rows = logits.shape()[0], classes = logits.shape()[1], correct = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = logits.data<const float>() + i * classes;
    correct += std::max_element(row, row + classes) - row == labels.data<const std::uint8_t>()[i];
  }
  return correct;
}

// Pushes an op whose result is f64 (3): the loss and the number of correct answers, each summed over the
// pictures that count, and `stop` as 0 or 1.
NDArray push_sums(const NDArray& loss, const NDArray& logits, const Batch& batch, bool stop) {
  NDArray sums({3}, DType::f64);
  array_push("count", {loss, logits, batch.labels}, {sums},
             [loss = loss.detach(), logits = logits.detach(), batch, stop, sums] {
               auto* to = sums.data<double>();
               const bool counts = batch.count > 0;
               to[0] = counts ? *loss.data<const float>() * static_cast<double>(batch.count) : 0;
               to[1] = counts ? static_cast<double>(count_correct(logits, batch.labels)) : 0;
               to[2] = stop ? 1 : 0;
             });
  return sums;
}

void add(Totals& totals, const std::vector<double>& sums, std::int64_t images) {
  totals.loss += sums[0];
  totals.correct += sums[1];
  totals.images += static_cast<double>(images);
}

std::shared_ptr<KVStore> make_store(const Options& options, const std::shared_ptr<Communicator>& ranks) {
  const KVStoreOptions settings{options.compression, options.pull_compression};
  if (options.kvstore == "allreduce") return KVStore::create("allreduce", ranks, settings);
  return KVStore::create(options.kvstore, settings);
}

NDArray to_array(const std::vector<Point>& points) {
  std::vector<double> values;
  for (const Point& point : points) values.insert(values.end(), point.begin(), point.end());
  return array(values, {static_cast<std::int64_t>(points.size()), 3});
}

std::vector<Point> to_points(const Checkpoint& checkpoint, const std::string& name) {
  auto found = checkpoint.arrays.find(name);
  if (found == checkpoint.arrays.end()) throw Error("the checkpoint has no '" + name + "'");
  std::vector<double> values = found->second.to_vector<double>();
  std::vector<Point> points(values.size() / 3);
  for (std::size_t i = 0; i < points.size() * 3; ++i) points[i / 3][i % 3] = values[i];
  return points;
}

Point to_point(const Totals& totals) { return {totals.loss, totals.correct, totals.images}; }
Totals to_totals(const Point& point) { return {point[0], point[1], point[2]}; }

}  // namespace

// All generators have independent streams of the same seed, so drawing more from one changes no other.
Training::Training(const Options& options, Dataset train, Dataset test, std::shared_ptr<Communicator> ranks)
    : options_(options),
      ranks_(std::move(ranks)),
      share_(ranks_ ? Share{ranks_->rank(), ranks_->size()} : Share{}),
      train_(train, options.batch, share_),
      test_batches_(test, kTestBatch, share_),
      train_size_(train.size()),
      initial_(3 * options.seed),
      shuffle_(3 * options.seed + 1),
      dropout_(3 * options.seed + 2),
      net_(make_net(initial_, dropout_)),
      trainer_(net_.parameters(), {.optimizer = options.optimizer,
                                   .params = optimizer_params(options),
                                   .schedule = make_schedule(options, train_.batches()),
                                   .store = make_store(options_, ranks_)}) {}

std::string Training::describe() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : net_.parameters()) count += parameter.value.size();
  return net_.to_string() + "\n" + std::to_string(count) + " parameters, " + options_.optimizer + ", " +
         std::to_string(train_size_) + " pictures, batches of " + std::to_string(options_.batch) +
         (ranks_ ? " over " + std::to_string(share_.ranks) + " ranks (" + ranks_->backend() + ")" : "");
}

bool Training::run(ProgressLine& progress, const std::function<bool()>& stop) {
  // A run that is resumed after its last epoch only reports the test result.
  if (epoch_ >= options_.epochs) evaluate();
  while (epoch_ < options_.epochs) {
    if (!run_epoch(progress, stop)) return false;
    evaluate();
    last_epoch_ = std::exchange(epoch_totals_, Totals{});
    step_ = 0;
    ++epoch_;
    test_curve_.push_back({static_cast<double>(epoch_), test_.mean_loss(), test_.accuracy()});
    char text[160];
    std::snprintf(text, sizeof text,
                  "epoch %lld  train loss %.4f accuracy %.4f  test loss %.4f accuracy %.4f",
                  static_cast<long long>(epoch_), last_epoch_.mean_loss(), last_epoch_.accuracy(),
                  test_.mean_loss(), test_.accuracy());
    progress.line(text);
    save(shuffle_);
  }
  return true;
}

bool Training::run_epoch(ProgressLine& progress, const std::function<bool()>& stop) {
  // A checkpoint within the epoch saves the generator's state at the epoch's beginning, so that a resumed run
  // draws the same order of pictures.
  Generator before = shuffle_;
  train_.start(shuffle_.permutation(train_size_), step_);
  for (std::int64_t step = step_; step < train_.batches(); ++step) {
    if (stopping_) {
      read_back(progress, 0);
      save(before);
      return false;
    }
    pending_.push_back(push_step(step, stop()));
    read_back(progress, kStepsInFlight);
  }
  read_back(progress, 0);
  return true;
}

// Computes the logits of this rank's part of a batch. A picture's dropout mask depends on its index in the
// whole batch, so it is the same for any number of ranks.
NDArray Training::forward(const Batch& batch) {
  // Dropout draws kHidden numbers for each picture; a block of the generator has four numbers.
  constexpr std::uint64_t kBlocksARow = kHidden / 4;
  const std::uint64_t position = dropout_.position();
  dropout_.set_position(position + static_cast<std::uint64_t>(batch.first) * kBlocksARow);
  NDArray logits = net_(batch.images);
  dropout_.set_position(position + static_cast<std::uint64_t>(batch.of) * kBlocksARow);
  return logits;
}

Training::Pending Training::push_step(std::int64_t step, bool stop) {
  const Batch batch = train_.next();
  const NDArray logits = forward(batch), loss = cross_entropy(logits, batch.labels);
  const NDArray sums = push_sums(loss, logits, batch, stop);
  if (ranks_) {
    // Weights the gradient of this rank's mean loss by the size of its part, so that the sum over ranks is
    // the gradient of the mean over the whole batch.
    backward(loss, full({}, static_cast<double>(batch.count) / static_cast<double>(batch.of)));
  } else {
    backward(loss);
  }
  trainer_.step();
  // Collectives run in the order of their calls: the sums are reduced after the gradients, which are needed
  // sooner.
  if (ranks_) ranks_->all_reduce(sums);
  return {sums, batch.of, step};
}

void Training::wait_for_all() {
  if (!ranks_) return;
  ranks_->barrier();
  ranks_->wait();
}

void Training::read_back(ProgressLine& progress, std::size_t leave) {
  std::int64_t window_steps = std::max<std::int64_t>(1, train_.batches() / kPointsAnEpoch);
  for (; pending_.size() > leave; pending_.pop_front()) {
    const Pending& done = pending_.front();
    const std::vector<double> sums = done.sums.to_vector<double>();
    stopping_ = stopping_ || sums[2] > 0;
    if (!std::isfinite(sums[0])) {
      throw Error("the loss is no number any more at step " + std::to_string(done.step + 1) + " of epoch " +
                  std::to_string(epoch_ + 1) + ": try a smaller --lr than " +
                  std::to_string(options_.learning_rate()));
    }
    add(epoch_totals_, sums, done.images);
    add(window_, sums, done.images);
    step_ = done.step + 1;
    if (step_ % window_steps == 0 || step_ == train_.batches()) {
      double x =
          static_cast<double>(epoch_) + static_cast<double>(step_) / static_cast<double>(train_.batches());
      train_curve_.push_back({x, window_.mean_loss(), window_.accuracy()});
      window_ = {};
    }
    progress.step({.epoch = epoch_ + 1,
                   .epochs = options_.epochs,
                   .step = step_,
                   .steps = train_.batches(),
                   .images = done.images,
                   .loss = epoch_totals_.mean_loss(),
                   .accuracy = epoch_totals_.accuracy()});
  }
}

// Computes the loss and the accuracy on the test pictures. It draws no random number and changes no
// parameter, so it does not influence the training.
void Training::evaluate() {
  NoGrad no_grad;
  net_.train(false);
  test_ = {};
  std::deque<Pending> pending;
  auto read = [&](std::size_t leave) {
    for (; pending.size() > leave; pending.pop_front())
      add(test_, pending.front().sums.to_vector<double>(), pending.front().images);
  };
  test_batches_.start({});
  for (std::int64_t step = 0; step < test_batches_.batches(); ++step) {
    Batch batch = test_batches_.next();
    const NDArray logits = net_(batch.images);
    const NDArray sums = push_sums(cross_entropy(logits, batch.labels), logits, batch, false);
    if (ranks_) ranks_->all_reduce(sums);
    pending.push_back({sums, batch.of, step});
    read(1);
  }
  read(0);
  net_.train(true);
}

Checkpoint Training::checkpoint(Generator& shuffle) {
  return {
      .parameters = net_.parameters(),
      .trainer = &trainer_,
      .generators = {{"shuffle", &shuffle}, {"dropout", &dropout_}},
      .counters = {{"epoch", epoch_}, {"step", step_}},
      .arrays = {{"train_curve", to_array(train_curve_)},
                 {"test_curve", to_array(test_curve_)},
                 {"totals", to_array({to_point(epoch_totals_), to_point(window_), to_point(last_epoch_)})}},
      .notes = options_.to_notes()};
}

void Training::save(const Generator& shuffle) {
  if (options_.save.empty()) return;
  save_residuals(options_.save, trainer_);
  if (share_.rank != 0) return;
  Generator position = shuffle;
  save_checkpoint(options_.save, checkpoint(position));
}

void Training::resume() {
  Checkpoint loaded = checkpoint(shuffle_);
  load_checkpoint(options_.resume, loaded);
  epoch_ = loaded.counters.at("epoch");
  step_ = loaded.counters.at("step");
  if (epoch_ < 0 || step_ < 0 || step_ >= std::max<std::int64_t>(1, train_.batches())) {
    throw Error("checkpoint '" + options_.resume + "': epoch " + std::to_string(epoch_) + ", step " +
                std::to_string(step_) + " of " + std::to_string(train_.batches()) + " cannot be");
  }
  if (epoch_ > options_.epochs) {
    throw Error("checkpoint '" + options_.resume + "' is after epoch " + std::to_string(epoch_) +
                ", which is more than --epochs " + std::to_string(options_.epochs));
  }
  train_curve_ = to_points(loaded, "train_curve");
  test_curve_ = to_points(loaded, "test_curve");
  std::vector<Point> totals = to_points(loaded, "totals");
  if (totals.size() != 3) throw Error("checkpoint '" + options_.resume + "': its totals are incomplete");
  epoch_totals_ = to_totals(totals[0]);
  window_ = to_totals(totals[1]);
  last_epoch_ = to_totals(totals[2]);
}
