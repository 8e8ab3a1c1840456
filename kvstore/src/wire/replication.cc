#include "wire/replication.h"

#include <variant>

namespace heddle::kv_detail {

std::vector<std::byte> encode(const ReplicaMessage& message) {
  Writer writer;
  writer.put(message.kind);
  writer.put(message.shard);
  writer.put(message.epoch);
  writer.put(message.log);
  writer.put(message.number);
  if (message.kind == ReplicaKind::hello && message.version >= kProven) {
    writer.put(message.version);
    writer.put(message.primary);
    writer.put(message.secret);
  }
  writer.put(message.inner);
  return writer.take();
}

bool is_replica_message(std::span<const std::byte> head) {
  return !head.empty() && head[0] >= static_cast<std::byte>(ReplicaKind::hello) &&
         head[0] <= static_cast<std::byte>(ReplicaKind::beat);
}

ReplicaMessage decode_replica_message(std::span<const std::byte> head) {
  if (!is_replica_message(head)) throw MalformedMessage("a message that is none between servers");
  Reader reader(head);
  ReplicaMessage message;
  message.kind = reader.get<ReplicaKind>();
  message.shard = reader.get<std::uint32_t>();
  message.epoch = reader.get<std::uint64_t>();
  message.log = reader.get<std::uint64_t>();
  message.number = reader.get<std::uint64_t>();
  if (message.kind == ReplicaKind::hello && reader.left() > 0) {
    message.version = reader.get<std::uint16_t>();
    message.primary = reader.get<std::uint64_t>();
    message.secret = reader.get<std::uint64_t>();
    if (message.version < kProven) throw MalformedMessage("a hello of version 1 that is too long");
    if (message.version > kProtocol) return message;  // a later version may append fields
  }
  const bool has_inner = message.kind == ReplicaKind::state || message.kind == ReplicaKind::record;
  if (has_inner) message.inner = reader.get_bytes(reader.left());
  reader.end();
  return message;
}

std::vector<std::byte> encode(const Record& record) {
  Writer writer;
  writer.put(record.kind);
  writer.put(record.job);
  writer.put(record.rank);
  writer.put(record.number);
  writer.put(record.text);
  if (record.kind == Record::Kind::join) writer.put(std::span<const std::byte>(encode(record.hello)));
  if (record.kind == Record::Kind::request || record.kind == Record::Kind::key)
    writer.put(std::span<const std::byte>(encode(record.request)));
  return writer.take();
}

Record decode_record(std::span<const std::byte> bytes, std::size_t payload) {
  Reader reader(bytes);
  Record record;
  record.kind = reader.get<Record::Kind>();
  if (record.kind < Record::Kind::join || record.kind > Record::Kind::end_job)
    throw MalformedMessage("a record that is none");
  record.job = reader.get_text(kMaxText);
  record.rank = reader.get<std::uint32_t>();
  record.number = reader.get<std::uint64_t>();
  record.text = reader.get_text(kMaxText);
  if (record.kind != Record::Kind::join && record.kind != Record::Kind::request &&
      record.kind != Record::Kind::key) {
    reader.end();
    if (payload > 0) throw MalformedMessage("a payload where none belongs");
    return record;
  }
  FromWorker inner = decode_from_worker(reader.get_bytes(reader.left()), payload);
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
