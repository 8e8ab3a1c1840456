#include <cmath>
#include <string>

#include <heddle/array_error.h>
#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>

#include "core/operator_table.h"

namespace heddle {

using namespace operators_detail;

NDArray init_weight(const Shape& shape, Init init, Generator& generator, Device device, Where where) {
  const CallSite site(where);
  if (shape.size() < 2) {
    throw InvalidArgument("init_weight: a weight is (out, in, ...), not " + shape.to_string());
  }
  ndarray_detail::in_name_of("init_weight", [&] { element_count(shape); });
  double window = 1;
  for (int i = 2; i < shape.size(); ++i) window *= static_cast<double>(shape[i]);
  double fan_in = static_cast<double>(shape[1]) * window, fan_out = static_cast<double>(shape[0]) * window;
  double limit = std::sqrt(6 / (init == Init::he ? fan_in : fan_in + fan_out));
  NDArray weight = generator.uniform(shape, -limit, limit, DType::f32, device);
  set_requires_grad(weight);
  return weight;
}

HEDDLE_OPERATORS(layer_init) {
  static constexpr const char* kInits[] = {"he", "xavier"};
  table.family("Layers");
  table.add(
      "init_weight",
      +[](const Shape& shape, const std::string& init, Device device, Generator& generator, Where where) {
        return init_weight(shape, init == "he" ? Init::he : Init::xavier, generator, device, where);
      },
      {"A weight (out, in, ...) that requires a gradient, uniform within the limits of He or of Xavier's "
       "(Glorot's) rule. Drawn from `generator`, or for None from the thread's own.",
       {"shape", {"init", "he", kInits}, {"device", cpu()}, {"generator", kNone}},
       "f32"});
}

}  // namespace heddle
