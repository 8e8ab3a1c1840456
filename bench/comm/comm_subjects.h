// The subjects of comm_bench: Heddle's communicator and its peers, each as ranks that wait for commands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm_ranks.h"

namespace heddle::bench {

struct CommSetting {
  int ranks = 2;
  std::string backend = "shm";  // Heddle's back end; with "tcp", Open MPI is restricted to TCP too
  std::string collective = "all_reduce";
  // Algorithms of Heddle's all_reduce, each of which is measured as a separate subject.
  std::vector<std::string> algorithms;
  std::vector<std::string> subjects;  // names of the subjects to measure; empty: all subjects
  int hosts = 1;                      // Heddle's ranks pretend to be on this many hosts
  bool pin = false;                   // whether rank r is pinned to core r
};

struct CommSubject {
  std::string name;
  std::shared_ptr<Ranks> ranks;
  std::vector<std::string> variants;  // at each size the fastest variant is measured
};

// Parses a size in bytes with an optional K, M or G, such as "64K". Throws std::runtime_error.
std::size_t bytes_of(const std::string& text);

// A temporary directory for sockets, removed by the destructor.
class MeetingPlace {
 public:
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  std::string path(const std::string& name) const { return folder_ + '/' + name; }

 private:
  std::string folder_;
};

// Starts the ranks of all subjects that the setting asks for, Heddle's first. Subjects that were not built or
// do not start are named on stdout and left out.
std::vector<CommSubject> start_subjects(const CommSetting& setting, const MeetingPlace& place);

}  // namespace heddle::bench
