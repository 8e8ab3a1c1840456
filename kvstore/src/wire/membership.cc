#include "wire/membership.h"

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kMaxReason = 16 << 10;

Registration registration_from(Reader& reader) {
  Registration registration;
  registration.oldest = reader.get<std::uint16_t>();
  registration.newest = reader.get<std::uint16_t>();
  registration.role = reader.get<Role>();
  if (registration.role != Role::server && registration.role != Role::worker)
    throw MalformedMessage("a process of role " + std::to_string(static_cast<int>(registration.role)));
  registration.number = reader.get<std::uint32_t>();
  registration.servers = reader.get<std::uint32_t>();
  registration.workers = reader.get<std::uint32_t>();
  registration.replicas = reader.get<std::uint32_t>();
  registration.incarnation = reader.get<std::uint64_t>();
  if (registration.incarnation == 0) throw MalformedMessage("an incarnation is 0");
  registration.cluster = reader.get<std::uint64_t>();
  registration.version = reader.get<std::uint64_t>();
  registration.job = reader.get_text(kMaxJobName);
  registration.address = reader.get_text(kMaxAddress);
  registration.process = reader.get_text(kMaxName);
  // A sender of a later protocol version, as `newest` says, may append fields.
  if (registration.newest <= kProtocol) reader.end();
  return registration;
}

Heartbeat heartbeat_from(Reader& reader) {
  Heartbeat heartbeat;
  heartbeat.version = reader.get<std::uint64_t>();
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostServers) throw MalformedMessage("reports about " + std::to_string(count) + " shards");
  heartbeat.synced.resize(count);
  for (Synced& one : heartbeat.synced) {
    one.shard = reader.get<std::uint32_t>();
    one.epoch = reader.get<std::uint64_t>();
  }
  heartbeat.leaving = reader.get_flag();
  return heartbeat;
}

BackupLost backup_lost_from(Reader& reader) {
  BackupLost lost;
  lost.shard = reader.get<std::uint32_t>();
  lost.epoch = reader.get<std::uint64_t>();
  return lost;
}

Views views_of_speakers_from(Reader& reader) {
  Views views = views_from(reader);
  protocols_from(reader, views);
  return views;
}

Views views_with_learners_from(Reader& reader) {
  Views views = views_of_speakers_from(reader);
  learners_from(reader, views);
  return views;
}

MembershipKind kind_of_views(std::uint16_t protocol) {
  if (protocol >= kLearners) return MembershipKind::views_with_learners;
  return protocol >= kProven ? MembershipKind::views_of_speakers : MembershipKind::views;
}

Registered registered_from(Reader& reader) {
  Registered registered;
  registered.protocol = reader.get<std::uint16_t>();
  registered.number = reader.get<std::uint32_t>();
  registered.servers = reader.get<std::uint32_t>();
  registered.workers = reader.get<std::uint32_t>();
  registered.heartbeat = reader.get<std::uint32_t>();
  registered.cluster = reader.get<std::uint64_t>();
  if (registered.protocol >= kProven) registered.secret = reader.get<std::uint64_t>();
  if (registered.servers == 0 || registered.servers > kMostServers)
    throw MalformedMessage("a scheduler of " + std::to_string(registered.servers) + " servers");
  return registered;
}

Refused refused_from(Reader& reader) {
  Refused refused;
  refused.retry = reader.get<std::uint32_t>();
  refused.text = reader.get_text(kMaxReason);
  return refused;
}

Status status_from(Reader& reader) {
  Status status;
  status.over = reader.get_flag();
  status.text = reader.get_text(kMaxReason);
  return status;
}

[[noreturn]] void refuse(MembershipKind kind) {
  throw MalformedMessage("a message of the kind " + std::to_string(static_cast<int>(kind)) +
                         ", which is none between processes and their scheduler");
}

template <class T> T ended(T message, const Reader& reader) {
  reader.end();
  return message;
}

std::string cut(const std::string& text, std::size_t most) { return text.substr(0, most); }

}  // namespace

