#include "fork_with_asan.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace heddle::test {

#ifdef __SANITIZE_ADDRESS__
namespace {

// Whether all threads of this process except the calling one are in an interruptible sleep.
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

void await_sleep_of_others() {
  constexpr auto kLimit = std::chrono::seconds(10);
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!(others_sleep() && others_sleep()) && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

}  // namespace

void make_forks_safe_with_asan() { pthread_atfork(await_sleep_of_others, nullptr, nullptr); }
#else
void make_forks_safe_with_asan() {}
#endif

}  // namespace heddle::test
