#include "files/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <heddle/error.h>

#include "files/path.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// Temporary files are PATH.tmp-HOST-PID-COUNT, and locked while their process lives. A process id alone does
// not tell whether a writer lives: ids are reused, and ids of another container or host belong to other
// processes here.
std::string temporary_prefix(const std::string& path) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  char digits[9];
  const uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(host), std::strlen(host));
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(sum));
  return path + ".tmp-" + digits + "-";
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether text has the form PID-COUNT.
bool ends_like_temporary(std::string_view text) {
  const std::size_t dash = text.find('-');
  return dash != std::string_view::npos && is_number(text.substr(0, dash)) &&
         is_number(text.substr(dash + 1));
}

// Removes the temporary file if it is this user's and no process holds its lock.
void remove_if_abandoned(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat opened {
  }, named{};
  const bool ours = ::fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid();
  // By the time that the lock is taken, another file may have the name.
  if (ours && ::flock(file, LOCK_EX | LOCK_NB) == 0 && ::lstat(path.c_str(), &named) == 0 &&
      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
    ::unlink(path.c_str());
  ::close(file);
}

// Decides when a directory is searched for temporary files. Each save pays for 64 entries, so a directory
// with many entries is not searched at each save. Thread-safe.
class Scans {
 public:
  bool due(const std::string& directory) {
    const std::lock_guard guard(mutex_);
    Last& last = last_[directory];
    return ++last.saves * 64 >= last.entries;
  }
  void done(const std::string& directory, std::size_t entries) {
    const std::lock_guard guard(mutex_);
    last_[directory] = {entries, 0};
  }

 private:
  struct Last {
    std::size_t entries = 0, saves = 0;  // entries at the last search of the directory; saves since then
  };
  std::mutex mutex_;  // guards last_; no other mutex is locked while it is held
  std::map<std::string, Last> last_;
};

// Removes the temporary files of writers of `path` on this host that were killed. Files that cannot be opened
// stay.
void remove_abandoned(const std::string& path, const std::string& prefix) {
  const fs::path parent = fs::path(path).parent_path();
  static Scans& scans = *new Scans;  // never destroyed, since static destructors may save files too
  if (!scans.due(parent.string())) return;
  std::size_t count = 0;
  const std::string begin = fs::path(prefix).filename().string();
  std::error_code error;
  fs::directory_iterator entries(parent.empty() ? "." : parent, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    ++count;
    if (name.starts_with(begin) && ends_like_temporary(std::string_view(name).substr(begin.size())))
      remove_if_abandoned((parent / name).string());
  }
  scans.done(parent.string(), count);
}

// Makes a new temporary file, locked if the file system has locks. -1 with errno if that fails.
int create_temporary(const std::string& prefix, std::string& name, unsigned mode) {
  static std::atomic<unsigned> count{0};
  while (true) {
    name = prefix + std::to_string(::getpid()) + "-" + std::to_string(count++);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST) continue;  // the name is used by a writer in another container
    if (file < 0) return -1;
    const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
    // Another process may have removed the file as abandoned before it was locked.
    struct stat status {};
    const bool lost = locked ? ::fstat(file, &status) == 0 && status.st_nlink == 0 : errno == EWOULDBLOCK;
    if (!lost) return file;
    ::close(file);
  }
}

// Gives a new file the permissions of the one that it replaces, but for the user none beyond `mode`. If the
// group cannot be kept, the new file's group gets the permissions of others.
void keep_permissions(const std::string& path, int file, unsigned mode) {
  struct stat old {
  }, made{};
  if (::stat(path.c_str(), &old) != 0 || !S_ISREG(old.st_mode) || ::fstat(file, &made) != 0) return;
  unsigned kept = old.st_mode & 0777;
  if (mode != 0666) kept &= mode;
  if (old.st_gid != made.st_gid && ::fchown(file, static_cast<uid_t>(-1), old.st_gid) != 0)
    kept = (kept & ~070U) | (kept & 07U) << 3;
  ::fchmod(file, kept);  // fails on a file system without permissions, which is ignored
}

}  // namespace

void remove_abandoned(const std::string& folder, const std::function<bool(const std::string& name)>& is_of) {
  const std::string mark = temporary_prefix("");
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? "." : folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const std::size_t at = name.rfind(mark);
    if (at == std::string::npos || !ends_like_temporary(std::string_view(name).substr(at + mark.size())))
      continue;
    if (is_of(name.substr(0, at))) remove_if_abandoned(entries->path().string());
  }
}

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::string behind_links(const std::string& path) {
  constexpr int kMost = 40;  // that Linux follows
  fs::path at = path;
  for (int links = 0; links < kMost; ++links) {
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / next;
  }
  return at.string();
}

AtomicFile::AtomicFile(const std::string& path, unsigned mode) : path_(path) {
  ndarray_detail::check_path(path);
  if (is_special(path)) {
    target_ = path;
    file_ = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (file_ < 0) fail("cannot be written");
    return;
  }
  target_ = behind_links(path);
  const std::string prefix = temporary_prefix(target_);
  remove_abandoned(target_, prefix);
  file_ = create_temporary(prefix, temporary_, mode);
  if (file_ < 0) fail("cannot be written");
  keep_permissions(target_, file_, mode);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(file_);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t written = ::write(file_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (!temporary_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to");
  ::close(file_);
  file_ = -1;
}

void AtomicFile::durable_commit() {
  if (!temporary_.empty() && ::fsync(file_) != 0) fail("cannot be synced");
  commit();
  // The rename must reach the disk as well. An error is ignored: some file systems cannot sync a directory.
  std::string parent = std::filesystem::path(target_).parent_path().string();
  int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

void AtomicFile::fail(const char* what) const {
  throw Error("file '" + path_ + "' " + what + ": " + std::strerror(errno));
}

}  // namespace heddle
