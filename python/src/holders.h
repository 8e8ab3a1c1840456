// Objects whose destructors wait for ops: they are destroyed without the GIL, which these ops may need.
#pragma once

#include <memory>
#include <utility>

#include "interpreter.h"

namespace heddle::python {

// Calls function() without the GIL, whether or not the calling thread has it.
template <class Function> void without_gil(Function&& function) {
  const HoldGil gil;
  if (!gil) return function();
  const ReleaseGil released;
  function();
}

template <class T> std::shared_ptr<T> destroyed_without_gil(std::shared_ptr<T> object) {
  T* raw = object.get();
  if (!raw) return nullptr;
  return std::shared_ptr<T>(raw,
                            [held = std::move(object)](T*) mutable { without_gil([&] { held.reset(); }); });
}

}  // namespace heddle::python
