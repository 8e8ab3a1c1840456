#include "stream/issuer.h"

#include <algorithm>

#include "stream/gpu.h"
#include "stream/poller.h"

namespace heddle::detail {
namespace {

// The fences of what is read, each once: an op may read many vars that one fence has written.
std::vector<Fence> read_fences(const std::vector<Dependency>& reads) {
  std::vector<Fence> fences;
  for (const Dependency& read : reads) fences.push_back(read.fence);
  std::sort(fences.begin(), fences.end());
  fences.erase(std::unique(fences.begin(), fences.end()), fences.end());
  return fences;
}

}  // namespace

bool Issuer::can_wait_for(const std::vector<Dependency>& after) const {
  return std::all_of(after.begin(), after.end(), [this](const Dependency& dependency) {
    const FenceState& fence = *dependency.fence;
    return fence.done() || fence.stream() == stream_.get() || stream_->can_wait_for(*fence.stream());
  });
}

// The fences for which this stream has to wait. Streams are in order: one wait for each other stream is enough, and
// none for a fence that is older than one waited for before.
std::vector<Fence> Issuer::newest_elsewhere(const std::vector<Dependency>& after) {
  std::vector<Fence> newest;
  for (const Dependency& dependency : after) {
    const Fence& fence = dependency.fence;
    if (fence->stream() == stream_.get() || fence->done()) continue;
    auto on_its_stream = [&fence](const auto& waited) { return waited.first == fence->stream(); };
    auto waited = std::find_if(waited_.begin(), waited_.end(), on_its_stream);
    if (waited == waited_.end()) waited = waited_.insert(waited, {fence->stream(), 0});
    if (fence->ticket() <= waited->second) continue;
    waited->second = fence->ticket();
    std::erase_if(newest, [&fence](const Fence& older) { return older->stream() == fence->stream(); });
    newest.push_back(fence);
  }
  return newest;
}

std::exception_ptr Issuer::enqueue(const std::vector<Fence>& waits,
                                   const std::function<void(Stream&)>& body) {
  std::exception_ptr error;
  auto attempt = [&error](auto step) {
    try {
      step();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  attempt([&] { stream_->begin(); });
  // All waits are made, also after an error, because later ops rely on this op coming after all these fences.
  for (const Fence& fence : waits) attempt([&] { fence->before(*stream_); });
  if (!error) attempt([&] { body(*stream_); });
  return error;
}

// Throws if no event can be made.
Fence Issuer::make_fence(const std::vector<Dependency>& after) {
  Event* const event = events_.take(*stream_);
  auto fence = std::make_shared<FenceState>(*stream_, ++tickets_, nullptr);
  for (const Dependency& dependency : after) {
    if (dependency.read) fence->reads_.push_back(dependency);
  }
  fence->pool_ = &events_;
  fence->event_ = event;
  return fence;
}

void Issuer::issue_with(const Fence& fence, const std::vector<Dependency>& after,
                        const std::function<void(Stream&)>& body) {
  fence->own_ = enqueue(newest_elsewhere(after), body);
  try {
    stream_->record(*fence->event_);
  } catch (...) {
    if (!fence->own_) fence->own_ = std::current_exception();
    fence->recorded_ = false;
  }
  watch(fence);
}

Fence Issuer::issue(const std::vector<Dependency>& after, const std::function<void(Stream&)>& body,
                    Outcome outcome) {
  const GpuCalls scope(stream_->device());
  Fence fence = make_fence(after);
  fence->outcome_ = std::move(outcome);
  issue_with(fence, after, body);
  return fence;
}

Fence Issuer::issue_several(const std::vector<Dependency>& after, const std::function<void(Stream&)>& body,
                            OutcomeOfVars outcome) {
  const GpuCalls scope(stream_->device());
  Fence fence = make_fence(after);
  fence->outcome_of_vars_ = std::move(outcome);
  issue_with(fence, after, body);
  return fence;
}

// Registers the callbacks that make the fence done. noexcept, since the work is under way already: without
// memory for the callbacks the fence would never be done.
void Issuer::watch(const Fence& fence) noexcept {
  fence->generation_ = fence->event_->generation();
  const std::vector<Fence> reads =
      read_fences(fence->reads_);  // a copy: the last call of arrive() clears reads_
  fence->remaining_.fetch_add(reads.size() + (fence->recorded_ ? 1 : 0), std::memory_order_relaxed);
  // A back end may keep callbacks that it has called. The fence must not live that long, so all callbacks share a
  // pointer, which arrive() clears.
  const auto held = std::make_shared<Fence>(fence);
  for (const Fence& read : reads) read->when_done([held] { FenceState::arrive(*held); });
  if (fence->recorded_) {
    poller_->watch(*stream_, *fence->event_, fence->generation_, [held](const std::exception_ptr& error) {
      if (error && !(*held)->own_) (*held)->own_ = error;
      FenceState::arrive(*held);
    });
  }
  FenceState::arrive(*held);
}

}  // namespace heddle::detail
