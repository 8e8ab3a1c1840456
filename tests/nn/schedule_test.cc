#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/schedule.h>

using namespace heddle;

TEST_CASE("a constant schedule never changes") {
  Schedule schedule = constant_schedule(0.5);
  CHECK(schedule(0) == 0.5);
  CHECK(schedule(1'000'000) == 0.5);
}

TEST_CASE("a step schedule falls by its factor") {
  Schedule schedule = step_schedule(1, 10, 0.5);
  CHECK(schedule(0) == 1);
  CHECK(schedule(9) == 1);
  CHECK(schedule(10) == 0.5);
  CHECK(schedule(29) == 0.25);
}

TEST_CASE("a cosine schedule runs from lr to final_lr and stays") {
  Schedule schedule = cosine_schedule(1, 100, 0.2);
  CHECK(schedule(0) == doctest::Approx(1));
  CHECK(schedule(25) == doctest::Approx(0.6 + 0.4 * std::sqrt(0.5)));
  CHECK(schedule(50) == doctest::Approx(0.6));
  CHECK(schedule(100) == doctest::Approx(0.2));
  CHECK(schedule(1000) == doctest::Approx(0.2));
}

TEST_CASE("warm-up scales the first rates of another schedule") {
  Schedule schedule = warm_up(4, step_schedule(1, 2, 0.5));
  CHECK(schedule(0) == doctest::Approx(0.25));
  CHECK(schedule(1) == doctest::Approx(0.5));
  CHECK(schedule(2) == doctest::Approx(0.5 * 0.75));
  CHECK(schedule(3) == doctest::Approx(0.5));
  CHECK(schedule(4) == 0.25);
}

TEST_CASE("cosines begin anew, in periods that may grow") {
  const Schedule same = cosine_restarts_schedule(1, 10, 0.2), cosine = cosine_schedule(1, 10, 0.2);
  const Schedule longer = cosine_restarts_schedule(1, 10, 0.2, 2), second = cosine_schedule(1, 20, 0.2);
  for (int step = 0; step < 30; ++step) CHECK(same(step) == doctest::Approx(cosine(step % 10)));
  for (int step = 0; step < 10; ++step) CHECK(longer(step) == doctest::Approx(cosine(step)));
  for (int step = 10; step < 30; ++step) CHECK(longer(step) == doctest::Approx(second(step - 10)));
  CHECK(longer(30) == 1);
  CHECK(longer(1'000'000'000'000) >= 0.2);
}

TEST_CASE("a polynomial falls, or rises, and stays") {
  const Schedule line = polynomial_schedule(1, 10), square = polynomial_schedule(1, 10, 2, 0.5);
  CHECK(line(0) == 1);
  CHECK(line(3) == doctest::Approx(0.7));
  CHECK(line(10) == 0);
  CHECK(line(11) == 0);
  CHECK(square(5) == doctest::Approx(0.5 + 0.5 * 0.25));
  CHECK(polynomial_schedule(0, 4, 1, 1)(1) == doctest::Approx(0.25));
}

TEST_CASE("one cycle goes up and down") {
  const Schedule cycle = one_cycle_schedule(1, 101, {.rise = 0.5, .linear = true});
  CHECK(cycle(0) == doctest::Approx(0.04));
  CHECK(cycle(49) < 1);
  CHECK(cycle(50) < 1);
  CHECK(cycle(50) > 0.98);
  CHECK(cycle(100) == doctest::Approx(0.04 / 1e4));
  CHECK(cycle(1000) == cycle(100));
  const Schedule down = one_cycle_schedule(1, 11, {.rise = 0});
  CHECK(down(0) == 1);
  CHECK(down(5) == doctest::Approx((1 + 0.04 / 1e4) / 2));
  CHECK(one_cycle_schedule(1, 1)(0) > 0);
}

TEST_CASE("schedules are joined and scaled") {
  const Schedule both = join_schedules(5, polynomial_schedule(0, 5, 1, 0.5), cosine_schedule(0.5, 10));
  CHECK(both(0) == 0);
  CHECK(both(4) == doctest::Approx(0.4));
  CHECK(both(5) == doctest::Approx(0.5));
  CHECK(both(10) == doctest::Approx(0.25));
  CHECK(scale_schedule(both, 1024.0 / 256)(4) == doctest::Approx(1.6));
}

TEST_CASE("schedules refuse what makes no sense") {
  CHECK_THROWS_AS(constant_schedule(-1), InvalidArgument);
  CHECK_THROWS_AS(constant_schedule(std::numeric_limits<double>::quiet_NaN()), InvalidArgument);
  CHECK_THROWS_AS(step_schedule(1, 0), InvalidArgument);
  CHECK_THROWS_AS(cosine_schedule(1, 0), InvalidArgument);
  CHECK_THROWS_AS(cosine_schedule(1, 10, -1), InvalidArgument);
  CHECK_THROWS_AS(warm_up(0, constant_schedule(1)), InvalidArgument);
  CHECK_THROWS_WITH_AS(warm_up(5, {}), "warm_up: the schedule to warm up to is empty", InvalidArgument);
  CHECK_THROWS_WITH_AS(cosine_restarts_schedule(1, 10, 0, 0.5),
                       "cosine_restarts_schedule: factor must be finite and at least 1, not 0.5",
                       InvalidArgument);
  CHECK_THROWS_AS(polynomial_schedule(1, 0), InvalidArgument);
  CHECK_THROWS_AS(polynomial_schedule(1, 10, -1), InvalidArgument);
  CHECK_THROWS_WITH_AS(one_cycle_schedule(1, 10, {.rise = 2}),
                       "one_cycle_schedule: rise must be in [0, 1], not 2", InvalidArgument);
  CHECK_THROWS_AS(one_cycle_schedule(1, 10, {.first_divisor = 0}), InvalidArgument);
  CHECK_THROWS_WITH_AS(join_schedules(3, constant_schedule(1), {}),
                       "join_schedules: the schedule behind it is empty", InvalidArgument);
  CHECK_THROWS_AS(scale_schedule({}, 2), InvalidArgument);
}
