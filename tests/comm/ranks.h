// Ranks for tests: threads of this process, or child processes.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include <heddle/communicator.h>

#include "bootstrap/rendezvous.h"

namespace heddle::test {

// The exception that each rank threw, by rank; null if none.
using Outcomes = std::vector<std::exception_ptr>;

// Runs body(rank) on a thread for each rank.
Outcomes on_threads(int size, const std::function<void(int)>& body);

// Runs body(communicator) on a thread for each rank, with ranks of create_local.
Outcomes try_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);
// As try_local, and rethrows the first error.
void run_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);

// The back ends that every host can have, among them "local". Tests of what all back ends promise run on each.
std::vector<std::string> all_backends();

// Like try_local and run_local, on a back end: its ranks rendezvous over a unix socket, as processes do. "local": try_local itself.
Outcomes try_job(const std::string& backend, int size, CommOptions options,
                 const std::function<void(Communicator&)>& body);
void run_job(const std::string& backend, int size, const CommOptions& options,
             const std::function<void(Communicator&)>& body);

// Shared memory for a rendezvous of processes: the parent creates it before it forks.
class SharedTable {
 public:
  explicit SharedTable(int size);
  ~SharedTable();
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  std::unique_ptr<comm_detail::Rendezvous> rendezvous(int rank);
  void say(int rank, const std::string& text);  // stores a text for the parent
  std::string said(int rank) const;

  struct Page;

 private:
  Page* page_;
};

// Runs body(rank, table) in a child process for each rank, forked before it creates a thread or engine; a
// body that throws stores the error by say(). Returns the pids. wait_for reaps a child and returns how it
// ended: "" (exit 0), "exit 3", "signal 9".
std::vector<pid_t> fork_ranks(SharedTable& table, int size,
                              const std::function<void(int rank, SharedTable&)>& body);
std::string wait_for(pid_t pid);

// The type and the text of an error.
std::string kind_of(const std::exception_ptr& error);
std::string text_of(const std::exception_ptr& error);

}  // namespace heddle::test
