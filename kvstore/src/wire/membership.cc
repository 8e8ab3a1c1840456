#include "wire/membership.h"

namespace heddle::kv_detail {
namespace {

MembershipKind kind_of_views(std::uint16_t protocol) {
  if (protocol >= kLearners) return MembershipKind::views_with_learners;
  return protocol >= kProven ? MembershipKind::views_of_speakers : MembershipKind::views;
}

Views views_from(Reader& reader, std::uint16_t protocol) {
  Views views;
  reader(views);
  Views::later_fields(reader, views, protocol);
  reader.end();
  return views;
}

[[noreturn]] void refuse(MembershipKind kind) {
  throw MalformedMessage("a message of the kind " + std::to_string(static_cast<int>(kind)) +
                         ", which is none between processes and their scheduler");
}

}  // namespace

void Registration::check() const {
  if (role != Role::server && role != Role::worker)
    throw MalformedMessage("a process of role " + std::to_string(static_cast<int>(role)));
  if (incarnation == 0) throw MalformedMessage("an incarnation is 0");
}

void Registered::check() const {
  if (servers == 0 || servers > kMostServers)
    throw MalformedMessage("a scheduler of " + std::to_string(servers) + " servers");
}

std::vector<std::byte> encode(const Registration& registration) {
  return written(MembershipKind::registration, registration);
}
std::vector<std::byte> encode(const Heartbeat& heartbeat) {
  return written(MembershipKind::heartbeat, heartbeat);
}
std::vector<std::byte> encode(const BackupLost& lost) { return written(MembershipKind::backup_lost, lost); }
std::vector<std::byte> encode(const Unregister& unregister) {
  return written(MembershipKind::unregister, unregister);
}
std::vector<std::byte> encode(const Registered& registered) {
  return written(MembershipKind::registered, registered);
}
std::vector<std::byte> encode(const Refused& refused) { return written(MembershipKind::refused, refused); }
std::vector<std::byte> encode(const Status& status) { return written(MembershipKind::status, status); }

std::vector<std::byte> encode(const Views& views, std::uint16_t protocol) {
  Writer writer;
  writer(kind_of_views(protocol), views);
  Views::later_fields(writer, views, protocol);
  return writer.take();
}

FromMember decode_from_member(std::span<const std::byte> head) {
  Reader reader(head);
  const auto kind = reader.get<MembershipKind>();
  if (kind == MembershipKind::registration) return reader.whole<Registration>();
  if (kind == MembershipKind::heartbeat) return reader.whole<Heartbeat>();
  if (kind == MembershipKind::backup_lost) return reader.whole<BackupLost>();
  if (kind == MembershipKind::unregister) return reader.whole<Unregister>();
  refuse(kind);
}

FromScheduler decode_from_scheduler(std::span<const std::byte> head) {
  Reader reader(head);
  const auto kind = reader.get<MembershipKind>();
  if (kind == MembershipKind::registered) return reader.whole<Registered>();
  if (kind == MembershipKind::refused) return reader.whole<Refused>();
  if (kind == MembershipKind::status) return reader.whole<Status>();
  for (const std::uint16_t protocol : {kOldestProtocol, kProven, kLearners})
    if (kind == kind_of_views(protocol)) return views_from(reader, protocol);
  refuse(kind);
}

}  // namespace heddle::kv_detail
