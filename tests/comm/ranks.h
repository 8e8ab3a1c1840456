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

// Runs body(rank) on a thread for each rank. Returns what each rank threw.
Outcomes on_threads(int size, const std::function<void(int)>& body);

// Runs body(communicator) on a thread for each rank of a communicator from create_local.
Outcomes try_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);
// Like try_local, but rethrows the first error.
void run_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body);

// The back ends that every host has, among them "local". A test of what all back ends promise runs on each of
// them.
std::vector<std::string> all_backends();

// Like try_local and run_local, but on a back end whose ranks rendezvous over a unix socket, as processes do.
// For "local" the same as try_local and run_local.
Outcomes try_job(const std::string& backend, int size, CommOptions options,
                 const std::function<void(Communicator&)>& body);
void run_job(const std::string& backend, int size, const CommOptions& options,
             const std::function<void(Communicator&)>& body);

// Shared memory over which child processes rendezvous. The parent creates it before it forks.
class SharedTable {
 public:
  explicit SharedTable(int size);
  ~SharedTable();
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  std::unique_ptr<comm_detail::Rendezvous> rendezvous(int rank);
  void say(int rank, const std::string& text);  // stores a text that the parent reads by said()
  std::string said(int rank) const;

  struct Page;

 private:
  Page* page_;
};

// Runs body(rank, table) in a child process for each rank, which creates its threads and engine after the
// fork. A body that throws stores the error by say(). Returns the children's pids. wait_for waits for a
// child's end and returns how it ended: "" (exit 0), "exit 3", "signal 9".
std::vector<pid_t> fork_ranks(SharedTable& table, int size,
                              const std::function<void(int rank, SharedTable&)>& body);
std::string wait_for(pid_t pid);

// kind_of: the name of the error's type, "nothing" for a null pointer. text_of: the error's text, empty for a
// null pointer.
std::string kind_of(const std::exception_ptr& error);
std::string text_of(const std::exception_ptr& error);

}  // namespace heddle::test
