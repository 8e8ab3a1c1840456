#include "security/key_files.h"

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>

#include "message_of.h"
#include "net/tls_ends.h"
#include "security/curve_key.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::test;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777;
}

std::string complaint(const Keys& keys) {
  return message_of<CommError>([&] { keys.files(); });
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a new key is its user's alone, and on its own list") {
  const TemporaryDirectory parent;
  const std::string directory = parent.file("a/b");
  const CommKey key = make_comm_key(directory, false);
  CHECK(mode_of(directory) == 0700);
  CHECK(mode_of(key.file) == 0600);
  CHECK(mode_of(key.allowed_file) == 0600);
  CHECK(read_file(key.allowed_file) == key.line + "\n");
  const auto files = read_key_files(directory);
  REQUIRE(files);
  CHECK(files->allowed == std::set<std::string>{fingerprint_of(files->key.get())});
  CHECK(key.line.starts_with(*files->allowed.begin() + "  "));
}

TEST_CASE("a key is replaced only by who says so, and the other keys stay") {
  const Keys keys, other;
  keys.allow(other);
  const std::string before = read_file(keys.key.file);
  CHECK(holds(message_of<CommError>([&] { make_comm_key(keys.directory.path, false); }), "--force"));
  CHECK(read_file(keys.key.file) == before);
  const CommKey key = make_comm_key(keys.directory.path, true);
  CHECK(read_file(key.file) != before);
  CHECK(read_file(key.allowed_file) == other.key.line + "\n" + key.line + "\n");
}

TEST_CASE("without a key there is none; a key without a list is an error") {
  const TemporaryDirectory empty;
  CHECK_FALSE(read_key_files(empty.path));
  const Keys keys;
  std::filesystem::remove(keys.key.allowed_file);
  CHECK(holds(complaint(keys), keys.key.allowed_file));
}

TEST_CASE("files that others can read or change are not used") {
  const Keys keys;
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    REQUIRE(chmod(keys.key.file.c_str(), mode) == 0);
    CHECK(holds(complaint(keys),
                keys.key.file + " can be " + (mode & 044 ? "read" : "changed") + " by others"));
  }
  REQUIRE(chmod(keys.key.file.c_str(), 0400) == 0);
  REQUIRE(chmod(keys.key.allowed_file.c_str(), 0644) == 0);
  CHECK(complaint(keys) == "no error");
  REQUIRE(chmod(keys.key.allowed_file.c_str(), 0664) == 0);
  CHECK(holds(complaint(keys), keys.key.allowed_file + " can be changed by others (mode 0664)"));
}

TEST_CASE("keys in a directory that others can change are not used") {
  const Keys keys;
  const std::string directory = keys.directory.path;
  for (const mode_t mode : {0770, 0707, 0777, 01777}) {
    REQUIRE(chmod(directory.c_str(), mode) == 0);
    CHECK(holds(complaint(keys), "the directory " + directory + " can be changed by others (mode 0"));
    CHECK(holds(complaint(keys), "chmod go-w " + directory));
  }
  REQUIRE(chmod(directory.c_str(), 0755) == 0);
  CHECK(complaint(keys) == "no error");
  if (geteuid() == 0) {
    REQUIRE(chown(directory.c_str(), 4711, 4711) == 0);
    CHECK(holds(complaint(keys), "the directory " + directory + " belongs to another user"));
  }
}

TEST_CASE("what makes no sense is named by file and line") {
  const Keys keys, other;
  const std::string hash = other.fingerprint();
  write_file(keys.key.allowed_file, "# mine\n\n  " + hash + "\tfrom elsewhere\n" + keys.key.line);
  CHECK(keys.files().allowed.size() == 2);
  for (const std::string& bad : {hash.substr(1), hash + "0", hash.substr(0, 70),
                                 "sha256:" + std::string(64, 'G'), std::string("ssh-rsa AAAA")}) {
    write_file(keys.key.allowed_file, keys.key.line + "\n\n" + bad + " x\n");
    CHECK(holds(complaint(keys), keys.key.allowed_file + ":3:"));
  }
  write_file(keys.key.allowed_file, keys.key.line);
  for (const std::string& bad : {std::string(), std::string("nonsense"),
                                 read_file(keys.key.file).substr(0, 60), std::string(2 << 20, 'x')}) {
    write_file(keys.key.file, bad);
    CHECK(holds(complaint(keys), keys.key.file));
  }
  CHECK_THROWS_AS(make_comm_key("/proc/nothing", false), CommError);
}

