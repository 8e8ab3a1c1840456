#include <heddle/c/operator.h>
#include <heddle/default_engine.h>
#include <heddle/operator_registry.h>

#include "operator_description.h"
#include "value.h"

using namespace heddle;
using namespace heddle::c;

namespace {

OperatorValues call_on(heddle_engine* engine, const OperatorInfo& op, Arguments& arguments,
                       const CallArguments& values) {
  const std::shared_ptr<Engine> on = arguments.engine(engine);
  const EngineScope scope(*on);
  return call_operator(op, values.first, values.named);
}

}  // namespace

heddle_status heddle_operator_count(size_t* count) {
  return called(nullptr, [&] {
    check_out(count, "heddle_operator_count", "count");
    *count = operators().size();
  });
}

heddle_status heddle_operator_at(size_t index, const heddle_operator** op, heddle_error** error) {
  return called(error, [&] {
    check_out(op, "heddle_operator_at", "op");
    if (index >= operators().size())
      throw InvalidArgument("heddle_operator_at: index " + std::to_string(index) + " of " +
                            std::to_string(operators().size()) + " operators");
    *op = handle_of(operators()[index]);
  });
}

heddle_status heddle_operator_find(const char* name, const heddle_operator** op, heddle_error** error) {
  return called(error, [&] {
    const std::string wanted = text_of(name, "heddle_operator_find", "name");
    check_out(op, "heddle_operator_find", "op");
    const OperatorInfo* found = find_operator(wanted);
    if (!found) throw InvalidArgument("heddle_operator_find: there is no operator '" + wanted + "'");
    *op = handle_of(*found);
  });
}

heddle_status heddle_operator_describe(const heddle_operator* op, heddle_operator_info* info,
                                       heddle_error** error) {
  return called(error, [&] {
    const std::size_t index = index_of(op, "heddle_operator_describe");
    check_struct(info, "heddle_operator_describe", "heddle_operator_info");
    *info = description_of(index).info();
  });
}

heddle_status heddle_operator_argument(const heddle_operator* op, size_t index, heddle_argument_info* info,
                                       heddle_error** error) {
  return called(error, [&] {
    const OperatorDescription& described = description_of(index_of(op, "heddle_operator_argument"));
    check_struct(info, "heddle_operator_argument", "heddle_argument_info");
    *info = described.argument(index, "heddle_operator_argument");
  });
}

heddle_status heddle_operator_call(const heddle_operator* op, const heddle_value* values, size_t value_count,
                                   const heddle_named_value* named, size_t named_count, heddle_engine* engine,
                                   heddle_value* results, size_t room, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_operator_call";
    const OperatorInfo& info = operators()[index_of(op, kCall)];
    if (room < info.results.size())
      throw InvalidArgument(std::string(kCall) + ": room for " + std::to_string(room) + " results, '" +
                            info.name + "' has " + std::to_string(info.results.size()));
    if (!results && !info.results.empty()) throw_null(kCall, "results");
    Arguments arguments(kCall);
    const OperatorValues made =
        call_on(engine, info, arguments,
                arguments_of(info, values, value_count, named, named_count, arguments, kCall));
    give_results(made, EngineLink(arguments.engine(engine)), results);
  });
}

heddle_status heddle_array_list_destroy(heddle_array* const* list) {
  return guarded(nullptr, [&] { delete[] list; });
}

heddle_status heddle_operator_apply(const heddle_operator* op, const heddle_value* values, size_t value_count,
                                    const heddle_named_value* named, size_t named_count,
                                    heddle_engine* engine, heddle_array** result, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_operator_apply";
    const OperatorInfo& info = operators()[index_of(op, kCall)];
    check_out(result, kCall, "result");
    if (info.results.size() != 1 || info.results[0] != ArgumentKind::array)
      throw InvalidArgument(std::string(kCall) + ": the result of '" + info.name + "' is no array");
    Arguments arguments(kCall);
    const OperatorValues made =
        call_on(engine, info, arguments,
                arguments_of(info, values, value_count, named, named_count, arguments, kCall));
    *result = new_handle(std::get<NDArray>(made.at(0)), EngineLink(arguments.engine(engine)));
  });
}

heddle_status heddle_operator_apply_into(const heddle_operator* op, const heddle_value* values,
                                         size_t value_count, const heddle_named_value* named,
                                         size_t named_count, heddle_array* out, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_operator_apply_into";
    const OperatorInfo& info = operators()[index_of(op, kCall)];
    Arguments arguments(kCall);
    const NDArray target = arguments.array_of(out);
    const CallArguments all = arguments_of(info, values, value_count, named, named_count, arguments, kCall);
    const std::shared_ptr<Engine> on = arguments.engine(nullptr);
    const EngineScope scope(*on);
    call_operator_into(info, all.first, all.named, target);
  });
}
