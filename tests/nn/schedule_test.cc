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

TEST_CASE("schedules refuse what makes no sense") {
  CHECK_THROWS_AS(constant_schedule(-1), InvalidArgument);
  CHECK_THROWS_AS(constant_schedule(std::numeric_limits<double>::quiet_NaN()), InvalidArgument);
  CHECK_THROWS_AS(step_schedule(1, 0), InvalidArgument);
  CHECK_THROWS_AS(cosine_schedule(1, 0), InvalidArgument);
  CHECK_THROWS_AS(cosine_schedule(1, 10, -1), InvalidArgument);
  CHECK_THROWS_AS(warm_up(0, constant_schedule(1)), InvalidArgument);
  CHECK_THROWS_WITH_AS(warm_up(5, {}), "warm_up: the schedule to warm up to is empty", InvalidArgument);
}
