#include <algorithm>

#include <heddle/c/checkpoint.h>
#include <heddle/checkpoint.h>

#include "archive.h"
#include "locked_trainer.h"

using namespace heddle;
using namespace heddle::c;

namespace {

template <class T, class Call> void for_each(const T* list, std::size_t count, const char* call, Call&& use) {
  if (count > 0 && !list) throw_null(call, "a list");
  for (std::size_t i = 0; i < count; ++i) use(list[i]);
}

[[noreturn]] void throw_twice(const char* call, const std::string& name) {
  throw InvalidArgument(std::string(call) + ": '" + name + "' is there twice");
}

// The C++ Checkpoint of a heddle_checkpoint, for the duration of a call. Locks the trainer, its store and the
// generators.
class UsedCheckpoint {
 public:
  UsedCheckpoint(const heddle_checkpoint* checkpoint, const char* call) : call_(call) {
    check_struct(checkpoint, call, "heddle_checkpoint");
    if (checkpoint->trainer) trainer_ = *HandleAccess<heddle_trainer>(checkpoint->trainer, call);
    NamedParameters named(checkpoint->parameters, checkpoint->parameter_count,
                          trainer_ ? trainer_->store->engine : nullptr, call);
    engine_ = named.engine ? std::move(named.engine) : engine_of(nullptr, call);
    what_.parameters = std::move(named.parameters);
    for_each(checkpoint->counters, checkpoint->counter_count, call, [&](const heddle_counter& counter) {
      const std::string name = text_of(counter.name, call, "a counter's name");
      if (!what_.counters.emplace(name, counter.value).second) throw_twice(call, name);
    });
    for_each(checkpoint->generators, checkpoint->generator_count, call,
             [&](const heddle_named_generator& named_generator) { add(named_generator); });
    lock();
  }
  Checkpoint& operator*() { return what_; }
  Checkpoint* operator->() { return &what_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }

 private:
  void add(const heddle_named_generator& named) {
    const std::string name = text_of(named.name, call_, "a generator's name");
    generators_.push_back(*HandleAccess<heddle_generator>(named.generator, call_));
    if (!what_.generators.emplace(name, &generators_.back()->generator).second) throw_twice(call_, name);
  }
  // Locks the store, then the generators by address: with a fixed order several threads do not deadlock.
  void lock() {
    if (trainer_) {
      what_.trainer = &trainer_->trainer;
      locks_.emplace_back(trainer_->store->mutex);
    }
    std::vector<LockedGenerator*> once;
    for (const auto& generator : generators_) once.push_back(generator.get());
    std::ranges::sort(once);
    once.erase(std::ranges::unique(once).begin(), once.end());
    for (LockedGenerator* generator : once) locks_.emplace_back(generator->mutex);
  }

  const char* call_;
  std::shared_ptr<LockedTrainer> trainer_;
  std::vector<std::shared_ptr<LockedGenerator>> generators_;
  std::shared_ptr<Engine> engine_;
  Checkpoint what_;
  std::vector<std::unique_lock<std::mutex>> locks_;
};

}  // namespace

heddle_status heddle_checkpoint_save(const char* path, const heddle_checkpoint* checkpoint,
                                     heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_checkpoint_save";
    const std::string file = text_of(path, kCall, "path");
    UsedCheckpoint what(checkpoint, kCall);
    const EngineScope scope(*what.engine());
    if (checkpoint->more) {
      const ArchiveContent more(checkpoint->more, kCall);
      what->arrays = more.of_engine(*what.engine(), kCall);
      what->notes = more.texts;
    }
    save_checkpoint(file, *what);
  });
}

heddle_status heddle_checkpoint_load(const char* path, const heddle_checkpoint* checkpoint,
                                     heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_checkpoint_load";
    const std::string file = text_of(path, kCall, "path");
    UsedCheckpoint what(checkpoint, kCall);
    std::shared_ptr<Archive> more;
    const EngineScope scope(*what.engine());
    if (checkpoint->more) {
      more = *HandleAccess<heddle_archive>(checkpoint->more, kCall);
      what->arrays = ArchiveContent(checkpoint->more, kCall).of_engine(*what.engine(), kCall);
    }
    load_checkpoint(file, *what);
    for (std::size_t i = 0; i < checkpoint->counter_count; ++i)
      checkpoint->counters[i].value = what->counters.at(checkpoint->counters[i].name);
    if (!more) return;
    LinkedArrays arrays = linked(what->arrays, what.engine());
    const std::lock_guard guard(more->mutex);
    std::swap(more->arrays, arrays);
    more->texts = {what->notes.begin(), what->notes.end()};
  });
}

heddle_status heddle_checkpoint_save_residuals(const char* path, const heddle_trainer* trainer,
                                               heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_checkpoint_save_residuals";
    const std::string file = text_of(path, kCall, "path");
    const std::shared_ptr<LockedTrainer> of = *HandleAccess<heddle_trainer>(trainer, kCall);
    const EngineScope scope(*of->store->engine);
    const std::lock_guard guard(of->store->mutex);
    save_residuals(file, of->trainer);
  });
}

heddle_status heddle_checkpoint_notes(const char* path, heddle_archive** notes, heddle_error** error) {
  return called(error, [&] {
    const std::string file = text_of(path, "heddle_checkpoint_notes", "path");
    check_out(notes, "heddle_checkpoint_notes", "notes");
    auto archive = std::make_shared<Archive>();
    archive->texts.merge(checkpoint_notes(file));
    *notes = make_handle<heddle_archive>(std::move(archive));
  });
}
