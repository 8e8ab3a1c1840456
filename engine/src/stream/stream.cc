#include <utility>

#include <heddle/error.h>
#include <heddle/host_stream.h>
#include <heddle/stream.h>

#include "stream/gpu.h"
#include "stream/stream_work.h"

namespace heddle {
namespace detail {
namespace {

constinit thread_local bool working = false;

}  // namespace

InStreamWork::InStreamWork() noexcept : outer_(std::exchange(working, true)) {}
InStreamWork::~InStreamWork() { working = outer_; }
bool InStreamWork::here() noexcept { return working; }

}  // namespace detail

void Stream::replay(detail::RecordedWork&) {
  throw Error("replay: a stream of " + device().to_string() + " whose back end records no work");
}

const char* name_of(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::copy_in:
      return "copy in";
    case Lane::copy_out:
      return "copy out";
    case Lane::communication:
      return "communication";
  }
  return "no lane";
}

std::unique_ptr<Stream> make_stream(Device device, Lane lane) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return std::make_unique<HostStream>(device, lane);
    case DeviceKind::cuda:
      return detail::make_gpu_stream(device, lane);
    case DeviceKind::cpu_pinned:
      break;
  }
  throw InvalidArgument("make_stream: " + device.to_string() + " is memory; ops run on cpu(i) and gpu(i)");
}

}  // namespace heddle
