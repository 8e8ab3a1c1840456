// A program with a bug, for fuzz_program_test: it sums squares, and the op that reports the sum does not
// declare that it reads it. On an idle machine that op nearly always runs last anyway.
// Prints the order of its ops and the reported sum; exits with 1 if the sum is not 385. --fixed declares the
// dependency.
#include <cstdio>
#include <cstring>
#include <string>

#include <heddle/engine.h>

int main(int count, char** arguments) {
  const bool fixed = count > 1 && std::strcmp(arguments[1], "--fixed") == 0;
  heddle::Engine engine;  // has the scheduler that HEDDLE_SCHEDULER names
  heddle::Var sum = engine.new_var(), report = engine.new_var();
  std::string order;
  int total = 0, reported = 0;
  for (int i = 1; i <= 10; ++i) {
    engine.push([&, i] { total += i * i, order += static_cast<char>('a' + i - 1); },
                {.read = {sum}, .mutate = {sum}});
  }
  heddle::Access access{.mutate = {report}, .name = "report"};
  if (fixed) access.read.add(sum);
  engine.push([&] { reported = total, order += '!'; }, access);
  engine.wait_all();
  std::printf("%s %d\n", order.c_str(), reported);
  return reported == 385 ? 0 : 1;
}
