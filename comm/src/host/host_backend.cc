#include "host/host_backend.h"

#include <algorithm>

namespace heddle::comm_detail {

HostBackend::HostBackend(std::string name, int rank, int size, std::uint32_t epoch,
                         std::shared_ptr<HostMemory> memory, std::unique_ptr<Liveness> liveness,
                         const BackendOptions& options)
    : name_(std::move(name)),
      options_(options),
      memory_(std::move(memory)),
      group_(Segment(memory_->segment(), size), rank, options.timeout, std::move(liveness)),
      direct_(group_, *memory_),
      pipes_(group_),
      messages_(pipes_, options.reproducible, false),
      numbers_(size, epoch, options.algorithm),
      control_channel_(group_, options.timeout),
      survivors_(control_channel_, options.timeout, epoch + 1),
      control_thread_([this] { run_heartbeat(); }) {}

HostBackend::~HostBackend() {
  {
    std::lock_guard guard(mutex_);
    closing_ = true;
  }
  closes_.notify_one();
  control_thread_.join();
}

// The heartbeat comes from a thread of its own, so that a rank that computes can be told from one that is stopped.
void HostBackend::run_heartbeat() {
  const auto pause = std::clamp<std::chrono::milliseconds>(
      options_.timeout / 20, std::chrono::milliseconds(1), std::chrono::milliseconds(100));
  std::unique_lock lock(mutex_);
  while (!closes_.wait_for(lock, pause, [this] { return closing_; })) group_.heartbeat();
}

void HostBackend::run(Collective& call) {
  numbers_.number(call.record);
  group_.record(call.record);
  try {
    dispatch(call);
  } catch (const RemoteFailure&) {
    group_.record_end(call.record, true);
    if (!call.record.failed) throw;
    return;
  } catch (const std::exception& error) {
    group_.record_end(call.record, true);
    if (!group_.has_fault())
      abort("rank " + std::to_string(rank()) + " failed in " + call.record.to_string() + ": " + error.what());
    throw;
  }
  group_.record_end(call.record, call.record.failed);
}

void HostBackend::dispatch(Collective& call) {
  const Kind kind = call.record.kind;
  const bool direct =
      call.record.algorithm == Algorithm::automatic || call.record.algorithm == Algorithm::direct;
  if (!is_point_to_point(kind) && kind != Kind::all_to_all && direct) return direct_.run(call);
  // The ranks first compare their calls: the messages of an algorithm would not reveal that two ranks both
  // believe to be the root.
  if (!is_point_to_point(kind)) direct_.agree(call);
  std::vector<std::byte> unwanted;
  // This rank has no data, since its op failed, but its peers still send theirs, which go to scratch memory.
  if (call.record.failed) {
    unwanted.resize(call.bytes());
    call.in = call.out = unwanted.data();
  }
  messages_.run(call);
}

}  // namespace heddle::comm_detail
