#include "security/key_files.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <pwd.h>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "connection/environment.h"
#include "connection/socket.h"
#include "security/allowed_line.h"
#include "security/curve_key.h"

namespace heddle::net_detail {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr mode_t kOthersRead = S_IRGRP | S_IROTH, kOthersWrite = S_IWGRP | S_IWOTH;

std::string octal(mode_t mode) {
  std::ostringstream text;
  text << '0' << std::oct << (mode & 0777);
  return text.str();
}

// `found` describes the open file, since the path may lead to another file by now.
void check_owner(const std::string& path, const struct stat& found, mode_t forbidden) {
  if (!S_ISREG(found.st_mode)) throw CommError(path + " is no file");
  if (found.st_uid != geteuid() && found.st_uid != 0)
    throw CommError(path + " belongs to another user; it is not used");
  if ((found.st_mode & forbidden) == 0) return;
  throw CommError(path + " can be " + ((found.st_mode & forbidden & kOthersRead) ? "read" : "changed") +
                  " by others (mode " + octal(found.st_mode) + "); it is not used: chmod 600 " + path);
}

// A user who can write to the directory could put another file of this user there as the list of keys.
void check_directory(const std::string& path, const struct stat& found) {
  const bool theirs = found.st_uid != geteuid() && found.st_uid != 0;
  if (!theirs && (found.st_mode & kOthersWrite) == 0) return;
  throw CommError(
      "the directory " + path + " " +
      (theirs ? "belongs to another user" : "can be changed by others (mode " + octal(found.st_mode) + ")") +
      "; keys in it are not used" + (theirs ? "" : ": chmod go-w " + path));
}

// Reads a file and checks its owner and mode. nullopt: there is no such file.
std::optional<std::string> read_private(const std::string& path, mode_t forbidden, int directory = AT_FDCWD) {
  const std::string name = directory == AT_FDCWD ? path : path.substr(path.rfind('/') + 1);
  const Socket file(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat found {};
  if (!file || fstat(file.fd(), &found) != 0) throw CommError("cannot read " + path + ": " + last_error());
  check_owner(path, found, forbidden);
  std::string text;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while (text.size() <= kMaxBytes && (got = read(file.fd(), buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  if (got < 0) throw CommError("cannot read " + path + ": " + last_error());
  if (text.size() > kMaxBytes) throw CommError(path + " is longer than 1 MiB; it is no file of keys");
  return text;
}

std::string first_word(const std::string& line) {
  std::string word;
  std::istringstream(line) >> word;
  return word;
}

struct Allowed {
  std::set<std::string> fingerprints, curve_keys;
  std::map<std::string, KeyRoles> roles;
};

Allowed allowed_in(const std::string& path, const std::string& text) {
  Allowed allowed;
  std::istringstream lines(text);
  int number = 0;
  for (std::string text_of_line; std::getline(lines, text_of_line);) {
    ++number;
    AllowedLine line;
    try {
      line = parse_allowed_line(text_of_line);
    } catch (const CommError& error) {
      throw CommError(path + ":" + std::to_string(number) + ": " + error.what());
    }
    if (line.fingerprint.empty()) continue;
    allowed.fingerprints.insert(line.fingerprint);
    allowed.roles[line.fingerprint] = line.roles;
    if (line.curve.empty()) continue;
    allowed.curve_keys.insert(line.curve);
    allowed.roles[std::string(kCurveField) + line.curve] = line.roles;
  }
  return allowed;
}

TlsKey parse_key(const std::string& path, const std::string& text) {
  TlsKey key = tls_key_from(text);
  if (!key) throw CommError(path + " holds no private Ed25519 key: heddle keygen --force makes a new one");
  return key;
}

std::string parse_curve_secret(const std::string& path, const std::string& text) {
  const std::string secret = first_word(text);
  if (!is_curve_key(secret))
    throw CommError(path + " holds no key of CURVE: heddle keygen --force makes a new one");
  return secret;
}

// Replaces the file atomically; only the user can read it, from its creation on.
void write_private(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  unlink(draft.c_str());
  {
    const Socket file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) throw CommError("cannot write " + draft + ": " + last_error());
    const ssize_t written = write(file.fd(), text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size()) || fsync(file.fd()) != 0) {
      const std::string why = written < 0 ? last_error() : "the disk is full";
      unlink(draft.c_str());
      throw CommError("cannot write " + draft + ": " + why);
    }
  }
  if (rename(draft.c_str(), path.c_str()) != 0) throw CommError("cannot write " + path + ": " + last_error());
}

void make_directory(const std::string& path) {
  std::error_code error;
  const auto parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw CommError("cannot make the directory " + path + ": " + last_error());
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) throw CommError(path + " is no directory");
  if (found.st_uid == geteuid() && (found.st_mode & kOthersWrite) == 0) return;
  throw CommError(path + " belongs to or can be changed by others (mode " + octal(found.st_mode) +
                  "): no place for keys");
}

// "user@host date", a comment for people.
std::string who_and_when() {
  const passwd* user = getpwuid(geteuid());
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::array<char, 16> date{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d", localtime_r(&now, &parts));
  return std::string(user ? user->pw_name : std::to_string(geteuid())) + "@" + host.data() + " " +
         date.data();
}

// `text` without the lines of the key with this fingerprint.
std::string without(const std::string& text, const std::string& fingerprint) {
  std::string rest;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (first_word(line) != fingerprint) rest += line + "\n";
  }
  return rest;
}

}  // namespace

std::string key_file_in(const std::string& directory) { return directory + "/comm.key"; }
std::string allowed_file_in(const std::string& directory) { return directory + "/comm.allowed"; }
std::string curve_file_in(const std::string& directory) { return directory + "/comm.curve"; }

std::optional<KeyFiles> read_key_files(const std::string& directory) {
  const std::string key_file = key_file_in(directory), allowed_file = allowed_file_in(directory);
  // The directory is opened once, so that the one that is checked is the one that is read from.
  const Socket place(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  if (!place && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!place || fstat(place.fd(), &found) != 0)
    throw CommError("cannot read " + directory + ": " + last_error());
  const auto key = read_private(key_file, kOthersRead | kOthersWrite, place.fd());
  if (!key) return std::nullopt;
  check_directory(directory, found);
  const auto allowed = read_private(allowed_file, kOthersWrite, place.fd());
  if (!allowed) throw CommError("there is no " + allowed_file + ", the list of keys that may take part");
  const std::string curve_file = curve_file_in(directory);
  const auto curve = read_private(curve_file, kOthersRead | kOthersWrite, place.fd());
  Allowed keys = allowed_in(allowed_file, *allowed);
  return KeyFiles{allowed_file,
                  parse_key(key_file, *key),
                  std::move(keys.fingerprints),
                  curve ? parse_curve_secret(curve_file, *curve) : "",
                  std::move(keys.curve_keys),
                  std::move(keys.roles)};
}

}  // namespace heddle::net_detail

namespace heddle {

std::string comm_keys_directory() {
  using net_detail::variable;
  if (const std::string own = variable("HEDDLE_COMM_KEYS"); !own.empty()) return own;
  if (const std::string config = variable("XDG_CONFIG_HOME"); !config.empty()) return config + "/heddle";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.config/heddle";
  throw CommError("where are this user's keys? None of HEDDLE_COMM_KEYS, XDG_CONFIG_HOME and HOME is set");
}

CommKey make_comm_key(const std::string& directory, bool replace, const std::string& roles,
                      const std::string& jobs) {
  using namespace net_detail;
  parse_key_roles(roles, jobs);
  const CommKey files{key_file_in(directory), allowed_file_in(directory), ""};
  make_directory(directory);
  std::error_code error;
  const bool there = std::filesystem::exists(files.file, error);
  if (there && !replace)
    throw CommError("there is a key already in " + files.file + "; hosts know it; --force replaces it");
  const TlsKey old = there ? tls_key_from(read_private(files.file, 0).value_or("")) : nullptr;
  const std::string allowed = read_private(files.allowed_file, kOthersWrite).value_or("");
  allowed_in(files.allowed_file, allowed);
  const TlsKey key = new_tls_key();
  const std::string curve_secret = new_curve_secret();
  const std::string line = fingerprint_of(key.get()) + "  " + std::string(kCurveField) +
                           curve_public_of(curve_secret) + "  " + std::string(kRolesField) + roles + "  " +
                           (jobs.empty() ? "" : std::string(kJobsField) + jobs + "  ") + who_and_when();
  write_private(files.allowed_file,
                (old ? without(allowed, fingerprint_of(old.get())) : without(allowed, "-")) + line + "\n");
  write_private(curve_file_in(directory), curve_secret + "\n");
  write_private(files.file, to_pem(key));
  return {files.file, files.allowed_file, line};
}

}  // namespace heddle
