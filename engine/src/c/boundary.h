// Turns exceptions into statuses and error objects, and those into exceptions.
#pragma once

#include <bit>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include <heddle/error.h>

#include "c/handles.h"
#include "op/failure.h"

namespace heddle::c {

// The contents of an error object.
struct ErrorData {
  ErrorData() = default;
  ~ErrorData();
  ErrorData(const ErrorData&) = delete;
  ErrorData& operator=(const ErrorData&) = delete;

  heddle_status code = HEDDLE_FAILED;
  std::string message, op, file;
  std::uint32_t line = 0;
  std::vector<std::string> skipped;
  std::vector<const char*> skipped_texts;  // pointers to the texts of `skipped`
  std::vector<heddle_error*> causes;       // owned error handles
};
using ErrorPtr = std::shared_ptr<const ErrorData>;

// An error returned by a C function, thrown through the engine.
class CError : public Error {
 public:
  explicit CError(ErrorPtr data) : Error(data->message), data_(std::move(data)) {}
  const ErrorPtr& data() const { return data_; }

 private:
  ErrorPtr data_;
};

ErrorPtr error_of(std::exception_ptr exception);
ErrorPtr error_of(const ErrorReport& report);  // includes the failed op and the ops skipped because of it
[[noreturn]] void throw_error(heddle_status code, const std::string& message);

// Throws if the result of a C function is a failure. Takes over `error`, which the function has set. `error`
// is a reference, since the function's call may stand in the same expression, where a value could be read
// before the call.
void throw_if_failed(heddle_status status, heddle_error* const& error, const char* what);

// Stores a new handle on the error unless `error` is null; returns the error's code. Out of memory, it stores
// a static error.
heddle_status give(ErrorPtr data, heddle_error** error) noexcept;
heddle_status give_current(heddle_error** error) noexcept;  // gives the exception that is being handled
bool is_static(const heddle_error* error);                  // whether the error is static, so never freed

// Runs the body of a C call, which may throw; returns the status for it.
template <class Body> heddle_status guarded(heddle_error** error, Body&& body) noexcept {
  if (error) *error = nullptr;
  try {
    body();
    return HEDDLE_OK;
  } catch (...) {
    return give_current(error);
  }
}

template <class T> void check_out(T* out, const char* call, const char* argument) {
  if (!out) throw_null(call, argument);
}

[[noreturn]] void throw_wrong_size(const char* call, const char* type, std::size_t got, std::size_t want);
// Throws if the struct is null or was made for another version. `type` is the name of its type in C.
template <class Struct> void check_struct(const Struct* options, const char* call, const char* type) {
  if (!options) [[unlikely]]
    throw_null(call, type);
  if (options->struct_size != sizeof(Struct)) [[unlikely]]
    throw_wrong_size(call, type, options->struct_size, sizeof(Struct));
}

// Copies a text into memory that the caller frees.
char* make_text(const std::string& text);

// Calls destroy(ctx) once, in its destructor.
class Owned {
 public:
  Owned(void* ctx, heddle_destroy_fn destroy) : ctx_(ctx), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : ctx_(other.ctx_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (destroy_) destroy_(ctx_);
  }
  void* ctx() const { return ctx_; }

 private:
  void* ctx_;
  heddle_destroy_fn destroy_;
};

// A std::source_location of libstdc++ is a pointer to a struct with the layout of heddle_site.
inline std::source_location location_of(const heddle_site* site) {
  static_assert(sizeof(std::source_location) == sizeof(void*) &&
                sizeof(heddle_site) == 2 * sizeof(void*) + 8);
  return std::bit_cast<std::source_location>(site);
}

}  // namespace heddle::c
