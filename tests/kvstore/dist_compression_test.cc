// Compressed pushes to servers: sums compared with codecs applied by hand, and refused requests.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/compression.h>
#include <heddle/engine.h>
#include <heddle/ops.h>

#include "arguments.h"
#include "client/placement.h"
#include "core_host.h"
#include "dist_job.h"
#include "message_of.h"
#include "server/state/state_stream.h"

using namespace heddle;
using namespace heddle::test;
using kv_detail::Kind;
using kv_detail::Request;
using Floats = std::vector<float>;

namespace {

const std::vector<const char*> kCodecs =
    kSanitized ? std::vector<const char*>{"2bit:0.5"}
               : std::vector<const char*>{"fp16", "bf16", "1bit", "2bit:0.5", "topk:0.01"};
// Numbers of elements; a value of kLarge elements is split over three servers.
constexpr std::int64_t kLarge = 900'000, kSmall = 1'000;
constexpr int kRounds = 4;

Floats gradient(int rank, int round, std::int64_t size) {
  std::mt19937 random(static_cast<unsigned>(100 * rank + round));
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(size));
  for (float& one : values) one = normal(random);
  return values;
}

// What the servers decode of a pushed value. Updates the worker's residual.
Floats sent(const Codec& codec, Floats value, Floats& residual, int servers) {
  const std::uint64_t bytes = value.size() * sizeof(float);
  for (const kv_detail::KeyPart& part :
       kv_detail::place_keys({{"0", bytes, sizeof(float)}}, servers, kv_detail::Placement::hash)) {
    const std::size_t at = part.offset / sizeof(float), count = part.bytes / sizeof(float);
    const std::span<float> mine = std::span(value).subspan(at, count),
                           left = std::span(residual).subspan(at, count);
    Floats wanted(count);
    for (std::size_t i = 0; i < count; ++i) wanted[i] = mine[i] + left[i];
    std::vector<std::byte> encoded(codec.encoded_bytes(count));
    codec.encode(wanted, encoded);
    codec.decode(encoded, mine);
    for (std::size_t i = 0; i < count; ++i) left[i] = wanted[i] - mine[i];
  }
  return value;
}

}  // namespace

TEST_CASE(
    "compressed pushes: sums are those of what the codecs make, and only the last residuals are missing") {
  for (const char* const name : kCodecs) {
    CAPTURE(std::string(name));
    const auto codec = make_codec(name);
    Floats sum(kLarge, 0.0F), exact(kLarge, 0.0F);
    std::vector<Floats> residuals(2, Floats(kLarge, 0.0F));
    for (int round = 0; round < kRounds; ++round) {
      Floats of_round(kLarge, 0.0F);
      for (int rank = 0; rank < 2; ++rank) {
        const Floats mine = gradient(rank, round, kLarge);
        const Floats decoded = sent(*codec, mine, residuals[static_cast<std::size_t>(rank)], 3);
        for (std::size_t i = 0; i < sum.size(); ++i) of_round[i] += decoded[i], exact[i] += mine[i];
      }
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_round[i];
    }
    run_job({.workers = 2, .servers = 3, .compression = name}, [&](KVStore& store) {
      store.set_optimizer("add");
      store.init(0, zeros({kLarge}));
      store.init(1, zeros({kSmall}));
      NDArray out = zeros({kLarge}), small = zeros({kSmall});
      for (int round = 0; round < kRounds; ++round) {
        const NDArray value = array(gradient(store.rank(), round, kLarge), {kLarge});
        round % 2 == 0 ? store.push(0, value) : store.push_pull(0, std::vector{value}, std::vector{out});
        store.push(1, full({kSmall}, 0.1F));
      }
      store.pull(0, out);
      store.pull(1, small);
      CHECK(out.to_vector<float>() == sum);
      // Exact, since a value of kSmall elements is too small to be compressed.
      CHECK(small.to_vector<float>()[0] == doctest::Approx(0.1 * 2 * kRounds));
    });
    double worst = 0;
    for (std::size_t i = 0; i < sum.size(); ++i)
      worst = std::max(worst, std::abs(double{exact[i]} - sum[i] - residuals[0][i] - residuals[1][i]));
    CHECK(worst < 1e-4);
  }
}

