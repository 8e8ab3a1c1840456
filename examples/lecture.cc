// The smallest program there is: A = 2; B = A + 1; D = A * B. First on plain variables, then on arrays.
#include <cstdio>
#include <iostream>

#include <heddle/heddle.h>

int main() {
  // The engine knows the data only by vars. A push returns at once. Ops run in parallel where this does not
  // change the result of running them in order.
  heddle::Engine engine;
  heddle::Var a = engine.new_var(), b = engine.new_var(), d = engine.new_var();
  int A = 0, B = 0, D = 0;
  engine.push([&] { A = 2; }, {.mutate = {a}});
  engine.push([&] { B = A + 1; }, {.read = {a}, .mutate = {b}});
  engine.push([&] { D = A * B; }, {.read = {a, b}, .mutate = {d}});
  engine.wait(d);
  std::printf("on plain data: D = %d\n", D);

  // Each array has its own var. Only printing z blocks: it waits for the value.
  heddle::NDArray x = heddle::full({2, 3}, 2);
  heddle::NDArray y = x + 1;
  heddle::NDArray z = x * y;
  std::cout << "on arrays: D =\n" << z << "\n";

  for (float value : z.to_vector<float>()) {
    if (value != 6) return 1;
  }
  return D == 6 ? 0 : 1;
}
