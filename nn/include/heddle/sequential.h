// Layers one after the other.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/layers.h>

namespace heddle {

// Takes layers by value; parameters are called "INDEX.NAME". A Sequential is a layer and may be nested.
class Sequential : public Layer {
 public:
  Sequential() = default;
  template <class First, class... Rest>
  requires(std::derived_from<std::decay_t<First>, Layer> &&
           (std::derived_from<std::decay_t<Rest>, Layer> && ...) &&
           !(sizeof...(Rest) == 0 &&
             std::same_as<std::decay_t<First>, Sequential>)) explicit Sequential(First&& first,
                                                                                 Rest&&... rest) {
    add(std::forward<First>(first));
    (add(std::forward<Rest>(rest)), ...);
  }

  // Appends a layer.
  template <std::derived_from<Layer> L> void add(L layer) { add(std::make_shared<L>(std::move(layer))); }
  void add(std::shared_ptr<Layer> layer);

  std::size_t size() const { return layers_.size(); }
  Layer& operator[](std::size_t index) const { return *layers_.at(index); }

  std::vector<Parameter> parameters() const override;
  void train(bool on = true) override;
  std::string to_string() const override;  // one layer a line

 private:
  // InvalidArgument out of a layer is rethrown with the layer's index in front.
  NDArray forward(const NDArray& x) override;
  std::vector<std::shared_ptr<Layer>> layers_;
};

}  // namespace heddle