TEST_CASE(
    "compressed pushes: in all stores, by both transports, into the array that was pushed, with errors") {
  for (const char* const transport : kTransports) {
    for (const char* const type : {"dist_sync", "dist_async", "dist_ssp:1"}) {
      CAPTURE(std::string(transport));
      CAPTURE(std::string(type));
      run_job({.workers = 2, .servers = 2, .type = type, .transport = transport, .compression = "fp16"},
              [](KVStore& store) {
                store.set_optimizer("add");
                NDArray value = zeros({kLarge});
                store.init(0, value);
                for (int i = 0; i < 3; ++i) {
                  value.fill(1);
                  store.push_pull(0, std::vector{value}, std::vector{value});
                }
                store.barrier();
                store.pull(0, value);
                CHECK(value.to_vector<float>() == Floats(kLarge, 6));
                const NDArray poisoned({kLarge});
                current_engine().push([] { throw Error("no gradient"); }, {.mutate = {poisoned.var()}});
                store.push(0, poisoned);
                CHECK(message_of<Error>([&] { store.pull(0, value), value.wait(); }).find("no gradient") !=
                      std::string::npos);
                store.barrier();
                store.clear_errors();
                current_engine().clear_error(value.var());
                store.push(0, ones({kLarge}));
                store.barrier();
                store.pull(0, value);
                CHECK(value.to_vector<float>() == Floats(kLarge, 8));
              });
    }
  }
}

TEST_CASE("compressed pulls: what a worker has follows what the server has, and is exact in the end") {
  for (const char* const name : kCodecs) {
    CAPTURE(std::string(name));
    run_job({.workers = 2, .servers = 3, .pull_compression = name}, [&](KVStore& store) {
      store.set_optimizer("add");
      store.init(0, zeros({kLarge}));
      store.init(1, zeros({kSmall}));
      NDArray out = zeros({kLarge}), other = zeros({kLarge}), small = zeros({kSmall});
      Floats exact(kLarge, 0.0F);
      double first = 0;
      for (int round = 0; round < kRounds; ++round) {
        store.push_pull(0, std::vector{array(gradient(store.rank(), round, kLarge), {kLarge})},
                        std::vector{out, other});
        store.push_pull(1, std::vector{ones({kSmall})}, std::vector{small});
        Floats of_round = gradient(0, round, kLarge);
        const Floats theirs = gradient(1, round, kLarge);
        for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += of_round[i] + theirs[i];
        CHECK(small.to_vector<float>() == Floats(kSmall, 2.0F * static_cast<float>(round + 1)));
      }
      // The pulls of push_pull are compressed and leave an error. Later pulls, without further pushes,
      // transfer what is missing.
      double error = 0;
      for (int pull = 0; pull < 8; ++pull) {
        error = 0;
        const Floats pulled = out.to_vector<float>();
        for (std::size_t i = 0; i < exact.size(); ++i) error += std::abs(double{pulled[i]} - exact[i]);
        if (pull == 0) first = error;
        store.pull(0, out);
      }
      CHECK(first < 2.0 * kRounds * kLarge);
      CHECK(error <= first);
    });
  }
}

