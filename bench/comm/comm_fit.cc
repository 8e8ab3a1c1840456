#include "comm/comm_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace heddle::bench {

namespace {

// The unknowns of the cost model: alpha (seconds a message), beta (seconds a byte), gamma (adding a byte).
constexpr std::size_t kUnknowns = 3;
using Row = std::array<double, kUnknowns>;

NetworkCost network_of(const Row& values) {
  NetworkCost network;
  network.local = {values[0], values[1]};
  network.gamma = values[2];
  return network;
}

double modelled(const NetworkCost& network, const CommPoint& point) {
  return all_reduce_seconds(algorithm_of(point), network, point.ranks, static_cast<double>(point.bytes));
}

// One row of the linear system: for each unknown, the time that the model predicts if this unknown is 1 and
// the others are 0, divided by the measured time. The model is linear in its unknowns.
Row row_of(const CommPoint& point) {
  Row row{};
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    Row one{};
    one[i] = 1;
    row[i] = modelled(network_of(one), point) / (point.microseconds * 1e-6);
  }
  return row;
}

// Solves row * x = 1 for all rows by least squares. Only the unknowns in the bit set `used` take part.
// Returns false if their columns are linearly dependent.
bool solve(const std::vector<Row>& rows, unsigned used, Row& x) {
  std::array<std::array<double, kUnknowns + 1>, kUnknowns> system{};
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    if (!(used >> i & 1)) {
      system[i][i] = 1;
      continue;
    }
    for (const Row& row : rows) {
      for (std::size_t j = 0; j < kUnknowns; ++j) system[i][j] += (used >> j & 1) ? row[i] * row[j] : 0;
      system[i][kUnknowns] += row[i];
    }
  }
  // Gaussian elimination needs no pivoting here, since the matrix is positive definite.
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    const double pivot = system[i][i];
    if (!(pivot > 0)) return false;
    for (double& value : system[i]) value /= pivot;
    for (std::size_t k = 0; k < kUnknowns; ++k) {
      if (k == i) continue;
      const double factor = system[k][i];
      for (std::size_t j = 0; j <= kUnknowns; ++j) system[k][j] -= factor * system[i][j];
    }
  }
  for (std::size_t i = 0; i < kUnknowns; ++i) x[i] = system[i][kUnknowns];
  return std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value) && value >= 0; });
}

double error_of(const std::vector<Row>& rows, const Row& x) {
  double error = 0;
  for (const Row& row : rows) {
    const double off = row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - 1;
    error += off * off;
  }
  return error;
}

}  // namespace

AllReduce algorithm_of(const CommPoint& point) {
  for (const AllReduce algorithm :
       {AllReduce::ring, AllReduce::tree, AllReduce::recursive_doubling, AllReduce::halving_doubling}) {
    if (point.subject == std::string("heddle_") + name_of(algorithm)) return algorithm;
  }
  throw std::runtime_error("the model does not know what " + point.subject + " does");
}

NetworkCost fit_of(const std::vector<CommPoint>& points) {
  std::vector<Row> rows;
  for (const CommPoint& point : points) rows.push_back(row_of(point));
  Row best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned used = 1; used < 1u << kUnknowns; ++used) {
    Row x{};
    if (!solve(rows, used, x) || error_of(rows, x) >= least) continue;
    least = error_of(rows, x);
    best = x;
  }
  if (!std::isfinite(least)) throw std::runtime_error("there is nothing to fit the model to");
  return network_of(best);
}

double ratio_to_model(const NetworkCost& network, const CommPoint& point) {
  return modelled(network, point) / (point.microseconds * 1e-6);
}

}  // namespace heddle::bench
