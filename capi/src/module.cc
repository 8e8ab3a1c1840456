#include "module.h"

#include <algorithm>

#include <heddle/autograd.h>
#include <heddle/default_engine.h>
#include <heddle/layer_registry.h>
#include <heddle/model.h>
#include <heddle/sequential.h>
#include <heddle/summary.h>

#include "value.h"

using namespace heddle;
using namespace heddle::c;

namespace {

constexpr std::size_t kMostResults = 64;  // how many results a program's own module may have

using Results = std::vector<NDArray>;

// Array handles that this object destroys.
struct Handles {
  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (heddle_array* one : all)
      if (one) heddle_array_destroy(one);
  }
  std::vector<heddle_array*> all;
};

// A module whose forward() is a function of C.
class CModule : public Module {
 public:
  CModule(std::string name, heddle_forward_fn fn, Owned ctx, const EngineLink& engine)
      : shared_(std::make_shared<const Shared>(Shared{std::move(name), fn, std::move(ctx), engine})) {}

  using Module::buffer, Module::child, Module::parameter;

  Results forward_all(std::span<const NDArray> arguments) override {
    if (!shared_->forward) throw InvalidArgument(class_name() + ": the module has no forward function");
    Handles given, made;
    for (const NDArray& one : arguments)
      given.all.push_back(one.defined() ? new_handle(one, shared_->engine) : nullptr);
    made.all.resize(kMostResults);
    std::size_t count = 0;
    heddle_error* failure = nullptr;
    throw_if_failed(shared_->forward(shared_->ctx.ctx(), given.all.data(), given.all.size(), made.all.data(),
                                     kMostResults, &count, &failure),
                    failure, "a forward function");
    for (heddle_array*& one : made.all) {
      if (!one || std::find(given.all.begin(), given.all.end(), one) == given.all.end()) continue;
      one = nullptr;  // the handle is an argument, which `given` destroys; `made` must not destroy it too
      throw InvalidArgument(
          class_name() + ": a result of forward is one of its arguments; want a handle of its own, a clone");
    }
    Results results;
    for (std::size_t i = 0; i < std::min(count, kMostResults); ++i)
      if (made.all[i]) results.push_back(UsedArray(made.all[i], "a forward function")->array);
    if (results.size() != count)
      throw InvalidArgument(class_name() + ": forward says that it made " + std::to_string(count) +
                            " results, of which " + std::to_string(results.size()) + " are there");
    return results;
  }

 private:
  struct Shared {
    std::string name;
    heddle_forward_fn forward;
    Owned ctx;
    EngineLink engine;
  };
  NDArray forward(const NDArray& x) override {
    const Results results = forward_all({&x, 1});
    if (results.size() == 1) return results[0];
    throw InvalidArgument(class_name() + ": forward made " + std::to_string(results.size()) +
                          " results of one array; want one");
  }
  std::string class_name() const override { return shared_->name; }
  std::shared_ptr<const Shared> shared_;
};

// Calls call(module, engine), inside an EngineScope of the module's engine: new arrays belong to that engine.
template <class Call>
heddle_status with_module(const heddle_module* module, heddle_error** error, const char* name,
                          Call&& call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<const LinkedModule> of = *HandleAccess<heddle_module>(module, name);
    const std::shared_ptr<Engine> engine = of->engine.lock(name);
    const EngineScope scope(*engine);
    call(*of, *engine);
  });
}

CModule& own_module(const LinkedModule& of, const char* call) {
  if (auto* const own = dynamic_cast<CModule*>(of.module.get())) return *own;
  throw InvalidArgument(std::string(call) + ": the module is not one of heddle_module_create");
}

heddle_module* new_module(std::shared_ptr<Module> module, const EngineLink& engine) {
  return make_handle<heddle_module>(
      std::make_shared<const LinkedModule>(LinkedModule{std::move(module), engine}));
}

// A null argument stands for an input that is missing, behind the first one.
Results arrays_of(const Engine& engine, heddle_array* const* arguments, std::size_t count, const char* call) {
  if (count > 0 && !arguments) throw_null(call, "arguments");
  Results given;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && !arguments[i]) {
      given.emplace_back();
      continue;
    }
    const UsedArray array(arguments[i], call);
    check_engine(array.engine(), engine, call);
    given.push_back(array->array);
  }
  return given;
}

}  // namespace

heddle_status heddle_module_make(const heddle_layer* layer, const heddle_value* values, size_t value_count,
                                 const heddle_named_value* named, size_t named_count, heddle_engine* engine,
                                 heddle_module** module, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_module_make";
    const LayerInfo& info = layers()[index_of_layer(layer, kCall)];
    check_out(module, kCall, "module");
    Arguments arguments(kCall);
    const CallArguments all = arguments_of(info, values, value_count, named, named_count, arguments, kCall);
    const std::shared_ptr<Engine> on = arguments.engine(engine);
    const EngineScope scope(*on);
    *module = new_module(make_layer(info, all.first, all.named), EngineLink(on));
  });
}

