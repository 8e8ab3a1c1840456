#include "server/replica/keep_alive.h"

#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include <heddle/engine.h>

namespace heddle::kv_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{20};
constexpr std::uint64_t kLong = 64 << 20;   // work with more bytes is long and runs on another thread
constexpr std::uint64_t kSlowest = 50'000;  // bytes per millisecond; slower work counts as hung
// Time that work may take in addition, however few its bytes.
constexpr std::chrono::milliseconds kPatience{1000};

struct Speaker {
  std::function<void()> say{};
  Clock::time_point next{};
};
thread_local Speaker speaker;

}  // namespace

KeepAliveScope::KeepAliveScope(std::function<void()> say) { speaker = {std::move(say), {}}; }
KeepAliveScope::~KeepAliveScope() { speaker = {}; }

void keep_alive() {
  if (!speaker.say) return;
  const auto now = Clock::now();
  if (now < speaker.next) return;
  speaker.next = now + kPause;
  speaker.say();
}

void run_long(std::uint64_t bytes, const std::function<void()>& work) {
  if (!speaker.say || bytes < kLong) return work();
  Engine& engine = current_engine();
  std::future<void> done;
  try {
    done = std::async(std::launch::async, [&] {
      const EngineScope scope(engine);
      work();
    });
  } catch (const std::system_error&) {  // no thread can be started
    return work();
  }
  const auto end = Clock::now() + kPatience + std::chrono::milliseconds(bytes / kSlowest);
  while (done.wait_for(kPause) != std::future_status::ready) {
    if (Clock::now() < end) keep_alive();
  }
  done.get();
}

}  // namespace heddle::kv_detail
