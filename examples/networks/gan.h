// Adversarial training (Goodfellow et al., NIPS'14): a generator makes pictures from noise, and a discriminator learns to tell them from
// real ones. Each has a trainer, and each step of one is a captured graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <heddle/heddle.h>

#include "support.h"

struct GanOptions {
  std::int64_t latent = 64;  // numbers of noise for a picture
  double lr = 2e-4;
  double flipped = 0;  // share of labels that are wrong on purpose, so that the discriminator is never sure
  std::uint64_t seed = 0;
  std::shared_ptr<heddle::Communicator> ranks{};  // each trains with pictures of its own; null: one process
};

class Gan {
 public:
  // Generator: noise (batch, latent) -> pictures. Discriminator: pictures -> logits (batch, 1), large for real ones. Draws all weights
  // anew, from N(0, 0.02).
  Gan(heddle::Module& generator, heddle::Module& discriminator, const GanOptions& options);
  Gan(const Gan&) = delete;
  Gan& operator=(const Gan&) = delete;

  // A step of the discriminator and one of the generator: their losses.
  std::vector<heddle::NDArray> step(const heddle::NDArray& real);
  void start(int epoch);                       // each epoch has noise of its own
  heddle::NDArray sample(std::int64_t count);  // pictures, made in inference mode

  void save(const std::string& path, int epoch);
  int load(const std::string& path);  // the epoch
  int rank() const { return options_.ranks ? options_.ranks->rank() : 0; }

 private:
  heddle::NDArray step_discriminator(const heddle::NDArray& real);
  heddle::NDArray step_generator(std::int64_t batch);
  heddle::NDArray loss(const heddle::NDArray& logits, bool real);
  heddle::Checkpoint checkpoint(std::map<std::string, heddle::NDArray> arrays);

  heddle::Module &generator_, &discriminator_;
  GanOptions options_;
  heddle::Generator noise_;
  double scale_;  // of gradients, which are sums over the ranks
  heddle::Trainer generator_trainer_, discriminator_trainer_;
  heddle::CapturedStep captured_discriminator_, captured_generator_;
};

// Trains for so many epochs, with what the options ask for; prints and returns the losses of each, "discriminator" and "generator".
// After each epoch it prints what `measure` returns.
std::map<std::string, std::vector<double>> train_gan(Gan& gan, heddle::Batches& batches, int epochs,
                                                     const Options& options,
                                                     const std::function<std::string()>& measure);
