#include <typeinfo>

#include <heddle/array_error.h>
#include <heddle/call_site.h>
#include <heddle/check.h>
#include <heddle/gpu_memory.h>
#include <heddle/storage.h>

#include "arrays/out_of_memory.h"

namespace heddle {

namespace {

// A thread-local and no parameter of OutOfMemory: whoever catches the class needs no device.
thread_local constinit Device full_device{};

std::string held_text() {
  if (full_device.kind == DeviceKind::cuda) {
    GpuMemoryStats stats{};
    try {
      stats = gpu_memory_stats(full_device);
    } catch (const Error& error) {
      return std::string("what arrays hold there is not known: ") + error.what();
    }
    return "arrays on " + full_device.to_string() + " hold " + std::to_string(stats.in_use) + " bytes now, " +
           std::to_string(stats.cached) + " are kept for reuse, and " + std::to_string(stats.free) +
           " are free";
  }
  if (full_device.kind == DeviceKind::cpu_pinned) {
    const GpuMemoryStats stats = gpu_memory_stats(full_device);
    return "arrays hold " + std::to_string(stats.in_use) + " bytes of page-locked memory now, and " +
           std::to_string(stats.cached) + " are kept for reuse";
  }
  const AllocatorStats stats = cpu_allocator_stats();
  return "arrays hold " + std::to_string(stats.in_use) + " bytes now, and " + std::to_string(stats.cached) +
         " are kept for reuse";
}

std::string out_of_memory_text(const std::string& asker, std::size_t bytes) {
  const char* op = check::running_op();
  return "out of memory" + (op ? " in op '" + std::string(op) + "': " : std::string(": ")) + asker +
         " asks for " + std::to_string(bytes) + " bytes; " + held_text();
}

}  // namespace

OutOfMemory::OutOfMemory(const std::string& asker, std::size_t bytes)
    : text_(with_call_site(out_of_memory_text(asker, bytes))), bytes_(bytes) {}

namespace ndarray_detail {

NoMemoryOn::NoMemoryOn(Device device) { full_device = device; }
NoMemoryOn::~NoMemoryOn() { full_device = {}; }

void refuse_undefined(const char* name) {
  throw InvalidArgument(
      std::string(name) +
      ": an array is undefined: made without a shape, moved from, or a gradient before backward()");
}

void rename_error(const char* name, const InvalidArgument& error) {
  const std::string text = error.message();
  // A message about an environment variable is not about this function: the first call that needs an engine reads the
  // variables.
  if (text.starts_with("HEDDLE_")) throw;
  const std::size_t end = text.find(": ");
  const std::string renamed = name + (end == std::string::npos ? ": " + text : text.substr(end));
  if (dynamic_cast<const InvalidIndex*>(&error)) throw InvalidIndex(renamed);
  throw InvalidArgument(renamed);
}

void rethrow_file_error(const char* name, const Error& error) {
  const auto* const argument = dynamic_cast<const InvalidArgument*>(&error);
  if (typeid(error) != typeid(Error) && typeid(error) != typeid(InvalidArgument)) throw;
  // An error with another call site comes from an op that computes an array to be saved, and keeps its
  // message.
  const std::string bare = without_call_site(error.what());
  const bool elsewhere = bare != error.what() && with_call_site(bare) != error.what();
  if (argument ? argument->where().line() != CallSite::of_error().line() : elsewhere) throw;
  std::string text = argument ? argument->message() : bare;
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const bool names_function = end != std::string::npos && end > 0 && text.compare(end, 2, ": ") == 0;
  text = name + (names_function ? text.substr(end) : ": " + text);
  if (argument) throw InvalidArgument(text);
  throw Error(with_call_site(text));
}

}  // namespace ndarray_detail
}  // namespace heddle
