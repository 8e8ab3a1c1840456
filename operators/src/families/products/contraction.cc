#include "families/products/contraction.h"

#include <algorithm>
#include <string>

#include <heddle/elementwise.h>
#include <heddle/matmul.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {

namespace {

using Labels = std::vector<int>;

int position(const Labels& labels, int label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  return found == labels.end() ? -1 : static_cast<int>(found - labels.begin());
}

bool has(const Labels& labels, int label) { return position(labels, label) >= 0; }

// x without the axes of size 1 whose label has another size in `other`: they only broadcast.
Labelled without_stretched(const Labelled& x, const Labelled& other) {
  Labelled rest{x.array, {}};
  Dims dropped;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const int there = position(other.labels, x.labels[i]);
    const int here = static_cast<int>(i);
    if (there >= 0 && x.array.shape()[here] == 1 && other.array.shape()[there] != 1)
      dropped.push_back(here);
    else
      rest.labels.push_back(x.labels[i]);
  }
  if (!dropped.empty()) rest.array = squeeze(x.array, dropped);
  return rest;
}

// x with its axes in the order of `labels`, all of which x has.
NDArray ordered(const Labelled& x, const Labels& labels) {
  Dims axes;
  for (int label : labels) axes.push_back(position(x.labels, label));
  return x.labels == labels ? x.array : transpose(x.array, axes);
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// batch: kept labels of both arrays; sum: summed labels of both; rows and columns: labels of a alone and of b
// alone.
struct Roles {
  Labels batch, sum, rows, columns;
};

Roles roles_of(const Labels& a, const Labels& b, const std::function<bool(int)>& kept) {
  Roles roles;
  for (int label : a) {
    if (!has(b, label))
      roles.rows.push_back(label);
    else
      (kept(label) ? roles.batch : roles.sum).push_back(label);
  }
  for (int label : b) {
    if (!has(a, label)) roles.columns.push_back(label);
  }
  return roles;
}

std::int64_t product(const NDArray& x, std::size_t first, std::size_t count) {
  std::int64_t size = 1;
  for (std::size_t i = first; i < first + count; ++i) size *= x.shape()[static_cast<int>(i)];
  return size;
}

// x with its axes, `batch` + `first` + `second` of them, merged to three; to two if `batch` is 0.
NDArray merged(const NDArray& x, std::size_t batch, std::size_t first, std::size_t second) {
  Shape shape;
  if (batch > 0) shape.push_back(product(x, 0, batch));
  shape.push_back(product(x, batch, first));
  shape.push_back(product(x, batch + first, second));
  return shape == x.shape() ? x : reshape(x, shape);
}

NDArray by_elements(const Labelled& a, const Labelled& b, const Roles& roles) {
  NDArray left = ordered(a, joined({roles.batch, roles.rows}));
  NDArray right = ordered(b, joined({roles.batch, roles.columns}));
  for (std::size_t i = 0; i < roles.columns.size(); ++i) left = expand_dims(left, -1);
  for (std::size_t i = 0; i < roles.rows.size(); ++i)
    right = expand_dims(right, static_cast<int>(roles.batch.size()));
  return multiply(left, right);
}

NDArray by_matmul(const Labelled& a, const Labelled& b, const Roles& roles) {
  const NDArray left = ordered(a, joined({roles.batch, roles.rows, roles.sum}));
  const NDArray right = ordered(b, joined({roles.batch, roles.sum, roles.columns}));
  const std::size_t batch = roles.batch.size(), sum = roles.sum.size();
  Shape shape(std::span(left.shape().begin(), batch + roles.rows.size()));
  for (std::size_t i = 0; i < roles.columns.size(); ++i)
    shape.push_back(right.shape()[static_cast<int>(batch + sum + i)]);
  const NDArray y =
      matmul(merged(left, batch, roles.rows.size(), sum), merged(right, batch, sum, roles.columns.size()));
  return y.shape() == shape ? y : reshape(y, shape);
}

}  // namespace

Labelled summed(Labelled x, const std::function<bool(int)>& kept) {
  Dims axes;
  Labels rest;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (kept(x.labels[i]))
      rest.push_back(x.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  }
  return axes.empty() ? x : Labelled{sum(x.array, axes), rest};
}

Labelled contract(Labelled a, Labelled b, const std::function<bool(int)>& kept) {
  const Labelled given = a;
  a = without_stretched(a, b);
  b = without_stretched(b, given);
  a = summed(a, [&](int label) { return kept(label) || has(b.labels, label); });
  b = summed(b, [&](int label) { return kept(label) || has(a.labels, label); });
  const Roles roles = roles_of(a.labels, b.labels, kept);
  const Labels labels = joined({roles.batch, roles.rows, roles.columns});
  if (labels.size() > static_cast<std::size_t>(kMaxDims)) {
    throw InvalidArgument("einsum: a product has " + std::to_string(labels.size()) + " axes; at most " +
                          std::to_string(kMaxDims));
  }
  if (roles.sum.empty()) return {by_elements(a, b, roles), labels};
  if (roles.rows.empty() && roles.columns.empty() && !roles.batch.empty()) {
    const Labels order = joined({roles.batch, roles.sum});
    return summed({multiply(ordered(a, order), ordered(b, order)), order},
                  [&](int label) { return has(roles.batch, label); });
  }
  return {by_matmul(a, b, roles), labels};
}

}  // namespace heddle::operators_detail
