// Matrix factorisation: approximates a table of ratings, most of them unknown, by the product of two thin
// matrices. Gradient descent fits the known ratings; the product predicts the unknown ones.
#include <cmath>
#include <cstdio>

#include <heddle/heddle.h>

#include "svg.h"

using namespace heddle;

constexpr int kUsers = 40, kItems = 30, kRank = 2, kSteps = 120;
constexpr double kKnown = 0.4;  // fraction of the ratings that are known

int main(int argc, char** argv) {
  Generator generator(1);
  NDArray left = generator.normal({kUsers, kRank}), right = generator.normal({kRank, kItems});
  NDArray ratings = matmul(left, right);
  NDArray known = generator.bernoulli({kUsers, kItems}, kKnown), unknown = 1 - known;

  NDArray users = generator.normal({kUsers, kRank}, 0, 0.3);
  NDArray items = generator.normal({kRank, kItems}, 0, 0.3);
  set_requires_grad(users);
  set_requires_grad(items);
  auto adam = create_optimizer("adam", {{"lr", 0.05}});

  std::vector<NDArray> losses, others;  // arrays instead of numbers, since reading a number would wait for it
  for (int step = 0; step < kSteps; ++step) {
    NDArray error = square(matmul(users, items) - ratings);
    NDArray loss = sum(error * known) / sum(known);
    backward(loss);
    losses.push_back(loss.detach());
    others.push_back(sum(error.detach() * unknown) / sum(unknown));
    adam->update(0, users, grad(users));
    adam->update(1, items, grad(items));
    clear_grad(users);
    clear_grad(items);
  }

  NDArray steps = arange(0, kSteps, 1, DType::f64);
  auto logarithms = [](const std::vector<NDArray>& values) {
    return log10(cast(stack(values), DType::f64)).to_vector<double>();
  };
  std::vector<double> fitted = logarithms(losses), predicted = logarithms(others);
  std::printf("mean squared error: of the known ratings 10^%.1f, of the others 10^%.1f\n", fitted.back(),
              predicted.back());

  svg::Picture picture(0, kSteps, -5, 1);
  picture.axes();
  picture.line(steps.to_vector<double>(), fitted, "#1f77b4");
  picture.line(steps.to_vector<double>(), predicted, "#d62728");
  picture.text(70, 0.6, "log10 of the squared error");
  picture.text(70, 0.2, "known ratings", "#1f77b4");
  picture.text(70, -0.2, "unknown ratings", "#d62728");
  bool saved = picture.save(argc > 1 ? argv[argc - 1] : "factorisation.svg");
  return saved && fitted.back() < -3 && predicted.back() < -3 ? 0 : 1;
}