heddle_status heddle_module_sequential(heddle_module* const* modules, size_t count, heddle_engine* engine,
                                       heddle_module** module, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_module_sequential";
    check_out(module, kCall, "module");
    if (count > 0 && !modules) throw_null(kCall, "modules");
    const std::shared_ptr<Engine> on = engine_of(engine, kCall);
    const auto made = std::make_shared<Sequential>();
    for (std::size_t i = 0; i < count; ++i) {
      const std::shared_ptr<const LinkedModule> one = *HandleAccess<heddle_module>(modules[i], kCall);
      check_engine(*one->engine.lock(kCall), *on, kCall);
      made->add(one->module);
    }
    *module = new_module(made, EngineLink(on));
  });
}

heddle_status heddle_module_add_hook(heddle_module* module, int32_t after, heddle_hook_fn hook, void* ctx,
                                     heddle_destroy_fn destroy, heddle_module_hook** handle,
                                     heddle_error** error) {
  constexpr const char* kCall = "heddle_module_add_hook";
  return called(error, [&] {
    const auto owned = std::make_shared<const Owned>(ctx, destroy);
    const std::shared_ptr<const LinkedModule> of = *HandleAccess<heddle_module>(module, kCall);
    if (!hook) throw_null(kCall, "hook");
    check_out(handle, kCall, "handle");
    const ModuleHook told = [hook, owned, engine = of->engine](const Module&, std::span<const NDArray> inputs,
                                                               std::span<NDArray> outputs) {
      Handles given, made;
      for (const NDArray& one : inputs)
        given.all.push_back(one.defined() ? new_handle(one, engine) : nullptr);
      for (const NDArray& one : outputs)
        made.all.push_back(one.defined() ? new_handle(one, engine) : nullptr);
      heddle_error* failure = nullptr;
      throw_if_failed(
          hook(owned->ctx(), given.all.data(), given.all.size(), made.all.data(), made.all.size(), &failure),
          failure, "a hook");
    };
    *handle =
        make_handle<heddle_module_hook>(after ? of->module->after_call(told) : of->module->before_call(told));
  });
}

heddle_status heddle_module_hook_remove(heddle_module_hook* hook) {
  return guarded(nullptr, [&] {
    if (!hook) return;
    HookHandle handle = *HandleAccess<heddle_module_hook>(hook, "heddle_module_hook_remove");
    handle.remove();
    take(hook, "heddle_module_hook_remove");
  });
}

heddle_status heddle_module_hook_keep(heddle_module_hook* hook) {
  return guarded(nullptr, [&] {
    if (hook) take(hook, "heddle_module_hook_keep");
  });
}

heddle_status heddle_module_save(const heddle_module* module, const char* path, heddle_error** error) {
  constexpr const char* kCall = "heddle_module_save";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine&) {
    save_model(text_of(path, kCall, "path"), *of.module);
  });
}

heddle_status heddle_module_load(const char* path, heddle_engine* engine, heddle_module** module,
                                 heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_module_load";
    check_out(module, kCall, "module");
    const std::string file = text_of(path, kCall, "path");
    const std::shared_ptr<Engine> on = engine_of(engine, kCall);
    const EngineScope scope(*on);
    *module = new_module(load_model(file), EngineLink(on));
  });
}

heddle_status heddle_module_create(const char* class_name, heddle_forward_fn forward, void* ctx,
                                   heddle_destroy_fn destroy, heddle_engine* engine, heddle_module** module,
                                   heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_module_create";
    Owned owned(ctx, destroy);
    check_out(module, kCall, "module");
    const EngineLink link(engine_of(engine, kCall));
    *module = new_module(
        std::make_shared<CModule>(text_of(class_name, kCall, "class_name"), forward, std::move(owned), link),
        link);
  });
}

heddle_status heddle_module_add_child(heddle_module* module, const char* name, const heddle_module* child,
                                      heddle_error** error) {
  constexpr const char* kCall = "heddle_module_add_child";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    const std::string wanted = text_of(name, kCall, "name");
    const std::shared_ptr<const LinkedModule> inner = *HandleAccess<heddle_module>(child, kCall);
    check_engine(*inner->engine.lock(kCall), engine, kCall);
    own_module(of, kCall).child(wanted, inner->module);
  });
}

heddle_status heddle_module_add_parameter(heddle_module* module, const char* name, const heddle_array* leaf,
                                          heddle_error** error) {
  constexpr const char* kCall = "heddle_module_add_parameter";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    const std::string wanted = text_of(name, kCall, "name");
    const UsedArray array(leaf, kCall);
    check_engine(array.engine(), engine, kCall);
    if (!is_leaf(array->array))
      throw InvalidArgument(std::string(kCall) + ": '" + wanted +
                            "' is no leaf; call heddle_array_set_requires_grad first");
    static_cast<void>(own_module(of, kCall).parameter(wanted, array->array));
  });
}

