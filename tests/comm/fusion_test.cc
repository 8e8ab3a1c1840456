// Fusion of small reductions.
#include "communicator/fusion.h"

#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>

#include "gate.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using comm_detail::Call;
using comm_detail::Collective;
using comm_detail::Kind;

namespace {

NDArray floats(std::int64_t count, float value) {
  return array(std::vector<float>(static_cast<std::size_t>(count), value), {count});
}

// A back end that allows the fusion of all_reduces alone.
class Fuses final : public comm_detail::Backend {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "fuses"; }
  void run(Collective& call) override { ran.push_back(call); }
  bool may_fuse(const Collective& call) const override {
    return call.record.kind == Kind::all_reduce && !call.record.failed;
  }
  void abort(const std::string&) noexcept override {}
  std::string flight_recorder() const override { return {}; }
  comm_detail::Survivors& survivors() override { throw std::logic_error("nobody survives"); }
  std::vector<Collective> ran;
};

std::shared_ptr<Call> small(std::vector<float>& data, bool ready = true) {
  auto call = std::make_shared<Call>();
  call->what.record.kind = Kind::all_reduce;
  call->what.record.dtype = DType::f32;
  call->what.record.count = data.size();
  call->what.in = call->what.out = reinterpret_cast<std::byte*>(data.data());
  call->ready = ready;
  return call;
}

}  // namespace

