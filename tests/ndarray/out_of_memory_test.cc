#include <message_of.h>
#include <new>
#include <string>

#include <doctest/doctest.h>

#include <heddle/array_error.h>
#include <heddle/array_op.h>

using namespace heddle;

namespace {

constexpr std::int64_t kTooMany = std::int64_t{1} << 59;  // 2^61 bytes of f32
const std::string kWanted = "an array of f32 (2, " + std::to_string(kTooMany / 2) + ") asks for " +
                            std::to_string(kTooMany * 4) + " bytes; arrays hold ";

}  // namespace

TEST_CASE("memory that an op cannot have is an error that names op, shape and bytes") {
  const NDArray small = zeros({1000});
  small.wait();
  const NDArray huge = zeros({2, kTooMany / 2});
  const std::string text = test::message_of<OutOfMemory>([&] { huge.wait(); });
  CAPTURE(text);
  CHECK(text.starts_with("out of memory in op 'fill': " + kWanted));
  const std::string held = text.substr(text.find(kWanted) + kWanted.size());
  CHECK(std::stoull(held) >= 4000);
  CHECK(held.find(" bytes now, and ") != std::string::npos);
  CHECK_THROWS_AS(huge.wait(), std::bad_alloc);
}

TEST_CASE("memory that cannot be had outside ops is the same error") {
  const NDArray huge({2, kTooMany / 2});
  const std::string text = test::message_of<OutOfMemory>([&] { huge.data<float>(); });
  CHECK(text.starts_with("out of memory: " + kWanted));
  Storage storage(current_engine(), cpu(), std::size_t{1} << 61);
  CHECK(test::message_of<OutOfMemory>([&] {
          storage.data();
        }).find("a storage of 2305843009213693952 bytes") != std::string::npos);
}

TEST_CASE("an op's memory error is that of the op that asked, not of what it poisons") {
  const NDArray huge = zeros({2, kTooMany / 2}), sum({1});
  array_push("reader", {huge}, {sum}, [] {});
  CHECK(test::message_of<OutOfMemory>([&] { sum.wait(); }).starts_with("out of memory in op 'fill'"));
}

TEST_CASE("a copy of the error says the same") {
  const OutOfMemory error("a test", 5);
  const OutOfMemory copy = error;
  CHECK(std::string(copy.what()) == error.what());
  CHECK(copy.bytes() == 5);
}
