#include "runtime/call.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <pthread.h>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "emulated_gpu.h"
#include "runtime/access.h"
#include "runtime/memory.h"
#include "runtime/runtime.h"

namespace heddle::emulated_gpu {
namespace {

std::atomic<std::uint64_t> call_count{0}, query_count{0}, wait_count{0};
std::atomic<int> device_errors[kMostDevices];
std::atomic<int> working[kMostDevices];
std::atomic<unsigned> context_mask{0};
std::atomic<bool> forked{false};  // since the first call: this process cannot use CUDA
std::atomic<std::uint64_t> failure_count{0}, last_failure[kMostDevices];

constinit thread_local int device_of_thread = 0;
constinit thread_local cudaError_t last_error = cudaSuccess;
constinit thread_local bool in_host_function = false;

std::mutex injection_mutex;  // guards the next six; nothing else is locked while it is held
std::uint64_t fail_in = 0;   // so many calls of fail_among from now; 0: none
Calls fail_among = Calls::all;
cudaError_t fail_with = cudaSuccess;
bool fail_sticky = false;
std::string failed_name;
std::atomic<bool> injecting{false};

std::mutex problem_mutex;  // guards problems; nothing else is locked while it is held
std::vector<std::string> problems;

void mark_failed(int device, cudaError_t error) noexcept {
  int none = cudaSuccess;
  last_failure[device] = ++failure_count;
  device_errors[device].compare_exchange_strong(none, error);
}

// Waits until a device that has failed does nothing any more.
void await_rest(int device) noexcept {
  while (working[device] > 0) std::this_thread::yield();
}

bool asks_for_event(const char* name) { return std::strcmp(name, "cudaEventQuery") == 0; }

cudaError_t injected(const char* name) {
  const std::lock_guard guard(injection_mutex);
  const bool is_query = asks_for_event(name);
  if (fail_among != Calls::all && is_query != (fail_among == Calls::event_queries)) return cudaSuccess;
  if (fail_in == 0 || --fail_in > 0) return cudaSuccess;
  injecting = false;
  failed_name = name;
  if (fail_sticky) {
    mark_failed(device_of_thread, fail_with);
    await_rest(device_of_thread);
  }
  return fail_with;
}

// Calls that need no context on the thread's current device. The first ones ask the driver, the last two name the device.
bool needs_no_context(const char* name) {
  static constexpr const char* all[] = {"cudaGetDeviceCount",
                                        "cudaGetDevice",
                                        "cudaDriverGetVersion",
                                        "cudaRuntimeGetVersion",
                                        "cudaGetDeviceProperties",
                                        "cudaDeviceGetAttribute",
                                        "cudaDeviceGetPCIBusId",
                                        "cudaDeviceCanAccessPeer",
                                        "cudaDeviceGetDefaultMemPool",
                                        "cudaGetDriverEntryPoint",
                                        "cudaThreadExchangeStreamCaptureMode",
                                        "cudaSetDevice",
                                        "cudaInitDevice"};
  return std::any_of(std::begin(all), std::end(all),
                     [name](const char* one) { return std::strcmp(one, name) == 0; });
}

std::uint64_t number_in(const std::string& text, const std::string& whole) {
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0) {
    std::fprintf(stderr, "HEDDLE_EMULATED_GPU=%s: '%s' is no number\n", whole.c_str(), text.c_str());
    std::abort();
  }
  return number;
}

Settings from_environment() {
  Settings settings;
  const char* value = std::getenv("HEDDLE_EMULATED_GPU");
  if (!value) return settings;
  std::istringstream words(value);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equal = word.find('=');
    const std::string key = word.substr(0, equal),
                      text = equal == std::string::npos ? "" : word.substr(equal + 1);
    const std::size_t colon = text.find(':');
    const std::uint64_t number = number_in(text.substr(0, colon), value);
    if (key == "seed")
      settings.seed = number;
    else if (key == "delay")
      settings.delay = static_cast<int>(number);
    else if (key == "stepped")
      settings.stepped = number != 0;
    else if (key == "protect")
      settings.protect = number != 0;
    else if (key == "devices")
      settings.devices = static_cast<int>(std::min<std::uint64_t>(number, kMostDevices));
    else if (key == "memory_mb")
      settings.memory = number << 20;
    else if (key == "host_threads")
      settings.host_threads = static_cast<int>(number);
    else if (key == "queue")
      settings.queue = static_cast<int>(number);
    else if (key == "fail" && colon != std::string::npos)
      fail_call(number, static_cast<cudaError_t>(number_in(text.substr(colon + 1), value)));
    else {
      std::fprintf(stderr, "HEDDLE_EMULATED_GPU=%s: '%s' is not known\n", value, word.c_str());
      std::abort();
    }
  }
  return settings;
}

}  // namespace

