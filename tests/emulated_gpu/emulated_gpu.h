// Tests' control over the emulated GPU: a CUDA runtime made of host threads. docs/gpu.md describes it. The environment
// variable HEDDLE_EMULATED_GPU sets the same at the start: "seed=3,stepped=1,delay=20,devices=8,memory_mb=4096,
// protect=1,host_threads=1,queue=0,fail=17:2" (fail: the number of a call, and its cudaError_t).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace heddle::emulated_gpu {

struct Settings {
  // Orders the steps of streams, blocks, warps, threads and the nodes of graphs. 0: the natural orders.
  std::uint64_t seed = 0;
  int delay = 0;         // HostStreamOptions::most_delay of streams
  bool stepped = false;  // true: streams have no threads; work is done while the host waits or asks
  bool protect = true;   // memory of devices is inaccessible while no device works
  int devices = 8;
  std::size_t memory = std::size_t{4} << 30;  // bytes of a device
  int host_threads = 1;                       // that run the blocks of one grid
  // Copies, fills, allocations and functions of the host that a stream takes before the calls that enqueue more wait, as CUDA's
  // calls do when a stream's queue is full. 0: any number.
  int queue = 0;
};

Settings settings();
// For streams made from now on; `devices` and `memory` only before the first call of CUDA.
void configure(const Settings& settings);

// Which calls of CUDA. How often a program asks for events depends on time.
enum class Calls { all, event_queries, others };
// CUDA calls of the process so far, but cudaGetLastError and the texts of errors.
std::uint64_t calls(Calls among = Calls::all);
std::uint64_t graph_launches();  // calls of cudaGraphLaunch that CUDA would have taken
// How often the host has made a call that waits for a device: synchronisations, copies with pageable memory,
// cudaFree. Since the start of the process.
std::uint64_t host_waits();

// A bit for each device on which the process has a context. The first call of a thread that needs one makes it on the thread's
// current device; cudaSetDevice makes it on the device that becomes current.
unsigned contexts();
int waiting_for_room();  // calls that wait now since a queue is full

// The k-th call from now on (1: the next) fails with that error, and has no effect, except that it releases what it is
// called to release. sticky: the current device then fails for good. `among`: which calls are counted for that. 0 turns it
// off.
void fail_call(std::uint64_t k, cudaError_t error, bool sticky = false, Calls among = Calls::all);
std::string failed_call();  // the name of the call that failed so; "" if none has yet

// What was found since the last call: kernels that failed, red zones overwritten, freed memory used ... Each is also
// printed, and makes its device fail with a sticky error.
std::vector<std::string> take_problems();

// Looks at the red zones of all memory, and at freed memory, as synchronisations do.
void check_memory();

bool has_failed(int device) noexcept;  // has a sticky error

// Ends the sticky error of a device, which a process on a real GPU cannot do.
void revive(int device);

std::size_t live_bytes(int device);  // bytes that are allocated and not freed
std::size_t live_objects();          // streams, events, graphs and pools that are not destroyed

// What functions of cuBLASLt return, if it is not 0: cublasLtCreate, cublasLtMatmulAlgoGetHeuristic.
inline std::atomic<int> cublaslt_create_status{0}, cublaslt_heuristic_status{0};

// Runs fn as work of a device: it may use the device's memory. For replacements of libraries, such as NCCL.
void run_as_device(void (*fn)(void*), void* data);

}  // namespace heddle::emulated_gpu