TEST_CASE("fusion: as many of the first calls as are there, alike, and not too much together") {
  std::vector<float> data(10);
  const Fuses backend;
  std::deque<std::shared_ptr<Call>> calls;
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 0);
  for (int i = 0; i < 5; ++i) calls.push_back(small(data));
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 5);
  CHECK(comm_detail::count_fusable(calls, backend, 159) == 3);
  // Only one call fits, and a single call is not fused.
  CHECK(comm_detail::count_fusable(calls, backend, 79) == 0);
  CHECK(comm_detail::count_fusable(calls, backend, 0) == 0);
  calls[3]->ready = false;
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 3);
  calls[2]->what.record.op = ReduceOp::max;
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 2);
  calls[1]->what.record.dtype = DType::i32;
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 0);
  calls[1]->what.record.dtype = DType::f32;
  calls[1]->what.record.failed = 1;
  CHECK(comm_detail::count_fusable(calls, backend, 1000) == 0);
  calls.clear();
  for (int i = 0; i < 300; ++i) calls.push_back(small(data));
  CHECK(comm_detail::count_fusable(calls, backend, 100'000) == 255);
}

TEST_CASE("fusion: what goes as one lies in the order of the calls, and comes back to each") {
  std::vector<float> a{1, 2}, b{3}, c{4, 5, 6};
  const std::vector<std::shared_ptr<Call>> calls{small(a), small(b), small(c)};
  calls[2]->what.record.ahead = 7;
  class Doubles final : public comm_detail::Backend {
   public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    std::string name() const override { return "doubles"; }
    void run(Collective& call) override {
      CHECK(call.record.count == 6);
      CHECK(call.members.size() == 3);
      CHECK(call.record.ahead == 7);
      call.record.ahead = 4;
      for (std::size_t i = 0; i < 6; ++i) reinterpret_cast<float*>(call.out)[i] *= 2;
    }
    void abort(const std::string&) noexcept override {}
    std::string flight_recorder() const override { return {}; }
    comm_detail::Survivors& survivors() override { throw std::logic_error("nobody survives"); }
  } backend;
  std::vector<std::byte> memory;
  comm_detail::run_fused(calls, backend, memory);
  CHECK(a == std::vector<float>{2, 4});
  CHECK(b == std::vector<float>{6});
  CHECK(c == std::vector<float>{8, 10, 12});
  CHECK(calls[2]->what.record.ahead == 4);
}

TEST_CASE("fusion over tcp: random calls, there in random order, come to what each alone would") {
  for (const int ranks : {2, 3}) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      run_job("tcp", ranks, {}, [&](Communicator& comm) {
        std::mt19937 same(seed), own(seed * 17 + static_cast<unsigned>(comm.rank()));
        for (int round = 0; round < 4; ++round) {
          std::vector<NDArray> arrays;
          std::vector<float> expected;
          Gate early(comm.engine()), late(comm.engine());
          for (int i = 0; i < 60; ++i) {
            const auto count = static_cast<std::int64_t>(same() % (same() % 8 ? 50 : 12'000));
            const ReduceOp op = same() % 10 ? ReduceOp::sum : ReduceOp::max;
            const auto value = static_cast<float>(same() % 100);
            arrays.push_back(floats(count, value + static_cast<float>(comm.rank())));
            expected.push_back(op == ReduceOp::max ? value + static_cast<float>(ranks - 1)
                                                   : value * static_cast<float>(ranks) +
                                                         static_cast<float>(ranks * (ranks - 1) / 2));
            if (own() % 4 == 0) (own() % 2 ? early : late).hold(arrays.back());
            comm.all_reduce(arrays.back(), op);
            if (same() % 20 == 0) comm.barrier();
          }
          early.open();
          late.open();
          for (std::size_t i = 0; i < arrays.size(); ++i) {
            for (const float got : arrays[i].to_vector<float>()) REQUIRE(got == expected[i]);
          }
        }
      });
    }
  }
}

TEST_CASE(
    "fusion over tcp: what is added in another order alone is not fused, so bits do not depend on time") {
  for (const char* algorithm : {"auto", "ring", "tree"}) {
    for (const bool reproducible : {false, true}) {
      CAPTURE(std::string(algorithm));
      CAPTURE(reproducible);
      std::vector<std::vector<float>> seen(2);
      for (const std::size_t attempt : {std::size_t{0}, std::size_t{1}}) {
        run_job("tcp", 3, {.algorithm = algorithm, .reproducible = reproducible}, [&](Communicator& comm) {
          std::mt19937 random(7 + static_cast<unsigned>(comm.rank()));
          std::vector<NDArray> arrays;
          Gate gate(comm.engine());
          for (int i = 0; i < 40; ++i) {
            std::vector<float> values(static_cast<std::size_t>(10 + i));
            for (float& value : values) value = static_cast<float>(random()) / 1e7F;
            arrays.push_back(array(values, {10 + i}));
            if (attempt == 1) gate.hold(arrays.back());  // all calls are queued before the first one can run
            comm.all_reduce(arrays.back());
            if (attempt == 0) arrays.back().wait();  // the calls run one by one
          }
          gate.open();
          for (const NDArray& one : arrays) {
            const auto values = one.to_vector<float>();
            if (comm.rank() == 0) seen[attempt].insert(seen[attempt].end(), values.begin(), values.end());
          }
        });
      }
      REQUIRE(seen[0] == seen[1]);
    }
  }
}

TEST_CASE("fusion over tcp: of calls that differ inside one, the two that do are named") {
  const Outcomes outcomes = try_job("tcp", 3, {}, [](Communicator& comm) {
    std::vector<NDArray> arrays;
    Gate gate(comm.engine());
    NDArray first = floats(4, 1);
    for (int i = 0; i < 8; ++i) {
      arrays.push_back(floats(comm.rank() == 1 && i == 5 ? 9 : 8, 1));
      gate.hold(arrays.back());
    }
    comm.all_reduce(first);
    for (const NDArray& array : arrays) comm.all_reduce(array);
    gate.open();
    for (const NDArray& array : arrays) array.wait();
  });
  for (const auto& outcome : outcomes) {
    CHECK(kind_of(outcome) == "CommMismatch");
    CAPTURE(text_of(outcome));
    CHECK(text_of(outcome).find("all_reduce #7 sum f32 x 9") != std::string::npos);
    CHECK(text_of(outcome).find("all_reduce #7 sum f32 x 8") != std::string::npos);
  }
}