Runtime& runtime() {
  // Never destroyed: streams have threads that may run until the process ends.
  static Runtime& only = *[] {
    auto* made = new Runtime;
    made->settings = from_environment();
    made->step_random = made->settings.seed;
    set_device_memory(made->settings.memory);
    protect_devices(made->settings.protect);
    catch_faults();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    return made;
  }();
  return only;
}

cudaError_t begin_call(const char* name) noexcept {
  runtime();
  if (in_host_function) return cudaErrorNotPermitted;
  ++call_count;
  if (asks_for_event(name)) ++query_count;
  if (forked) return cudaErrorInitializationError;
  if (!needs_no_context(name)) make_context(device_of_thread);
  return injecting ? injected(name) : cudaSuccess;
}

cudaError_t end_call(cudaError_t status) noexcept {
  if (status != cudaSuccess) last_error = status;
  return status;
}

void count_host_wait() noexcept { ++wait_count; }

int current_device_even_if_failed() noexcept { return device_of_thread; }

int current_device() {
  check_device_index(device_of_thread);
  check_device(device_of_thread);
  return device_of_thread;
}

void set_current_device(int device) { device_of_thread = device; }

void make_context(int device) noexcept {
  if (device < runtime().settings.devices) context_mask |= 1u << device;
}
unsigned contexts() { return context_mask; }

void check_device(int device) {
  const int error = device_errors[device];
  if (error == cudaSuccess) return;
  await_rest(device);
  throw Failure{static_cast<cudaError_t>(error)};
}

void check_device_index(int device) {
  const int devices = runtime().settings.devices;
  require(devices > 0, cudaErrorNoDevice);
  require(device >= 0 && device < devices, cudaErrorInvalidDevice);
}

bool has_failed(int device) noexcept { return device_errors[device] != cudaSuccess; }

void fail_device(int device, cudaError_t error, const char* text) {
  std::fprintf(stderr, "emulated GPU: gpu(%d): %s\n", device, text);
  {
    const std::lock_guard guard(problem_mutex);
    problems.push_back("gpu(" + std::to_string(device) + "): " + text);
  }
  mark_failed(device, error);
}

std::uint64_t failures() noexcept { return failure_count; }
bool has_failed_since(int device, std::uint64_t failures) noexcept {
  return has_failed(device) || last_failure[device] > failures;
}

Working::Working(int device) noexcept : device_(device) { ++working[device]; }
Working::~Working() { --working[device_]; }

InHostFunction::InHostFunction() noexcept { in_host_function = true; }
InHostFunction::~InHostFunction() { in_host_function = false; }

std::uint64_t calls(Calls among) {
  const std::uint64_t queries = query_count;
  return among == Calls::event_queries ? queries : call_count - (among == Calls::others ? queries : 0);
}
std::uint64_t graph_launches() {
  const std::lock_guard guard(runtime().mutex);
  return runtime().graph_launches;
}
std::uint64_t host_waits() { return wait_count; }

void fail_call(std::uint64_t k, cudaError_t error, bool sticky, Calls among) {
  const std::lock_guard guard(injection_mutex);
  fail_in = k;
  fail_among = among;
  fail_with = error;
  fail_sticky = sticky;
  failed_name.clear();
  injecting = k != 0;
}

std::string failed_call() {
  const std::lock_guard guard(injection_mutex);
  return failed_name;
}

std::vector<std::string> take_problems() {
  const std::lock_guard guard(problem_mutex);
  return std::exchange(problems, {});
}

void revive(int device) {
  if (has_failed(device)) {
    await_device(device);  // its work does nothing as long as it has failed
    forget_freed(device);
  }
  device_errors[device] = cudaSuccess;
}

Settings settings() {
  const std::lock_guard guard(runtime().mutex);
  return runtime().settings;
}

void configure(const Settings& settings) {
  Runtime& all = runtime();
  const std::scoped_lock guard(all.step_mutex, all.mutex);
  all.settings = settings;
  all.step_random = settings.seed;
  set_device_memory(settings.memory);
  protect_devices(settings.protect);
}

void run_as_device(void (*fn)(void*), void* data) {
  const DeviceAccess access;
  fn(data);
}

}  // namespace heddle::emulated_gpu

using namespace heddle::emulated_gpu;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

}  // extern "C"
