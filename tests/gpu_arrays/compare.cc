#include "compare.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace heddle::test {

Shape random_shape(Random& random) {
  static const std::vector<Shape> shapes = {{},           {1},      {31},     {32},     {33},        {1023},
                                            {1024},       {1025},   {0},      {5, 0},   {3, 1, 7},   {64, 17},
                                            {2, 3, 4, 5}, {1, 300}, {300, 1}, {40, 40}, {2, 1, 129}, {4096}};
  return shapes[random() % shapes.size()];
}

NDArray random_values(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    const std::uint64_t what = random() % 24;
    const double number = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    values.push_back(what == 0   ? INFINITY
                     : what == 1 ? -INFINITY
                     : what == 2 ? NAN
                     : what == 3 ? 0.0
                     : what == 4 ? -0.0
                     : what == 5 ? number * 0x1p64
                     : what == 6 ? number * 1e-40
                     : what < 12 ? std::floor(number * 4)
                                 : number * 100);
  }
  return array(values, shape).astype(dtype);
}

// An array that broadcasts to `shape`, sometimes with steps, reversed or transposed.
Pair random_pair(Random& random, const Shape& shape, DType dtype, Device there) {
  Shape own;
  for (const std::int64_t length : shape) own.push_back(random() % 6 == 0 ? 1 : length);
  const std::uint64_t kind = random() % 4;
  if (kind == 0 && own.size() > 0) {  // a part of a longer array
    Shape longer = own;
    longer[own.size() - 1] = own[own.size() - 1] * 2 + 1;
    const NDArray x = random_values(random, longer, dtype), y = x.copy_to(there);
    const Slice part{.begin = 1, .end = 1 + 2 * own[own.size() - 1], .step = 2};
    return {x.slice(own.size() - 1, part), y.slice(own.size() - 1, part)};
  }
  if (kind == 1 && own.size() > 1) {
    Shape turned;
    Dims axes;
    for (int axis = own.size() - 1; axis >= 0; --axis) turned.push_back(own[axis]), axes.push_back(axis);
    const NDArray x = random_values(random, turned, dtype), y = x.copy_to(there);
    return {x.permuted(axes), y.permuted(axes)};
  }
  const NDArray x = random_values(random, own, dtype), y = x.copy_to(there);
  if (kind == 2 && own.size() > 0) return {x.slice(0, {.step = -1}), y.slice(0, {.step = -1})};
  return {x, y};
}

std::vector<std::byte> bytes_of(const NDArray& x) {
  const NDArray values = x.copy_to(cpu());
  values.wait();
  const auto* begin = values.data<const std::byte>();
  return {begin, begin + static_cast<std::size_t>(values.size()) * size_of(values.dtype())};
}

// Equal bits, but NaN of any bits: IEEE leaves them open, and x86 and GPUs differ.
bool same_bits(const NDArray& here, const NDArray& there) {
  if (here.dtype() != there.dtype() || here.shape() != there.shape() || there.device() != gpu(0))
    return false;
  if (!is_floating(here.dtype())) return bytes_of(here) == bytes_of(there);
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
  }
  return true;
}

bool near(const NDArray& here, const NDArray& there) {
  const double most = here.dtype() == DType::f64 ? 1e-13 : here.dtype() == DType::f32 ? 1e-6 : 0.01;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::fabs(a[i] - b[i]) <= most * (1e-30 + std::fabs(a[i])) + 1e-40)) return false;
  }
  return true;
}

DType random_dtype(Random& random) { return kAllDTypes[random() % std::size(kAllDTypes)]; }

}  // namespace heddle::test
