#include "c/boundary.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <typeinfo>

#include <heddle/check.h>

namespace heddle::c {
namespace {

bool is_one(const char* value) { return value && std::string_view(value) == "1"; }

}  // namespace

const bool checked = is_one(std::getenv("HEDDLE_CHECK"));

namespace {

heddle_status status_of(const std::exception& error) {
  if (dynamic_cast<const BadHandle*>(&error)) return HEDDLE_BAD_HANDLE;
  if (dynamic_cast<const InvalidArgument*>(&error)) return HEDDLE_INVALID_ARGUMENT;
  if (const auto* cancelled = dynamic_cast<const Cancelled*>(&error))
    return cancelled->why() == Cancelled::Why::cancelled ? HEDDLE_CANCELLED : HEDDLE_OVERDUE;
  if (dynamic_cast<const DroppedCompletion*>(&error)) return HEDDLE_DROPPED;
  if (dynamic_cast<const WouldDeadlock*>(&error)) return HEDDLE_WOULD_DEADLOCK;
  if (dynamic_cast<const AggregateError*>(&error)) return HEDDLE_SEVERAL;
  if (dynamic_cast<const UndeclaredAccess*>(&error)) return HEDDLE_UNDECLARED_ACCESS;
  if (dynamic_cast<const std::bad_alloc*>(&error)) return HEDDLE_OUT_OF_MEMORY;
  return abi_extension() ? abi_extension()->status_of(error) : HEDDLE_FAILED;
}

void set_location(ErrorData& data, const std::source_location& where) {
  data.file = where.file_name();
  data.line = where.line();
}

ErrorPtr describe_exception(const std::exception& error) {
  auto data = std::make_shared<ErrorData>();
  data->code = status_of(error);
  const bool has_place = data->code == HEDDLE_OUT_OF_MEMORY || typeid(error) == typeid(Error);
  data->message = has_place ? without_call_site(error.what()) : error.what();
  if (const auto* argument = dynamic_cast<const InvalidArgument*>(&error)) {
    data->message = argument->message();
    set_location(*data, argument->where());
  }
  if (const auto* several = dynamic_cast<const AggregateError*>(&error)) {
    data->causes.reserve(several->reports().size());
    for (const ErrorReport& report : several->reports())
      data->causes.push_back(make_handle<heddle_error>(error_of(report)));
  }
  try {
    std::rethrow_if_nested(error);
  } catch (...) {
    data->causes.push_back(nullptr);
    data->causes.back() = make_handle<heddle_error>(error_of(std::current_exception()));
  }
  return data;
}

ErrorPtr static_data() {
  static const ErrorPtr& data = *new ErrorPtr([] {
    auto made = std::make_shared<ErrorData>();
    made->code = HEDDLE_OUT_OF_MEMORY;
    made->message = "there is no memory for an error object";
    return made;
  }());
  return data;
}

heddle_error& static_error() {
  static heddle_error& immortal = *[] {
    auto* error = new heddle_error(static_data());
    if (checked) registry::add(error, Kind::error);
    return error;
  }();
  return immortal;
}
// The static error is made at load time, while memory is available.
[[maybe_unused]] const heddle_error& made_early = static_error();

}  // namespace

// Destroys the causes in a loop, not recursively, since a chain of them may be longer than a thread's stack
// has room for.
ErrorData::~ErrorData() {
  static thread_local std::vector<heddle_error*>* left = nullptr;
  if (left) left->insert(left->end(), causes.begin(), causes.end());
  if (left || causes.empty()) return;
  left = &causes;
  while (!causes.empty()) {
    heddle_error* const cause = causes.back();
    causes.pop_back();
    try {
      if (cause) take(cause, "");
    } catch (const BadHandle&) {  // the program has destroyed a cause that it did not own
    }
  }
  left = nullptr;
}

ErrorPtr error_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const CError& error) {
    return error.data();
  } catch (const std::exception& error) {
    return describe_exception(error);
  } catch (...) {
    auto data = std::make_shared<ErrorData>();
    data->message = ErrorReport{exception, {}, {}, {}}.message();
    return data;
  }
}

ErrorPtr error_of(const ErrorReport& report) {
  const ErrorPtr root = error_of(report.exception);
  auto data = std::make_shared<ErrorData>();
  data->code = root->code;
  data->message = root->message;
  data->op = report.op;
  set_location(*data, report.where);
  data->skipped = report.path;
  for (const std::string& step : data->skipped) data->skipped_texts.push_back(step.c_str());
  if (!root->op.empty()) {  // the op failed with the error of another op
    data->causes.push_back(nullptr);
    data->causes.back() = make_handle<heddle_error>(root);
    return data;
  }
  data->causes.reserve(root->causes.size());
  for (const heddle_error* cause : root->causes)
    data->causes.push_back(make_handle<heddle_error>(cause->value));
  return data;
}

void throw_error(heddle_status code, const std::string& message) {
  auto data = std::make_shared<ErrorData>();
  data->code = code;
  data->message = message;
  throw CError(std::move(data));
}

void throw_if_failed(heddle_status status, heddle_error* const& error, const char* what) {
  if (error) {
    const std::unique_ptr<heddle_error, void (*)(heddle_error*)> owned(
        error, [](heddle_error* taken) { heddle_error_destroy(taken); });
    if (status != HEDDLE_OK) throw CError(*HandleAccess<heddle_error>(error, what));
  }
  if (status == HEDDLE_OK) return;
  throw_error(status, std::string(what) + " returned status " + std::to_string(status) + " without an error");
}

bool is_static(const heddle_error* error) { return error == &static_error(); }

heddle_status give(ErrorPtr data, heddle_error** error) noexcept {
  const heddle_status code = data->code;
  if (!error) return code;
  try {
    *error = make_handle<heddle_error>(std::move(data));
    return code;
  } catch (const std::bad_alloc&) {
    *error = &static_error();
    return HEDDLE_OUT_OF_MEMORY;
  }
}

heddle_status give_current(heddle_error** error) noexcept {
  try {
    return give(error_of(std::current_exception()), error);
  } catch (...) {
    if (error) *error = &static_error();
    return HEDDLE_OUT_OF_MEMORY;
  }
}

void throw_null(const char* call, const char* argument) {
  throw InvalidArgument(std::string(call) + ": " + argument + " is a null pointer");
}

void throw_wrong_kind(const char* call, Kind want, Kind got) {
  throw BadHandle(std::string(call) + ": got " + name_of(got) + ", want " + name_of(want));
}

void throw_wrong_size(const char* call, const char* type, std::size_t got, std::size_t want) {
  throw InvalidArgument(std::string(call) + ": struct_size of " + type + " is " + std::to_string(got) +
                        ", want sizeof(" + type + "), which is " + std::to_string(want) + " in this library");
}

char* make_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  if (checked) registry::add(copy, Kind::text);
  return copy;
}

}  // namespace heddle::c
