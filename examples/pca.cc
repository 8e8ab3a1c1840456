// Principal component analysis: the directions in which points spread most. They are the right singular
// vectors of the centred points; the squares of the singular values are proportional to the variances along
// them.
#include <cmath>
#include <cstdio>

#include <heddle/heddle.h>

#include "svg.h"

using namespace heddle;

constexpr int kPoints = 300;
// kAngle: of the cloud's long axis; kLong, kShort: the standard deviations along both axes
constexpr double kAngle = 0.5, kLong = 2, kShort = 0.5;

int main(int argc, char** argv) {
  Generator generator(2);
  const double c = std::cos(kAngle), s = std::sin(kAngle);
  NDArray turn = array({c, s, -s, c}).view_as({2, 2});  // the rows of `turn` are the axes of the cloud
  NDArray round = generator.normal({kPoints, 2}, 0, 1, DType::f64);
  NDArray points = matmul(round * array({kLong, kShort}), turn) + array({1.0, 0.5});

  NDArray centre = mean(points, {0});
  std::vector<NDArray> parts = svd(points - centre, false);  // {U, S, V^T}
  NDArray axes = parts[2];                                   // a row each, the longest first
  NDArray deviations = parts[1] / std::sqrt(kPoints - 1.0);

  // In the coordinates of the axes the points are uncorrelated, and their total variance is the same.
  NDArray projected = matmul(points - centre, transpose(axes));
  NDArray covariance = matmul(transpose(projected), projected) / (kPoints - 1);
  double mixed = max(abs(covariance - diag(square(deviations)))).item<double>();
  double lost = std::abs((sum(var(points, {0}, 1)) - sum(square(deviations))).item<double>());

  auto axis = axes.to_vector<double>(), size = deviations.to_vector<double>();
  auto middle = centre.to_vector<double>();
  double off = std::abs(std::remainder(std::atan2(axis[1], axis[0]) - kAngle, std::acos(-1.0)));
  std::printf("deviations %.3f and %.3f, the long axis is %.3f rad off\n", size[0], size[1], off);

  svg::Picture picture(-5, 7, -3.2, 4.2);
  picture.axes();
  picture.points(slice(points, 1, {0, 1}).to_vector<double>(), slice(points, 1, {1, 2}).to_vector<double>(),
                 "#9bbcd8");
  // a line of two standard deviations to both sides of the centre, along each axis
  for (std::size_t i = 0; i < 2; ++i) {
    double x = 2 * size[i] * axis[2 * i], y = 2 * size[i] * axis[2 * i + 1];
    picture.line({middle[0] - x, middle[0] + x}, {middle[1] - y, middle[1] + y},
                 i == 0 ? "#d62728" : "#ff7f0e", 3);
  }
  bool saved = picture.save(argc > 1 ? argv[argc - 1] : "pca.svg");
  bool right = off < 0.05 && mixed < 1e-9 && lost < 1e-9 && std::abs(size[0] - kLong) < 0.2;
  return saved && right ? 0 : 1;
}
