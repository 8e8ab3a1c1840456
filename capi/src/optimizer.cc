#include "optimizer.h"

#include <algorithm>

#include "archive.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

struct LockedOptimizer {
  explicit LockedOptimizer(std::unique_ptr<Optimizer> made) : optimizer(std::move(made)) {}
  // The engines of the arrays in the optimizer's state. Throws if one was destroyed: ops on its arrays need
  // it.
  std::vector<std::shared_ptr<Engine>> engines_of_state(const char* call) const {
    std::vector<std::shared_ptr<Engine>> all;
    for (const EngineLink& engine : engines) all.push_back(engine.lock(call));
    return all;
  }
  void add_engine(const std::shared_ptr<Engine>& engine) {
    if (std::ranges::none_of(engines, [&](const EngineLink& one) { return one.is_of(*engine); }))
      engines.emplace_back(engine);
  }
  std::mutex mutex;  // guards `optimizer` and `engines`
  const std::unique_ptr<Optimizer> optimizer;
  std::vector<EngineLink> engines;  // the engines of the state's arrays, each once
};

Key key_of(const heddle_key& key) { return key.name ? Key(std::string_view(key.name)) : Key(key.number); }

OptimizerParams params_of(const heddle_parameter* parameters, std::size_t count, const char* call) {
  constexpr std::size_t kMost = 100;  // no optimizer has so many parameters
  if (count > kMost) throw InvalidArgument(std::string(call) + ": " + std::to_string(count) + " parameters");
  if (count > 0 && !parameters) throw_null(call, "parameters");
  OptimizerParams params;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = text_of(parameters[i].name, call, "a parameter's name");
    if (!params.emplace(name, parameters[i].value).second)
      throw InvalidArgument(std::string(call) + ": the parameter '" + name + "' is given twice");
  }
  return params;
}

UpdateOptions update_options_of(const heddle_update_options* options, const char* call) {
  UpdateOptions wanted;
  if (!options) return wanted;
  check_struct(options, call, "heddle_update_options");
  if (options->lr) wanted.lr = *options->lr;
  if (options->grad_scale) wanted.grad_scale = *options->grad_scale;
  return wanted;
}

}  // namespace heddle::c

namespace {

template <class Call>
heddle_status with_optimizer(const heddle_optimizer* optimizer, heddle_error** error, const char* name,
                             Call&& call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<LockedOptimizer> of = *HandleAccess<heddle_optimizer>(optimizer, name);
    const std::lock_guard guard(of->mutex);
    call(*of);
  });
}

// An update by a dense gradient (`Grad` is UsedArray) or a row-sparse gradient (`Grad` is UsedRows).
template <class Grad, class H>
heddle_status update(heddle_optimizer* optimizer, heddle_key key, const heddle_array* weight, const H* grad,
                     const heddle_update_options* options, heddle_error** error, const char* call) noexcept {
  return with_optimizer(optimizer, error, call, [&](LockedOptimizer& of) {
    const UsedArray to(weight, call);
    const Grad from(grad, call);
    const UpdateOptions wanted = update_options_of(options, call);
    const auto engines = of.engines_of_state(call);
    of.add_engine(to.shared_engine());
    if constexpr (std::is_same_v<Grad, UsedArray>) {
      of.optimizer->update(key_of(key), to->array, from->array, wanted);
    } else {
      of.optimizer->update(key_of(key), to->array, from->rows, wanted);
    }
  });
}

}  // namespace

heddle_status heddle_optimizer_create(const char* name, const heddle_parameter* parameters, size_t count,
                                      heddle_optimizer** optimizer, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_optimizer_create";
    const std::string wanted = text_of(name, kCall, "name");
    const OptimizerParams params = params_of(parameters, count, kCall);
    check_out(optimizer, kCall, "optimizer");
    *optimizer =
        make_handle<heddle_optimizer>(std::make_shared<LockedOptimizer>(create_optimizer(wanted, params)));
  });
}

heddle_status heddle_optimizer_destroy(heddle_optimizer* optimizer) {
  return guarded(nullptr, [&] {
    if (optimizer) take(optimizer, "heddle_optimizer_destroy");
  });
}

heddle_status heddle_optimizer_name(const heddle_optimizer* optimizer, const char** name,
                                    heddle_error** error) {
  return with_optimizer(optimizer, error, "heddle_optimizer_name", [&](const LockedOptimizer& of) {
    check_out(name, "heddle_optimizer_name", "name");
    *name = static_text(of.optimizer->name());
  });
}

heddle_status heddle_optimizer_parameters(const heddle_optimizer* optimizer, heddle_parameter* parameters,
                                          size_t room, size_t* count, heddle_error** error) {
  return with_optimizer(optimizer, error, "heddle_optimizer_parameters", [&](const LockedOptimizer& of) {
    if (room > 0) check_out(parameters, "heddle_optimizer_parameters", "parameters");
    check_out(count, "heddle_optimizer_parameters", "count");
    std::vector<heddle_parameter> all;
    for (const auto& [name, value] : of.optimizer->params()) all.push_back({static_text(name), value});
    std::copy_n(all.begin(), std::min(room, all.size()), parameters);
    *count = all.size();
  });
}

heddle_status heddle_optimizer_update(heddle_optimizer* optimizer, heddle_key key, const heddle_array* weight,
                                      const heddle_array* grad, const heddle_update_options* options,
                                      heddle_error** error) {
  return update<UsedArray>(optimizer, key, weight, grad, options, error, "heddle_optimizer_update");
}

heddle_status heddle_optimizer_update_rows(heddle_optimizer* optimizer, heddle_key key,
                                           const heddle_array* weight, const heddle_row_sparse* grad,
                                           const heddle_update_options* options, heddle_error** error) {
  return update<UsedRows>(optimizer, key, weight, grad, options, error, "heddle_optimizer_update_rows");
}

heddle_status heddle_optimizer_state(const heddle_optimizer* optimizer, heddle_archive** state,
                                     heddle_error** error) {
  return with_optimizer(optimizer, error, "heddle_optimizer_state", [&](const LockedOptimizer& of) {
    check_out(state, "heddle_optimizer_state", "state");
    const auto engines = of.engines_of_state("heddle_optimizer_state");
    LinkedArrays arrays;
    for (const auto& [name, array] : of.optimizer->state()) {
      const auto engine = std::ranges::find_if(
          of.engines, [&, &part = array](const EngineLink& one) { return one.is_of(part.engine()); });
      arrays.emplace(name, LinkedArray{array, *engine});
    }
    *state = new_archive(std::move(arrays));
  });
}

heddle_status heddle_optimizer_set_state(heddle_optimizer* optimizer, const heddle_archive* state,
                                         heddle_error** error) {
  return with_optimizer(optimizer, error, "heddle_optimizer_set_state", [&](LockedOptimizer& of) {
    const ArchiveContent content(state, "heddle_optimizer_set_state");
    of.optimizer->set_state(content.arrays);
    of.engines.clear();
    for (const auto& engine : content.engines) of.add_engine(engine);
  });
}

heddle_status heddle_optimizer_clear_errors(heddle_optimizer* optimizer, heddle_error** error) {
  return with_optimizer(optimizer, error, "heddle_optimizer_clear_errors", [](LockedOptimizer& of) {
    const auto engines = of.engines_of_state("heddle_optimizer_clear_errors");
    of.optimizer->clear_errors();
  });
}
