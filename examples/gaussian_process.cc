// Gaussian process regression: fits a curve through noisy points, with its uncertainty everywhere. One
// Cholesky factor of the covariances solves for the mean and for the variance.
#include <cmath>
#include <cstdio>

#include <heddle/heddle.h>

#include "svg.h"

using namespace heddle;

constexpr int kData = 14, kPlaces = 81;
constexpr double kLength = 1.2, kNoise = 0.15;

// Squared exponential covariances (n, m) between the points x (n, 1) and y (m, 1).
NDArray covariance(const NDArray& x, const NDArray& y) {
  return exp(square((x - transpose(y)) / kLength) * -0.5);
}

int main(int argc, char** argv) {
  Generator generator(4);
  NDArray x = generator.uniform({kData, 1}, -4, 4, DType::f64);
  NDArray y = sin(x) + generator.normal({kData, 1}, 0, kNoise, DType::f64);
  NDArray places = linspace(-6, 6, kPlaces, true, DType::f64).view_as({kPlaces, 1});

  NDArray among_data = covariance(x, x) + eye(kData, DType::f64) * (kNoise * kNoise);
  NDArray to_places = covariance(x, places);  // (data, places)
  NDArray factor = cholesky(among_data);
  NDArray half = solve_triangular(factor, y, false);
  NDArray spread = solve_triangular(factor, to_places, false);
  NDArray curve = matmul(transpose(spread), half);  // (places, 1)
  NDArray variance = 1 - sum(square(spread), {0});  // (places)
  NDArray deviation = sqrt(expand_dims(maximum(variance, 0), 1));

  // The check: solve() gives the same mean, and nearly everywhere the true curve, sin, lies within the
  // uncertainty.
  NDArray by_solve = matmul(transpose(to_places), solve(among_data, y));
  double apart = max(abs(curve - by_solve)).item<double>();
  NDArray in_band = abs(curve - sin(places)) <= deviation * 2;
  double inside = mean(cast(in_band, DType::f64)).item<double>();
  std::printf("%.3f of the curve are in the band; solve differs by %.1e\n", inside, apart);

  auto at = places.to_vector<double>();
  auto edge = concat({curve + deviation * 2, flip(curve - deviation * 2)}).to_vector<double>();
  svg::Picture picture(-6, 6, -3, 3);
  picture.polygon(concat({places, flip(places)}).to_vector<double>(), edge, "#dce9f5");
  picture.axes();
  picture.line(at, sin(places).to_vector<double>(), "#999", 1);
  picture.line(at, curve.to_vector<double>(), "#1f77b4");
  for (int i = 0; i < kData; ++i) picture.point(x[i].item<double>(), y[i].item<double>(), "#d62728", 4);
  bool saved = picture.save(argc > 1 ? argv[argc - 1] : "gaussian_process.svg");
  return saved && inside > 0.9 && apart < 1e-9 ? 0 : 1;
}
