// LossScaler: keeps small gradients of f16 above its smallest number.
//
//   LossScaler scaler;
//   Trainer trainer(net.parameters(), {.optimizer = "adam", .scaler = scaler});
//   backward(scaler.scale(loss));
//   trainer.step();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/gradient_clipping.h>
#include <heddle/module.h>

namespace heddle {

struct LossScalerOptions {
  double scale = 65536;          // at first
  double growth = 2;             // factor of the scale after `interval` steps without inf or NaN
  double backoff = 0.5;          // factor after a step with one
  std::int64_t interval = 2000;  // steps
};

// A scale by which losses are multiplied, and gradients divided (Micikevicius et al., arXiv:1710.03740). A step whose gradients have
// inf or NaN changes no parameter and no state of the optimizer, on all workers; the scale follows. Ops do all of it, without a wait,
// also in captured steps. Copies are the same scaler. For one trainer, which refuses the scaler of another one; not thread-safe.
class LossScaler {
 public:
  // Throws InvalidArgument for a scale below the smallest normal f32, or infinite, growth below 1, backoff not in (0, 1), and interval below 1.
  explicit LossScaler(const LossScalerOptions& options = {}, Where where = Where::current());

  // The loss, in f32, times the scale: for backward(). Throws InvalidArgument for an array that is not floating, and Error between
  // unscale() and the step.
  NDArray scale(const NDArray& loss, Where where = Where::current()) const;
  // Divides the gradients by the scale, for clip_grad_norm() before Trainer::step(), which does it otherwise. All parameters at once.
  // Throws Error for a second call in one step.
  void unscale(const std::vector<Parameter>& parameters, Where where = Where::current());

  NDArray current() const;  // the scale: a copy, f32 of no axes
  NDArray skipped() const;  // the number of steps that changed nothing: a copy, i64 of no axes

  // "scale", "good_steps" and "skipped", which a trainer's state has too, as "scaler.scale" and so on. Setting throws InvalidArgument,
  // before anything is changed; it blocks.
  std::map<std::string, NDArray> state() const;
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());
  void clear_errors(Where where = Where::current());

 private:
  friend class Trainer;
  void check_state(const std::map<std::string, NDArray>& state) const;
  struct Shared {
    LossScalerOptions options;
    operators_detail::LossScaleState arrays;
    bool unscaled = false;                // whether the gradients of the step that is to come are unscaled
    std::weak_ptr<const void> trainer{};  // expires with the trainer that has it
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle
