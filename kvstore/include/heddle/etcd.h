// How to reach etcd, a store on several machines in which the schedulers of one cluster elect their leader.
#pragma once

#include <chrono>
#include <string>

namespace heddle {

struct EtcdOptions {
  std::string
      urls{};  // of its members: http://HOST:PORT,... or https://HOST:PORT,...; empty: there is no etcd
  std::string prefix = "/heddle/default";  // of the keys; each cluster of servers needs its own
  // With https, files in the format PEM: whose certificates are trusted (empty: those that the system trusts), and this
  // process's own (empty: none).
  std::string ca{}, certificate{}, key{};
  // How long a scheduler leads after etcd has heard it last; 2 s at least. The schedulers use it, nobody else.
  std::chrono::milliseconds lease{3000};
};

}  // namespace heddle
