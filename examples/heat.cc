// The heat equation on a square plate whose edge is kept at 0. Each step adds to every inner point a part of the
// difference to its four neighbours. The neighbours are views of the plate, shifted by one: no index is written.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <heddle/heddle.h>

#include "svg.h"

using namespace heddle;

constexpr int kPoints = 20, kSteps = 30;  // kPoints: along an edge; kSteps: in time
constexpr double kPi = 3.14159265358979323846, kSpace = 1.0 / (kPoints - 1), kTime = kSpace * kSpace / 5;

// u[1 + down : -1 + down, 1 + right : -1 + right]
NDArray inner(const NDArray& u, int down, int right) {
  return u(Slice{1 + down, kPoints - 1 + down}, Slice{1 + right, kPoints - 1 + right});
}

// The exact solution: two products of sines, each of which keeps its shape and decays at its own rate.
NDArray exact(double time) {
  NDArray x = linspace(0, kPi, kPoints, true, DType::f64);
  return outer(sin(x), sin(x)) * std::exp(-2 * kPi * kPi * time) +
         outer(sin(x * 3), sin(x * 2)) * std::exp(-13 * kPi * kPi * time);
}

// The colour of a value from -1.5 (blue) over 0 (white) to 1.5 (red).
std::string color_of(double value) {
  const int weak = static_cast<int>(std::lround(15 - std::min(std::abs(value) / 1.5, 1.0) * 15));
  char text[8];
  std::snprintf(text, sizeof text, value > 0 ? "#f%x%x" : "#%x%xf", weak, weak);
  return text;
}

void draw(svg::Picture& picture, const NDArray& u, int left) {
  std::vector<double> values = u.to_vector<double>();
  for (int i = 0; i < kPoints * kPoints; ++i) {
    const std::string color = color_of(values[static_cast<std::size_t>(i)]);
    picture.cell(left + i % kPoints, kPoints - 1 - i / kPoints, 1, color);
  }
}

int main(int argc, char** argv) {
  svg::Picture picture(0, 2 * kPoints + 2, 0, kPoints, 20 * kPoints + 84, 10 * kPoints + 64);
  NDArray u = exact(0);
  draw(picture, u, 0);
  NDArray middle = inner(u, 0, 0);
  for (int step = 0; step < kSteps; ++step) {
    NDArray around = inner(u, -1, 0) + inner(u, 1, 0) + inner(u, 0, -1) + inner(u, 0, 1);
    middle += (around - middle * 4) * (kTime / (kSpace * kSpace));  // changes u: middle is a view of it
  }
  double error = max(abs(u - exact(kSteps * kTime))).item<double>();
  std::printf("after %.3f: at most %.5f from the exact solution\n", kSteps * kTime, error);
  draw(picture, u, kPoints + 2);
  bool saved = picture.save(argc > 1 ? argv[argc - 1] : "heat.svg");
  return saved && error < 0.01 ? 0 : 1;
}
