// The memory of devices: blocks between red zones in one range of addresses a device, filled with a pattern when they
// are allocated and when they are freed. Thread-safe. Compiled without instrumentation, as access.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::emulated_gpu {

constexpr int kMostDevices = 16;
// All bits are set: NaN in every type of floating point, -1 as an integer.
constexpr unsigned char kPoison = 0xff;

// An allocation. `serial` tells apart those that have had the same address.
struct Allocation {
  char* begin = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  std::uint64_t serial = 0;
  const void* pool = nullptr;  // null: cudaMalloc
};

void set_device_memory(std::size_t bytes);  // before the first allocation

// Allocates on a device, null if it is full. The memory of a pool that was freed on the stream is taken first: work
// before may still use it. paint() then has to run in stream order.
Allocation allocate(int device, std::size_t bytes, const void* pool, const void* stream);
// Writes red zones and the pattern. As work of a device. Returns what is wrong with the freed memory that it reuses, ""
// if nothing.
std::string paint(const Allocation& allocation);

// The allocation that begins there and is not being freed. False if there is none.
bool find_live(const void* begin, Allocation& found);
// Marks it as being freed on a stream; from now on find_live does not find it. finish_free() then runs in stream order,
// as work of a device; it returns what it has found wrong, "" if nothing.
void begin_free(const Allocation& allocation, const void* stream);
std::string finish_free(const Allocation& allocation);

bool is_device_memory(const void* address);
int device_of_memory(const void* address);  // -1: of none
// The device of an address range inside one live allocation; -1 if there is none.
int device_of_live(const void* begin, std::size_t bytes);
bool is_of_pool(const void* address);  // whether the allocation there is memory of a pool
// What is wrong with memory that running work uses: it may have been freed since the work was enqueued. "" if nothing is.
std::string check_use(const void* begin, std::size_t bytes);

// What is wrong with the red zones of a device and with what was written to freed memory. As work of a device.
std::vector<std::string> check_blocks(int device);
// What was freed is not looked at any more: work on a device that fails may have written it out of order.
void forget_freed(int device);

std::string describe_address(const char* address);
std::size_t live_bytes_of(int device);
std::size_t used_bytes_of(int device);  // with what pools hold
std::size_t pool_bytes(const void* pool, bool freed_too);
void trim_pool(const void* pool, std::size_t keep);

}  // namespace heddle::emulated_gpu
