// Fuzz target for messages. Fills the fields of each message from the input by means of the message's own
// description, so no list of fields is needed here, and checks that a message that is written can be read
// again.
#include <algorithm>
#include <random>
#include <type_traits>
#include <variant>

#include "fuzz/fuzz_target.h"
#include "wire/administration.h"
#include "wire/membership.h"
#include "wire/messages.h"
#include "wire/replication.h"
#include "wire/state_records.h"

namespace heddle::fuzz {
namespace {

using namespace kv_detail;

// An archive (net/src/transport/bytes.h) that gives fields values from an input. Enums keep their values,
// since few numbers are values of an enum.
class SourceFields {
 public:
  SourceFields(Input input, std::uint16_t version) : source_(input), version_(version) {}
  std::uint16_t version() const { return version_; }

  template <class... Fields> void operator()(Fields&... fields) { (fill(fields), ...); }
  void text(std::string& text, std::size_t most) {
    text = text_from(source_.take(std::min<std::size_t>(source_.below(20), most)));
  }
  // Fills `text` from the input. One in eight texts may be longer than allowed.
  void cut_text(std::string& text, std::size_t most) {
    text = text_from(source_.take(source_.below(20)));
    if (source_.below(8) == 0) text.resize(most + source_.below(3), 'x');
  }
  template <class T> void list(std::vector<T>& values, std::size_t most, const char*, const char*) {
    values.resize(std::min<std::size_t>(source_.below(4), most));
    for (T& one : values) fill(one);
  }
  bool more(bool) { return source_.below(2) == 1; }
  void open_end(bool) {}

 private:
  template <class T> void fill(T& value) {
    if constexpr (std::is_class_v<T>) {
      T::fields(*this, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = source_.below(2) == 1;
    } else if constexpr (!std::is_enum_v<T>) {
      // Half of the numbers are small, because check() refuses most large ones.
      const std::uint8_t choice = source_.get<std::uint8_t>();
      value = choice < 128 ? static_cast<T>(choice % 8) : source_.get<T>();
    }
  }

  Source source_;
  const std::uint16_t version_;
};

template <class Message> Message filled(Input input, Message message = {}, std::uint16_t version = 0) {
  SourceFields archive(input, version);
  archive(message);
  return message;
}

// Returns whether decoding accepts the message. An accepted message must not change by being written and
// read.
template <class Message, class Decode> bool survives(const Message& message, Decode&& decode) {
  const Bytes bytes = encode(message);
  try {
    want(encode(decode(bytes)) == bytes, "a message that changes");
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

bool run_requests(Input input) {
  bool good = false;
  for (int kind = static_cast<int>(Kind::init); kind <= static_cast<int>(Kind::resume); ++kind) {
    auto request = filled(input, Request{.kind = static_cast<Kind>(kind)});
    if (is_bundle(request.kind)) request.bytes = request.offset = 0;
    for (const BundleEntry& entry : request.entries) request.bytes += entry.bytes;
    const std::size_t payload = request.kind == Kind::push_many ? request.bytes : 0;
    good |= survives(
        request, [payload](Input bytes) { return std::get<Request>(decode_from_worker(bytes, payload)); });
  }
  return good;
}

bool run_records(Input input) {
  bool good = false;
  for (int kind = static_cast<int>(Record::Kind::join); kind <= static_cast<int>(Record::Kind::end_job);
       ++kind) {
    auto record = filled(input, Record{.kind = static_cast<Record::Kind>(kind)});
    record.hello = filled<Hello>(input);
    record.request = filled<Request>(input);
    good |= survives(record, [](Input bytes) { return decode_record(bytes, 0); });
  }
  for (const auto kind : {ReplicaKind::hello, ReplicaKind::applied})
    good |= survives(filled(input, ReplicaMessage{.kind = kind}), decode_replica_message);
  return good;
}

template <class State> bool run_state(Input input) {
  bool good = false;
  for (std::uint16_t version = kOldestStateVersion; version <= kStateVersion; ++version) {
    const Bytes bytes = encode(filled<State>(input, {}, version), version);
    try {
      want(encode(decode_state_record(bytes, version), version) == bytes, "a part of a state that changes");
      good = true;
    } catch (const MalformedMessage&) {
    }
  }
  return good;
}

bool run_states(Input input) {
  return run_state<StateBegin>(input) | run_state<StateJob>(input) | run_state<StateWorker>(input) |
         run_state<StateKey>(input) | run_state<StateArray>(input) | run_state<StateEnd>(input);
}

bool run_views(Input input) {
  bool good = false;
  for (const std::uint16_t protocol : {kOldestProtocol, kProven, kLearners}) {
    auto views = filled<Views>(input);
    SourceFields later(input, 0);
    Views::later_fields(later, views, protocol);
    const Bytes bytes = encode(views, protocol);
    try {
      const auto read = std::get<Views>(decode_from_scheduler(bytes));
      want(read == views, "views that change");
      good = true;
    } catch (const MalformedMessage&) {
    }
  }
  return good;
}

template <class Message> bool run_member(Input input) {
  return survives(filled<Message>(input),
                  [](Input bytes) { return std::get<Message>(decode_from_member(bytes)); });
}

template <class Message> bool run_of_scheduler(Input input) {
  return survives(filled<Message>(input),
                  [](Input bytes) { return std::get<Message>(decode_from_scheduler(bytes)); });
}

bool run_fields(Input input) {
  bool good = run_requests(input) | run_records(input) | run_states(input) | run_views(input);
  good |= survives(filled<Hello>(input),
                   [](Input bytes) { return std::get<Hello>(decode_from_worker(bytes, 0)); });
  good |= survives(filled<Welcome>(input),
                   [](Input bytes) { return std::get<Welcome>(decode_from_server(bytes, 0)); });
  good |= survives(filled<Reply>(input),
                   [](Input bytes) { return std::get<Reply>(decode_from_server(bytes, 0)); });
  good |= run_member<Registration>(input) | run_member<Heartbeat>(input) | run_member<BackupLost>(input);
  good |= run_of_scheduler<Registered>(input) | run_of_scheduler<Refused>(input) |
          run_of_scheduler<Status>(input);
  good |= survives(filled<AdminRequest>(input), decode_admin_request);
  good |= survives(filled<AdminAnswer>(input), decode_admin_answer);
  return good;
}

std::vector<Bytes> fields_seeds() {
  std::mt19937_64 random(1);
  std::vector<Bytes> all(20, Bytes(300));
  for (Bytes& one : all)
    for (std::byte& byte : one) byte = static_cast<std::byte>(random());
  return all;
}

}  // namespace

const Target kFields{"fields", run_fields, fields_seeds, 10};

}  // namespace heddle::fuzz
