#include "core/collective.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace heddle;
using namespace heddle::comm_detail;

namespace {

template <class T> std::vector<T> combined(ReduceOp op, std::vector<T> a, const std::vector<T>& b) {
  auto* to = reinterpret_cast<std::byte*>(a.data());
  combine_of(op, dtype_of<T>)(to, to, reinterpret_cast<const std::byte*>(b.data()), a.size());
  return a;
}

CallRecord sample() {
  CallRecord record;
  record.kind = Kind::all_reduce;
  record.dtype = DType::f32;
  record.sequence = 12;
  record.count = 1000;
  record.line = 31;
  std::strcpy(record.site, "train.cc");
  record.set_agreement();
  return record;
}

}  // namespace

TEST_CASE("reductions are those of the element type") {
  CHECK(combined<float>(ReduceOp::sum, {1, 2}, {3, 4}) == std::vector<float>{4, 6});
  CHECK(combined<double>(ReduceOp::prod, {2, 3}, {5, 7}) == std::vector<double>{10, 21});
  CHECK(combined<std::int32_t>(ReduceOp::min, {-1, 5}, {3, 4}) == std::vector<std::int32_t>{-1, 4});
  CHECK(combined<std::int64_t>(ReduceOp::max, {-1, 5}, {3, 4}) == std::vector<std::int64_t>{3, 5});
  CHECK(combined<std::uint8_t>(ReduceOp::sum, {200}, {100}) == std::vector<std::uint8_t>{44});
  const auto most = std::numeric_limits<std::int32_t>::max();
  CHECK(combined<std::int32_t>(ReduceOp::sum, {most}, {1}) ==
        std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min()});
  CHECK_THROWS_AS(combine_of(ReduceOp::avg, DType::boolean), InvalidArgument);
}

TEST_CASE("min and max keep a NaN on either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    CHECK(std::isnan(combined<float>(op, {nan}, {1})[0]));
    CHECK(std::isnan(combined<float>(op, {1}, {nan})[0]));
  }
}

namespace {

// Combines every bit pattern of a half type with numbers of each kind. The result must be computed in f32 and
// rounded once.
template <class Half> void check_halves() {
  const std::vector<double> others = {0.0, -0.0, 1.0, -3.0, 1e-7, 60000, -1e30, HUGE_VAL, std::nan("")};
  for (double other : others) {
    std::vector<Half> a, b;
    for (unsigned bits = 0; bits < 65536; ++bits) {
      a.push_back(Half::from_bits(static_cast<std::uint16_t>(bits)));
      b.push_back(Half(other));
    }
    const auto expect = [&](ReduceOp op, auto of_floats) {
      const std::vector<Half> made = combined<Half>(op, a, b);
      int wrong = 0;
      for (std::size_t i = 0; i < made.size(); ++i) {
        const float x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
        const float wanted = std::isnan(x) || std::isnan(y) ? std::nanf("") : of_floats(x, y);
        wrong += std::isnan(wanted) ? !std::isnan(static_cast<float>(made[i])) : !(made[i] == Half(wanted));
      }
      CHECK(wrong == 0);
    };
    expect(ReduceOp::sum, [](float x, float y) { return x + y; });
    expect(ReduceOp::avg, [](float x, float y) { return x + y; });
    expect(ReduceOp::prod, [](float x, float y) { return x * y; });
    expect(ReduceOp::min, [](float x, float y) { return x < y ? x : y; });
    expect(ReduceOp::max, [](float x, float y) { return x > y ? x : y; });
  }
  std::vector<Half> values(3000, Half(10));
  scale(reinterpret_cast<std::byte*>(values.data()), values.size(), dtype_of<Half>, 3);
  CHECK(values == std::vector<Half>(3000, Half(10.0f / 3.0f)));
}

}  // namespace

TEST_CASE("halves are combined as f32, and rounded once") {
  check_halves<Float16>();
  check_halves<BFloat16>();
}

TEST_CASE("i8 wraps around, and an average takes more ranks than it can count") {
  CHECK(combined<std::int8_t>(ReduceOp::sum, {127, -128}, {1, -1}) == std::vector<std::int8_t>{-128, 127});
  CHECK(combined<std::int8_t>(ReduceOp::prod, {16, -3}, {16, 5}) == std::vector<std::int8_t>{0, -15});
  CHECK(combined<std::int8_t>(ReduceOp::min, {-1, 5}, {3, 4}) == std::vector<std::int8_t>{-1, 4});
  CHECK(combined<std::int8_t>(ReduceOp::max, {-1, 5}, {3, 4}) == std::vector<std::int8_t>{3, 5});
  std::int8_t value = 100;
  scale(reinterpret_cast<std::byte*>(&value), 1, DType::i8, 256);
  CHECK(value == 0);
  value = -100;
  scale(reinterpret_cast<std::byte*>(&value), 1, DType::i8, 4);
  CHECK(value == -25);
}

TEST_CASE("bools: sum is or, prod is and") {
  const bool no = false, yes = true;
  bool out = false;
  const auto bytes = [](const bool* value) { return reinterpret_cast<const std::byte*>(value); };
  combine_of(ReduceOp::sum, DType::boolean)(reinterpret_cast<std::byte*>(&out), bytes(&no), bytes(&yes), 1);
  CHECK(out);
  combine_of(ReduceOp::prod, DType::boolean)(reinterpret_cast<std::byte*>(&out), bytes(&no), bytes(&yes), 1);
  CHECK_FALSE(out);
}

