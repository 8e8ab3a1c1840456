// Messages between a shard's primary and its backup, and the records of changes that they carry.
//
// A primary connects to its backup and says hello with the number of its log of records. From version 2 on
// the hello has the secret that the scheduler tells only servers. The backup answers with the number of the
// last record that it has of that log. The primary then sends either the records after that one, or its whole
// state and the records after the state. The backup answers `applied` with the number of the last record that
// it has. Beats renew the primary's lease (see server/shard.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <heddle/dtype.h>

#include "transport/bytes.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;

// The first byte of a message. Kind has no such numbers, so a server can tell a primary's message from a
// worker's.
enum class ReplicaKind : std::uint8_t {
  hello = 64,   // from the primary: shard, epoch and log; from version 2 on also version, primary and secret
  welcome,      // from the backup: log and number of the last record that it has; log 0: it has no state
  refused,      // from the backup: it knows another epoch, or the hello is invalid
  state_begin,  // from the primary: the state that follows replaces the backup's
  state,        // from the primary: `inner` is a message of a state stream, see server/state_stream.h
  state_end,    // from the primary: the state is complete and includes all records up to `number`
  record,       // from the primary: `inner` is a Record
  applied,      // from the backup: it has all records up to `number`
  beat          // from the primary; the backup answers with a beat of the same `number`
};

struct ReplicaMessage {
  ReplicaKind kind = ReplicaKind::hello;
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0, log = 0, number = 0;
  std::uint16_t version = 1;  // hello: protocol version of this and all later messages
  // hello, from version 2 on: the sender's incarnation, and the secret that the scheduler tells only servers.
  std::uint64_t primary = 0, secret = 0;
  std::span<const std::byte> inner{};  // points into the decoded message

  // The fields between the kind and `inner` in a message.
  static void fields(auto& archive, auto& self) {
    archive(self.shard, self.epoch, self.log, self.number);
    if (self.kind != ReplicaKind::hello || !archive.more(self.version >= kProven)) return;
    archive(self.version, self.primary, self.secret);
    archive.open_end(self.version > kProtocol);
  }
};

std::vector<std::byte> encode(const ReplicaMessage& message);
bool is_replica_message(std::span<const std::byte> head);
ReplicaMessage decode_replica_message(std::span<const std::byte> head);  // throws MalformedMessage

// One change of a shard's state. Workers get no answer that depends on the change before the backup has it.
struct Record {
  enum class Kind : std::uint8_t {
    join = 1,  // a worker has joined with `hello`; number: the incarnation of its job
    drop,      // worker `rank` was gone for too long: rounds and clocks no longer wait for it
    key,       // a key was made by the init `request`
    request,   // `request` was accepted; its payload comes with the record
    fail_key,  // pushes and pulls of the key with this `number` fail with the error `text`
    end_job
  };
  Kind kind = Kind::request;
  std::string job{};
  std::uint32_t rank = 0;
  std::uint64_t number = 0;
  std::string text{};
  Hello hello{};
  Request request{};

  // The first fields of an encoded record; `hello` or `request` follows them as an encoded message.
  static void fields(auto& archive, auto& self) {
    archive(self.kind);
    archive.text(self.job, kMaxText);
    archive(self.rank, self.number);
    archive.text(self.text, kMaxText);
  }
  void check() const;
};

std::vector<std::byte> encode(const Record& record);
// `payload`: size of the record's payload. Throws MalformedMessage.
Record decode_record(std::span<const std::byte> bytes, std::size_t payload);

}  // namespace heddle::kv_detail
