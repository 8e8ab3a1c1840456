// The bytes of messages and of saved states. Processes and files of other versions use the same bytes, so no
// bytes expected here ever change: a new field belongs to a new version.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_creation.h>
#include <heddle/engine.h>
#include <heddle/ndarray.h>

#include "membership/scheduler_state.h"
#include "wire/administration.h"
#include "wire/membership.h"
#include "wire/messages.h"
#include "wire/replication.h"
#include "wire/state_blob.h"
#include "wire/state_records.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

using Bytes = std::vector<std::byte>;

std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte one : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(one) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(one) & 15];
  }
  return text;
}

// The bytes that a text writes as hexadecimal digits; the text has blanks between fields.
Bytes bytes_of(std::string_view fields) {
  std::string digits;
  for (const char one : fields)
    if (one != ' ') digits += one;
  Bytes bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Checks that a message is written as the bytes in `fields`, and that decoding and encoding them again loses
// nothing.
template <class Decode> void check_fields(const Bytes& message, std::string_view fields, Decode&& decode) {
  const Bytes recorded = bytes_of(fields);
  CHECK(hex(message) == hex(recorded));
  CHECK(hex(decode(recorded)) == hex(recorded));
}

template <class Message> Bytes encode_any(const Message& message) {
  return std::visit([](const auto& one) { return encode(one); }, message);
}

template <std::size_t payload> Bytes again_from_worker(const Bytes& head) {
  return encode_any(decode_from_worker(head, payload));
}
Bytes again_from_server(const Bytes& head) { return encode_any(decode_from_server(head, 0)); }
Bytes again_from_member(const Bytes& head) { return encode_any(decode_from_member(head)); }
Bytes again_from_scheduler(const Bytes& head) { return encode_any(decode_from_scheduler(head)); }
Bytes again_from_replica(const Bytes& head) { return encode(decode_replica_message(head)); }
Bytes again_record(const Bytes& bytes) { return encode(decode_record(bytes, 0)); }

Request some_request(Kind kind) {
  return {.kind = kind,
          .overwrite = false,
          .has_value = true,
          .dtype = DType::f64,
          .key = 3,
          .number = 4,
          .clock = 5,
          .offset = 6,
          .bytes = 14,
          .row_bytes = 0,
          .lr = 0.5,
          .scale = 2,
          .priority = -2,
          .text = "ab",
          .whole = {20, 21},
          .keys_digest = 22,
          .settings = 23,
          .collectives = 24};
}

Views some_views() {
  return {
      .version = 7,
      .servers = {{0, 11, "a:1", 4}, {1, 12, "b:2", 2}},
      .shards = {{.epoch = 3, .primary = 11, .backup = 12, .fresh = true},
                 {.epoch = 4, .primary = 12, .handover = true, .copy = 5, .learner = 11, .learner_copy = 6}}};
}

void check_state(const StateRecord& record, std::uint16_t version, std::string_view fields) {
  CAPTURE(version);
  CAPTURE(record.index());
  check_fields(encode(record, version), fields,
               [version](const Bytes& head) { return encode(decode_state_record(head, version), version); });
}

}  // namespace