TEST_CASE("a line says what its key may do; without a word it is a worker's") {
  const Keys keys, other;
  const auto roles = [&](const std::string& key) { return keys.files().roles.at(key); };
  const std::string curve = other.key.line.substr(other.key.line.find("curve:"), 46);
  CHECK(roles(keys.fingerprint()).server);
  CHECK(roles(keys.fingerprint()).worker);
  for (const auto& [text, worker, server] :
       {std::tuple("", true, false), std::tuple("roles:worker", true, false),
        std::tuple("roles:server x", false, true), std::tuple("roles:server,worker", true, true),
        std::tuple("Roles:server", true, false)}) {
    CAPTURE(std::string(text));
    write_file(keys.key.allowed_file, other.fingerprint() + "  " + curve + " " + text + "\n");
    for (const std::string& key : {other.fingerprint(), curve}) {
      CHECK(roles(key).worker == worker);
      CHECK(roles(key).server == server);
    }
    write_file(keys.key.allowed_file, other.fingerprint() + " " + text + "\n");
    CHECK(roles(other.fingerprint()).server == server);
  }
  for (const char* const bad : {"roles:", "roles:adm", "roles:worker,root", "roles:,"}) {
    write_file(keys.key.allowed_file, "\n" + other.fingerprint() + " " + bad + "\n");
    CHECK(holds(complaint(keys),
                keys.key.allowed_file + ":2: '" + bad + "'; want some of worker, server and admin"));
  }
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(make_comm_key(directory.path, false, "administrator"), CommError);
  const CommKey worker = make_comm_key(directory.path, false, "worker");
  CHECK(holds(worker.line, "  roles:worker  "));
  CHECK_FALSE(read_key_files(directory.path)->roles.at(worker.line.substr(0, 71)).server);
}

TEST_CASE("a line may limit its key to jobs, by names in which * stands for any text") {
  const Keys keys, other;
  const std::string curve = other.key.line.substr(other.key.line.find("curve:"), 46);
  const auto roles_of = [&](const std::string& fields) {
    write_file(keys.key.allowed_file, other.fingerprint() + "  " + curve + " " + fields + "\n");
    const KeyRoles of_tls = keys.files().roles.at(other.fingerprint()),
                   of_curve = keys.files().roles.at(curve);
    CHECK(of_tls.jobs == of_curve.jobs);
    CHECK(of_tls.worker == of_curve.worker);
    return of_tls;
  };
  CHECK(roles_of("").jobs.empty());
  CHECK(roles_of("roles:worker a comment").may_join("anything"));
  for (const char* const fields : {"roles:worker jobs:team-a-*,eval a comment",
                                   "jobs:team-a-*,eval roles:worker", "jobs:team-a-*,eval"}) {
    CAPTURE(std::string(fields));
    const KeyRoles roles = roles_of(fields);
    CHECK(roles.worker);
    CHECK(roles.jobs == std::vector<std::string>{"team-a-*", "eval"});
    for (const char* const job : {"team-a-", "team-a-1", "team-a-1 of\t2, *", "eval"})
      CHECK(roles.may_join(job));
    for (const char* const job : {"", "team-a", "team-b-1", "xteam-a-1", "evaluation", "Eval", "team-a-*"})
      CHECK(roles.may_join(job) == (std::string(job) == "team-a-*"));
  }
  const auto match = [](const std::string& pattern, const std::string& job) {
    return KeyRoles{.worker = true, .jobs = {pattern}}.may_join(job);
  };
  CHECK(match("*", ""));
  CHECK(match("**a*b**", "xaybz"));
  CHECK(match("a*a*a", "aaa"));
  CHECK_FALSE(match("a*a*a", "aa"));
  CHECK(match("*-eval", "a-eval-eval"));
  CHECK_FALSE(match("*-eval", "a-eval-"));
  CHECK_FALSE(match("a?", "ab"));
  // Quick, though a simple matcher would take exponential time.
  CHECK_FALSE(match(std::string(60, '*') + "b", std::string(4000, 'a')));
}

