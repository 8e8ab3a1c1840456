// The records of wire/state_records.h with the saved state of a job, except those of its keys.
#pragma once

#include <cstdint>
#include <string>

#include "wire/protocol.h"
#include "wire/request.h"

namespace heddle::kv_detail {

struct StateJob {
  std::string name, consistency;
  std::string rule;  // update rule, as update_rule_text writes it; empty: none
  std::uint64_t incarnation = 0;
  std::uint32_t workers = 1, servers = 1;
  std::string restored{};       // time of the snapshot that the job was restored from; empty: not restored
  std::uint8_t generation = 0;  // how often the job was restored, modulo 256
  std::uint64_t weights = 0;    // Request::keys_digest of the last set_optimizer; from state version 2 on
  std::uint64_t settings = 0, collectives = 1;  // see JobCounts; from state version 3 on

  static void fields(auto& archive, auto& self) {
    archive.text(self.name, kMaxJobName);
    archive.text(self.consistency, kMaxName);
    archive.text(self.rule, kMaxText);
    archive(self.incarnation, self.workers, self.servers);
    archive.text(self.restored, kMaxName);
    archive(self.generation);
    if (archive.version() >= 2) archive(self.weights);
    if (archive.version() >= 3) archive(self.settings, self.collectives);
  }
  void check() const;
};

struct StateWorker {
  bool greeted = false, left = false, dropped = false, rejoined = false;
  std::uint64_t incarnation = 0;
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t pushes = 0, pulls = 0, bytes_received = 0, bytes_sent = 0;
  std::int64_t clock = 0;
  std::uint64_t state_set = 0;                  // number of the latest set_state; from state version 2 on
  std::uint64_t passed = 0, lost_settings = 0;  // see JobWorker; from state version 3 on

  static void fields(auto& archive, auto& self) {
    archive(self.greeted, self.left, self.dropped, self.rejoined, self.incarnation, self.collective_done,
            self.pushes, self.pulls, self.bytes_received, self.bytes_sent, self.clock);
    archive.cut_text(self.collective_failure, kMaxText);
    if (archive.version() >= 2) archive(self.state_set);
    if (archive.version() >= 3) archive(self.passed, self.lost_settings);
  }
};

// A barrier or set_optimizer that this worker has sent and other workers have not sent yet.
struct StateCollective {
  std::uint32_t rank = 0;
  Request request{};

  // The fields of the record; `request` follows them as an encoded message.
  static void fields(auto& archive, auto& self) { archive(self.rank); }
};

}  // namespace heddle::kv_detail
