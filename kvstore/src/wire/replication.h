// The messages between a shard's primary and its backup, and the records of changes that they carry.
//
// A primary connects to its backup and says hello with its log's number. From version 2 on the hello says who it is, with the
// secret that the scheduler tells servers only. The backup answers with what it has of that log.
// The primary then sends either the records that follow, or its whole state and the records after it. The backup answers
// `applied` with the number of the last record that it has. Beats keep the primary's lease (see server/shard.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <heddle/dtype.h>

#include "wire/bytes.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// Numbers beyond those of Kind: the first byte of a message tells a worker's from a primary's.
enum class ReplicaKind : std::uint8_t {
  hello = 64,  // primary: shard, epoch, log; version, primary, secret
  welcome,     // backup: log and the number of the last record that it has; log 0: it has no state
  refused,  // backup: it knows another epoch, of which one of the two has not heard yet; or the hello is not good
  state_begin,  // primary: what follows replaces all that the backup has
  state,        // primary: `inner` is a message of a state stream, see server/state_stream.h
  state_end,    // primary: the state has all records up to `number`
  record,       // primary: `inner` is a Record
  applied,      // backup: it has all records up to `number`
  beat          // primary, and the backup with the same number
};

struct ReplicaMessage {
  ReplicaKind kind = ReplicaKind::hello;
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0, log = 0, number = 0;
  std::uint16_t version = 1;  // hello: of all that follows
  std::uint64_t primary = 0,
                secret = 0;  // hello, from version 2 on: the incarnation of who speaks, and see above
  std::span<const std::byte> inner{};  // refers to the message
};

std::vector<std::byte> encode(const ReplicaMessage& message);
bool is_replica_message(std::span<const std::byte> head);
ReplicaMessage decode_replica_message(std::span<const std::byte> head);  // throws MalformedMessage

// One change of the state of a shard, of which the primary's clients hear when the backup has it.
struct Record {
  enum class Kind : std::uint8_t {
    join = 1,  // a worker has come: `hello`; number: the incarnation of its job
    drop,      // nobody waits for the worker `rank` any longer
    key,       // `request` is an init that has made a key
    request,   // `request` has been accepted; its payload comes with it
    fail_key,  // number: the key; text: why pushes and pulls of it fail
    end_job
  };
  Kind kind = Kind::request;
  std::string job{};
  std::uint32_t rank = 0;
  std::uint64_t number = 0;
  std::string text{};
  Hello hello{};
  Request request{};
};

std::vector<std::byte> encode(const Record& record);
// `payload`: bytes that came with it. Throws MalformedMessage.
Record decode_record(std::span<const std::byte> bytes, std::size_t payload);

}  // namespace heddle::kv_detail