TEST_CASE("compressed pulls: after an error, a lost connection or without memory the value comes as it is") {
  using namespace kv_detail;
  Host host({.memory_limit = 70'000});
  kv_detail::Link link(host, hello_of(0, 1, "async"));
  link.ask({.kind = Kind::set_optimizer, .text = "add"});
  const Floats value(4096, 0.1F);
  const std::uint32_t key =
      link.ask({.kind = Kind::init, .has_value = true, .bytes = 4 * value.size(), .text = "a"},
               bytes_of(value))
          .first.key;
  std::uint32_t has = 0;
  const auto pull = [&] {
    const auto [reply, bytes] = link.ask({.kind = Kind::pull, .key = key, .bytes = has, .text = "fp16"});
    CHECK(reply.text.empty());
    has = reply.key;
    return bytes.size();
  };
  CHECK(pull() == 4 * value.size());
  CHECK(has == 1);
  CHECK(pull() == 2 * value.size());
  CHECK(has == 2);
  has = 1;  // the worker asks again with the former version, as if it had not received the last answer
  CHECK(pull() == 4 * value.size());
  CHECK(has == 1);
  CHECK(pull() == 2 * value.size());
  link.cut();
  CHECK(pull() == 4 * value.size());
  CHECK(has == 1);
  Floats infinite = value;
  infinite[7] = INFINITY;
  link.ask({.kind = Kind::push,
            .overwrite = true,
            .has_value = true,
            .key = key,
            .clock = 1,
            .bytes = 4 * value.size()},
           bytes_of(infinite));
  CHECK(pull() == 4 * value.size());
  CHECK(pull() == 4 * value.size());
  const std::uint32_t other =
      link.ask({.kind = Kind::init, .has_value = true, .bytes = 4 * value.size(), .text = "b"},
               bytes_of(value))
          .first.key;
  const auto [reply, bytes] = link.ask({.kind = Kind::pull, .key = other, .text = "fp16"});
  CHECK(bytes.size() == 4 * value.size());
  const std::uint32_t third =
      link.ask({.kind = Kind::init, .has_value = true, .bytes = 2 * value.size(), .text = "c"},
               bytes_of(Floats(2048)))
          .first.key;
  // To make room for key `third`, the server has dropped what it kept for compressed pulls. It now has room
  // for that of `third` and of `key`, but not of `other`.
  CHECK(link.ask({.kind = Kind::pull, .key = third, .text = "fp16"}).first.key == 1);
  CHECK(link.ask({.kind = Kind::pull, .key = key, .text = "fp16"}).first.key == 1);
  CHECK(link.ask({.kind = Kind::pull, .key = other, .text = "fp16"}).first.key == 0);
  CHECK(link.ask({.kind = Kind::pull, .key = third, .text = "zip"}).first.text.find("'zip'") !=
        std::string::npos);
}

namespace {

// A worker of a job on a core, with one key.
struct OneWorker {
  explicit OneWorker(std::uint64_t memory_limit = 0)
      : host({.memory_limit = memory_limit}), link(host, kv_detail::hello_of(0, 1, "async")) {
    link.ask({.kind = Kind::set_optimizer, .text = "add"});
    key = link.ask({.kind = Kind::init, .has_value = true, .bytes = kBytes, .text = "a"},
                   kv_detail::Bytes(kBytes))
              .first.key;
  }
  std::string push(std::uint64_t clock) {
    return link
        .ask({.kind = Kind::push, .key = key, .clock = clock, .bytes = kBytes}, kv_detail::Bytes(kBytes))
        .first.text;
  }
  Request pull(std::uint32_t has, const char* codec = "fp16") const {
    return {.kind = Kind::pull, .key = key, .bytes = has, .text = codec};
  }
  static constexpr std::size_t kBytes = 16'384;
  kv_detail::Host host;
  kv_detail::Link link;
  std::uint32_t key;
};

}  // namespace

TEST_CASE("compressed pulls: an encoding that is longer than the value is not used") {
  OneWorker one;
  std::uint32_t has = 0;
  for (int i = 0; i < 3; ++i) {
    const auto [reply, bytes] = one.link.ask(one.pull(has, "topk:0.9"));
    CHECK(bytes.size() == OneWorker::kBytes);
    has = reply.key;
  }
}

TEST_CASE("compressed pulls: what was sent gives way to pushes where memory is limited") {
  OneWorker one(40'000);
  CHECK(one.link.ask(one.pull(0)).first.key == 1);
  CHECK(one.push(1).empty());
  CHECK(one.link.ask(one.pull(1)).second.size() == OneWorker::kBytes);
}

TEST_CASE("compressed pulls: of a worker that is gone nothing is kept") {
  kv_detail::Host host;
  kv_detail::Link a(host, kv_detail::hello_of(0, 2, "sync")), b(host, kv_detail::hello_of(1, 2, "sync"));
  const std::uint32_t key =
      a.ask({.kind = Kind::init, .has_value = true, .bytes = 4000, .text = "a"}, kv_detail::Bytes(4000))
          .first.key;
  b.ask({.kind = Kind::init, .bytes = 4000, .text = "a"});
  const Request push{.kind = Kind::push, .key = key, .clock = 1, .bytes = 4000};
  b.ask(push, kv_detail::Bytes(4000));
  b.send({.kind = Kind::pull, .key = key, .clock = 1, .text = "fp16"});
  b.settle();
  b.die();
  // Includes the push of the worker that died, which waits for its round.
  const std::uint64_t before = host.core.memory_used();
  a.ask(push, kv_detail::Bytes(4000));
  CHECK(host.core.memory_used() == before - 4000);
}

TEST_CASE("compressed pulls: a server that goes on with an older state says what is lost") {
  OneWorker one;
  one.push(1);
  const auto state = kv_detail::saved_state(one.host.core);
  one.push(2);
  kv_detail::Host again;
  {
    kv_detail::StateLoader loader(again.core);
    for (const auto& [head, payload] : state) loader.add(head, payload);
    REQUIRE(loader.complete());
  }
  CHECK(again.core.memory_used() == one.host.core.memory_used());
  again.core.restored("then", 7);
  kv_detail::Link link(again, kv_detail::hello_of(0, 1, "async"));
  Request pull = one.pull(5);
  pull.clock = 2;
  CHECK(link.ask(pull).first.text.find("was restored from a snapshot of then") != std::string::npos);
}

TEST_CASE("compressed pushes: what no codec has made is refused, and the key goes on") {
  using namespace kv_detail;
  Host host;
  kv_detail::Link link(host, hello_of(0, 1, "async"));
  link.ask({.kind = Kind::set_optimizer, .text = "add"});
  const auto init = [&](const char* name, DType dtype, std::uint64_t bytes) {
    return link
        .ask({.kind = Kind::init, .has_value = true, .dtype = dtype, .bytes = bytes, .text = name},
             Bytes(bytes))
        .first.key;
  };
  const std::uint32_t key = init("a", DType::f32, 4000), wide = init("b", DType::f64, 8000);
  const auto why = [&](Request request, std::size_t bytes) {
    request.kind = Kind::push;
    request.clock = 1;
    request.bytes = bytes;
    return link.ask(request, Bytes(bytes)).first.text;
  };
  CHECK(why({.key = key, .text = "zip"}, 2000).find("compressed by there is no compression 'zip'") !=
        std::string::npos);
  CHECK(why({.key = key, .text = "fp16"}, 1998).find("1998 bytes of fp16; 1000 values take 2000") !=
        std::string::npos);
  CHECK(why({.key = key, .text = "none"}, 4000).find("a push compressed by nothing") != std::string::npos);
  CHECK(why({.dtype = DType::f64, .key = wide, .text = "fp16"}, 2000).find("compressed f64; want f32") !=
        std::string::npos);
  CHECK(why({.overwrite = true, .has_value = true, .key = key, .text = "fp16"}, 2000)
            .find("a compressed overwrite") != std::string::npos);
  CHECK(why({.key = key, .text = "fp16"}, 2000).empty());
  // A push with an index beyond the value: the server closes the connection, as after any malformed message.
  const auto codec = make_codec("topk:0.01");
  Bytes encoded(codec->encoded_bytes(1000), std::byte{0xff});
  CHECK_THROWS_AS(
      link.ask({.kind = Kind::push, .key = key, .clock = 2, .bytes = encoded.size(), .text = "topk:0.01"},
               encoded),
      kv_detail::MalformedMessage);
}

TEST_CASE("compressed pushes: a local store has nothing to compress, and an unknown codec is named") {
  CHECK(message_of<InvalidArgument>([] { KVStore::create("local", {.compression = "fp16"}); }) ==
        "KVStore::create: nothing of a local store travels that compression fp16 would make smaller");
  CHECK(KVStore::create("local", {.compression = "none"})->type() == "local");
  CHECK(message_of<InvalidArgument>([] {
          KVStore::create("dist_sync", {.compression = "zip"});
        }).find("'zip'") != std::string::npos);
}
