// The subjects of kvstore_bench: a server and a user of it, each a process that works only when told to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/peer_process.h"

namespace heddle::bench {

struct KvSetting {
  bool pin = true;                    // servers on the first core, users on the second
  std::vector<std::string> subjects;  // only these, or layers; empty: all
};

// A directory of the program's own, with the keys for "tls". Gone with it.
class KeyDirectory {
 public:
  KeyDirectory();
  ~KeyDirectory();
  KeyDirectory(const KeyDirectory&) = delete;
  KeyDirectory& operator=(const KeyDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A process that serves; its time and its memory are read from outside.
class ServerProcess {
 public:
  // `more`: options of this program.
  ServerProcess(const std::string& role, const std::string& transport, const std::string& keys, bool pin,
                const std::vector<std::string>& more = {});
  const std::string& address() const { return address_; }
  double cpu() const;  // seconds of cores that it has used, in the kernel too
  double rss() const;  // bytes

 private:
  std::unique_ptr<PeerProcess> process_;
  pid_t pid_ = 0;
  std::string address_;
};

struct KvSample {
  double seconds = 0;     // a round
  double server_cpu = 0;  // seconds of the server, a round
  long wrong = 0;
};

class KvSubject {
 public:
  KvSubject(std::string layer, std::string transport, std::shared_ptr<const ServerProcess> server,
            const std::string& keys, bool pin);
  std::string name() const { return transport_.empty() ? layer_ : layer_ + "_" + transport_; }
  const std::string& layer() const { return layer_; }
  const std::string& transport() const { return transport_; }
  const ServerProcess& server() const { return *server_; }
  // Throws std::runtime_error if the process says so, or has ended.
  KvSample run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds);

 private:
  std::string layer_, transport_;
  std::shared_ptr<const ServerProcess> server_;
  std::unique_ptr<PeerProcess> process_;  // ends before its server
};

// Two servers, a scheduler and two workers, all at work at one time.
class KvCluster {
 public:
  KvCluster(const std::string& transport, int copies, const KeyDirectory& keys, bool pin);
  // Of each worker: so many keys of its own. server_cpu: of both servers. Throws std::runtime_error.
  KvSample run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds);

 private:
  std::unique_ptr<ServerProcess> scheduler_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::unique_ptr<PeerProcess>> workers_;  // end first
};
bool has_transport(const std::string& transport);  // this machine

// The subject of this name, with a server of its own.
std::unique_ptr<KvSubject> start_subject(const std::string& layer, const std::string& transport,
                                         const KeyDirectory& keys, bool pin);
// All that the setting asks for, and that this machine can have.
std::vector<std::unique_ptr<KvSubject>> start_kv_subjects(const KvSetting& setting, const KeyDirectory& keys);

}  // namespace heddle::bench
