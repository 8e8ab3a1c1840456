// A server in a process of its own, whose memory and descriptors a test looks at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>

#include <heddle/server.h>

namespace heddle::test {

// A new directory, removed at the end, with a key that knows itself.
struct KeyDirectory {
  KeyDirectory();
  ~KeyDirectory();
  KeyDirectory(const KeyDirectory&) = delete;
  KeyDirectory& operator=(const KeyDirectory&) = delete;
  std::string path;
};

struct ServerCounts {
  std::uint64_t joined = 0, refused = 0;  // workers, as the log says
  std::uint64_t pushes = 0, duplicates = 0;
};

class ServerProcess {
 public:
  // Forks: there are no threads yet. Ends with this process. Throws std::runtime_error.
  explicit ServerProcess(ServerOptions options);
  ~ServerProcess();
  const std::string& address() const { return address_; }
  std::uint64_t resident_bytes() const;
  std::size_t descriptors() const;
  // Ends the server, and says what it has seen. Throws std::runtime_error if it does not end in good order.
  ServerCounts stop();

 private:
  [[noreturn]] static void serve(ServerOptions options, int report);
  pid_t process_ = -1;
  int report_ = -1;
  std::string address_;
};

}  // namespace heddle::test
