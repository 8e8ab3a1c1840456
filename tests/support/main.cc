#define DOCTEST_CONFIG_IMPLEMENT
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "arguments.h"

// Read by ThreadSanitizer's runtime, in builds with it: the tests of fork start threads in the child, which it allows
// only when told so.
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

#ifdef __SANITIZE_ADDRESS__
namespace {

// Whether no other thread of this process runs, or waits for the disk.
bool others_sleep() {
  const std::string self = std::to_string(gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == self) continue;
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    const std::size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] != 'S') return false;
  }
  return true;
}

// AddressSanitizer's allocator takes no care of forks: what another thread has locked at that moment stays locked in the child,
// which hangs. So a fork waits until the other threads, which have just begun or ended something, sleep; those that never do
// are waited for no longer than kLimit.
void await_sleep_of_others() {
  constexpr auto kLimit = std::chrono::milliseconds(500);
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!(others_sleep() && others_sleep()) && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

}  // namespace
#endif

}  // namespace heddle::test

// CHECK_THROWS_WITH compares messages without the place of the call.
REGISTER_EXCEPTION_TRANSLATOR(const heddle::InvalidArgument& error) { return error.message().c_str(); }

int main(int argc, char** argv) {
  heddle::test::count = argc;
  heddle::test::values = argv;
#ifdef __SANITIZE_ADDRESS__
  pthread_atfork(heddle::test::await_sleep_of_others, nullptr, nullptr);
#endif
  doctest::Context context(argc, argv);
  return context.run();
}
