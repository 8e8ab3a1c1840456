#include "snapshot/snapshot_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/file.h>
#include <tuple>
#include <unistd.h>

namespace heddle::kv_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".snapshot", kTemporary = ".snapshot.tmp-";
constexpr std::size_t kDigits = 8;

std::string prefix_of(std::uint32_t number, std::uint32_t servers) {
  return "server-" + std::to_string(number) + "-of-" + std::to_string(servers);
}

// Takes `word` and a number behind it from the front of the text.
template <class T> bool take(std::string_view& text, std::string_view word, T& value) {
  if (!text.starts_with(word)) return false;
  const char *const begin = text.data() + word.size(), *const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stopped == begin) return false;
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  return true;
}

std::optional<SnapshotName> name_from(const fs::path& path) {
  const std::string file = path.filename().string();
  std::string_view left = file;
  SnapshotName name{.path = path.string()};
  if (!take(left, "server-", name.number) || !take(left, "-of-", name.servers) ||
      !take(left, "-", name.sequence) || left != kEnding)
    return std::nullopt;
  return name;
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) all.push_back(entry->path());
  if (error) throw Error("the folder " + folder + " cannot be read: " + error.message());
  return all;
}

}  // namespace

std::string snapshot_path(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::uint64_t sequence) {
  std::string digits = std::to_string(sequence);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  return (fs::path(folder) / (prefix_of(number, servers) + "-" + digits + std::string(kEnding))).string();
}

std::vector<SnapshotName> snapshots_in(const std::string& folder) {
  std::vector<SnapshotName> all;
  for (const fs::path& path : entries_of(folder)) {
    if (auto name = name_from(path)) all.push_back(std::move(*name));
  }
  std::sort(all.begin(), all.end(), [](const SnapshotName& a, const SnapshotName& b) {
    return std::tie(a.servers, a.number, b.sequence) < std::tie(b.servers, b.number, a.sequence);
  });
  return all;
}

std::vector<SnapshotName> snapshots_of(const std::string& folder, std::uint32_t number,
                                       std::uint32_t servers) {
  std::vector<SnapshotName> all = snapshots_in(folder);
  std::erase_if(all, [&](const SnapshotName& one) { return one.number != number || one.servers != servers; });
  return all;
}

void remove_old_snapshots(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::size_t kept) {
  const std::vector<SnapshotName> all = snapshots_of(folder, number, servers);
  std::error_code ignored;
  for (std::size_t i = kept; i < all.size(); ++i) fs::remove(all[i].path, ignored);
  const std::string mine = prefix_of(number, servers) + "-";
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(mine) && name.find(kTemporary) != std::string::npos) fs::remove(path, ignored);
  }
}

SnapshotLock::SnapshotLock(const std::string& folder, std::uint32_t number, std::uint32_t servers) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("the folder for snapshots, " + folder + ", cannot be made: " + error.message());
  const std::string path = (fs::path(folder) / (prefix_of(number, servers) + ".lock")).string();
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) return;  // the folder is read-only, and needs no lock, since nobody can write to it
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw Error("another process writes snapshots of server " + std::to_string(number) + " of " +
              std::to_string(servers) + " to " + folder + "; each needs a folder or a number of its own");
}

SnapshotLock::~SnapshotLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace heddle::kv_detail
