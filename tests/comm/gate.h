// Arrays that become ready when the test opens a gate.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle::test {

// A var that an op holds until open(): arrays that depend on the var are not ready before. Call open() before
// the destructor. The scheduler naive cannot run it.
class Gate {
 public:
  explicit Gate(Engine& engine) : engine_(engine), var_(engine.new_var()) {
    engine.push_async([this](RunContext&, Completion done) { come(std::move(done)); }, {.mutate = {var_}});
  }
  ~Gate() { engine_.wait(var_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void hold(const NDArray& array) const {
    engine_.push([] {}, {.read = {var_}, .mutate = {array.var()}});
  }
  void open() {
    const std::lock_guard guard(mutex_);
    open_ = true;
    if (held_) held_->done();
  }

 private:
  void come(Completion done) {
    const std::lock_guard guard(mutex_);
    open_ ? done.done() : static_cast<void>(held_.emplace(std::move(done)));
  }

  Engine& engine_;
  Var var_;
  std::mutex mutex_;  // guards the members below
  std::optional<Completion> held_;
  bool open_ = false;
};

}  // namespace heddle::test
