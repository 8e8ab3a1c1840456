// The subjects of kvstore_bench: a server and its user, each a process that only works on command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/peer_process.h"

namespace heddle::bench {

struct KvSetting {
  bool pin = true;                    // whether servers run on the first core, and users on the second
  std::vector<std::string> subjects;  // names of subjects or layers to measure; empty: all
};

// A temporary directory with the keys for "tls", removed by the destructor.
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

// A server process; its CPU time and memory are read from outside.
class ServerProcess {
 public:
  // `more`: additional options of this program.
  ServerProcess(const std::string& role, const std::string& transport, const std::string& keys, bool pin,
                const std::vector<std::string>& more = {});
  const std::string& address() const { return address_; }
  double cpu() const;  // CPU seconds used so far, user and system
  double rss() const;  // resident bytes

 private:
  std::unique_ptr<PeerProcess> process_;
  pid_t pid_ = 0;
  std::string address_;
};

struct KvSample {
  double seconds = 0;     // time of a round of pushes or pulls of all keys
  double server_cpu = 0;  // CPU seconds of the server per round
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
  // Throws std::runtime_error if the process reports an error or has ended.
  KvSample run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds);

 private:
  std::string layer_, transport_;
  std::shared_ptr<const ServerProcess> server_;
  std::unique_ptr<PeerProcess> process_;  // declared last, so that it ends before its server
};

// Two servers, a scheduler and two workers, in one job.
class KvCluster {
 public:
  KvCluster(const std::string& transport, int copies, const KeyDirectory& keys, bool pin);
  // Runs rounds of `what` on both workers; each worker has `keys` keys of its own. The result's server_cpu is
  // the sum over the two servers. Throws std::runtime_error.
  KvSample run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds);

 private:
  std::unique_ptr<ServerProcess> scheduler_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  // Declared last, so that the worker processes end before the servers and the scheduler.
  std::vector<std::unique_ptr<PeerProcess>> workers_;
};
bool has_transport(const std::string& transport);  // whether this machine supports the transport

// Starts the user and the server of the subject that measures this layer over this transport.
std::unique_ptr<KvSubject> start_subject(const std::string& layer, const std::string& transport,
                                         const KeyDirectory& keys, bool pin);
// All subjects that the setting asks for and this machine supports.
std::vector<std::unique_ptr<KvSubject>> start_kv_subjects(const KvSetting& setting, const KeyDirectory& keys);

}  // namespace heddle::bench
