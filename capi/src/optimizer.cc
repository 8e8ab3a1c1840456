#include "optimizer.h"

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

struct LockedOptimizer {
  explicit LockedOptimizer(std::unique_ptr<Optimizer> made) : optimizer(std::move(made)) {}
  std::mutex mutex;  // guards the optimizer
  const std::unique_ptr<Optimizer> optimizer;
};

OptimizerParams params_of(const heddle_parameter* parameters, std::size_t count, const char* call) {
  constexpr std::size_t kMost = 100;  // beyond what any optimizer has
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
  if (options->lr != 0) wanted.lr = options->lr;
  if (options->grad_scale != 0) wanted.grad_scale = options->grad_scale;
  return wanted;
}

}  // namespace heddle::c

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

heddle_status heddle_optimizer_update(heddle_optimizer* optimizer, int64_t key, const heddle_array* weight,
                                      const heddle_array* grad, const heddle_update_options* options,
                                      heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_optimizer_update";
    const Borrowed<heddle_optimizer> of(optimizer, kCall);
    const UsedArray to(weight, kCall), from(grad, kCall);
    const UpdateOptions wanted = update_options_of(options, kCall);
    const std::lock_guard guard((*of)->mutex);
    (*of)->optimizer->update(key, to->array, from->array, wanted);
  });
}
