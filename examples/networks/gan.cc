#include "gan.h"

#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>

#include <heddle/summary_writer.h>

using namespace heddle;

namespace {

const std::string kPrefix = "discriminator_trainer.";  // of a checkpoint's arrays

std::vector<Parameter> initialised(Module& module, Generator& initial) {
  const NoGrad no_grad;
  std::vector<Parameter> parameters = module.parameters();
  for (Parameter& parameter : parameters) {
    if (parameter.value.shape().size() < 2) continue;  // of biases and normalisations
    parameter.value.assign(initial.normal(parameter.value.shape(), 0, 0.02));
  }
  return parameters;
}

TrainerOptions trainer_options(const GanOptions& options) {
  return {.optimizer = "adam",
          .params = {{"lr", options.lr}, {"beta1", 0.5}},
          .store = options.ranks ? KVStore::create("allreduce", options.ranks) : nullptr};
}

std::vector<Parameter> initialised(Module& module, std::uint64_t seed) {
  Generator initial(seed);
  return initialised(module, initial);
}

}  // namespace

Gan::Gan(Module& generator, Module& discriminator, const GanOptions& options)
    : generator_(generator),
      discriminator_(discriminator),
      options_(options),
      noise_(options.seed),
      scale_(options.ranks ? 1.0 / options.ranks->size() : 1),
      generator_trainer_(initialised(generator, options.seed), trainer_options(options)),
      discriminator_trainer_(initialised(discriminator, options.seed + 1), trainer_options(options)),
      captured_discriminator_(discriminator_trainer_,
                              CapturedStep::OneResult([this](const std::vector<NDArray>& batch) {
                                return step_discriminator(batch[0]);
                              })),
      captured_generator_(generator_trainer_,
                          CapturedStep::OneResult([this](const std::vector<NDArray>& batch) {
                            return step_generator(batch[0].size(0));
                          })) {}

void Gan::start(int epoch) {
  const Generator first = Generator(options_.seed).jumped(rank() + 1);  // ranks have noise of their own
  noise_.set_position(first.position() + (static_cast<std::uint64_t>(epoch) << 24));
}

std::vector<NDArray> Gan::step(const NDArray& real) {
  return {captured_discriminator_({real}), captured_generator_({real})};
}

NDArray Gan::loss(const NDArray& logits, bool real) {
  NDArray labels =
      options_.flipped > 0 ? noise_.bernoulli(logits.shape(), options_.flipped) : zeros_like(logits);
  return bce_with_logits(logits, real ? 1 - labels : labels);
}

NDArray Gan::step_discriminator(const NDArray& real) {
  NDArray made;
  {
    const NoGrad no_grad;  // the generator does not learn from this
    made = generator_(noise_.normal({real.size(0), options_.latent}));
  }
  const NDArray sum = loss(discriminator_(real), true) + loss(discriminator_(made), false);
  backward(sum);
  discriminator_trainer_.step(scale_);
  return sum.detach();
}

// The generator learns what the discriminator takes for real.
NDArray Gan::step_generator(std::int64_t batch) {
  discriminator_.freeze();
  const NDArray logits = discriminator_(generator_(noise_.normal({batch, options_.latent})));
  const NDArray of_real = bce_with_logits(logits, ones_like(logits));
  backward(of_real);
  discriminator_.freeze(false);
  generator_trainer_.step(scale_);
  return of_real.detach();
}

NDArray Gan::sample(std::int64_t count) {
  return predict(generator_, {noise_.normal({count, options_.latent})}, {.batch = 200, .inputs = 1})[0];
}

Checkpoint Gan::checkpoint(std::map<std::string, NDArray> arrays) {
  Checkpoint result{.trainer = &generator_trainer_, .arrays = std::move(arrays)};
  for (Module* module : {&generator_, &discriminator_}) {
    for (Parameter& parameter : module->state()) {
      parameter.name = (module == &generator_ ? "generator." : "discriminator.") + parameter.name;
      result.parameters.push_back(parameter);
    }
  }
  return result;
}

void Gan::save(const std::string& path, int epoch) {
  std::map<std::string, NDArray> arrays;
  for (const auto& [name, value] : discriminator_trainer_.state()) arrays[kPrefix + name] = value;
  Checkpoint all = checkpoint(std::move(arrays));
  all.counters["epoch"] = epoch;
  if (rank() == 0) save_checkpoint(path, all);
}

int Gan::load(const std::string& path) {
  Checkpoint all = checkpoint({});
  all.counters["epoch"] = 0;
  load_checkpoint(path, all);
  std::map<std::string, NDArray> state;
  for (const auto& [name, value] : all.arrays) {
    if (name.starts_with(kPrefix)) state[name.substr(kPrefix.size())] = value;
  }
  discriminator_trainer_.set_state(state);
  return static_cast<int>(all.counters["epoch"]);
}

std::map<std::string, std::vector<double>> train_gan(Gan& gan, Batches& batches, int epochs,
                                                     const Options& options,
                                                     const std::function<std::string()>& measure) {
  constexpr std::size_t kStepsInFlight = 4;  // the program waits for the losses of the step before them
  std::map<std::string, std::vector<double>> curves;
  std::optional<SummaryWriter> writer;
  if (!options.logdir.empty() && gan.rank() == 0) writer.emplace(options.logdir);
  const bool resumes = !options.save.empty() && std::filesystem::exists(options.save);
  for (int epoch = resumes ? gan.load(options.save) : 0; epoch < epochs; ++epoch) {
    std::deque<std::vector<NDArray>> in_flight;
    double discriminator = 0, generator = 0, steps = 0;
    const auto take = [&] {
      discriminator += in_flight.front()[0].item<float>(), generator += in_flight.front()[1].item<float>();
      in_flight.pop_front(), ++steps;
    };
    gan.start(epoch);
    batches.start(epoch);
    for (std::vector<NDArray> batch = batches.next(); !batch.empty(); batch = batches.next()) {
      in_flight.push_back(gan.step(batch[0]));
      if (in_flight.size() > kStepsInFlight) take();
    }
    while (!in_flight.empty()) take();
    curves["discriminator"].push_back(discriminator / steps);
    curves["generator"].push_back(generator / steps);
    if (!options.save.empty()) gan.save(options.save, epoch + 1);
    if (gan.rank() != 0) continue;
    for (const auto& [name, values] : curves) {
      if (writer) writer->scalar(name, values.back(), epoch + 1);
    }
    std::printf("epoch %d of %d: loss of the discriminator %.3f, of the generator %.3f; %s\n", epoch + 1,
                epochs, discriminator / steps, generator / steps, measure().c_str());
    std::fflush(stdout);
  }
  return curves;
}
