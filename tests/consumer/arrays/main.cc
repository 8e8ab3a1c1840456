// A program that uses installed arrays: checks that a copy has the values from before a later write to the
// array.
#include <cstdio>
#include <vector>

#include <heddle/ndarray.h>

int main() {
  heddle::NDArray a = heddle::full({2, 3}, 2.0);
  heddle::NDArray before = a.copy();
  a.assign(heddle::full({2, 3}, 5.0));
  const std::vector<float> old_values = before.to_vector<float>(), new_values = a.to_vector<float>();
  std::printf("%g %g\n", old_values.at(5), new_values.at(5));
  return old_values == std::vector<float>(6, 2.0F) && new_values == std::vector<float>(6, 5.0F) ? 0 : 1;
}
