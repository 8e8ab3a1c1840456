#include "core/collective.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace heddle {

const char* name_of(ReduceOp op) {
  constexpr std::array kNames{"sum", "prod", "min", "max", "avg"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "?";
}

namespace comm_detail {
namespace {

constexpr std::array kKinds{"nothing",    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                            "all_to_all", "send",       "recv",           "barrier",    "leave"};
constexpr std::array kAlgorithms{
    "auto", "direct", "ring", "tree", "recursive_doubling", "halving_doubling", "hierarchical"};

// splitmix64's finaliser: each bit of the word changes half of the bits of the result.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) + 0x9e3779b97f4a7c15ull;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
  return hash ^ (hash >> 31);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof hash))) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
    hash = mix(hash, word);
  }
  return hash;
}

// Copies the end of the path, which distinguishes files best: ".../layers/dense.cc" if it has more than
// `room` characters. If a folder's name begins within `room`, the text begins with a whole name. Returns the
// number of characters copied.
std::size_t copy_end(std::string_view path, char* to, std::size_t room) {
  constexpr std::string_view kCut = "...";
  if (path.size() <= room) return path.copy(to, room);
  if (room <= kCut.size()) return path.substr(path.size() - room).copy(to, room);
  path.remove_prefix(path.size() - (room - kCut.size()));
  const std::size_t folder = path.find('/');
  if (folder != std::string_view::npos) path.remove_prefix(folder);
  const std::size_t mark = kCut.copy(to, room);
  return mark + path.copy(to + mark, path.size());
}

}  // namespace

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}

const char* name_of(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKinds.size() ? kKinds[index] : "?";
}

const char* name_of(Algorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kAlgorithms.size() ? kAlgorithms[index] : "?";
}

Algorithm algorithm_from_name(const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (name == kAlgorithms[i]) return static_cast<Algorithm>(i);
    known += (i ? ", " : "") + std::string(kAlgorithms[i]);
  }
  throw InvalidArgument("there is no algorithm '" + name + "' for collectives; there is " + known);
}

// The hash leaves out what may differ between ranks that agree: the site; `failed`; the kind and the other rank of
// sends and recvs, which mirror each other; the count of an all_to_all, since each pair of ranks has its own.
void CallRecord::set_agreement() {
  const bool pair = is_point_to_point(kind);
  const std::uint64_t what = pair ? static_cast<std::uint64_t>(Kind::send) : static_cast<std::uint64_t>(kind);
  const std::uint64_t reduction = reduces(kind) ? static_cast<std::uint64_t>(op) + 1 : 0;
  const std::uint64_t peer = pair ? 0 : static_cast<std::uint32_t>(root);
  std::uint64_t hash = mix(kVersion | (on_device ? 256 : 0), epoch | (sequence << 32));
  hash = mix(hash, what | reduction << 8 | static_cast<std::uint64_t>(dtype) << 16 |
                       static_cast<std::uint64_t>(algorithm) << 24 | peer << 32);
  agreement = mix(hash, kind == Kind::all_to_all ? 0 : count);
  if (tag_at) agreement = mix(agreement, hash_of(tag()));
}

// A text that is too long is cut and ends with a hash of all of it, so that texts that differ only later stay
// different.
void CallRecord::set_tag(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  char cut[kTag + 1];
  if (text.size() > kTag) {
    std::memcpy(cut, text.data(), kTag - kDigits - 1);
    std::snprintf(cut + kTag - kDigits - 1, kDigits + 2, "#%08x", static_cast<unsigned>(hash_of(text)));
    text = {cut, kTag};
  }
  char path[kSite];
  const std::size_t length = std::string_view(site, ::strnlen(site, kSite)).copy(path, kSite);
  std::memset(site, 0, sizeof site);
  const std::size_t kept = copy_end({path, length}, site, kSite - 1 - text.size());
  text.copy(site + kept + 1, text.size());
  tag_at = static_cast<std::uint8_t>(kept + 1);
}

std::string_view CallRecord::tag() const {
  if (tag_at == 0 || tag_at > kSite) return {};
  return {site + tag_at, ::strnlen(site + tag_at, kSite - tag_at)};
}

void CallRecord::set_agreement(std::span<const CallRecord> members) {
  set_agreement();
  for (const CallRecord& member : members) agreement = mix(agreement, member.agreement);
}

void CallRecord::set_site(const std::source_location& where, std::string_view before) {
  before.copy(site, before.size());
  copy_end(where.file_name(), site + before.size(), kSite - before.size());
  line = where.line();
}

bool CallRecord::valid() const {
  return magic == kMagic && version == kVersion && static_cast<std::size_t>(kind) < kKinds.size() &&
         static_cast<std::size_t>(op) <= static_cast<std::size_t>(ReduceOp::avg) &&
         is_dtype(static_cast<std::uint64_t>(dtype)) &&
         static_cast<std::size_t>(algorithm) < kAlgorithms.size() && failed <= 1 && tag_at <= kSite &&
         std::memchr(site, '\0', sizeof site) != nullptr;
}

std::string CallRecord::to_string() const {
  const bool pair = is_point_to_point(kind);
  std::string text = std::string(name_of(kind)) + " #" + std::to_string(sequence);
  if (reduces(kind)) text += std::string(" ") + heddle::name_of(op);
  if (kind != Kind::barrier && kind != Kind::leave && kind != Kind::none) {
    text += std::string(" ") + heddle::name_of(dtype) + " x " + std::to_string(count);
  }
  if (pair) text += (kind == Kind::send ? " to rank " : " from rank ") + std::to_string(root);
  if (!pair && root >= 0) text += " root " + std::to_string(root);
  if (algorithm != Algorithm::automatic) text += std::string(" by ") + name_of(algorithm);
  if (on_device) text += " on its device";
  if (tag_at) text += " (" + std::string(tag()) + ")";
  if (line) text += " at " + std::string(site) + ":" + std::to_string(line);
  return text;
}

Part part_of(std::size_t count, int part, int parts) {
  const auto index = static_cast<std::size_t>(part), all = static_cast<std::size_t>(parts);
  const std::size_t each = count / all, longer = count % all;
  return {index * each + std::min(index, longer), each + (index < longer ? 1 : 0)};
}

}  // namespace comm_detail
}  // namespace heddle
