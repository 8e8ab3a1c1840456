// Streams with their issuers, for tests that issue ops themselves, without an engine. Stepped streams advance
// only when a test steps them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/host_stream.h>

#include "op/failure.h"
#include "op/op_node.h"
#include "stream/fence_set.h"
#include "stream/issuer.h"
#include "stream/poller.h"

namespace heddle::test {

using detail::Dependency;
using detail::FailurePtr;
using detail::Fence;
using detail::FenceSet;

class StreamRig {
 public:
  StreamRig() = default;
  StreamRig(const StreamRig&) = delete;
  StreamRig& operator=(const StreamRig&) = delete;

  // Runs what is left of the stepped streams' work, before the memory that the work uses is destroyed.
  void finish() {
    for (bool moved = true; moved;) {
      moved = false;
      for (detail::Issuer& issuer : issuers_) {
        auto* host = dynamic_cast<HostStream*>(&issuer.stream());
        while (host && host->stepped() && host->step()) moved = true;
      }
    }
  }

  detail::Issuer& add(std::unique_ptr<Stream> stream) {
    return issuers_.emplace_back(std::move(stream), poller_);
  }
  HostStream& add_host(HostStreamOptions options) {
    return static_cast<HostStream&>(
        add(std::make_unique<HostStream>(cpu(), Lane::compute, options)).stream());
  }
  detail::Issuer& issuer(std::size_t i) { return issuers_.at(i); }
  HostStream& host(std::size_t i) { return static_cast<HostStream&>(issuer(i).stream()); }

  // Issues an op `name` on a stream. The op reads the vars `reads` and overwrites the vars `writes`.
  Fence issue(std::size_t stream, const char* name, const std::vector<FenceSet*>& reads,
              const std::vector<FenceSet*>& writes, const std::function<void(Stream&)>& body) {
    std::vector<Dependency> after;
    for (FenceSet* var : reads) var->collect(true, false, after);
    for (FenceSet* var : writes) var->collect(false, true, after);
    const Fence fence =
        issuer(stream).issue(after, body, [this, name](std::exception_ptr own, const auto& inherited) {
          return outcome(name, std::move(own), inherited);
        });
    for (FenceSet* var : reads) var->add_read(fence);
    for (FenceSet* var : writes) var->set_write(fence);
    return fence;
  }

  // Like issue(), for an op whose work is one function.
  Fence run(std::size_t stream, const char* name, const std::vector<FenceSet*>& reads,
            const std::vector<FenceSet*>& writes, std::function<void()> work) {
    return issue(stream, name, reads, writes, [&work](Stream& on) { on.enqueue(std::move(work)); });
  }

 private:
  FailurePtr outcome(const char* name, std::exception_ptr own, const std::vector<FailurePtr>& inherited) {
    detail::OpNode node;
    node.name = name;
    if (!inherited.empty()) return detail::ErrorLog::skipped(node, inherited.front());
    return own ? errors_.failed(node, std::move(own)) : nullptr;
  }

  detail::ErrorLog errors_;
  detail::Poller poller_;
  std::deque<detail::Issuer> issuers_;  // declared last and so destroyed first, which ends the streams
};

// Does what a CPU op on one var does: calls fn when the var is free for it.
inline void when_free(FenceSet& var, bool reads, bool mutates, std::function<void()> fn) {
  std::vector<Dependency> after;
  var.collect(reads, mutates, after);
  detail::when_all_done(std::move(after), std::move(fn));
}

// A failure as a text: "failed op: message > skipped op > ...". Without a failure: "well".
inline std::string story(const FailurePtr& failure) {
  if (!failure) return "well";
  const ErrorReport report = detail::describe(*failure);
  std::string text = report.op + ": " + report.message();
  for (const std::string& step : report.path) text += " > " + step.substr(0, step.find(' '));
  return text;
}

}  // namespace heddle::test
