#include <heddle/sequential.h>

namespace heddle {
namespace {

bool is_or_holds(const Layer& layer, const Layer* wanted) {
  if (&layer == wanted) return true;
  const auto* const layers = dynamic_cast<const Sequential*>(&layer);
  for (std::size_t i = 0; layers && i < layers->size(); ++i)
    if (is_or_holds((*layers)[i], wanted)) return true;
  return false;
}

}  // namespace

void Sequential::add(std::shared_ptr<Layer> layer) {
  if (!layer) throw InvalidArgument("Sequential::add: the layer is null");
  // A Sequential that holds itself calls itself without end, and owns itself, so that it is never destroyed.
  if (is_or_holds(*layer, this))
    throw InvalidArgument("Sequential::add: the layer is, or holds, this Sequential; want another one");
  layers_.push_back(std::move(layer));
}

NDArray Sequential::forward(const NDArray& x) {
  if (!x.defined() && layers_.empty()) ndarray_detail::refuse_undefined("Sequential");
  NDArray y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    try {
      y = (*layers_[i])(y);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("layer " + std::to_string(i) + ": " + error.message());
    }
  }
  return y;
}

std::vector<Parameter> Sequential::parameters() const {
  std::vector<Parameter> all;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (Parameter& parameter : layers_[i]->parameters()) {
      all.push_back({std::to_string(i) + "." + parameter.name, parameter.value});
    }
  }
  return all;
}

void Sequential::train(bool on) {
  for (const auto& layer : layers_) layer->train(on);
}

std::string Sequential::to_string() const {
  std::string text = "Sequential{";
  for (const auto& layer : layers_) text += "\n  " + layer->to_string();
  return text + "\n}";
}

}  // namespace heddle
