// Options for etcd, the replicated store in which the schedulers of one cluster elect their leader.
#pragma once

#include <chrono>
#include <string>

namespace heddle {

struct EtcdOptions {
  // Client URLs of the etcd members: http://HOST:PORT,... or https://HOST:PORT,...; empty: etcd is not used.
  std::string urls{};
  std::string prefix = "/heddle/default";  // prefix of the keys in etcd, its own for each cluster
  // For https: PEM files with the trusted certificate authorities (empty: those of the system) and with this
  // process's certificate and key (empty: none).
  std::string ca{}, certificate{}, key{};
  // Time for which a scheduler leads without being heard by etcd; 2 s at least. Only schedulers use it.
  std::chrono::milliseconds lease{3000};
};

}  // namespace heddle
