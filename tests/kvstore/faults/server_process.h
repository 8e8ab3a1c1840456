// A server in a separate process, so that a test can measure its memory and descriptors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>

#include <heddle/server.h>

namespace heddle::test {

// A new directory with a key that accepts itself; the destructor removes the directory.
struct KeyDirectory {
  KeyDirectory();
  ~KeyDirectory();
  KeyDirectory(const KeyDirectory&) = delete;
  KeyDirectory& operator=(const KeyDirectory&) = delete;
  std::string path;
};

struct ServerCounts {
  // Numbers of workers that joined and were refused, by the server's log.
  std::uint64_t joined = 0, refused = 0;
  std::uint64_t pushes = 0, duplicates = 0;
};

class ServerProcess {
 public:
  // Forks, so the caller must have no other threads. The server dies with the caller. Throws
  // std::runtime_error.
  explicit ServerProcess(ServerOptions options);
  ~ServerProcess();
  const std::string& address() const { return address_; }
  std::uint64_t resident_bytes() const;
  std::size_t descriptors() const;
  // Ends the server and returns its counts. Throws std::runtime_error if it does not exit cleanly.
  ServerCounts stop();

 private:
  [[noreturn]] static void serve(ServerOptions options, int report);
  pid_t process_ = -1;
  int report_ = -1;
  std::string address_;
};

}  // namespace heddle::test
