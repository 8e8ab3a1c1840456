// A graph: ops whose dependencies are computed once, and which are launched many times for a fraction of the
// cost of a push.
//
//   heddle::Slot<float> rate;
//   heddle::Graph step = engine.capture([&] {
//     rate = engine.slot<float>();
//     engine.push([=, &w, &g] { w -= *rate * g; }, {.read = {grad, weight}, .mutate = {weight}});
//   });
//   step.launch(rate.bind(0.1f));
//
// While a graph is captured, what the capturing thread pushes on the engine (synchronous, asynchronous and
// prepared ops, ops on streams, clear_error) is recorded, not run; a wait, a launch, another capture or a push
// on another engine throws Error. If the capturing function throws, no graph is made. Closures are called once
// in each launch, and must not consume what they hold.
//
// A launch is one op, to wait_all and to all other ops: it takes every var of the graph at once, mutates
// those that any op of the graph mutates, and releases them together when all its ops are done. Two launches
// of a graph never overlap. Inside, the ops run as if pushed one by one: values, errors and the serial order
// are the same. An op of the graph that waits for a var which its own graph mutates gets WouldDeadlock. One
// thread may run all ops of a launch, one after the other: they must not wait for each other by means that
// the engine does not know. Groups, priorities and bytes of captured ops do not count.
//
// A launch issues the ops on streams on their streams. It releases its vars when all those ops are issued, and
// ends when their work is done; so the next launch may issue its ops while work of this one is under way. The
// function of an op reads slots; the work that it enqueues does not.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include <heddle/engine.h>

namespace heddle {

namespace detail {

struct GraphState;
struct Recorder;

struct SlotCell {
  std::size_t index;                        // index among the slots of its graph
  std::atomic<const void*> value{nullptr};  // the value in the launch that runs now
};

// While a Capture lives, its thread's pushes are recorded.
class Capture {
 public:
  Capture(EngineCore* core, const char* name, std::source_location where);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::shared_ptr<GraphState> finish();

 private:
  std::unique_ptr<Recorder> recorder_;
};

using SlotValue = std::shared_ptr<const void>;
std::shared_ptr<SlotCell> new_slot(EngineCore* core);
std::shared_ptr<SlotCell> new_launch_slot(SlotValue first, std::function<SlotValue()> later);
const void* slot_value(const SlotCell* cell);  // throws Error outside a launch, or without a cell

}  // namespace detail

// A slot with the value that one launch gives it.
struct Binding {
  std::shared_ptr<detail::SlotCell> cell;
  std::shared_ptr<const void> value;
};

// A value that the graph's ops read and that each launch is given; made by Engine::slot in a capture. Copies
// of a Slot name the same value, so that the closures of ops can hold one.
template <class T> class Slot {
 public:
  Slot() = default;  // belongs to no graph
  explicit Slot(std::shared_ptr<detail::SlotCell> cell) : cell_(std::move(cell)) {}

  // The slot's value in the launch that runs the calling op. Only inside an op of the graph; throws Error
  // elsewhere.
  const T& get() const { return *static_cast<const T*>(detail::slot_value(cell_.get())); }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }
  // An argument of launch(): the slot's value in that launch.
  Binding bind(T value) const { return {cell_, std::make_shared<const T>(std::move(value))}; }
  const std::shared_ptr<detail::SlotCell>& cell() const { return cell_; }  // used by Graph

 private:
  std::shared_ptr<detail::SlotCell> cell_;
};

// A shared handle on what Engine::capture has recorded: copies name the same graph. It keeps the vars and closures
// alive, and may outlive the engine. Several threads may launch at once, but not while one of them calls set.
class Graph {
 public:
  Graph() = default;  // an empty Graph, as one that was moved from: launch() throws InvalidArgument
  explicit Graph(std::shared_ptr<detail::GraphState> state) : state_(std::move(state)) {}

  // Queues the graph's ops as one op, and returns. Each slot has the value bound here, or else the one last set.
  // Throws InvalidArgument for a slot without a value, bound twice or of another graph, Error once the engine is gone.
  template <std::same_as<Binding>... B> void launch(B... bindings) const {
    launch_with(std::array<Binding, sizeof...(B)>{std::move(bindings)...});
  }
  void launch_with(std::span<const Binding> bindings) const;

  // The slot's value for this and all later launches that bind none.
  template <class T> void set(const Slot<T>& slot, std::type_identity_t<T> value) {
    set_value(slot.bind(std::move(value)));
  }

  std::size_t size() const;  // number of ops

 private:
  void set_value(Binding binding);
  std::shared_ptr<detail::GraphState> state_;
};

template <class F> Graph Engine::capture(F&& fn, const char* name, std::source_location where) {
  detail::Capture capture(core_, name, where);
  std::forward<F>(fn)();
  return Graph(capture.finish());
}

template <class T> Slot<T> Engine::slot() { return Slot<T>(detail::new_slot(core_)); }

// Whether the calling thread is inside Engine::capture: what it pushes is recorded, and does not run.
bool is_capturing() noexcept;

// For use inside Engine::capture. Each launch of the captured graph calls `call`, on the launching thread,
// before it queues the graph's ops: for what a push does besides queueing its op. In one capture only the
// first call with a given `key`, which is any address, has an effect. Throws Error outside of a capture.
void at_each_launch(const void* key, std::function<void()> call);

// For use inside Engine::capture: a slot of the graph whose value is `first` in the first launch and in each later
// one what `later` returns, called on the launching thread, in the order in which such slots were made.
template <class T> Slot<T> launch_slot(T first, std::function<T()> later) {
  return Slot<T>(detail::new_launch_slot(
      std::make_shared<const T>(std::move(first)),
      [later = std::move(later)]() -> detail::SlotValue { return std::make_shared<const T>(later()); }));
}

}  // namespace heddle
