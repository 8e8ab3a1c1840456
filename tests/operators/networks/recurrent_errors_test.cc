// What recurrent networks refuse.
#include <cstdint>
#include <limits>
#include <message_of.h>
#include <string>

#include <doctest/doctest.h>

#include <heddle/ops.h>

using namespace heddle;
using heddle::test::message_of;

TEST_CASE("sizes whose product does not fit 64 bits are refused") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const RecurrentWeights one{zeros({1, 0}), zeros({1, 1})}, four{zeros({4, 0}), zeros({4, 1})},
      three{zeros({3, 0}), zeros({3, 1})};
  for (const std::int64_t steps : {kHuge, std::numeric_limits<std::int64_t>::max()}) {
    const NDArray x = zeros({steps, 1, 0});
    CHECK(why([&] { rnn(x, one); }).find("rnn: shape (") == 0);
    CHECK(why([&] { lstm(x, four); }).find("more elements than fit 64 bits") != std::string::npos);
    CHECK(why([&] { gru(x, three); }).find("gru: shape (") == 0);
  }
  CHECK(why([&] { lstm(zeros({1, kHuge, 0}), four); }).find("lstm: shape (") == 0);
  CHECK(why([&] { lstm(zeros({1, 1, 0}), {zeros({0, 0}), zeros({0, kHuge})}); }).find("lstm: shape (") == 0);
}

TEST_CASE("recurrent networks refuse what does not fit") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const NDArray x = ones({4, 3, 2}), ih = ones({12, 2}), hh = ones({12, 3});
  CHECK(why([&] { lstm(ones({4, 2}), {ih, hh}); }) == "lstm: x is (4, 2); want (T, N, F)");
  CHECK(why([&] {
          lstm(ones({4, 2}), {ih, hh}, {}, {}, {.batch_first = true});
        }) == "lstm: x is (4, 2); want (N, T, F)");
  CHECK(why([&] {
          lstm(ones({4, 3, 2}, DType::i32), {ih, hh});
        }) == "lstm: dtype i32; wanted a floating one");
  CHECK(why([&] { lstm(x, {ih, ones({9, 3})}); }) == "lstm: weight_hh is (9, 3); want (4 * H, H)");
  CHECK(why([&] { rnn(x, {ih, ones({9, 3})}); }) == "rnn: weight_hh is (9, 3); want (H, H)");
  CHECK(why([&] { gru(x, {ih, ones({9})}); }) == "gru: weight_hh is (9,); want (3 * H, H)");
  CHECK(why([&] { lstm(x, {ones({12, 3}), hh}); }) == "lstm: weight_ih is f32 (12, 3); want f32 (12, 2)");
  CHECK(why([&] {
          lstm(x, {ih.astype(DType::f64), hh});
        }) == "lstm: weight_ih is f64 (12, 2); want f32 (12, 2)");
  CHECK(why([&] { lstm(x, {ih, hh, ones({3})}); }) == "lstm: bias_ih is f32 (3,); want f32 (12,)");
  CHECK(why([&] { lstm(x, {ih, hh, {}, ones({12, 1})}); }) == "lstm: bias_hh is f32 (12, 1); want f32 (12,)");
  CHECK(why([&] { lstm(x, {ih, hh}, ones({2, 3})); }) == "lstm: h is f32 (2, 3); want f32 (3, 3)");
  CHECK(why([&] { lstm(x, {ih, hh}, {}, ones({1, 3, 3})); }) == "lstm: c is f32 (1, 3, 3); want f32 (3, 3)");
  CHECK(why([&] {
          lstm(x, {ih, hh}, {}, {}, {.lengths = ones({3})});
        }) == "lstm: lengths are f32 (3,); want integers (3,)");
  CHECK(why([&] {
          lstm(x, {ih, hh}, {}, {}, {.lengths = ones({4}, DType::i64)});
        }) == "lstm: lengths are i64 (4,); want integers (3,)");
  const RecurrentWeights projected{ih, ones({12, 5}), {}, {}, ones({5, 3})};
  CHECK(lstm(x, projected)[0].shape() == Shape{4, 3, 5});  // a projection may be wider than what it projects
  CHECK(why([&] { lstm(x, {ih, hh, {}, {}, ones({5})}); }) == "lstm: weight_hr is (5,); want (P, H)");
  CHECK(why([&] {
          lstm(x, {ih, ones({9, 5}), {}, {}, ones({5, 3})});
        }) == "lstm: weight_hh is (9, 5); want (4 * H, P)");
  CHECK(why([&] {
          lstm(x, {ih, hh, {}, {}, ones({5, 3})});
        }) == "lstm: weight_hh is f32 (12, 3); want f32 (12, 5)");
  CHECK(why([&] { lstm(x, projected, ones({3, 3})); }) == "lstm: h is f32 (3, 3); want f32 (3, 5)");
  CHECK(why([&] { lstm(x, projected, {}, ones({3, 5})); }) == "lstm: c is f32 (3, 5); want f32 (3, 3)");
  CHECK(why([&] {
          lstm(x, {ih, hh, {}, {}, {}, ones({3, 3})});
        }) == "lstm: peepholes is f32 (3, 3); want f32 (9,)");
  CHECK(why([&] {
          gru(x, {ih, hh, {}, {}, ones({5, 3})});
        }) == "gru: weight_hr is given; only an lstm has it");
  CHECK(why([&] {
          rnn(x, {ih, hh, {}, {}, {}, ones({9})});
        }) == "rnn: peepholes are given; only an lstm has them");
  CHECK(why([&] {
          lstm(x, {ih, hh}, {}, {}, {.reset_after = false});
        }) == "lstm: reset_after is false; only a gru has it");
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 40}) {
    const NDArray lengths = array<std::int64_t>({4, bad, 0});
    const std::string message = message_of<Error>([&] {
      lstm(x, {ih, hh}, {}, {}, {.lengths = lengths})[0].wait();
    });
    CHECK(message.find("lstm: lengths[1] is " + std::to_string(bad) + "; want 0 to 4") != std::string::npos);
  }
  const NDArray lengths = array<std::uint64_t>({4, ~std::uint64_t{0}, 0});
  try {
    lstm(x, {ih, hh}, {}, {}, {.lengths = lengths})[0].wait();
    FAIL("nothing was thrown");
  } catch (const InvalidIndex&) {
    FAIL("a length is no index");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("lengths[1] is 18446744073709551615; want 0 to 4") !=
          std::string::npos);
  }
}
