// What a training keeps while it runs.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <heddle/checkpoint_writer.h>
#include <heddle/communicator.h>
#include <heddle/fit.h>

#include "fit/buffer_copies.h"
#include "fit/epoch_values.h"
#include "fit/fit_step.h"
#include "fit/given_arrays.h"
#include "fit/interrupt.h"
#include "fit/losses.h"
#include "fit/mode_scope.h"
#include "fit/pending_step.h"
#include "fit/stop_agreement.h"
#include "stores/agreement.h"

namespace heddle {

struct FitRun::Impl {
  Impl(Module& trained, Trainer& by, const FitData& data, FitOptions given, Where called_at);
  History run();

  // Parts of run().
  void check_options() const;
  void check_rate_callbacks() const;
  void check_data(const FitData& data) const;
  void name_values();
  void name_settings(const FitData& data);
  void begin();
  void run_epoch();
  void begin_epoch();
  bool run_step();
  void end_epoch();
  bool validate(FitValues& all);  // false: an interrupt has ended it
  bool compute_validation(FitValues& all, std::size_t& begun);
  void end_validation(std::size_t begun);
  void check_size() const;
  void add_history(const FitValues& all);
  bool end_at_once();
  bool has_others() const { return ranks && ranks->size() > 1; }
  void note_interrupt();
  template <class Call> bool interruptible(const Call& call);
  void finish();
  std::vector<fit_detail::Arrays> next_group();
  void record(const std::vector<fit_detail::Arrays>& group,
              const std::vector<fit_detail::StepResult>& results);
  void limit_pending(std::size_t most);
  void poll();
  fit_detail::StopKind wanted() const;
  void end_if(fit_detail::StopKind agreed);
  bool is_over() const { return finished || history.interrupted; }  // on all ranks
  void use_late_values(bool all);
  void write_saves();
  void end_saves();  // waits for all saves; if one has failed all ranks throw
  bool finish_saves();
  std::string reason_of_ranks() const;
  // Calls call(); if it throws on one rank all ranks throw.
  template <class Call> void together(const char* what, const Call& call) const {
    const auto text = [&] { return call(), std::string(); };
    has_others() ? agree(*ranks, "fit", what, text) : void(text());
  }
  template <class Call> void each_callback(const Call& call);
  std::vector<std::pair<std::string, Generator*>> generators() const;
  std::vector<std::uint64_t> random_positions() const;

  // Steps that are undone: fit_undo.cc.
  fit_detail::PendingStep next_pending(const std::vector<fit_detail::Arrays>& group);
  void undo_step();
  void undo_if_skipped();
  void put_back(const fit_detail::PendingStep& last) const;
  void put_generators_back(const fit_detail::PendingStep& last) const;
  void clear_buffers() const;
  void refuse_loss();
  std::string refused_loss(const fit_detail::PendingStep& failed, const fit_detail::LossNotFinite& error);
  void restore_before(const fit_detail::PendingStep& failed);

  // Checkpoints of the run: fit_state.cc, and resumes: fit_resume.cc.
  Checkpoint checkpoint();
  std::map<std::string, NDArray> own_arrays() const;
  void save_callbacks(Checkpoint& to, std::map<std::string, NDArray>& own) const;
  void resume();
  void load(Checkpoint& all);
  void load_history(const Checkpoint& from);
  void load_generators(const Checkpoint& from);
  void load_buffers(const Checkpoint& from) const;
  void load_values(const Checkpoint& from);
  void check_settings(const Checkpoint& from) const;
  std::vector<std::size_t> places_of_values(const Checkpoint& from) const;
  void load_callbacks(const Checkpoint& from);
  void set_state(const std::shared_ptr<Callback>& callback, const CallbackState& state);
  void put_back_callbacks();
  int rank() const { return ranks ? ranks->rank() : 0; }
  bool exists_on_rank_0(const std::string& path) const;
  std::string path_to_resume() const;  // empty: there is no checkpoint
  void load_own(const Checkpoint& all);

  Module& net;
  Trainer& trainer;
  FitOptions options;
  Where where;
  FitRun handle;
  std::shared_ptr<Communicator> ranks;  // null: this process alone
  fit_detail::BatchLoss loss;
  fit_detail::EpochValues values;
  fit_detail::FitStep step;
  fit_detail::GivenArrays given_arrays;  // by batches and validation
  std::shared_ptr<Batches> batches, validation;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::vector<std::string> value_names;
  std::map<std::string, std::string> settings;  // what a position within an epoch depends on
  CheckpointWriter writer;
  fit_detail::StopAgreement agreement;
  const fit_detail::InterruptScope interrupts;
  const fit_detail::ModeScope modes;

  std::int64_t epoch = 0, batch = 0, examples = 0, known_size = -1;
  bool resumes = false;   // whether FitOptions::resume names a path
  bool finished = false;  // whether a callback ended the training, which a resumed run does not continue
  History history;
  std::vector<std::pair<std::shared_ptr<Callback>, CallbackState>> former_states;  // before a resume
  std::set<const Callback*> with_state;  // whose state was in the checkpoint
  fit_detail::BufferCopies buffers;
  fit_detail::Arrays last_losses;
  fit_detail::Arrays epoch_results;  // of all ranks, from the last step to on_epoch_end
  std::deque<fit_detail::PendingStep> pending;
  std::deque<fit_detail::LateValues> late;
  std::vector<std::string> saves;
  std::string stop_reason;
  bool wants_stop = false, wants_interrupt = false;
  std::exception_ptr interrupt_error;
  std::exception_ptr save_error;  // of a save of this rank, which other ranks do not know of
};

}  // namespace heddle
