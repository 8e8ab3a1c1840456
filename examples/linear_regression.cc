// Fits y = 3 x + 2 through noise by gradient descent: arrays, the tape, and nothing else.
#include <cmath>
#include <cstdio>

#include <heddle/heddle.h>

using namespace heddle;

int main() {
  Generator generator(1);
  NDArray x = generator.uniform({256, 1}, -1, 1);
  NDArray y = x * 3 + 2 + generator.normal({256, 1}, 0, 0.1);

  NDArray weight = zeros({1, 1}), bias = zeros({1});
  set_requires_grad(weight);
  set_requires_grad(bias);

  NDArray loss;
  for (int step = 0; step < 200; ++step) {
    loss = mean(square(matmul(x, weight) + bias - y));
    backward(loss);
    NoGrad no_grad;  // the tape must not record the update
    for (NDArray parameter : {weight, bias}) {
      parameter -= grad(parameter) * 0.2;
      clear_grad(parameter);
    }
  }
  // All calls of the training loop are asynchronous; item() waits for a value.
  float slope = weight.item<float>(), offset = bias.item<float>(), left = loss.item<float>();
  std::printf("y = %.3f x + %.3f, mean squared error %.4f\n", slope, offset, left);
  return std::abs(slope - 3) < 0.05 && std::abs(offset - 2) < 0.05 && left < 0.02 ? 0 : 1;
}
