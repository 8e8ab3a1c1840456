// Memory that a captured graph fills anew in each launch, and that nobody needs between the launches.
#pragma once

#include <memory>

#include <heddle/var.h>

namespace heddle {

// What to do with such memory once a launch needs it no more.
class LaunchMemory {
 public:
  virtual ~LaunchMemory() = default;
  // Called in each launch when the last op of the graph that uses the var is done, on the thread that ran it.
  virtual void end_use() noexcept = 0;
};

// What a capture knows about the memory behind a var.
struct LaunchUse {
  Var var;                                 // kept alive until the capture ends
  bool seen = false;                       // for the caller: whether it has looked at the var
  std::shared_ptr<LaunchMemory> memory{};  // null: the memory lasts as long as the array
};

// For use inside Engine::capture: the capture's entry of var, empty at first. Its memory is used if the first op of the
// graph that uses var mutates it without reading it. Throws Error outside of a capture.
LaunchUse& launch_use(const Var& var);

}  // namespace heddle