TEST_CASE("bytes of messages: between workers and servers") {
  check_fields(encode(Hello{.oldest = 2,
                            .newest = 3,
                            .job = "job",
                            .consistency = "sync",
                            .rank = 4,
                            .workers = 5,
                            .server = 6,
                            .servers = 7,
                            .incarnation = 8}),
               "01 0200 0300 03000000 6a6f62 04000000 73796e63 04000000 05000000 06000000 07000000 "
               "0800000000000000",
               again_from_worker<0>);
  check_fields(encode(Welcome{.protocol = 3, .incarnation = 8}), "02 0300 0800000000000000",
               again_from_server);
  check_fields(encode(some_request(Kind::push)),
               "04 00 01 01 03000000 0400000000000000 0500000000000000 0600000000000000 0e00000000000000 "
               "0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_from_worker<8>);
  check_fields(encode(some_request(Kind::init)),
               "03 00 01 01 15000000 0400000000000000 1400000000000000 0600000000000000 0e00000000000000 "
               "0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_from_worker<8>);
  check_fields(encode(some_request(Kind::set_optimizer)),
               "06 00 01 01 03000000 0400000000000000 1600000000000000 0600000000000000 0e00000000000000 "
               "0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_from_worker<8>);
  Request resume = some_request(Kind::resume);
  resume.offset = 0;
  check_fields(encode(resume),
               "12 00 01 01 03000000 0400000000000000 1700000000000000 0000000000000000 1800000000000000 "
               "0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_from_worker<0>);
  Request rows = some_request(Kind::pull);
  rows.row_bytes = 7;
  rows.bytes = 16;
  check_fields(encode(rows),
               "05 00 01 01 03000000 0400000000000000 0500000000000000 0600000000000000 1000000000000000 "
               "0700000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_from_worker<8>);
  Request bundle = some_request(Kind::push_many);
  bundle.offset = 0;
  bundle.entries = {{.key = 7, .bytes = 4, .clock = 8, .dtype = DType::f32},
                    {.key = 9, .bytes = 10, .clock = 11, .dtype = DType::f16}};
  check_fields(encode(bundle),
               "10 00 01 01 03000000 0400000000000000 0500000000000000 0000000000000000 0e00000000000000 "
               "0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162 02000000 07000000 "
               "04000000 0800000000000000 00 09000000 0a000000 0b00000000000000 06",
               again_from_worker<14>);
  check_fields(
      encode(Reply{
          .kind = Kind::failed, .key = 3, .number = 4, .clock = 5, .offset = 6, .bytes = 7, .text = "why"}),
      "0f 03000000 0400000000000000 0500000000000000 0600000000000000 0700000000000000 03000000 "
      "776879",
      again_from_server);
}

TEST_CASE("bytes of messages: between processes and their scheduler") {
  check_fields(encode(Registration{.oldest = 2,
                                   .newest = 3,
                                   .role = Role::server,
                                   .number = 4,
                                   .servers = 5,
                                   .workers = 6,
                                   .replicas = 7,
                                   .incarnation = 8,
                                   .cluster = 9,
                                   .version = 10,
                                   .job = "job",
                                   .address = "host:1",
                                   .process = "me"}),
               "80 0200 0300 01 04000000 05000000 06000000 07000000 0800000000000000 0900000000000000 "
               "0a00000000000000 03000000 6a6f62 06000000 686f73743a31 02000000 6d65",
               again_from_member);
  check_fields(encode(Heartbeat{.version = 3, .synced = {{0, 4}, {1, 5}}, .leaving = true}),
               "81 0300000000000000 02000000 00000000 0400000000000000 01000000 0500000000000000 01",
               again_from_member);
  check_fields(encode(BackupLost{.shard = 3, .epoch = 4}), "87 03000000 0400000000000000", again_from_member);
  check_fields(encode(Unregister{}), "82", again_from_member);
  Registered registered{
      .protocol = 3, .number = 4, .servers = 5, .workers = 6, .heartbeat = 7, .cluster = 8, .secret = 9};
  check_fields(encode(registered),
               "83 0300 04000000 05000000 06000000 07000000 0800000000000000 0900000000000000",
               again_from_scheduler);
  registered.protocol = 1;
  check_fields(encode(registered), "83 0100 04000000 05000000 06000000 07000000 0800000000000000",
               again_from_scheduler);
  check_fields(encode(Refused{.retry = 3, .text = "why"}), "84 03000000 03000000 776879",
               again_from_scheduler);
  check_fields(encode(Status{.over = true, .text = "why"}), "86 01 03000000 776879", again_from_scheduler);
  CHECK(encode(Refused{.text = std::string(20'000, 'a')}).size() == 1 + 4 + 4 + (16 << 10));
  CHECK(encode(Status{.text = std::string(20'000, 'a')}).size() == 1 + 1 + 4 + (16 << 10));
}

TEST_CASE("bytes of messages: views, in each version") {
  const auto again = [](std::uint16_t protocol) {
    return [protocol](const Bytes& head) {
      return encode(std::get<Views>(decode_from_scheduler(head)), protocol);
    };
  };
  check_fields(encode(some_views(), 1),
               "85 0700000000000000 02000000 00000000 0b00000000000000 03000000 613a31 01000000 "
               "0c00000000000000 03000000 623a32 02000000 0300000000000000 0b00000000000000 "
               "0c00000000000000 01 00 0400000000000000 0c00000000000000 0000000000000000 00 01",
               again(1));
  check_fields(encode(some_views(), 2),
               "88 0700000000000000 02000000 00000000 0b00000000000000 03000000 613a31 01000000 "
               "0c00000000000000 03000000 623a32 02000000 0300000000000000 0b00000000000000 "
               "0c00000000000000 01 00 0400000000000000 0c00000000000000 0000000000000000 00 01 0400 0200",
               again(2));
  for (const std::uint16_t protocol : {3, 4})
    check_fields(encode(some_views(), protocol),
                 "89 0700000000000000 02000000 00000000 0b00000000000000 03000000 613a31 01000000 "
                 "0c00000000000000 03000000 623a32 02000000 0300000000000000 0b00000000000000 "
                 "0c00000000000000 01 00 0400000000000000 0c00000000000000 0000000000000000 00 01 0400 0200 "
                 "0000000000000000 0000000000000000 0000000000000000 0500000000000000 0b00000000000000 "
                 "0600000000000000",
                 again(protocol));
}

TEST_CASE("bytes of messages: between a primary and its backup") {
  ReplicaMessage hello{.kind = ReplicaKind::hello,
                       .shard = 3,
                       .epoch = 4,
                       .log = 5,
                       .number = 6,
                       .version = 4,
                       .primary = 7,
                       .secret = 8};
  check_fields(encode(hello),
               "40 03000000 0400000000000000 0500000000000000 0600000000000000 0400 0700000000000000 "
               "0800000000000000",
               again_from_replica);
  hello.version = 1;
  check_fields(encode(hello), "40 03000000 0400000000000000 0500000000000000 0600000000000000",
               again_from_replica);
  const Bytes inner = bytes_of("0102");
  check_fields(
      encode(ReplicaMessage{
          .kind = ReplicaKind::record, .shard = 3, .epoch = 4, .log = 5, .number = 6, .inner = inner}),
      "46 03000000 0400000000000000 0500000000000000 0600000000000000 0102", again_from_replica);

  Record record{.kind = Record::Kind::join,
                .job = "job",
                .rank = 3,
                .number = 4,
                .text = "ab",
                .hello = {.oldest = 1, .newest = 4, .job = "job", .consistency = "sync"},
                .request = some_request(Kind::barrier)};
  check_fields(encode(record),
               "01 03000000 6a6f62 03000000 0400000000000000 02000000 6162 01 0100 0400 03000000 6a6f62 "
               "04000000 73796e63 00000000 01000000 00000000 01000000 0000000000000000",
               again_record);
  record.kind = Record::Kind::request;
  check_fields(encode(record),
               "04 03000000 6a6f62 03000000 0400000000000000 02000000 6162 07 00 01 01 03000000 "
               "0400000000000000 0500000000000000 0600000000000000 0e00000000000000 0000000000000000 "
               "000000000000e03f 0000000000000040 feffffff 02000000 6162",
               again_record);
  record.kind = Record::Kind::fail_key;
  check_fields(encode(record), "05 03000000 6a6f62 03000000 0400000000000000 02000000 6162", again_record);
}

TEST_CASE("bytes of messages: between a server and its administrator") {
  check_fields(encode(AdminRequest{.oldest = 2, .newest = 3, .what = AdminRequest::What::drain}),
               "c0 0200 0300 02", [](const Bytes& head) { return encode(decode_admin_request(head)); });
  check_fields(encode(AdminAnswer{.protocol = 3, .outcome = AdminAnswer::Outcome::refused, .text = "why"}),
               "c1 0300 03 03000000 776879",
               [](const Bytes& head) { return encode(decode_admin_answer(head)); });
  CHECK(encode(AdminAnswer{.text = std::string(40'000, 'a')}).size() == 1 + 2 + 1 + 4 + kMaxAdminText);
}

TEST_CASE("bytes of states: a server's, what is the same in all versions") {
  for (const std::uint16_t version : {1, 2, 3}) {
    check_state(StateBegin{.version = 2,
                           .number = 3,
                           .servers = 4,
                           .incarnation = 5,
                           .jobs_begun = 6,
                           .pushes = 7,
                           .pulls = 8,
                           .duplicates = 9,
                           .refused = 10,
                           .rounds = 11,
                           .worst_staleness = 12},
                version,
                "01 0200 03000000 04000000 0500000000000000 0600000000000000 0700000000000000 "
                "0800000000000000 0900000000000000 0a00000000000000 0b00000000000000 0c00000000000000");
    check_state(StateCollective{.rank = 3, .request = some_request(Kind::barrier)}, version,
                "04 03000000 07 00 01 01 03000000 0400000000000000 0500000000000000 0600000000000000 "
                "0e00000000000000 0000000000000000 000000000000e03f 0000000000000040 feffffff 02000000 6162");
    check_state(StateArray{.role = StateArray::Role::push,
                           .overwrite = true,
                           .has_value = true,
                           .dtype = DType::f64,
                           .rank = 3,
                           .bytes = 16,
                           .lr = 0.5,
                           .scale = 2,
                           .name = "ab"},
                version,
                "06 01 01 01 01 03000000 1000000000000000 0000000000000000 000000000000e03f 0000000000000040 "
                "02000000 6162");
    check_state(StateArray{.role = StateArray::Role::push, .dtype = DType::f64, .bytes = 16, .row_bytes = 8},
                version,
                "06 01 00 01 01 00000000 1000000000000000 0800000000000000 0000000000000000 000000000000f03f "
                "00000000");
    check_state(StatePiece{}, version, "07");
    check_state(StateEnd{.messages = 3}, version, "08 0300000000000000");
  }
}

TEST_CASE("bytes of states: a server's jobs and workers, in each version") {
  const StateJob job{.name = "job",
                     .consistency = "sync",
                     .rule = "add",
                     .incarnation = 3,
                     .workers = 4,
                     .servers = 5,
                     .restored = "now",
                     .generation = 6,
                     .weights = 7,
                     .settings = 8,
                     .collectives = 9};
  check_state(job, 1,
              "02 03000000 6a6f62 04000000 73796e63 03000000 616464 0300000000000000 04000000 05000000 "
              "03000000 6e6f77 06");
  check_state(job, 2,
              "02 03000000 6a6f62 04000000 73796e63 03000000 616464 0300000000000000 04000000 05000000 "
              "03000000 6e6f77 06 0700000000000000");
  check_state(job, 3,
              "02 03000000 6a6f62 04000000 73796e63 03000000 616464 0300000000000000 04000000 05000000 "
              "03000000 6e6f77 06 0700000000000000 0800000000000000 0900000000000000");
  const StateWorker worker{.greeted = true,
                           .dropped = true,
                           .incarnation = 3,
                           .collective_done = 4,
                           .collective_failure = "why",
                           .pushes = 5,
                           .pulls = 6,
                           .bytes_received = 7,
                           .bytes_sent = 8,
                           .clock = -9,
                           .state_set = 10,
                           .passed = 11,
                           .lost_settings = 12};
  check_state(worker, 1,
              "03 01 00 01 00 0300000000000000 0400000000000000 0500000000000000 0600000000000000 "
              "0700000000000000 0800000000000000 f7ffffffffffffff 03000000 776879");
  check_state(worker, 2,
              "03 01 00 01 00 0300000000000000 0400000000000000 0500000000000000 0600000000000000 "
              "0700000000000000 0800000000000000 f7ffffffffffffff 03000000 776879 0a00000000000000");
  check_state(worker, 3,
              "03 01 00 01 00 0300000000000000 0400000000000000 0500000000000000 0600000000000000 "
              "0700000000000000 0800000000000000 f7ffffffffffffff 03000000 776879 0a00000000000000 "
              "0b00000000000000 0c00000000000000");
}

TEST_CASE("bytes of states: a server's keys, in each version") {
  StateKey key{.name = "key",
               .dtype = DType::f64,
               .number = 3,
               .bytes = 16,
               .rounds = 5,
               .whole_bytes = 6,
               .whole_rows = 7,
               .failure = "why",
               .place = 8,
               .failures = {{9, "ab"}, {10, ""}}};
  for (const std::uint16_t version : {1, 2})
    check_state(key, version,
                "05 03000000 6b6579 01 03000000 1000000000000000 0500000000000000 0600000000000000 07000000 "
                "03000000 776879 08000000");
  check_state(key, 3,
              "05 03000000 6b6579 01 03000000 1000000000000000 0500000000000000 0600000000000000 07000000 "
              "03000000 776879 08000000 02000000 09000000 02000000 6162 0a000000 00000000");
  key.place = StateKey::kNoIndex;
  for (const std::uint16_t version : {1, 2})
    check_state(key, version,
                "05 03000000 6b6579 01 03000000 1000000000000000 0500000000000000 0600000000000000 07000000 "
                "03000000 776879");
  check_state(key, 3,
              "05 03000000 6b6579 01 03000000 1000000000000000 0500000000000000 0600000000000000 07000000 "
              "03000000 776879 ffffffff 02000000 09000000 02000000 6162 0a000000 00000000");

  check_fields(encode_clocks({3, 4}, {5, 6}),
               "0300000000000000 0400000000000000 0500000000000000 0600000000000000",
               [](const Bytes& payload) {
                 const Clocks clocks = decode_clocks(payload, 2);
                 return encode_clocks(clocks.clocks, clocks.missed);
               });
}

TEST_CASE("bytes of states: an optimizer's") {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  const StateArrays arrays = {{"mean", array<float>({1, -2}, Shape{2})},
                              {"steps", array<std::int64_t>({3}, Shape{1})}};
  check_fields(encode_state(arrays),
               "04000000 6d65616e 00 0800000000000000 0000803f000000c0 05000000 7374657073 03 "
               "0800000000000000 0300000000000000",
               [](const Bytes& bytes) { return encode_state(decode_state(bytes)); });
}

TEST_CASE("bytes of states: a scheduler's, in each version") {
  SchedulerState state{
      .cluster = 5, .secret = 9, .servers = 2, .replicas = 1, .views = some_views(), .synced = {3, 0}};
  const auto again = [](const Bytes& bytes) { return encode(decode_scheduler_state(bytes)); };
  check_fields(encode(state),
               "6864646573636864 03000000 2ebeeeac 0500000000000000 02000000 01000000 0700000000000000 "
               "02000000 00000000 0b00000000000000 03000000 613a31 01000000 0c00000000000000 03000000 "
               "623a32 02000000 0300000000000000 0b00000000000000 0c00000000000000 01 00 0400000000000000 "
               "0c00000000000000 0000000000000000 00 01 0300000000000000 0000000000000000 0900000000000000 "
               "0400 0200 0000000000000000 0000000000000000 0000000000000000 0500000000000000 "
               "0b00000000000000 0600000000000000",
               again);
  const SchedulerState second = decode_scheduler_state(
      bytes_of("6864646573636864 02000000 05fdcfd4 0500000000000000 02000000 01000000 0700000000000000 "
               "02000000 00000000 0b00000000000000 03000000 613a31 01000000 0c00000000000000 03000000 "
               "623a32 02000000 0300000000000000 0b00000000000000 0c00000000000000 01 00 0400000000000000 "
               "0c00000000000000 0000000000000000 00 01 0300000000000000 0000000000000000 0900000000000000 "
               "0400 0200"));
  CHECK(second.secret == 9);
  CHECK(second.views.servers[1].protocol == 2);
  const SchedulerState first = decode_scheduler_state(
      bytes_of("6864646573636864 01000000 82693f89 0500000000000000 02000000 01000000 0700000000000000 "
               "02000000 00000000 0b00000000000000 03000000 613a31 01000000 0c00000000000000 03000000 "
               "623a32 02000000 0300000000000000 0b00000000000000 0c00000000000000 01 00 0400000000000000 "
               "0c00000000000000 0000000000000000 00 01 0300000000000000 0000000000000000"));
  CHECK(first.secret == 0);
  CHECK(first.synced == state.synced);
}
