// Each operation of a thread, in every order of threads. Runs on the emulated GPU and on a real one.
#include <vector>

#include <doctest/doctest.h>

#include "samples/memory.h"
#include "samples/operations.h"
#include "samples/seeds.h"

namespace heddle::test {
namespace {

TEST_CASE("each thread of a grid with three dimensions runs once and knows its place") {
  for_each_seed([] {
    const OnDevice<int> out(12 * 30);
    const TestStream stream;
    check(write_index(stream, dim3(2, 3, 2), dim3(5, 3, 2), out.data()));
    const std::vector<int> got = out.values(stream);
    for (int i = 0; i < 360; ++i) REQUIRE(got[static_cast<std::size_t>(i)] == i / 30 * 1000 + i % 30);
  });
}

TEST_CASE("votes of a block and of a warp") {
  for_each_seed([] {
    const OnDevice<int> out(64 * 8);
    const TestStream stream;
    check(votes(stream, out.data()));
    const std::vector<int> got = out.values(stream);
    for (int rank = 0; rank < 64; ++rank) {
      const int* own = got.data() + rank * 8;
      CHECK(own[0] == 22);
      CHECK(own[1] == 1);
      CHECK(own[2] == 0);
      CHECK(own[3] == 1);
      CHECK(static_cast<unsigned>(own[4]) == 0xaaaaaaaau);
      CHECK(own[5] == (rank < 32 ? 3 : 0));
      CHECK(static_cast<unsigned>(own[6]) == 0xffu << rank % 32 / 8 * 8);
      CHECK(own[7] == 0);
    }
  });
}

TEST_CASE("shuffles exchange values of a warp, and of a part of it") {
  for_each_seed([] {
    const OnDevice<double> out(64 * 6);
    const TestStream stream;
    check(shuffles(stream, out.data()));
    const std::vector<double> got = out.values(stream);
    for (int rank = 0; rank < 64; ++rank) {
      const int lane = rank % 32;
      const double* own = got.data() + rank * 6;
      CHECK(own[0] == 5.5);
      CHECK(own[1] == (lane < 3 ? lane : lane - 3) + 0.5);
      CHECK(own[2] == (lane > 28 ? lane : lane + 3) + 0.5);
      CHECK(own[3] == (lane ^ 9) + 0.5);
      CHECK(own[4] == lane / 8 * 8 + 1.5);
      double sum = 0;
      for (int i = 0; i < (lane < 16 ? 3 : 5); ++i) sum += (lane ^ 1 << i % 4) + 0.5;
      CHECK(own[5] == sum);
    }
  });
}

template <class T> void check_atomics() {
  const OnDevice<T> at(std::vector<T>{0, T(1000), 0, 0, 0});
  const TestStream stream;
  check(atomics(stream, at.data()));
  const std::vector<T> got = at.values(stream);
  CHECK(got[0] == T(150 * 151 / 2));
  CHECK(got[3] == got[0]);
  CHECK((got[4] >= T(1) && got[4] <= T(150)));
  if constexpr (std::is_integral_v<T>) {
    CHECK(got[1] == 1);
    CHECK(got[2] == 150);
  }
}

TEST_CASE("atomic operations") {
  for_each_seed([] {
    check_atomics<int>();
    check_atomics<unsigned>();
    check_atomics<long long>();
    check_atomics<unsigned long>();
    check_atomics<float>();
    check_atomics<double>();
  });
}

TEST_CASE("the last block sees what the others have written before their atomic operation") {
  for_each_seed([] {
    const OnDevice<int> partial(9), arrived(std::vector<int>{0}), total(1);
    const TestStream stream;
    check(last_block(stream, partial.data(), arrived.data(), total.data()));
    CHECK(total.values(stream)[0] == 45);
  });
}

}  // namespace
}  // namespace heddle::test
