// A reference to a function object of any type: code that takes one is compiled once, not once for each type.
#pragma once

#include <memory>
#include <type_traits>

namespace heddle::cpu_kernels {

// Refers to a function object that outlives it (C++26's std::function_ref: P0792).
template <class Signature> class FunctionRef;

template <class Result, class... Arguments> class FunctionRef<Result(Arguments...)> {
 public:
  template <class F>
  requires(!std::is_same_v<F, FunctionRef>) FunctionRef(const F& function)
      : function_(std::addressof(function)), call_([](const void* object, Arguments... arguments) -> Result {
          return (*static_cast<const F*>(object))(arguments...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

 private:
  const void* function_;
  Result (*call_)(const void*, Arguments...);
};

}  // namespace heddle::cpu_kernels