std::vector<std::byte> encode(const Registration& registration) {
  Writer writer;
  writer.put(MembershipKind::registration);
  writer.put(registration.oldest);
  writer.put(registration.newest);
  writer.put(registration.role);
  writer.put(registration.number);
  writer.put(registration.servers);
  writer.put(registration.workers);
  writer.put(registration.replicas);
  writer.put(registration.incarnation);
  writer.put(registration.cluster);
  writer.put(registration.version);
  writer.put(registration.job);
  writer.put(registration.address);
  writer.put(cut(registration.process, kMaxName));
  return writer.take();
}

std::vector<std::byte> encode(const Heartbeat& heartbeat) {
  Writer writer;
  writer.put(MembershipKind::heartbeat);
  writer.put(heartbeat.version);
  writer.put(static_cast<std::uint32_t>(heartbeat.synced.size()));
  for (const Synced& one : heartbeat.synced) {
    writer.put(one.shard);
    writer.put(one.epoch);
  }
  writer.put(static_cast<std::uint8_t>(heartbeat.leaving));
  return writer.take();
}

std::vector<std::byte> encode(const BackupLost& lost) {
  Writer writer;
  writer.put(MembershipKind::backup_lost);
  writer.put(lost.shard);
  writer.put(lost.epoch);
  return writer.take();
}

std::vector<std::byte> encode(const Unregister&) {
  Writer writer;
  writer.put(MembershipKind::unregister);
  return writer.take();
}

std::vector<std::byte> encode(const Registered& registered) {
  Writer writer;
  writer.put(MembershipKind::registered);
  writer.put(registered.protocol);
  writer.put(registered.number);
  writer.put(registered.servers);
  writer.put(registered.workers);
  writer.put(registered.heartbeat);
  writer.put(registered.cluster);
  if (registered.protocol >= kProven) writer.put(registered.secret);
  return writer.take();
}

std::vector<std::byte> encode(const Refused& refused) {
  Writer writer;
  writer.put(MembershipKind::refused);
  writer.put(refused.retry);
  writer.put(cut(refused.text, kMaxReason));
  return writer.take();
}

std::vector<std::byte> encode(const Views& views, std::uint16_t protocol) {
  Writer writer;
  writer.put(kind_of_views(protocol));
  put(writer, views);
  if (protocol >= kProven) put_protocols(writer, views);
  if (protocol >= kLearners) put_learners(writer, views);
  return writer.take();
}

std::vector<std::byte> encode(const Status& status) {
  Writer writer;
  writer.put(MembershipKind::status);
  writer.put(static_cast<std::uint8_t>(status.over));
  writer.put(cut(status.text, kMaxReason));
  return writer.take();
}

FromMember decode_from_member(std::span<const std::byte> head) {
  Reader reader(head);
  const auto kind = reader.get<MembershipKind>();
  if (kind == MembershipKind::registration) return registration_from(reader);
  if (kind == MembershipKind::heartbeat) return ended(heartbeat_from(reader), reader);
  if (kind == MembershipKind::backup_lost) return ended(backup_lost_from(reader), reader);
  if (kind == MembershipKind::unregister) return ended(Unregister{}, reader);
  refuse(kind);
}

FromScheduler decode_from_scheduler(std::span<const std::byte> head) {
  Reader reader(head);
  const auto kind = reader.get<MembershipKind>();
  if (kind == MembershipKind::registered) return ended(registered_from(reader), reader);
  if (kind == MembershipKind::refused) return ended(refused_from(reader), reader);
  if (kind == MembershipKind::views) return ended(views_from(reader), reader);
  if (kind == MembershipKind::views_of_speakers) return ended(views_of_speakers_from(reader), reader);
  if (kind == MembershipKind::views_with_learners) return ended(views_with_learners_from(reader), reader);
  if (kind == MembershipKind::status) return ended(status_from(reader), reader);
  refuse(kind);
}

}  // namespace heddle::kv_detail
