// The operators of networks that the cases of numpy_cases_network.py name.
#include <heddle/ops.h>

#include "numpy_driver.h"

namespace heddle::testing {

namespace {

// "stride=2,1": one number an axis; the default where the key is missing.
std::array<std::int64_t, 2> pair_of(const Attributes& a, const char* key, std::int64_t otherwise) {
  if (!a.has(key)) return {otherwise, otherwise};
  const Dims both = a.dims(key);
  return {both[0], both[1]};
}

NDArray convolved(const Inputs& in, const Attributes& a) {
  return conv2d(in[0], in[1], in.size() > 2 ? in[2] : NDArray(),
                {.stride = pair_of(a, "stride", 1),
                 .padding = pair_of(a, "padding", 0),
                 .dilation = pair_of(a, "dilation", 1),
                 .groups = a.has("groups") ? a.integer("groups") : 1,
                 .relu = a.flag("relu")});
}

Pool2dOptions pooling(const Attributes& a) {
  return {.kernel = pair_of(a, "kernel", 2),
          .stride = pair_of(a, "stride", 0),
          .padding = pair_of(a, "padding", 0),
          .count_include_pad = a.flag("count_include_pad")};
}

int axis_of(const Attributes& a) { return static_cast<int>(a.integer("axis")); }

}  // namespace

const std::map<std::string, Operator>& network_table() {
  static const std::map<std::string, Operator> table{
      {"avg_pool2d", [](const Inputs& in, const Attributes& a) { return avg_pool2d(in[0], pooling(a)); }},
      {"conv2d", convolved},
      {"cross_entropy", [](const Inputs& in, const Attributes&) { return cross_entropy(in[0], in[1]); }},
      {"linear",
       [](const Inputs& in, const Attributes& a) {
         return linear(in[0], in[1], in.size() > 2 ? in[2] : NDArray(), {.relu = a.flag("relu")});
       }},
      {"log_softmax", [](const Inputs& in, const Attributes& a) { return log_softmax(in[0], axis_of(a)); }},
      {"matmul", [](const Inputs& in, const Attributes&) { return matmul(in[0], in[1]); }},
      {"max_pool2d", [](const Inputs& in, const Attributes& a) { return max_pool2d(in[0], pooling(a)); }},
      {"softmax", [](const Inputs& in, const Attributes& a) { return softmax(in[0], axis_of(a)); }},
  };
  return table;
}

}  // namespace heddle::testing
