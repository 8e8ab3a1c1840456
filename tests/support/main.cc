#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "arguments.h"
#include "fork_with_asan.h"

// Options that ThreadSanitizer's runtime reads. The tests of fork start threads in the child process, which
// ThreadSanitizer allows only with die_after_fork=0.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace heddle::test {
namespace {
int count = 0;
char** values = nullptr;
}  // namespace

long long argument(const char* name, long long otherwise) {
  const std::string prefix = std::string("--") + name + "=";
  for (int i = 1; i < count; ++i) {
    if (std::strncmp(values[i], prefix.c_str(), prefix.size()) == 0) {
      return std::atoll(values[i] + prefix.size());
    }
  }
  return otherwise;
}

}  // namespace heddle::test

// Makes CHECK_THROWS_WITH compare the message of an InvalidArgument without its call site.
REGISTER_EXCEPTION_TRANSLATOR(const heddle::InvalidArgument& error) { return error.message().c_str(); }

int main(int argc, char** argv) {
  heddle::test::count = argc;
  heddle::test::values = argv;
  heddle::test::make_forks_safe_with_asan();
  doctest::Context context(argc, argv);
  return context.run();
}
