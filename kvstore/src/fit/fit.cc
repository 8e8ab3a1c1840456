#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <heddle/array_creation.h>
#include <heddle/autograd.h>
#include <heddle/engine.h>
#include <heddle/fit.h>
#include <heddle/interrupt_check.h>
#include <heddle/number_text.h>
#include <heddle/var_use.h>

#include "fit/evaluation.h"
#include "fit/fit_access.h"
#include "fit/fit_run.h"
#include "fit/monitor.h"
#include "fit/path_pattern.h"
#include "fit/state_names.h"
#include "fit/writable.h"

namespace heddle {

using namespace fit_detail;

namespace {

std::shared_ptr<Batches> training_batches(const FitData& data, const FitOptions& options,
                                          const KVStore& store) {
  return batches_of("fit", data,
                    {.batch = options.batch,
                     .shuffle = options.shuffle,
                     .seed = options.seed,
                     .rank = store.rank(),
                     .ranks = store.workers()});
}

std::shared_ptr<Batches> validation_batches(const FitData& data, const FitOptions& options,
                                            const std::shared_ptr<Communicator>& ranks) {
  if (!data.batches && data.arrays.empty()) return nullptr;
  return batches_of("fit: validation", data,
                    {.batch = options.batch,
                     .rank = ranks ? ranks->rank() : 0,
                     .ranks = ranks ? ranks->size() : 1,
                     .uneven = true});
}

// Puts the trainer's schedule back, which callbacks replace.
class ScheduleScope {
 public:
  explicit ScheduleScope(Trainer& trainer) : trainer_(trainer), former_(trainer.schedule()) {}
  ~ScheduleScope() { trainer_.set_schedule(former_); }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;

