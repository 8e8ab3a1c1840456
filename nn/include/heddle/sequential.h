// Modules one after the other.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <heddle/layers.h>

namespace heddle {

// Takes modules by value; the first one is the child "0", so that its weight is called "0.weight". A Sequential may be nested.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class First, class... Rest>
  requires(std::derived_from<std::decay_t<First>, Module> &&
           (std::derived_from<std::decay_t<Rest>, Module> && ...) &&
           !(sizeof...(Rest) == 0 &&
             std::same_as<std::decay_t<First>, Sequential>)) explicit Sequential(First&& first,
                                                                                 Rest&&... rest) {
    add(std::forward<First>(first));
    (add(std::forward<Rest>(rest)), ...);
  }

  // Appends a module. Throws InvalidArgument for null, and for one that is, or holds, this Sequential.
  template <std::derived_from<Module> M> void add(M module) { add(std::make_shared<M>(std::move(module))); }
  void add(std::shared_ptr<Module> module);

  std::size_t size() const;
  Module& operator[](std::size_t index) const;  // throws InvalidArgument beyond the last

  std::string to_string() const override;  // one line per module

 private:
  // InvalidArgument out of a module is rethrown with the module's index in front.
  NDArray forward(const NDArray& x) override;
};

}  // namespace heddle
