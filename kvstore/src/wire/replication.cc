#include "wire/replication.h"

#include <variant>

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kOldHelloBytes = 1 + 4 + 3 * 8;  // size of a hello of protocol version 1

bool has_request(Record::Kind kind) { return kind == Record::Kind::request || kind == Record::Kind::key; }

}  // namespace

std::vector<std::byte> encode(const ReplicaMessage& message) {
  Writer writer;
  writer(message.kind, message);
  writer.bytes(message.inner);
  return writer.take();
}

bool is_replica_message(std::span<const std::byte> head) {
  return !head.empty() && head[0] >= static_cast<std::byte>(ReplicaKind::hello) &&
         head[0] <= static_cast<std::byte>(ReplicaKind::beat);
}

ReplicaMessage decode_replica_message(std::span<const std::byte> head) {
  if (!is_replica_message(head)) throw MalformedMessage("a message that is none between servers");
  Reader reader(head);
  ReplicaMessage message{.kind = reader.get<ReplicaKind>()};
  reader(message);
  if (message.kind == ReplicaKind::hello && message.version < kProven && head.size() > kOldHelloBytes)
    throw MalformedMessage("a hello of version 1 that is too long");
  const bool has_inner = message.kind == ReplicaKind::state || message.kind == ReplicaKind::record;
  if (has_inner) message.inner = reader.rest();
  reader.end();
  return message;
}

void Record::check() const {
  if (kind < Kind::join || kind > Kind::end_job) throw MalformedMessage("a record that is none");
}

std::vector<std::byte> encode(const Record& record) {
  Writer writer;
  writer(record);
  if (record.kind == Record::Kind::join) writer.bytes(encode(record.hello));
  if (has_request(record.kind)) writer.bytes(encode(record.request));
  return writer.take();
}

Record decode_record(std::span<const std::byte> bytes, std::size_t payload) {
  Reader reader(bytes);
  auto record = reader.get<Record>();
  if (record.kind != Record::Kind::join && !has_request(record.kind)) {
    reader.end();
    if (payload > 0) throw MalformedMessage("a payload where none belongs");
    return record;
  }
  FromWorker inner = decode_from_worker(reader.rest(), payload);
  if (record.kind == Record::Kind::join) {
    if (!std::holds_alternative<Hello>(inner)) throw MalformedMessage("a join without a hello");
    record.hello = std::get<Hello>(std::move(inner));
  } else {
    if (!std::holds_alternative<Request>(inner)) throw MalformedMessage("a record without a request");
    record.request = std::get<Request>(std::move(inner));
  }
  return record;
}

}  // namespace heddle::kv_detail