TEST_CASE("ranks agree on everything but the place") {
  const CallRecord one = sample();
  const auto differs = [&](auto change) {
    CallRecord other = sample();
    change(other);
    other.set_agreement();
    return other.agreement != one.agreement;
  };
  CHECK(differs([](CallRecord& r) { r.kind = Kind::reduce; }));
  CHECK(differs([](CallRecord& r) { r.op = ReduceOp::max; }));
  CHECK(differs([](CallRecord& r) { r.dtype = DType::f64; }));
  CHECK(differs([](CallRecord& r) { r.count = 1001; }));
  CHECK(differs([](CallRecord& r) { r.root = 0; }));
  CHECK(differs([](CallRecord& r) { r.sequence = 13; }));
  CHECK(differs([](CallRecord& r) { r.epoch = 1; }));
  CHECK(differs([](CallRecord& r) { r.algorithm = Algorithm::ring; }));
  CHECK_FALSE(differs([](CallRecord& r) { r.line = 32; }));
  CHECK_FALSE(differs([](CallRecord& r) { r.failed = 1; }));
}

TEST_CASE("a record from outside is looked at before it is believed") {
  CHECK(sample().valid());
  const auto refused = [](auto change) {
    CallRecord other = sample();
    change(other);
    return !other.valid();
  };
  CHECK(refused([](CallRecord& r) { r.magic = 0; }));
  CHECK(refused([](CallRecord& r) { r.version = 2; }));
  CHECK(refused([](CallRecord& r) { r.kind = static_cast<Kind>(99); }));
  CHECK(refused([](CallRecord& r) { r.op = static_cast<ReduceOp>(5); }));
  CHECK(refused([](CallRecord& r) { r.dtype = static_cast<DType>(std::size(kAllDTypes)); }));
  CHECK(refused([](CallRecord& r) { std::memset(r.site, 'x', sizeof r.site); }));
}

TEST_CASE("a record reads like the call") {
  CHECK(sample().to_string() == "all_reduce #12 sum f32 x 1000 at train.cc:31");
}

TEST_CASE("a path that is too long loses its first folders, which the record shows") {
  const auto text_at = [](const std::string& path, std::string_view tag) {
    CallRecord record = sample();
    std::memset(record.site, 0, sizeof record.site);
    path.copy(record.site, CallRecord::kSite);
    if (!tag.empty()) record.set_tag(tag);
    CHECK(record.valid());
    const std::string text = record.to_string();
    return text.substr(text.find(" at ") + 4);
  };
  const std::string long_tag(30, 'k');
  CHECK(text_at("/src/of/some/large/project/layers/dense.cc", "") ==
        "/src/of/some/large/project/layers/dense.cc:31");
  CHECK(text_at("/src/of/some/large/project/layers/dense.cc", long_tag) == ".../project/layers/dense.cc:31");
  CHECK(text_at(std::string(50, 's') + ".cc", long_tag) == "..." + std::string(24, 's') + ".cc:31");
  CallRecord record = sample();
  record.set_site(std::source_location::current());
  const std::string whole = __FILE__;
  const std::string site = record.site;
  CHECK((site == whole || (site.starts_with(".../") && whole.ends_with(site.substr(3)))));
}

TEST_CASE("a record has a tag, on which ranks have to agree and which it shows") {
  CallRecord tagged = sample();
  tagged.set_tag("push of key 3");
  tagged.set_agreement();
  CHECK(tagged.tag() == "push of key 3");
  CHECK(tagged.valid());
  CHECK(tagged.to_string() == "all_reduce #12 sum f32 x 1000 (push of key 3) at train.cc:31");
  CHECK(tagged.agreement != sample().agreement);
  CallRecord other = sample();
  other.set_tag("push of key 4");
  other.set_agreement();
  CHECK(tagged.agreement != other.agreement);
}

TEST_CASE(
    "a tag that is too long shows its beginning and a hash of all of it, and leaves room for the site") {
  const std::string beginning(100, 'k');
  std::vector<CallRecord> records;
  for (const char* end : {"1", "2"}) {
    CallRecord record = sample();
    std::memset(record.site, 's', CallRecord::kSite - 2);
    std::strcpy(record.site + CallRecord::kSite - 2, ".h");
    record.set_tag(beginning + end);
    record.set_agreement();
    CHECK(record.valid());
    CHECK(record.tag().size() == CallRecord::kTag);
    CHECK(record.tag().starts_with("kkkkkkkk"));
    CHECK(record.to_string().find(") at ...sssssss.h:31") != std::string::npos);
    records.push_back(record);
  }
  CHECK(records[0].tag() != records[1].tag());
  CHECK(records[0].agreement != records[1].agreement);
}

TEST_CASE("a tag from outside does not lead out of its record") {
  CallRecord record = sample();
  std::memset(record.site, 'x', CallRecord::kSite);
  record.tag_at = CallRecord::kSite;
  CHECK(record.tag().empty());
  record.tag_at = 1;
  CHECK(record.tag().size() == CallRecord::kSite - 1);
  record.tag_at = 255;
  CHECK_FALSE(record.valid());
  CHECK(record.tag().empty());
}

TEST_CASE("parts are even, and cover everything once") {
  for (std::size_t count : {0u, 1u, 7u, 64u, 1000u}) {
    for (int parts : {1, 2, 3, 7, 8}) {
      std::size_t end = 0;
      for (int part = 0; part < parts; ++part) {
        const Part here = part_of(count, part, parts);
        CHECK(here.begin == end);
        CHECK(here.count <= count / static_cast<std::size_t>(parts) + 1);
        end += here.count;
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("algorithms have names") {
  CHECK(algorithm_from_name("ring") == Algorithm::ring);
  CHECK(std::string(name_of(Algorithm::halving_doubling)) == "halving_doubling");
  CHECK_THROWS_AS(algorithm_from_name("fast"), InvalidArgument);
}
