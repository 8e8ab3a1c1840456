#include <heddle/sequential.h>

#include "module/module_node.h"

namespace heddle {

using nn_detail::ModuleNode;

void Sequential::add(std::shared_ptr<Module> module) { child(std::to_string(size()), std::move(module)); }

std::size_t Sequential::size() const { return ModuleNode::of(*this).entries.size(); }

Module& Sequential::operator[](std::size_t index) const {
  if (index < size()) return *ModuleNode::of(*this).entries[index].module;
  throw InvalidArgument("Sequential: index is " + std::to_string(index) + "; there are " +
                        std::to_string(size()) + " modules");
}

NDArray Sequential::forward(const NDArray& x) {
  if (!x.defined() && size() == 0) ndarray_detail::refuse_undefined("Sequential");
  NDArray y = x;
  for (std::size_t i = 0; i < size(); ++i) {
    try {
      y = (*this)[i](y);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("layer " + std::to_string(i) + ": " + error.message());
    }
  }
  return y;
}

std::string Sequential::to_string() const {
  std::string text = "Sequential{";
  for (std::size_t i = 0; i < size(); ++i) text += "\n  " + nn_detail::indented((*this)[i].to_string());
  return text + "\n}";
}

}  // namespace heddle