heddle_status heddle_module_add_buffer(heddle_module* module, const char* name, const heddle_array* array,
                                       int32_t saved, heddle_error** error) {
  constexpr const char* kCall = "heddle_module_add_buffer";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    const std::string wanted = text_of(name, kCall, "name");
    const UsedArray buffer(array, kCall);
    check_engine(buffer.engine(), engine, kCall);
    own_module(of, kCall).buffer(wanted, buffer->array, saved != 0);
  });
}

heddle_status heddle_module_destroy(heddle_module* module) {
  return guarded(nullptr, [&] {
    if (module) take(module, "heddle_module_destroy");
  });
}

heddle_status heddle_module_call(const heddle_module* module, heddle_array* const* arguments,
                                 size_t argument_count, heddle_array** results, size_t room,
                                 size_t* result_count, heddle_error** error) {
  constexpr const char* kCall = "heddle_module_call";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    check_out(result_count, kCall, "result_count");
    if (room > 0) check_out(results, kCall, "results");
    const Results made = of.module->run(arrays_of(engine, arguments, argument_count, kCall));
    *result_count = made.size();
    if (made.size() > room)
      throw InvalidArgument(std::string(kCall) + ": room for " + std::to_string(room) +
                            " results; there are " + std::to_string(made.size()));
    for (std::size_t i = 0; i < made.size(); ++i) results[i] = new_handle(made[i], of.engine);
  });
}

heddle_status heddle_module_apply(const heddle_module* module, heddle_array* argument, heddle_array** result,
                                  heddle_error** error) {
  constexpr const char* kCall = "heddle_module_apply";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    check_out(result, kCall, "result");
    const UsedArray array(argument, kCall);
    check_engine(array.engine(), engine, kCall);
    *result = new_handle((*of.module)(array->array), of.engine);
  });
}

heddle_status heddle_module_summary(heddle_module* module, heddle_array* const* arguments,
                                    size_t argument_count, char** text, heddle_error** error) {
  constexpr const char* kCall = "heddle_module_summary";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine& engine) {
    check_out(text, kCall, "text");
    *text = make_text(summarize(*of.module, arrays_of(engine, arguments, argument_count, kCall)).to_string());
  });
}

heddle_status heddle_module_arrays(const heddle_module* module, int32_t which, heddle_named_array* arrays,
                                   size_t room, size_t* count, heddle_error** error) {
  constexpr const char* kCall = "heddle_module_arrays";
  return with_module(module, error, kCall, [&](const LinkedModule& of, const Engine&) {
    if (room > 0) check_out(arrays, kCall, "arrays");
    check_out(count, kCall, "count");
    if (which != HEDDLE_MODULE_PARAMETERS && which != HEDDLE_MODULE_STATE)
      throw InvalidArgument(std::string(kCall) + ": there is no " + std::to_string(which));
    const std::vector<Parameter> all =
        which == HEDDLE_MODULE_STATE ? of.module->state() : of.module->parameters();
    for (std::size_t i = 0; i < std::min(room, all.size()); ++i)
      arrays[i] = {static_text(all[i].name), new_handle(all[i].value, of.engine)};
    *count = all.size();
  });
}

heddle_status heddle_module_train(heddle_module* module, int32_t on, heddle_error** error) {
  return with_module(module, error, "heddle_module_train",
                     [&](const LinkedModule& of, const Engine&) { of.module->train(on != 0); });
}

heddle_status heddle_module_training(const heddle_module* module, int32_t* on, heddle_error** error) {
  return with_module(module, error, "heddle_module_training", [&](const LinkedModule& of, const Engine&) {
    check_out(on, "heddle_module_training", "on");
    *on = of.module->training() ? 1 : 0;
  });
}

heddle_status heddle_module_to(heddle_module* module, heddle_device device, heddle_error** error) {
  return with_module(module, error, "heddle_module_to", [&](const LinkedModule& of, const Engine&) {
    of.module->to(device_of(device, "heddle_module_to"));
  });
}

heddle_status heddle_module_freeze(heddle_module* module, int32_t on, heddle_error** error) {
  return with_module(module, error, "heddle_module_freeze",
                     [&](const LinkedModule& of, const Engine&) { of.module->freeze(on != 0); });
}

heddle_status heddle_module_text(const heddle_module* module, char** text, heddle_error** error) {
  return with_module(module, error, "heddle_module_text", [&](const LinkedModule& of, const Engine&) {
    check_out(text, "heddle_module_text", "text");
    *text = make_text(of.module->to_string());
  });
}
