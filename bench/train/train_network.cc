#include "train/train_network.h"

#include <cmath>
#include <stdexcept>

#include "train/timed_steps.h"

namespace heddle::bench {

TrainData::TrainData(std::int64_t count) {
  Generator random(1);
  const NDArray patterns = random.normal({10, 1, 28, 28}), classes = random.integers({count}, 0, 10);
  images = take(patterns, classes) + random.normal({count, 1, 28, 28});
  labels = where(random.bernoulli({count}, 0.2, DType::boolean), random.integers({count}, 0, 10), classes);
}

TrainNetwork::TrainNetwork(int workers, std::int64_t batch, const MakeStore& make_store, bool captured,
                           std::optional<DType> autocast)
    : engine_({.workers = workers}),
      scope_(engine_),
      batch_(batch),
      data_(32 * batch),
      net_{Conv2d(1, 32, 3, {.padding = 1, .relu = true}),
           MaxPool2d(2),
           Conv2d(32, 64, 3, {.padding = 1, .relu = true}),
           MaxPool2d(2),
           Flatten(),
           Dense(3136, 128, {.relu = true}),
           Dense(128, 10)},
      store_(make_store ? make_store() : KVStore::create("local")),
      trainer_(net_.parameters(), {.params = {{"lr", 0.01}, {"momentum", 0.9}}, .store = store_}) {
  net_.autocast(autocast);
  if (!captured) return;
  captured_ = std::make_unique<CapturedStep>(
      trainer_, [this](const std::vector<NDArray>& given) { return step_of(given[0], given[1]); });
}

double TrainNetwork::run(int steps) {
  const TimedSteps timed = timed_steps(engine_, steps, [&] { return train_step(); });
  const auto last = static_cast<double>(timed.loss.item<float>());
  if (!std::isfinite(last)) throw std::runtime_error("heddle: the loss is " + std::to_string(last));
  return static_cast<double>(steps * batch_) / timed.seconds;
}

NDArray TrainNetwork::train_step() {
  const std::int64_t first = step_++ % 32 * batch_;
  const Slice rows{first, first + batch_};
  const NDArray images = data_.images.slice(0, rows), labels = data_.labels.slice(0, rows);
  return captured_ ? (*captured_)({images, labels}) : step_of(images, labels);
}

NDArray TrainNetwork::step_of(const NDArray& images, const NDArray& labels) {
  const NDArray loss = cross_entropy(net_(images), labels);
  backward(loss);
  trainer_.step(1.0 / store_->workers());
  return loss.detach();
}

std::vector<TorchSetting> torch_settings(int threads) {
  // Without the MALLOC settings glibc maps, faults in and unmaps the memory of every large tensor.
  std::vector<std::pair<std::string, std::string>> tuned{{"MALLOC_MMAP_THRESHOLD_", "1073741824"},
                                                         {"MALLOC_TRIM_THRESHOLD_", "4294967296"},
                                                         {"MALLOC_TOP_PAD_", "268435456"},
                                                         {"OMP_NUM_THREADS", std::to_string(threads)},
                                                         {"OPENBLAS_NUM_THREADS", std::to_string(threads)}};
  // PyTorch ends with an error if it is told to use AVX-512 on a CPU that lacks it.
  if (__builtin_cpu_supports("avx512f")) tuned.emplace_back("ATEN_CPU_CAPABILITY", "avx512");
  return {{"default", {}, {}}, {"tuned", tuned, {}}, {"tuned, channels last", tuned, {"--channels-last"}}};
}

}  // namespace heddle::bench
