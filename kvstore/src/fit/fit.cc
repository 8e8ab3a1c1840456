#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/array_creation.h>
#include <heddle/engine.h>
#include <heddle/fit.h>
#include <heddle/interrupt_check.h>
#include <heddle/number_text.h>
#include <heddle/var_use.h>

#include "fit/evaluation.h"
#include "fit/fit_run.h"
#include "fit/nan_report.h"

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
  batches = training_batches(data, options, trainer.store());
  validation = validation_batches(options.validation, options, ranks);
  known_size = batches->size();
  value_names = values.names();
  if (validation)
    for (const std::string& name : values.names()) value_names.push_back("val_" + name);
  value_names.emplace_back("lr");
  const bool has_progress = std::any_of(callbacks.begin(), callbacks.end(), [](const auto& one) {
    return dynamic_cast<const Progress*>(one.get()) != nullptr;
  });
  if (options.verbose && !has_progress) callbacks.insert(callbacks.begin(), std::make_shared<Progress>());
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
}

template <class Call> void FitRun::Impl::each_callback(const Call& call) {
  for (const std::shared_ptr<Callback>& one : callbacks) call(*one);
}

History FitRun::Impl::run() {
  begin();
  while (epoch < options.epochs && !is_over()) run_epoch();
  finish();
  return history;
}

void FitRun::Impl::begin() {
  values.reset();
  if (!options.resume.empty()) resume();
  note_versions();
  if (!net.training()) net.train();
  each_callback([&](Callback& one) { one.on_train_begin(handle); });
  end_if(agreement.after_epoch(wanted()));
  write_saves();
}

void FitRun::Impl::run_epoch() {
  batches->start(epoch, batch);
  if (batch == 0) {
    values.reset();
    examples = 0;
  }
  each_callback([&](Callback& one) { one.on_epoch_begin(handle); });
  while (run_step())
    if (is_over()) return;
  end_epoch();
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
  const std::vector<Arrays> group = next_group();
  if (group.empty()) return false;
  each_callback([&](Callback& one) { one.on_batch_begin(handle); });
  pending.push_back({group, {}, random_positions(), epoch, batch});
  record(group, step.run(group, where));
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
    if (stop_reason.empty()) stop_reason = "another rank has stopped";
  }
}

void FitRun::Impl::record(const std::vector<Arrays>& group, std::vector<StepResult> results) {
  last_losses.clear();
  for (std::size_t i = 0; i < group.size(); ++i) {
    Arrays inputs, labels;
    step.split(group[i], inputs, labels);
    const std::int64_t rows = rows_of(group[i]);
    values.add(results[i].losses, results[i].outputs, labels, rows);
    last_losses.push_back(results[i].losses[0]);
    examples += rows;
    ++batch;
  }
  pending.back().losses = last_losses;
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

void FitRun::Impl::use_late_values(bool all) {
  while (!late.empty()) {
    const LateValues& front = late.front();
    const bool is_computed = std::all_of(front.arrays.begin(), front.arrays.end(),
                                         [](const NDArray& one) { return is_idle(one.var()); });
    if (!all && !is_computed) return;
    const LateValues now = std::move(late.front());
    late.pop_front();
    now.use(read_values(now.names, now.arrays));
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

FitValues FitRun::Impl::validate() {
  values.reset();
  each_callback([&](Callback& one) { one.on_validation_begin(handle); });
  {
    const ModeScope training(net);
    net.train(false);
    evaluate_batches("fit: validation", net, *validation, loss, options.labels, values);
  }
  if (ranks) values.reduce(*ranks);
  FitValues all;
  for (const auto& [name, value] : read_values(values.names(), values.results())) all["val_" + name] = value;
  each_callback([&](Callback& one) { one.on_validation_end(handle); });
  return all;
}

void FitRun::Impl::end_epoch() {
  if (batch == 0) throw InvalidArgument("fit: epoch " + std::to_string(epoch) + " has no batches");
  known_size = batch;
  use_late_values(true);
  if (ranks) values.reduce(*ranks);
  const Arrays results = values.results();  // the validation uses the same metrics
  FitValues all = validation ? validate() : FitValues();
  limit_pending(0);
  all.merge(read_values(values.names(), results));
  all["lr"] = trainer.schedule()(std::max<std::int64_t>(trainer.steps() - 1, 0));
  history.epochs.push_back(epoch);
  for (const auto& [name, value] : all) history.values[name].push_back(value);
  each_callback([&](Callback& one) { one.on_epoch_end(handle, all); });
  poll();
  end_if(agreement.after_epoch(wanted()));
  values.reset();
  ++epoch;
  batch = examples = 0;
  write_saves();
}

void FitRun::Impl::finish() {
  use_late_values(true);
  limit_pending(0);
  if (history.interrupted) {
    each_callback([&](Callback& one) { one.on_interrupt(handle); });
    if (!options.save_on_interrupt.empty()) handle.save(options.save_on_interrupt);
    write_saves();
  }
  history.stopped = history.interrupted ? "interrupted" : stop_reason;
  each_callback([&](Callback& one) { one.on_train_end(handle); });
  write_saves();
  writer.wait();
  if (interrupt_error) std::rethrow_exception(interrupt_error);
}

// Throws Error that says which batch has the loss, and where it comes from.
void FitRun::Impl::refuse_loss() {
  for (const PendingStep& one : pending) {
    for (std::size_t i = 0; i < one.losses.size(); ++i) {
      try {
        one.losses[i].wait();
        continue;
      } catch (const LossNotFinite& error) {
        std::string text = "fit: epoch " + std::to_string(one.epoch) + ", batch " +
                           std::to_string(one.first_batch + static_cast<std::int64_t>(i)) + ": " +
                           error.what();
        if (ranks && ranks->size() > 1) throw Error(text + " on rank " + std::to_string(ranks->rank()));
        restore_before(one);
        throw Error(text + ": " + report_of_nan(net, step, loss, one.group) +
                    ". The parameters are those before this batch");
      }
    }
  }
}

void FitRun::Impl::restore_before(const PendingStep& failed) {
  trainer.clear_errors();
  for (const Parameter& one : net.state())
    one.value.engine().clear_error(one.value.var(), CallSite::current());
  const auto all = generators();
  for (std::size_t i = 0; i < all.size(); ++i) all[i].second->set_position(failed.random[i]);
}

History FitAccess::train(Module& net, Trainer& trainer, const FitData& data, FitOptions options,
                         Where where) {
  FitRun::Impl run(net, trainer, data, std::move(options), where);
  try {
    return run.run();
  } catch (const LossNotFinite&) {
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
