// Model of fences, which order ops on streams: an op sees the results of the ops before it, also on other
// streams. The streams' work is done step by step by threads of the model.
#include "model.h"
#include "product_engine.h"

namespace {

using namespace heddle::detail;
using heddle::HostStream;
using heddle::HostStreamOptions;
using heddle::Stream;
using model::check;
using model::Plain;

// Thread 0 issues ops on two streams in the engine's order; each of the other threads steps one stream.
template <class Derived> struct TwoStreams : model::Schedule<Derived, 3> {
  Poller poller;
  std::optional<Issuer> issuers[2];
  FenceSet x, y;
  ErrorLog errors;
  Plain<int> value, copy;
  std::vector<Fence> fences;
  model_std::atomic<bool> over{false};
  int called = 0;

  TwoStreams() {
    forget_threads();
    for (auto& issuer : issuers) {
      const HostStreamOptions options{.stepped = true};
      issuer.emplace(std::make_unique<HostStream>(heddle::cpu(), heddle::Lane::compute, options), poller);
    }
  }
  void thread(unsigned index) {
    if (index == 0) {
      static_cast<Derived&>(*this).issue_all();
      over.store(true, model_std::memory_order_release);
      return;
    }
    auto& stream = static_cast<HostStream&>(issuers[index - 1]->stream());
    for (bool last = false; !last;) {
      last = over.load(model_std::memory_order_acquire);
      while (stream.step() || !settled(last)) model::step();
    }
  }
  // Whether the thread can stop stepping its stream for now. Once no more ops will be issued (`last`), this
  // means that all ops are done.
  bool settled(bool last) const {
    if (!last) return true;
    for (const Fence& fence : fences) {
      if (!fence->done()) return false;
    }
    return true;
  }
  Fence issue(int on, FenceSet* read, FenceSet* write, std::function<void()> work) {
    std::vector<Dependency> after;
    if (read) read->collect(true, false, after);
    if (write) write->collect(false, true, after);
    Fence fence = issuers[on]->issue(
        after, [&](Stream& stream) { stream.enqueue(std::move(work)); },
        [this](std::exception_ptr own, const std::vector<FailurePtr>& inherited) {
          return outcome(own, inherited);
        });
    if (read) read->add_read(fence);
    if (write) write->set_write(fence);
    fences.push_back(fence);
    return fence;
  }
  FailurePtr outcome(const std::exception_ptr& own, const std::vector<FailurePtr>& inherited) {
    OpNode op;
    if (!inherited.empty()) return ErrorLog::skipped(op, inherited.front());
    return own ? errors.failed(op, own) : nullptr;
  }
  // Runs `fn` as a CPU op that reads or mutates `var`, after the earlier ops on it.
  void when_free(FenceSet& var, bool reads, bool mutates, std::function<void()> fn) {
    std::vector<Dependency> after;
    var.collect(reads, mutates, after);
    when_all_done(std::move(after), [this, fn] { ++called, fn(); });
  }
  void after() {
    static_cast<Derived&>(*this).look();
    fences.clear();
    x.clear();
    y.clear();
  }
};

struct Order : TwoStreams<Order> {
  Plain<int> from_cpu;
  void issue_all() {
    issue(0, nullptr, &x, [this] { value.set(1); });
    issue(0, &x, &x, [this] { value.set(value.get() + 1); });
    issue(1, &x, &y, [this] { copy.set(value.get()); });
    when_free(y, true, false, [this] { from_cpu.set(copy.get()); });
    issue(0, nullptr, &x, [this] { value.set(9); });
  }
  void look() {
    check(called == 1 && copy.get() == 2 && from_cpu.get() == 2 && value.get() == 9,
          "an op ran too early, or not");
  }
};

struct Errors : TwoStreams<Errors> {
  void issue_all() {
    issue(0, nullptr, &x, [] { throw 7; });
    issue(1, &x, &y, [this] { copy.set(1); });
    issue(0, &y, nullptr, [] {});
  }
  void look() {
    for (const Fence& fence : fences) check(fence->failure() != nullptr, "an error is lost");
    check(fences[2]->failure()->root == fences[0]->failure()->root, "it is another error");
    check(x.failure() && y.failure(), "a var has forgotten its error");
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(argc, argv, {random_program<Order>("order"), random_program<Errors>("errors")},
                           {"FenceState::arrive fetch_sub acquire", "FenceState::arrive fetch_sub release",
                            "FenceState::complete_fence store relaxed", "FenceState::done load relaxed",
                            "when_all_done fetch_sub acquire"});
}