 private:
  Trainer& trainer_;
  Schedule former_;
};

std::string settings_text(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += (text.empty() ? "" : ", ") + name + " " + value;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void check_least(const char* name, double value, double least) {
  if (value >= least && std::isfinite(value)) return;
  throw InvalidArgument(std::string("fit: ") + name + " is " + number_text(value) + "; want " +
                        number_text(least) + " or more");
}

}  // namespace

FitRun::Impl::Impl(Module& trained, Trainer& by, const FitData& data, FitOptions given, Where called_at)
    : net(trained),
      trainer(by),
      options(std::move(given)),
      where(called_at),
      handle(FitAccess::make(*this)),
      ranks(trainer.store().communicator()),
      loss("fit", options.loss, options.outputs),
      values("fit", loss, options.metrics),
      step(net, trainer, options, loss, values.needs_outputs()),
      agreement(ranks),
      modes(net) {
  for (const AnyCallback& one : options.callbacks) callbacks.push_back(one.pointer());
  check_options();
  check_data(data);
  resumes = !options.resume.empty();
  batches = std::make_shared<NotedBatches>(training_batches(data, options, trainer.store()), given_arrays);
  if (auto others = validation_batches(options.validation, options, ranks))
    validation = std::make_shared<NotedBatches>(std::move(others), given_arrays);
  known_size = batches->size();
  name_values();
  name_settings(data);
  const bool has_progress = std::any_of(callbacks.begin(), callbacks.end(), [](const auto& one) {
    return dynamic_cast<const Progress*>(one.get()) != nullptr;
  });
  if (options.verbose && !has_progress) callbacks.insert(callbacks.begin(), std::make_shared<Progress>());
}

void FitRun::Impl::name_values() {
  value_names = values.names();
  if (validation)
    for (const std::string& name : values.names()) value_names.push_back("val_" + name);
  value_names.emplace_back("lr");
  std::set<std::string> known;
  for (const std::string& name : value_names)
    if (!known.insert(name).second)
      throw InvalidArgument("fit: two values of an epoch are called '" + name +
                            "'; give the output or the metric another name");
}

// Ranks have them in common, and a run that is resumed within an epoch with the one that was saved. Of Batches their number alone is
// known.
void FitRun::Impl::name_settings(const FitData& data) {
  if (known_size >= 0) settings[kBatches] = std::to_string(known_size);
  if (!data.batches) {
    settings["batch"] = std::to_string(options.batch);
    settings["rows"] = std::to_string(data.arrays[0].shape()[0]);
    settings["order"] = options.shuffle ? "by seed " + std::to_string(options.seed) : "as it is";
  }
  settings["accumulate"] = std::to_string(options.accumulate);
  settings["loss"] = loss.description();
  std::string& metrics = settings[kMetrics];
  for (const FitMetric& one : values.metrics()) metrics += (metrics.empty() ? "" : "\n") + one.name;
}

void FitRun::Impl::check_data(const FitData& data) const {
  const Arrays& others = options.validation.arrays;
  if (others.empty() || options.validation.batches) return;
  if (!data.batches && !data.arrays.empty() && data.arrays.size() != others.size())
    throw InvalidArgument("fit: the validation has " + std::to_string(others.size()) +
                          " arrays, and the data " + std::to_string(data.arrays.size()));
  if (others[0].defined() && others[0].ndim() > 0 && others[0].shape()[0] == 0)
    throw InvalidArgument("fit: the validation has no rows");
}

void FitRun::Impl::check_options() const {
  if (!loss.defined())
    throw InvalidArgument("fit: there is no loss; want a name such as cross_entropy, or a function");
  check_least("epochs", static_cast<double>(options.epochs), 0);
  check_least("accumulate", options.accumulate, 1);
  check_least("clip_norm", options.clip_norm, 0);
  check_least("clip_value", options.clip_value, 0);
  for (std::size_t i = 0; i < callbacks.size(); ++i)
    if (!callbacks[i]) throw InvalidArgument("fit: callback " + std::to_string(i) + " is null");
  for (const auto& [name, generator] : options.generators)
    if (!generator) throw InvalidArgument("fit: generator '" + name + "' is null");
  check_rate_callbacks();
  check_labels("fit", options.labels);
  for (const auto& [name, text] : options.notes)
    if (name.starts_with("fit."))
      throw InvalidArgument("fit: a note is called '" + name + "'; names with 'fit.' are those of fit()");
  const int workers = trainer.store().workers();
  if (workers > 1 && (options.clip_norm > 0 || options.clip_value > 0))
    throw InvalidArgument("fit: clip_norm and clip_value are for one worker, and the store has " +
                          std::to_string(workers) +
                          ": each would clip its own gradients before they are added");
}

// Each puts a schedule in the place of the trainer's.
void FitRun::Impl::check_rate_callbacks() const {
  int plateaus = 0, schedulers = 0;
  for (const std::shared_ptr<Callback>& one : callbacks) {
    plateaus += dynamic_cast<const ReduceOnPlateau*>(one.get()) ? 1 : 0;
    schedulers += dynamic_cast<const LearningRateScheduler*>(one.get()) ? 1 : 0;
  }
  if (plateaus > 1)
    throw InvalidArgument("fit: there are " + std::to_string(plateaus) +
                          " ReduceOnPlateau among the callbacks, each of which sets the rates; want one");
  if (plateaus > 0 && schedulers > 0)
    throw InvalidArgument(
        "fit: a ReduceOnPlateau and a LearningRateScheduler are among the callbacks, each of which sets the "
        "rates; "
        "want one of them, or a trainer's schedule and the ReduceOnPlateau");
}

template <class Call> void FitRun::Impl::each_callback(const Call& call) {
  for (const std::shared_ptr<Callback>& one : callbacks) interruptible([&] { call(*one); });
}

// Notes the exception that is being handled if it is an interrupt, the first one; else it goes on.
void FitRun::Impl::note_interrupt() {
  if (wants_interrupt || !options.is_interrupt || !options.is_interrupt()) throw;
  wants_interrupt = true;
  interrupt_error = std::current_exception();
}

// False if an interrupt has left the call.
template <class Call> bool FitRun::Impl::interruptible(const Call& call) {
  try {
    call();
    return true;
  } catch (...) {
    note_interrupt();
    return false;
  }
}

// Ends a training whose next step cannot be done. Other ranks would wait for it.
bool FitRun::Impl::end_at_once() {
  if (has_others()) std::rethrow_exception(interrupt_error);
  history.interrupted = true;
  return true;
}

History FitRun::Impl::run() {
  begin();
  while (epoch < options.epochs && !is_over()) run_epoch();
  finish();
  return history;
}

void FitRun::Impl::begin() {
  values.reset();
  if (has_others()) values.check_of_ranks();
  together("options", [&] {
    check_places("fit: save_on_interrupt", handle, options.save_on_interrupt);
    if (!options.save_on_interrupt.empty() && trainer.store().rank() == 0)
      check_writable("fit: save_on_interrupt", options.save_on_interrupt);
  });
  if (has_others()) agree(*ranks, "fit", "setup of the training", [&] { return settings_text(settings); });
  PathPattern(options.save_on_interrupt).remove_abandoned_files();
  if (!options.resume.empty()) resume();
  if (!net.training()) net.train();
  together("callbacks", [&] { each_callback([&](Callback& one) { one.on_train_begin(handle); }); });
  end_if(agreement.after_epoch(wanted()));
  write_saves();
}

void FitRun::Impl::run_epoch() {
  together("epoch", [&] { begin_epoch(); });
  if (is_over()) return;
  while (run_step())
    if (is_over()) return;
  end_epoch();
}

void FitRun::Impl::begin_epoch() {
  if (!interruptible([&] { batches->start(epoch, batch); })) {
    end_at_once();
    return;
  }
  step.find_leaves();
  if (batch == 0) {
    values.reset();
    examples = 0;
  }
  each_callback([&](Callback& one) { one.on_epoch_begin(handle); });
}

std::vector<Arrays> FitRun::Impl::next_group() {
  std::vector<Arrays> group;
  while (group.size() < static_cast<std::size_t>(options.accumulate)) {
    Arrays one = batches->next();
    if (one.empty()) break;
    group.push_back(std::move(one));
  }
  return group;
}

// A step, and what follows it; false after the last batch of the epoch. Sets `finished` or History::interrupted if
// all ranks end here.
bool FitRun::Impl::run_step() {
  std::vector<Arrays> group;
  if (!interruptible([&] { group = next_group(); })) return end_at_once();
  if (group.empty()) return false;
  each_callback([&](Callback& one) { one.on_batch_begin(handle); });
  pending.push_back(next_pending(group));
  std::vector<StepResult> results;
  bool is_done = false;
  try {
    is_done = interruptible([&] { results = step.run(group, where); });
  } catch (...) {
    undo_step();
    throw;
  }
  if (!is_done) {
    undo_step();
    return end_at_once();
  }
  // The losses first: what a metric throws must not hide that the step has failed.
  for (const StepResult& one : results) pending.back().losses.push_back(one.losses[0]);
  undo_if_skipped();
  record(group, results);
  limit_pending(StepsAhead::kMost);
  use_late_values(false);
  each_callback([&](Callback& one) { one.on_batch_end(handle); });
  poll();
  end_if(agreement.after_step(wanted()));
  write_saves();
  return true;
}

StopKind FitRun::Impl::wanted() const {
  return wants_interrupt ? StopKind::interrupt : wants_stop ? StopKind::stop : StopKind::none;
}

void FitRun::Impl::end_if(StopKind agreed) {
  if (agreed == StopKind::interrupt) {
    history.interrupted = wants_interrupt = true;
  } else if (agreed == StopKind::stop) {
    finished = wants_stop = true;
    if (has_others()) stop_reason = reason_of_ranks();
  }
}

// This rank's own, else that of the first rank that has one. All ranks call it.
std::string FitRun::Impl::reason_of_ranks() const {
  constexpr std::int64_t kMost = 512;  // bytes
  std::string own = stop_reason.substr(0, kMost);
  own.resize(kMost);
  const NDArray all({ranks->size() * kMost}, DType::u8);
  ranks->all_gather(array(std::vector<std::uint8_t>(own.begin(), own.end()), {kMost}), all);
  const std::vector<std::uint8_t> bytes = all.to_vector<std::uint8_t>();
  if (!stop_reason.empty()) return stop_reason;
  for (auto begin = bytes.begin(); begin != bytes.end(); begin += kMost)
    if (*begin != 0) return {begin, std::find(begin, begin + kMost, 0)};
  return "a rank has stopped";
}

void FitRun::Impl::record(const std::vector<Arrays>& group, const std::vector<StepResult>& results) {
  last_losses = pending.back().losses;
  for (std::size_t i = 0; i < group.size(); ++i) {
    Arrays inputs, labels;
    step.split(group[i], inputs, labels);
    const std::int64_t rows = rows_of(group[i]);
    values.add(results[i].losses, results[i].outputs, labels, rows);
    examples += rows;
    ++batch;
  }
}

// Waits until at most so many steps are on their way.
void FitRun::Impl::limit_pending(std::size_t most) {
  while (pending.size() > most) {
    for (const NDArray& one : pending.front().losses) {
      try {
        wait_with_check(one.var());
      } catch (...) {  // the interpreter's handler of Ctrl-C
        wants_interrupt = true;
        if (!interrupt_error) interrupt_error = std::current_exception();
      }
      one.wait();
    }
    pending.pop_front();
  }
}

// Late values are handed out behind limit_pending() where there are several ranks: that waits for the same losses on each rank, so
// an error of a loss ends all ranks after the same step.
void FitRun::Impl::use_late_values(bool all) {
  if (all && has_others()) limit_pending(0);
  while (!late.empty()) {
    const LateValues& front = late.front();
    const bool is_computed = std::all_of(front.arrays.begin(), front.arrays.end(),
                                         [](const NDArray& one) { return is_idle(one.var()); });
    if (!all && !is_computed) return;
    FitValues computed;
    try {
      computed = read_values(front.names, front.arrays);
    } catch (...) {
      if (all || !has_others()) throw;
      return;
    }
    const LateValues now = std::move(late.front());
    late.pop_front();
    now.use(computed);
  }
}

void FitRun::Impl::poll() {
  if (interrupts.interrupted()) wants_interrupt = true;
  if (!options.check_interrupt) return;
  try {
    options.check_interrupt();
  } catch (...) {
    wants_interrupt = true;
    if (!interrupt_error) interrupt_error = std::current_exception();
  }
}

// An interrupt ends it on all ranks.
bool FitRun::Impl::validate(FitValues& all) {
  std::size_t begun = 0;
  bool is_done = false;
  try {
    is_done = compute_validation(all, begun);
  } catch (...) {
    try {
      end_validation(begun);
    } catch (...) {  // ignored: the first error counts
    }
    throw;
  }
  together("callbacks", [&] { end_validation(begun); });
  return is_done;
}

// An error of one callback keeps none from undoing what it has begun.
void FitRun::Impl::end_validation(std::size_t begun) {
  std::exception_ptr first;
  for (std::size_t i = 0; i < begun; ++i) {
    try {
      interruptible([&] { callbacks[i]->on_validation_end(handle); });
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// `begun`: of how many callbacks the validation has begun.
bool FitRun::Impl::compute_validation(FitValues& all, std::size_t& begun) {
  values.reset();
  together("validation", [&] {
    each_callback([&](Callback& one) {
      ++begun;
      one.on_validation_begin(handle);
    });
    const ModeScope training(net);
    net.train(false);
    const auto is_over = [&] {
      poll();
      return wants_interrupt;
    };
    interruptible([&] {
      evaluate_batches("fit: validation", net, *validation, loss, options.labels, values, is_over);
    });
  });
  const bool has_batches = ranks ? values.reduce_any(*ranks) : values.has_batches();
  const StopKind here = wants_interrupt ? StopKind::interrupt : StopKind::none;
  if (agreement.after_epoch(here) == StopKind::interrupt) {
    history.interrupted = wants_interrupt = true;
    return false;
  }
  if (!has_batches) throw InvalidArgument("fit: the validation has no batches");
  for (const auto& [name, value] : read_values(values.names(), values.results())) all["val_" + name] = value;
  return true;
}

// A run that is resumed with other metrics has no values of them in the epochs before, or none in those to come.
void FitRun::Impl::add_history(const FitValues& all) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const std::size_t before = history.epochs.size();
  history.epochs.push_back(epoch);
  for (const auto& [name, value] : all) history.values[name].resize(before, kNone);
  for (auto& [name, series] : history.values) {
    const auto value = all.find(name);
    series.push_back(value == all.end() ? kNone : value->second);
  }
}

// Other ranks learn of it as of any error of one of them.
void FitRun::Impl::check_size() const {
  if (batch == 0) throw InvalidArgument("fit: epoch " + std::to_string(epoch) + " has no batches");
  const std::int64_t size = batches->size();
  if (batch < size)
    throw Error("fit: epoch " + std::to_string(epoch) + " has ended after " + std::to_string(batch) +
                " batches, and the data say that there are " + std::to_string(size) +
                "; do not begin them anew meanwhile, as evaluate() of them in a callback does");
}

void FitRun::Impl::end_epoch() {
  check_size();
  known_size = batch;
  use_late_values(true);
  Arrays own;  // the validation uses the same metrics
  if (validation)
    for (const NDArray& one : values.state()) own.push_back(one.copy());
  if (ranks) values.reduce(*ranks);
  epoch_results = values.results();
  FitValues all;
  if (validation && !validate(all)) {
    epoch_results.clear();
    values.set_state(own);  // a resumed run goes on with the validation
    return;
  }
  limit_pending(0);
  all.merge(read_values(values.names(), epoch_results));
  all["lr"] = trainer.schedule()(std::max<std::int64_t>(trainer.steps() - 1, 0));
  add_history(all);
  together("callbacks", [&] { each_callback([&](Callback& one) { one.on_epoch_end(handle, all); }); });
  poll();
  end_if(agreement.after_epoch(wanted()));
  use_late_values(true);
  epoch_results.clear();
  values.reset();
  ++epoch;
  batch = examples = 0;
  write_saves();
}

void FitRun::Impl::finish() {
  use_late_values(true);
  limit_pending(0);
  if (history.interrupted) {
    together("callbacks", [&] { each_callback([&](Callback& one) { one.on_interrupt(handle); }); });
    if (!options.save_on_interrupt.empty())
      handle.save(PathPattern(options.save_on_interrupt).filled(handle, {}));
    write_saves();
  }
  history.stopped = history.interrupted ? "interrupted" : stop_reason;
  together("callbacks", [&] { each_callback([&](Callback& one) { one.on_last_step(handle); }); });
  write_saves();
  end_saves();
  together("callbacks", [&] { each_callback([&](Callback& one) { one.on_train_end(handle); }); });
  write_saves();
  end_saves();
  poll();  // Ctrl-C after the last step
  history.interrupted = history.interrupted || wants_interrupt;
  if (interrupt_error) std::rethrow_exception(interrupt_error);
}

History FitAccess::train(Module& net, Trainer& trainer, const FitData& data, FitOptions options,
                         Where where) {
  const ScheduleScope schedule(trainer);
  FitRun::Impl run(net, trainer, data, std::move(options), where);
  try {
    return run.run();
  } catch (...) {  // also of a callback that has read the loss
    run.refuse_loss();
    throw;
  }
}

History fit(Module& net, Trainer& trainer, const FitData& data, FitOptions options, Where where) {
  const CallSite site(where);
  const EngineScope scope(trainer.parameters()[0].value.engine());
  return FitAccess::train(net, trainer, data, std::move(options), where);
}

}  // namespace heddle
