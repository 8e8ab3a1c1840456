#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/key.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>

#include "message_of.h"

using namespace heddle;
using heddle::test::message_of;

TEST_CASE("keys: a whole number written as text is that number") {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{5}, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    CHECK(Key(number) == Key(std::to_string(number)));
    CHECK(Key(number).text() == std::to_string(number));
    CHECK(Key(std::to_string(number)).number() == number);
  }
  for (const char* const name : {"05", "+5", "-0", " 5", "5 ", "5.0", "9223372036854775808", "weight"}) {
    CHECK_FALSE(Key(name).is_number());
    CHECK(Key(name).text() == name);
    CHECK(Key(name) == Key(std::string(name)));
  }
  CHECK(Key() == Key(0));
  CHECK(Key(std::uint8_t{7}) == Key(std::size_t{7}));
}

TEST_CASE("keys: numbers in their order, then names in theirs") {
  const std::vector<Key> keys = {-3, 0, 12, "Z", "a", "a.b", "b"};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < keys.size(); ++j) {
      CHECK((keys[i] < keys[j]) == (i < j));
      CHECK((keys[i] == keys[j]) == (i == j));
    }
  }
}

TEST_CASE("keys: what no key can be is refused") {
  CHECK(message_of<InvalidArgument>([] { Key(""); }) == "a key without a name");
  CHECK(message_of<InvalidArgument>([] { Key(std::string(1001, 'x')); }) ==
        "a key of 1001 bytes; a name has at most 1000");
  CHECK(Key(std::string(1000, 'x')).text().size() == 1000);
  CHECK(message_of<InvalidArgument>([] { Key("a\nb"); }) == "a key with control characters in its name");
  CHECK(message_of<InvalidArgument>([] { Key(~std::uint64_t{0}); }) ==
        "key 18446744073709551615 is too large: numbers are int64");
}

TEST_CASE("keys: one name is one key, whichever thread has it first") {
  std::vector<std::vector<Key>> of_threads(4);
  std::vector<std::thread> threads;
  for (std::vector<Key>& mine : of_threads) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 300; ++i) mine.emplace_back("thread key " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Key>& mine : of_threads) CHECK(mine == of_threads[0]);
}

TEST_CASE("keys: an optimizer's state by names with dots goes into an optimizer again") {
  const NDArray weight = ones({2}), gradient = full({2}, 0.5);
  const auto make = [] { return create_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}}); };
  const auto first = make(), second = make();
  for (const Key key : {Key("layer"), Key("layer.weight"), Key(3)}) first->update(key, weight, gradient);
  const std::map<std::string, NDArray> state = first->state();
  CHECK(state.contains("layer.velocity"));
  CHECK(state.contains("layer.weight.velocity"));
  CHECK(state.contains("3.velocity"));
  second->set_state(state);
  const std::map<std::string, NDArray> again = second->state();
  REQUIRE(again.size() == state.size());
  for (const auto& [name, array] : state)
    CHECK(again.at(name).astype(DType::f64).to_vector<double>() ==
          array.astype(DType::f64).to_vector<double>());
  CHECK(message_of<InvalidArgument>([&] {
          second->set_state({{"velocity", weight}});
        }) == "optimizer state: 'velocity' is not KEY.NAME");
}
