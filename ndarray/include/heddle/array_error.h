// Errors of arrays and their messages: the message of a refused call starts with the name of the called function and ":
// ".
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

#include <heddle/error.h>

namespace heddle {

// Thrown if memory for an array or a kernel is missing. what() names the op (if one runs), dtype and shape, the bytes
// asked for and the bytes that arrays hold. It is a std::bad_alloc, so that code which does not know Heddle can handle
// it.
class OutOfMemory : public std::bad_alloc {
 public:
  // `asker` names what needs the memory: "an array of f32 (2, 3)".
  OutOfMemory(const std::string& asker, std::size_t bytes);
  const char* what() const noexcept override { return text_.what(); }
  std::size_t bytes() const { return bytes_; }  // the bytes asked for

 private:
  std::runtime_error text_;  // a runtime_error, since copying one does not throw
  std::size_t bytes_;
};

// Thrown for keys of x[...] and x(...) that do not fit the array; an op throws it for an index out of range.
class InvalidIndex : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

namespace ndarray_detail {

// Throws InvalidArgument "NAME: an array is undefined: ...", as every function and member does for such an array.
[[noreturn]] void refuse_undefined(const char* name);

// Rethrows the error that is being handled, with `name` in place of the function that its message names. A
// message that begins with the name of an environment variable is left unchanged.
[[noreturn]] void rename_error(const char* name, const InvalidArgument& error);

// Returns call(). If that throws InvalidArgument, `name` replaces the function that the message names.
template <class Call> decltype(auto) in_name_of(const char* name, Call&& call) {
  try {
    return call();
  } catch (const InvalidArgument& error) {
    rename_error(name, error);
  }
}

// Rethrows the error that is being handled, with the name of the called function before its message and the
// call site behind it. Errors of derived types are rethrown unchanged.
[[noreturn]] void rethrow_file_error(const char* name, const Error& error);

// Returns call(), which reads or writes a file: "load_npy: file 'x.npy' is cut short; called at train.cc:12". Of nested
// calls the outermost is named.
template <class Call> decltype(auto) in_file_call(const char* name, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    rethrow_file_error(name, error);
  }
}

}  // namespace ndarray_detail
}  // namespace heddle
