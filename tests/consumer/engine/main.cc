// Uses only the engine: counts to a thousand on two vars and adds the counts up.
#include <cstdio>

#include <heddle/engine.h>

int main() {
  heddle::Engine engine;
  heddle::Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  int x = 0, y = 0, sum = 0;
  for (int i = 0; i < 1000; ++i) {
    engine.push([&] { ++x; }, {.read = {a}, .mutate = {a}});
    engine.push([&] { y += 2; }, {.read = {b}, .mutate = {b}});
  }
  engine.push([&] { sum = x + y; }, {.read = {a, b}, .mutate = {c}});
  engine.wait(c);
  std::printf("%d\n", sum);
  return sum == 3000 ? 0 : 1;
}
