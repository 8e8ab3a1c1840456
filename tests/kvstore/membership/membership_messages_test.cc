#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "files.h"
#include "membership/scheduler_state.h"
#include "message_of.h"
#include "wire/membership.h"

using namespace heddle;
using namespace heddle::kv_detail;
using heddle::test::message_of;

namespace {

using Bytes = std::vector<std::byte>;

Views some_views() {
  return {.version = 7,
          .servers = {{0, 11, "10.0.0.1:9463"}, {1, 12, "[::1]:1"}},
          .shards = {{3, 11, 12, false}, {4, 12, 0, true}}};
}

std::vector<Bytes> of_members() {
  return {encode(Registration{.role = Role::server,
                              .number = 3,
                              .servers = 4,
                              .workers = 5,
                              .replicas = 2,
                              .incarnation = 99,
                              .cluster = 8,
                              .version = 9,
                              .job = "job",
                              .address = "host:1",
                              .process = "host, process 1"}),
          encode(Heartbeat{.version = 3, .synced = {{0, 4}, {1, 5}}, .leaving = true}), encode(Unregister{})};
}

std::vector<Bytes> of_schedulers() {
  return {encode(Registered{.number = 3, .servers = 4, .workers = 5, .heartbeat = 100, .cluster = 6}),
          encode(Refused{.retry = 100, .text = "why"}), encode(some_views()),
          encode(Status{.over = true, .text = "waiting"})};
}

// Checks that `decode` refuses truncated messages and additional bytes, and survives random changes and
// random bytes.
template <class Decode> void attack(const std::vector<Bytes>& messages, Decode decode) {
  std::mt19937 random(1);
  for (const Bytes& message : messages) {
    CHECK_NOTHROW(decode(message));
    for (std::size_t length = 0; length < message.size(); ++length)
      CHECK_THROWS_AS(decode(std::span(message).first(length)), MalformedMessage);
    Bytes longer = message;
    longer.push_back({});
    CHECK_THROWS_AS(decode(longer), MalformedMessage);
    for (int i = 0; i < 3000; ++i) {
      Bytes other = message;
      for (unsigned changes = 1 + random() % 4; changes > 0; --changes)
        other[random() % other.size()] = static_cast<std::byte>(random());
      try {
        decode(other);
      } catch (const MalformedMessage& error) {
        CHECK(std::string(error.what()) != "");
      }
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random() % 80);
    for (std::byte& one : bytes) one = static_cast<std::byte>(random());
    if (!bytes.empty() && i % 2 == 0) bytes[0] = static_cast<std::byte>(128 + random() % 8);
    try {
      decode(bytes);
    } catch (const MalformedMessage& error) {
      CHECK(std::string(error.what()) != "");
    }
  }
}

}  // namespace

TEST_CASE("membership messages: all fields arrive") {
  const auto registration = std::get<Registration>(decode_from_member(of_members()[0]));
  CHECK(registration.role == Role::server);
  CHECK(registration.number == 3);
  CHECK(registration.servers == 4);
  CHECK(registration.workers == 5);
  CHECK(registration.replicas == 2);
  CHECK(registration.incarnation == 99);
  CHECK(registration.cluster == 8);
  CHECK(registration.version == 9);
  CHECK(registration.job == "job");
  CHECK(registration.address == "host:1");
  CHECK(registration.process == "host, process 1");
  const auto heartbeat = std::get<Heartbeat>(decode_from_member(of_members()[1]));
  CHECK(heartbeat.version == 3);
  REQUIRE(heartbeat.synced.size() == 2);
  CHECK(heartbeat.synced[1].shard == 1);
  CHECK(heartbeat.synced[1].epoch == 5);
  CHECK(heartbeat.leaving);
  CHECK(std::holds_alternative<Unregister>(decode_from_member(of_members()[2])));
  const auto registered = std::get<Registered>(decode_from_scheduler(of_schedulers()[0]));
  CHECK(registered.number == 3);
  CHECK(registered.servers == 4);
  CHECK(registered.workers == 5);
  CHECK(registered.heartbeat == 100);
  CHECK(registered.cluster == 6);
  CHECK(std::get<Refused>(decode_from_scheduler(of_schedulers()[1])).retry == 100);
  CHECK(std::get<Views>(decode_from_scheduler(of_schedulers()[2])) == some_views());
  CHECK(std::get<Status>(decode_from_scheduler(of_schedulers()[3])).over);
}

TEST_CASE("membership messages: the most servers fit into one head, and more are refused") {
  Views views{.version = 1};
  for (std::uint32_t i = 0; i < kMostServers; ++i) {
    views.servers.push_back({i, i + 1, std::string(kMaxAddress, 'a')});
    views.shards.push_back({1, i + 1, 0, false});
  }
  CHECK(encode(views).size() <= 64 << 10);
  CHECK(std::get<Views>(decode_from_scheduler(encode(views))) == views);
  views.shards.push_back({});
  CHECK_THROWS_AS(decode_from_scheduler(encode(views)), MalformedMessage);
  CHECK_THROWS_AS(decode_from_scheduler(encode(Views{.version = 1, .servers = {{kMostServers, 1, "a"}}})),
                  MalformedMessage);
}

TEST_CASE("membership messages: whatever bytes come, they are a message or they are refused") {
  attack(of_members(), [](std::span<const std::byte> bytes) { decode_from_member(bytes); });
  attack(of_schedulers(), [](std::span<const std::byte> bytes) { decode_from_scheduler(bytes); });
}

TEST_CASE("scheduler state: what is on disk is what was saved, or it is refused") {
  const SchedulerState state{
      .cluster = 5, .servers = 2, .replicas = 2, .views = some_views(), .synced = {3, 0}};
  CHECK(decode_scheduler_state(encode(state)) == state);
  attack({encode(state)}, [](std::span<const std::byte> bytes) { decode_scheduler_state(bytes); });
  SchedulerState wrong = state;
  wrong.servers = 3;
  CHECK_THROWS_AS(decode_scheduler_state(encode(wrong)), MalformedMessage);

  const test::TemporaryDirectory directory;
  const std::string path = directory.file("state");
  {
    const StateFile file(path);
    CHECK_FALSE(file.read());
    file.write(state);
    CHECK(*file.read() == state);
    CHECK(message_of<Error>([&] { StateFile second(path); }) ==
          path + ": another scheduler that is running uses it");
  }
  std::string bytes = test::read_file(path);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  test::write_file(path, bytes);
  const StateFile file(path);
  CHECK(message_of<Error>([&] { file.read(); }).starts_with(path + " is damaged: its checksum is wrong."));
  test::write_file(path, "");
  CHECK_THROWS_AS(file.read(), Error);
  CHECK(message_of<Error>([&] {
          StateFile none(directory.file("no/state"));
        }).starts_with(directory.file("no/state") + ".lock: cannot be made"));
}
