#include "membership/scheduler_state.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

#include "files/atomic_file.h"
#include "transport/frame.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::uint64_t kMagic = 0x6468637365646468;  // the bytes "hddeschd"
// Versions of the saved state. Version 1 has no secret and no protocol versions of servers, version 2 has no
// learners.
constexpr std::uint32_t kVersion = 3, kOldestVersion = 1;
constexpr std::size_t kMostStateBytes = 1 << 20;

// The fields that follow magic, version and checksum. When a state is read, `synced` gets an entry for each
// shard.
void body_fields(auto& archive, SchedulerState& state, std::uint32_t version) {
  archive(state.cluster, state.servers, state.replicas, state.views);
  state.synced.resize(state.views.shards.size());
  for (std::uint64_t& epoch : state.synced) archive(epoch);
  if (version < 2) return;
  archive(state.secret);
  Views::later_fields(archive, state.views, version >= 3 ? kLearners : kProven);
}

}  // namespace

std::vector<std::byte> encode(const SchedulerState& state) {
  SchedulerState copy = state;
  Writer body;
  body_fields(body, copy, kVersion);
  const std::vector<std::byte> bytes = body.take();
  Writer writer;
  writer(kMagic, kVersion, checksum(bytes));
  writer.bytes(bytes);
  return writer.take();
}

SchedulerState decode_scheduler_state(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (reader.get<std::uint64_t>() != kMagic) throw MalformedMessage("it is no state of a scheduler");
  const auto version = reader.get<std::uint32_t>();
  if (version < kOldestVersion || version > kVersion)
    throw MalformedMessage("its format has the version " + std::to_string(version) + ", known are " +
                           std::to_string(kOldestVersion) + " to " + std::to_string(kVersion));
  const auto sum = reader.get<std::uint32_t>();
  if (sum != checksum(bytes.last(reader.left()))) throw MalformedMessage("its checksum is wrong");
  SchedulerState state;
  body_fields(reader, state, version);
  reader.end();
  const std::size_t shards = state.views.shards.size();
  if (shards != (state.views.version > 0 ? state.servers : 0) || state.views.servers.size() > state.servers)
    throw MalformedMessage("it has " + std::to_string(shards) + " shards of " +
                           std::to_string(state.servers) + " servers");
  for (const ServerInfo& one : state.views.servers) {
    if (one.number >= state.servers)
      throw MalformedMessage("it has a server " + std::to_string(one.number) + " of " +
                             std::to_string(state.servers));
  }
  return state;
}

StateFile::StateFile(std::string path) : path_(std::move(path)) {
  const std::string name = path_ + ".lock";
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) throw Error(name + ": cannot be made: " + std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(lock_);
  throw Error(path_ + ": " +
              (error == EWOULDBLOCK ? "another scheduler that is running uses it"
                                    : std::string("cannot be locked: ") + std::strerror(error)));
}

StateFile::~StateFile() { ::close(lock_); }

std::optional<SchedulerState> StateFile::read() const {
  std::error_code error;
  if (!std::filesystem::exists(path_, error) && !error) return std::nullopt;
  std::ifstream file(path_, std::ios::binary);
  std::string text(kMostStateBytes, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) throw Error(path_ + ": cannot be read: " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  try {
    return decode_scheduler_state(std::as_bytes(std::span(text)));
  } catch (const MalformedMessage& wrong) {
    throw Error(path_ + " is damaged: " + wrong.what() +
                ". The scheduler will not guess who keeps what. Bring back the file; or remove it, end all "
                "servers and "
                "workers, and start the job from its last checkpoint");
  }
}

void StateFile::write(const SchedulerState& state) const {
  AtomicFile file(path_, 0600);  // the file contains the cluster's secret
  const std::vector<std::byte> bytes = encode(state);
  file.write(bytes.data(), bytes.size());
  file.durable_commit();
}

}  // namespace heddle::kv_detail
