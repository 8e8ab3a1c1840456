// Ranks to test with: threads of this process, or processes of their own.
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

// What each rank threw, by rank; null if nothing.
using Outcomes = std::vector<std::exception_ptr>;

// body(rank) on a thread for each rank.
Outcomes on_threads(int size, const std::function<void(int)>& body);

// Runs body(communicator) as each rank, on a thread each, with ranks of create_local.
Outcomes try_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);
// The same, and rethrows the first error.
void run_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);

// The same with ranks that meet over a unix socket, as processes do: "shm" or "tcp".
Outcomes try_job(const std::string& backend, int size, CommOptions options,
                 const std::function<void(Communicator&)>& body);
void run_job(const std::string& backend, int size, const CommOptions& options,
             const std::function<void(Communicator&)>& body);

// Processes meet here: the parent makes it before it forks. Whoever comes last opens it for all.
class SharedTable {
 public:
  explicit SharedTable(int size);
  ~SharedTable();
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  std::unique_ptr<comm_detail::Rendezvous> rendezvous(int rank);
  void say(int rank, const std::string& text);  // for the parent to see
  std::string said(int rank) const;

  struct Page;

 private:
  Page* page_;
};

// body(rank, table) in a process each, forked before it makes any thread or engine; a body that throws says so. Returns
// the children's pids; wait_for reaps one, and says how it ended: "" (exit 0), "exit 3", "signal 9".
std::vector<pid_t> fork_ranks(SharedTable& table, int size,
                              const std::function<void(int rank, SharedTable&)>& body);
std::string wait_for(pid_t pid);

// The type and text of an error.
std::string kind_of(const std::exception_ptr& error);
std::string text_of(const std::exception_ptr& error);

}  // namespace heddle::test
