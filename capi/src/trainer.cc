#include <heddle/c/trainer.h>

#include "archive.h"
#include "locked_trainer.h"
#include "optimizer.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

NamedParameters::NamedParameters(const heddle_named_array* named, std::size_t count,
                                 std::shared_ptr<Engine> its_engine, const char* call)
    : engine(std::move(its_engine)) {
  if (count > 0 && !named) throw_null(call, "parameters");
  for (std::size_t i = 0; i < count; ++i) {
    const UsedArray array(named[i].array, call);
    if (!engine) engine = array.shared_engine();
    check_engine(array.engine(), *engine, call);
    parameters.push_back({text_of(named[i].name, call, "a parameter's name"), array->array});
  }
}

}  // namespace heddle::c

namespace {

template <class Call>
heddle_status with_trainer(const heddle_trainer* trainer, heddle_error** error, const char* name,
                           Call&& call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<LockedTrainer> of = *HandleAccess<heddle_trainer>(trainer, name);
    const EngineScope scope(*of->store->engine);
    const std::lock_guard guard(of->store->mutex);
    call(*of);
  });
}

Schedule schedule_of(heddle_schedule_fn schedule, std::shared_ptr<const Owned> ctx) {
  if (!schedule) return {};
  return [schedule, ctx = std::move(ctx)](std::int64_t step) { return schedule(ctx->ctx(), step); };
}

std::shared_ptr<LockedStore> store_of(const heddle_kvstore* store, const std::shared_ptr<Engine>& engine,
                                      const char* call) {
  if (store) return *HandleAccess<heddle_kvstore>(store, call);
  return std::make_shared<LockedStore>(engine, KVStore::create("local"));
}

}  // namespace

heddle_status heddle_trainer_create(const heddle_named_array* parameters, size_t count,
                                    const heddle_trainer_options* options, heddle_trainer** trainer,
                                    heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_trainer_create";
    if (options) check_struct(options, kCall, "heddle_trainer_options");
    const heddle_trainer_options wanted = options ? *options : heddle_trainer_options{};
    const auto ctx = std::make_shared<const Owned>(Owned(wanted.schedule_ctx, wanted.schedule_destroy));
    check_out(trainer, kCall, "trainer");
    NamedParameters named(parameters, count, nullptr, kCall);
    if (!named.engine) throw InvalidArgument(std::string(kCall) + ": there are no parameters");
    const EngineScope scope(*named.engine);
    std::shared_ptr<LockedStore> store = store_of(wanted.store, named.engine, kCall);
    check_engine(*named.engine, *store->engine, kCall);
    TrainerOptions how{.params = params_of(wanted.parameters, wanted.parameter_count, kCall),
                       .schedule = schedule_of(wanted.schedule, ctx),
                       .store = store->store};
    if (wanted.optimizer) how.optimizer = wanted.optimizer;
    const std::lock_guard guard(store->mutex);
    *trainer = make_handle<heddle_trainer>(std::make_shared<LockedTrainer>(
        LockedTrainer{store, Trainer(std::move(named.parameters), std::move(how))}));
  });
}

heddle_status heddle_trainer_destroy(heddle_trainer* trainer) {
  return guarded(nullptr, [&] {
    if (trainer) take(trainer, "heddle_trainer_destroy");
  });
}

heddle_status heddle_trainer_step(heddle_trainer* trainer, double grad_scale, heddle_error** error) {
  return with_trainer(trainer, error, "heddle_trainer_step",
                      [&](LockedTrainer& of) { of.trainer.step(grad_scale); });
}

heddle_status heddle_trainer_steps(const heddle_trainer* trainer, int64_t* steps, heddle_error** error) {
  return with_trainer(trainer, error, "heddle_trainer_steps", [&](const LockedTrainer& of) {
    check_out(steps, "heddle_trainer_steps", "steps");
    *steps = of.trainer.steps();
  });
}

heddle_status heddle_trainer_learning_rate(const heddle_trainer* trainer, double* lr, heddle_error** error) {
  return with_trainer(trainer, error, "heddle_trainer_learning_rate", [&](const LockedTrainer& of) {
    check_out(lr, "heddle_trainer_learning_rate", "lr");
    *lr = of.trainer.learning_rate();
  });
}

heddle_status heddle_trainer_clear_errors(heddle_trainer* trainer, heddle_error** error) {
  return with_trainer(trainer, error, "heddle_trainer_clear_errors",
                      [](LockedTrainer& of) { of.trainer.clear_errors(); });
}

heddle_status heddle_trainer_state(const heddle_trainer* trainer, heddle_archive** state,
                                   heddle_error** error) {
  return with_trainer(trainer, error, "heddle_trainer_state", [&](const LockedTrainer& of) {
    check_out(state, "heddle_trainer_state", "state");
    *state = new_archive(linked(of.trainer.state(), of.store->engine));
  });
}

heddle_status heddle_trainer_set_state(heddle_trainer* trainer, const heddle_archive* state,
                                       heddle_error** error) {
  constexpr const char* kCall = "heddle_trainer_set_state";
  return with_trainer(trainer, error, kCall, [&](LockedTrainer& of) {
    of.trainer.set_state(ArchiveContent(state, kCall).of_engine(*of.store->engine, kCall));
  });
}
