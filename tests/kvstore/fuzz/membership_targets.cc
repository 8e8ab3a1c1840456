// Messages between the scheduler and its processes, the scheduler's state on disk, and etcd's answers.
#include <heddle/error.h>

#include "fuzz/fuzz_target.h"
#include "membership/etcd_messages.h"
#include "membership/scheduler_core.h"
#include "membership/scheduler_state.h"
#include "security/base64.h"
#include "transport/frame.h"
#include "wire/membership.h"

namespace heddle::fuzz {
namespace {

using namespace kv_detail;
using namespace heddle::net_detail;

const Views kViews{.version = 7,
                   .servers = {{0, 11, "10.0.0.1:9463"}, {1, 12, "[::1]:1"}},
                   .shards = {{3, 11, 12, false}, {4, 12, 0, true}}};

template <class Message> Bytes encode_any(const Message& message) {
  return std::visit([](const auto& one) { return encode(one); }, message);
}

// --- messages

template <class Decode> bool run_message(Input input, Decode&& decode_message) {
  try {
    const auto message = decode_message(input);
    const Bytes again = encode_any(message);
    want(encode_any(decode_message(Input(again))) == again, "a message that changes");
    // A message of a later version may have more fields than this version encodes. Views of version 1 are
    // encoded again as the newest version, so they are not compared.
    const bool older = input[0] == static_cast<std::byte>(MembershipKind::views);
    want(older || (again.size() <= input.size() && std::equal(again.begin(), again.end(), input.begin())),
         "a message that is not what came");
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

bool run_members(Input input) {
  const bool member = run_message(input, decode_from_member);
  return run_message(input, decode_from_scheduler) || member;
}

const Registration kServer{.role = Role::server,
                           .number = 1,
                           .servers = 2,
                           .replicas = 2,
                           .incarnation = 99,
                           .address = "host:1",
                           .process = "host, process 1"};
const Registration kWorker{.number = kAnyNumber, .workers = 2, .incarnation = 98, .job = "job"};

std::vector<Bytes> member_seeds() {
  return {encode(kServer),
          encode(kWorker),
          encode(Heartbeat{.version = 3, .synced = {{0, 4}, {1, 5}}, .leaving = true}),
          encode(BackupLost{.shard = 1, .epoch = 5}),
          encode(Unregister{}),
          encode(kViews, kOldestProtocol),
          encode(Registered{.number = 3, .servers = 4, .workers = 5, .heartbeat = 100, .cluster = 6}),
          encode(Refused{.retry = 100, .text = "why"}),
          encode(kViews),
          encode(Status{.over = true, .text = "waiting"})};
}

// --- the scheduler: an input is a sequence of messages, each after its peer and its length; for a peer above
// kMostPeers the clock advances instead

constexpr std::uint8_t kMostPeers = 5;

class Scheduler {
 public:
  bool run(Source source) {
    for (Peer peer = 1; peer <= kMostPeers; ++peer) core_.connected(peer);
    while (!source.empty()) {
      const Peer peer = source.get<std::uint8_t>() % (kMostPeers + 3);
      const std::size_t length = source.get<std::uint8_t>();
      if (peer > kMostPeers) {
        now_ += std::chrono::milliseconds(20 * length);
      } else if (peer > 0) {
        deliver(peer, source.take(length));
      }
      core_.tick(now_);
      look();
    }
    return begun_;
  }

 private:
  void deliver(Peer peer, Input head) {
    try {
      if (head.empty()) throw MalformedMessage("cut");
      core_.received(peer, head, now_);
    } catch (const MalformedMessage& error) {
      core_.disconnected(peer, error.what(), now_);
      core_.connected(peer);
    }
  }

  // Checks that saved states can be read, and that no peer gets views that were not saved.
  void look() {
    const SchedulerOutbox out = core_.take_outbox();
    begun_ = begun_ || core_.stats().begun;
    if (out.save) {
      want(out.save->views.version >= version_, "views that go back");
      version_ = out.save->views.version;
      want(decode_scheduler_state(encode(*out.save)) == *out.save, "a state that cannot be read");
    }
    for (const auto& [peer, head] : out.messages) {
      const FromScheduler message = decode_from_scheduler(head);
      if (const auto* views = std::get_if<Views>(&message))
        want(views->version <= version_, "views that were not saved");
    }
    for (const Peer peer : out.closed) core_.connected(peer);
  }

  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
  SchedulerCore core_{{.servers = 2}, {.cluster = 5, .servers = 2, .replicas = 2}, now_};
  std::uint64_t version_ = 0;
  bool begun_ = false;
};

bool run_scheduler(Input input) { return Scheduler().run(Source(input)); }

std::vector<Bytes> scheduler_seeds() {
  Bytes all;
  const auto put = [&all](int peer, Input head) {
    append_value(all, static_cast<std::uint8_t>(peer));
    append_value(all, static_cast<std::uint8_t>(head.size()));
    append(all, head);
  };
  const auto pass = [&all](int steps) {
    append_value(all, static_cast<std::uint8_t>(kMostPeers + 1));
    append_value(all, static_cast<std::uint8_t>(steps));
  };
  Registration other = kServer;
  other.number = 0, other.incarnation = 97;
  put(1, encode(kServer)), put(2, encode(other)), put(3, encode(kWorker)), pass(5);
  for (const std::uint64_t epoch : {1, 2}) {
    const Heartbeat heartbeat{.version = epoch, .synced = {{0, epoch}, {1, epoch}}};
    put(1, encode(heartbeat)), put(2, encode(heartbeat)), pass(5);
  }
  put(1, encode(Heartbeat{.version = 3, .leaving = true})), pass(10);
  put(2, {}), pass(200);
  put(3, encode(Unregister{})), pass(1);
  return {all};
}

// --- the scheduler's state on disk

constexpr std::size_t kBody = 16;  // offset of a state's body, which follows magic, version and checksum

// Decodes the input twice: as it is, and with its checksum corrected.
bool run_scheduler_state(Input input) {
  Bytes sealed(input.begin(), input.end());
  if (sealed.size() >= kBody) {
    const std::uint32_t sum = checksum(Input(sealed).subspan(kBody));
    std::memcpy(sealed.data() + kBody - sizeof sum, &sum, sizeof sum);
  }
  bool good = false;
  for (const Input bytes : {input, Input(sealed)}) {
    try {
      const SchedulerState state = decode_scheduler_state(bytes);
      const Bytes again = encode(state);
      want(decode_scheduler_state(again) == state, "a state that changes");
      // A state of an older version is encoded again as the newest version, which byte 8 tells.
      want(again == Bytes(bytes.begin(), bytes.end()) || bytes[8] != again[8],
           "a state that is not what came");
      good = true;
    } catch (const MalformedMessage&) {
    }
  }
  return good;
}

std::vector<Bytes> scheduler_state_seeds() {
  return {
      encode(SchedulerState{.cluster = 1}),
      encode(SchedulerState{.cluster = 9, .servers = 2, .replicas = 2, .views = kViews, .synced = {3, 0}})};
}

// --- etcd's answers

// Returns whether `read` accepts the reply.
bool read_reply(auto&& read, const std::string& reply) {
  try {
    read(reply);
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

void run_renewal(const std::string& reply) {
  try {
    renewed_from(reply);
  } catch (const MalformedMessage&) {
    throw;
  } catch (const Error&) {  // an error that etcd reports is a valid answer
  }
}

bool run_json(Input input) {
  const std::string text = text_from(input);
  want(from_base64(to_base64(text)) == text, "base64 that changes");
  bool good = false;
  if (const auto bytes = from_base64(text)) {
    want(to_base64(*bytes).size() == text.size(), "base64 that gets shorter");
    good = true;
  }
  for (const auto& read : {+[](const std::string& reply) { entry_from(reply); },
                           +[](const std::string& reply) { revision_from(reply); },
                           +[](const std::string& reply) { lease_from(reply); },
                           +[](const std::string& reply) { error_from(reply); }, &run_renewal})
    good = read_reply(read, text) || good;
  return good;
}

std::vector<Bytes> json_seeds() {
  std::vector<Bytes> all;
  for (const char* text :
       {R"({"header":{"revision":"7"},"kvs":[{"key":"Zm9v","value":"YmFy","mod_revision":"3"}],"count":"1"})",
        R"({"header":{"revision":"7"},"succeeded":true})", R"({"ID":"12","TTL":"3"})",
        R"({"result":{"header":{},"ID":"12","TTL":"3"}})", R"({"error":{"message":"no leader"}})",
        R"({"error":"etcdserver: a\"\n\u0041","code":14})", "Zm9vYg==", R"({"a":[1,-2.5e3,null,{"b":{}}]})"})
    all.push_back(bytes_from(text));
  return all;
}

}  // namespace

const Target kMembers{"member", run_members, member_seeds, 1};
const Target kScheduler{"scheduler", run_scheduler, scheduler_seeds, 4};
const Target kSchedulerState{"scheduler_state", run_scheduler_state, scheduler_state_seeds, 1};
const Target kJson{"json", run_json, json_seeds, 4};

}  // namespace heddle::fuzz
