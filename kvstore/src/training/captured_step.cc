#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/autograd/find_nan.h>
#include <heddle/captured_step.h>
#include <heddle/log.h>
#include <heddle/module_call.h>
#include <heddle/trainer.h>

namespace heddle {
namespace {

CapturedStep::Function listed(CapturedStep::OneResult step) {
  if (!step) return {};
  return [step = std::move(step)](const CapturedStep::Arrays& batch) -> CapturedStep::Arrays {
    return {step(batch)};
  };
}

CapturedStep::Arrays copies_of(const CapturedStep::Arrays& arrays) {
  CapturedStep::Arrays all;
  for (const NDArray& array : arrays) all.push_back(array.defined() ? array.detach().copy() : array);
  return all;
}

// Sets a variable while it lives.
template <class T> class Setting {
 public:
  Setting(T& variable, T value) : variable_(&variable), before_(std::exchange(variable, value)) {}
  ~Setting() { *variable_ = before_; }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  T* variable_;
  T before_;
};

}  // namespace

CapturedStep::CapturedStep(Trainer& trainer, Function step, Where where)
    : trainer_(&trainer), step_(std::move(step)), resets_(trainer.resets_) {
  const CallSite site(where);
  if (!step_) throw InvalidArgument("CapturedStep: the function is empty");
  const std::string type = trainer.store().type();
  always_now_ = type.starts_with("dist_");
  if (always_now_)
    write_log("CapturedStep: each request of a " + type +
              " store has its learning rate, so its steps are not captured: each call runs the function");
}

CapturedStep::CapturedStep(Trainer& trainer, OneResult step, Where where)
    : CapturedStep(trainer, listed(std::move(step)), where) {}

void CapturedStep::check(const Arrays& batch, Where where) const {
  const CallSite site(where);
  if (is_capturing())
    throw Error(
        "CapturedStep: called while this thread captures a graph, in which nothing can be launched; call the "
        "function itself there");
  check_not_running();
  const Engine& engine = trainer_->parameters()[0].value.engine();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string who = "CapturedStep: array " + std::to_string(i) + " of the batch ";
    if (!batch[i].defined()) throw InvalidArgument(who + "is undefined");
    if (&batch[i].engine() != &engine)
      throw InvalidArgument(who + "belongs to another engine than the trainer's parameters");
    if (requires_grad(batch[i]))
      throw InvalidArgument(who + "requires a gradient, which a launch cannot give it; detach it");
  }
}

void CapturedStep::check_not_running() const {
  if (running_)
    throw Error(
        "CapturedStep: called, or reset, inside its own function; call it, or reset(), after the step "
        "instead");
}

// Numbers that differ if the function may push other ops.
std::vector<std::int64_t> CapturedStep::signature(const Arrays& batch) const {
  const std::optional<DType> dtype = Autocast::current();
  std::vector<std::int64_t> all{static_cast<std::int64_t>(module_modes()),
                                dtype ? static_cast<std::int64_t>(*dtype) : -1,
                                static_cast<std::int64_t>(trainer_->store().do_generation())};
  for (const NDArray& array : batch) {
    all.insert(all.end(),
               {static_cast<std::int64_t>(array.dtype()), static_cast<std::int64_t>(array.device().kind),
                array.device().index, array.ndim()});
    all.insert(all.end(), array.shape().begin(), array.shape().end());
  }
  for (const auto& replica : trainer_->replicas_) {
    for (const Parameter& parameter : replica) all.push_back(requires_grad(parameter.value) ? 1 : 0);
  }
  return all;
}

CapturedStep::Entry* CapturedStep::find(const std::vector<std::int64_t>& signature) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.signature == signature; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front();
}

// Copies the results, since they may be parameters or arrays of the batch, which change later.
CapturedStep::Arrays CapturedStep::run_now(const Arrays& batch, Where where) {
  const Setting running(running_, true);
  const Arrays results = step_(batch);
  const CallSite site(where);
  return copies_of(results);
}

CapturedStep::Entry CapturedStep::capture(std::vector<std::int64_t> signature, const Arrays& batch,
                                          Where where) {
  const Setting running(running_, true);
  Entry entry{.signature = std::move(signature)};
  Engine& engine = trainer_->parameters()[0].value.engine();
  const std::int64_t steps = trainer_->steps();
  trainer_->take_over_changes();  // now, and not in each launch
  trainer_->remember_versions();
  Arrays slots, results;
  {
    const EngineScope scope(engine);
    for (const NDArray& array : batch) slots.emplace_back(array.shape(), array.dtype(), array.device());
  }
  try {
    const Setting<const Trainer*> capturing(Trainer::capturing(), trainer_);
    entry.graph = engine.capture([&] { results = step_(slots); }, "captured_step", where);
    if (trainer_->has_gradients())
      throw InvalidArgument(
          "CapturedStep: the function leaves gradients behind, to which a later launch could not add; call "
          "the trainer's step() in it");
  } catch (...) {
    trainer_->forget_capture(steps);
    throw;
  }
  for (NDArray& result : results)
    if (result.defined()) result = result.detach();
  entry.batch = std::move(slots), entry.results = std::move(results);
  entry.changed = trainer_->changed();
  entry.captured = true;
  ++captures_;
  return entry;
}

CapturedStep::Arrays CapturedStep::launch(const Entry& entry, const Arrays& batch, Where where) const {
  const CallSite site(where);
  for (std::size_t i = 0; i < batch.size(); ++i) entry.batch[i].assign(batch[i]);
  entry.graph.launch();
  trainer_->mark_changed(entry.changed);
  return copies_of(entry.results);
}

// The function's own calls name their lines: no CallSite of this call counts in it.
CapturedStep::Arrays CapturedStep::run(const Arrays& batch, Where where) {
  check(batch, where);
  if (resets_ != trainer_->resets_) reset();
  if (always_now_ || finds_nan_here() || trainer_->has_gradients()) return run_now(batch, where);
  std::vector<std::int64_t> now = signature(batch);
  const Entry* const entry = find(now);
  if (!entry) {
    Arrays results = run_now(batch, where);
    entries_.push_front({.signature = std::move(now)});
    if (entries_.size() > kMostGraphs) entries_.pop_back();
    return results;
  }
  if (!entry->captured) entries_.front() = capture(std::move(now), batch, where);
  return launch(*entry, batch, where);
}

NDArray CapturedStep::operator()(const Arrays& batch, Where where) {
  const Arrays results = run(batch, where);
  const CallSite site(where);
  if (results.size() == 1) return results[0];
  throw InvalidArgument("CapturedStep: the function has returned " + std::to_string(results.size()) +
                        " arrays, of which run() gives a list; wanted one");
}

std::size_t CapturedStep::graphs() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.captured; }));
}

void CapturedStep::reset() {
  check_not_running();
  entries_.clear();
  resets_ = trainer_->resets_;
}

}  // namespace heddle