TEST_CASE("a limit to jobs that is wrong, or that would limit nothing, is named by file and line") {
  const Keys keys, other;
  const auto complaint_of = [&](const std::string& fields) {
    write_file(keys.key.allowed_file, "# keys\n\n" + other.fingerprint() + " " + fields + "\n");
    return complaint(keys);
  };
  const std::string place = keys.key.allowed_file + ":3: ";
  for (const char* const bad :
       {"jobs:", "jobs:,", "jobs:a,", "jobs:,a", "jobs:a,,b", "jobs:\xc3\xa9t\xc3\xa9", "jobs:a\x01"}) {
    CAPTURE(std::string(bad));
    CHECK(
        holds(complaint_of(std::string("roles:worker ") + bad), place + "'" + bad + "'; want names of jobs"));
  }
  for (const char* const bad : {"a comment jobs:a", "roles:worker jobs:a jobs:b", "jobs=a", "me@host jobs=a",
                                "job:a", "Jobs:a", "me@host JOB=a", "roles:worker me@host jobs:a"})
    CHECK(holds(complaint_of(bad), "' stands in the comment and would limit nothing"));
  for (const char* const bad : {"roles:server jobs:a", "jobs:a roles:admin,server"})
    CHECK(holds(complaint_of(bad),
                place + "jobs: says which jobs a worker may join, and the key lacks the role"));
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(make_comm_key(directory.path, false, "worker", "a,,b"), CommError);
  CHECK_THROWS_AS(make_comm_key(directory.path, false, "server", "a"), CommError);
  const CommKey key = make_comm_key(directory.path, false, "worker", "team-a-*,eval");
  CHECK(holds(key.line, "  roles:worker  jobs:team-a-*,eval  "));
  CHECK(read_key_files(directory.path)->roles.at(key.line.substr(0, 71)).jobs.size() == 2);
}

TEST_CASE("roles include others if they allow all that the others do") {
  const auto worker = [](std::vector<std::string> jobs) {
    return KeyRoles{.worker = true, .jobs = std::move(jobs)};
  };
  CHECK(worker({}).includes(worker({"a"})));
  CHECK_FALSE(worker({"a"}).includes(worker({})));
  CHECK(worker({"a-*", "b"}).includes(worker({"b", "a-1", "a-x*", "a-*"})));
  CHECK_FALSE(worker({"a-1*"}).includes(worker({"a-*"})));
  CHECK_FALSE(worker({"a-1", "a-2"}).includes(worker({"a-*"})));
  CHECK(worker({"a"}).includes(KeyRoles{}));
  CHECK(kAllRoles.includes(worker({"a"})));
}

TEST_CASE("only a line that says so lets its key administrate") {
  const Keys keys;
  const auto can = [&] { return keys.files().roles.at(keys.fingerprint()).admin; };
  CHECK_FALSE(can());  // make_comm_key gives the key a line without this role
  for (const char* const text : {"roles:admin", "roles:worker,admin", "roles:admin,server"}) {
    write_file(keys.key.allowed_file, keys.fingerprint() + " " + text + "\n");
    CHECK(can());
  }
  for (const char* const text : {"", "roles:worker,server", "admin"}) {
    write_file(keys.key.allowed_file, keys.fingerprint() + " " + text + "\n");
    CHECK_FALSE(can());
  }
  const net_detail::KeyRoles admin{.admin = true};
  CHECK(net_detail::kAllRoles.includes(admin));
  CHECK_FALSE(admin.includes(net_detail::kAllRoles));
  CHECK_FALSE(net_detail::KeyRoles{.worker = true, .server = true}.includes(admin));
}

TEST_CASE("a key for ZeroMQ lies beside the other one, and its public half is in the same line") {
  const Keys keys, other;
  keys.allow(other);
  const KeyFiles files = keys.files();
  const std::string curve_file = curve_file_in(keys.directory.path);
  CHECK(mode_of(curve_file) == 0600);
  CHECK(files.curve_secret + "\n" == read_file(curve_file));
  CHECK(files.curve_allowed.size() == 2);
  CHECK(files.curve_allowed.contains(curve_public_of(files.curve_secret)));
  CHECK(files.curve_allowed.contains(curve_public_of(other.files().curve_secret)));
  CHECK(holds(keys.key.line, "  curve:" + curve_public_of(files.curve_secret) + "  "));

  write_file(keys.key.allowed_file, keys.fingerprint() + "  an older line\n");
  CHECK(keys.files().curve_allowed.empty());
  for (const std::string& bad :
       {std::string(), std::string(39, '0'), std::string(40, '~'), std::string(40, '#')}) {
    write_file(keys.key.allowed_file, keys.fingerprint() + "  curve:" + bad + "\n");
    CHECK(holds(complaint(keys), keys.key.allowed_file + ":1: no key"));
  }
  write_file(keys.key.allowed_file, keys.key.line);
  write_file(curve_file, "nonsense\n");
  CHECK(holds(complaint(keys), curve_file + " holds no key of CURVE"));
  REQUIRE(chmod(curve_file.c_str(), 0644) == 0);
  CHECK(holds(complaint(keys), curve_file + " can be read by others"));
  std::filesystem::remove(curve_file);
  CHECK(keys.files().curve_secret.empty());
}
