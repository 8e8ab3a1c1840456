// What comm_bench compares: Heddle's communicator and its peers, each as ranks that wait to be told what to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm_ranks.h"

namespace heddle::bench {

struct CommSetting {
  int ranks = 2;
  std::string backend = "shm";  // of Heddle's; with "tcp", Open MPI is held to its TCP too
  std::string collective = "all_reduce";
  std::vector<std::string> algorithms;  // of Heddle's all_reduce: each is a subject more
  std::vector<std::string> subjects;    // empty: all
  int hosts = 1;                        // Heddle's ranks act as if they were on so many
  bool pin = false;                     // rank r stays on core r
};

struct CommSubject {
  std::string name;
  std::shared_ptr<Ranks> ranks;
  std::vector<std::string> variants;  // the fastest of these is measured, at each size anew
};

// "64K": bytes, with K, M or G. Throws std::runtime_error.
std::size_t bytes_of(const std::string& text);

// A folder of this process for sockets, removed at the end.
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

// Heddle first. Those that were not built or do not start are named on stdout and left out.
std::vector<CommSubject> start_subjects(const CommSetting& setting, const MeetingPlace& place);

}  // namespace heddle::bench
