// Arrays that are not there until the test says so.
#pragma once

#include <future>
#include <optional>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle::test {

// A var that nobody has yet: what reads it is not there. Opened before it is destroyed.
class Gate {
 public:
  explicit Gate(Engine& engine) : engine_(engine), var_(engine.new_var()) {
    std::promise<void> holds;
    engine.push_async(
        [&, this](RunContext&, Completion done) {
          held_.emplace(std::move(done));
          holds.set_value();
        },
        {.mutate = {var_}});
    holds.get_future().wait();
  }
  void hold(const NDArray& array) const {
    engine_.push([] {}, {.read = {var_}, .mutate = {array.var()}});
  }
  void open() { held_->done(); }

 private:
  Engine& engine_;
  Var var_;
  std::optional<Completion> held_;
};

}  // namespace heddle::test
