#include "wire/views.h"

#include <algorithm>
#include <random>

namespace heddle::kv_detail {
namespace {

std::size_t count_from(Reader& reader) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMostServers) throw MalformedMessage("views of " + std::to_string(count) + " servers");
  return count;
}

}  // namespace

std::uint64_t new_incarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

const ServerInfo* find_server(const Views& views, std::uint64_t incarnation) {
  const auto found =
      std::find_if(views.servers.begin(), views.servers.end(),
                   [incarnation](const ServerInfo& one) { return one.incarnation == incarnation; });
  return found == views.servers.end() || incarnation == 0 ? nullptr : &*found;
}

void put(Writer& writer, const Views& views) {
  writer.put(views.version);
  writer.put(static_cast<std::uint32_t>(views.servers.size()));
  for (const ServerInfo& one : views.servers) {
    writer.put(one.number);
    writer.put(one.incarnation);
    writer.put(one.address);
  }
  writer.put(static_cast<std::uint32_t>(views.shards.size()));
  for (const ShardView& one : views.shards) {
    writer.put(one.epoch);
    writer.put(one.primary);
    writer.put(one.backup);
    writer.put(static_cast<std::uint8_t>(one.fresh));
    writer.put(static_cast<std::uint8_t>(one.handover));
  }
}

Views views_from(Reader& reader) {
  Views views;
  views.version = reader.get<std::uint64_t>();
  views.servers.resize(count_from(reader));
  for (ServerInfo& one : views.servers) {
    one.number = reader.get<std::uint32_t>();
    if (one.number >= kMostServers)
      throw MalformedMessage("a server has the number " + std::to_string(one.number));
    one.incarnation = reader.get<std::uint64_t>();
    one.address = reader.get_text(kMaxAddress);
  }
  views.shards.resize(count_from(reader));
  for (ShardView& one : views.shards) {
    one.epoch = reader.get<std::uint64_t>();
    one.primary = reader.get<std::uint64_t>();
    one.backup = reader.get<std::uint64_t>();
    one.fresh = reader.get_flag();
    one.handover = reader.get_flag();
  }
  return views;
}

void put_protocols(Writer& writer, const Views& views) {
  for (const ServerInfo& one : views.servers) writer.put(one.protocol);
}

void protocols_from(Reader& reader, Views& views) {
  for (ServerInfo& one : views.servers) one.protocol = reader.get<std::uint16_t>();
}

void put_learners(Writer& writer, const Views& views) {
  for (const ShardView& one : views.shards) {
    writer.put(one.copy);
    writer.put(one.learner);
    writer.put(one.learner_copy);
  }
}

void learners_from(Reader& reader, Views& views) {
  for (ShardView& one : views.shards) {
    one.copy = reader.get<std::uint64_t>();
    one.learner = reader.get<std::uint64_t>();
    one.learner_copy = reader.get<std::uint64_t>();
  }
}

}  // namespace heddle::kv_detail
