// The changes of a server's state, as records for its backup.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/transport.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

using namespace net_detail;

class StateSaver;

struct Change {
  std::vector<std::byte> record;
  Payload payload{};
};

// Proof that a change is recorded. A KeyChange needs one, so that no key changes without a record.
class Recorded {
  friend struct Changes;
  Recorded() = default;
};

struct Changes {
  bool wanted = false;  // whether records of changes are added to `all`
  // True for the state of a backup, which makes all changes that its primary has made, and refuses none.
  bool following = false;
  std::uint64_t count = 0;  // number of all changes, also of those that are not in `all`
  std::vector<Change> all{};
  mutable std::vector<StateSaver*> savers{};  // savers of the state; each has to copy a key before it changes

  Recorded add(const Record& record, Payload payload = {}) {
    if (wanted) all.push_back({encode(record), std::move(payload)});
    return count_only();
  }
  // Counts a change that needs no record.
  Recorded count_only() {
    ++count;
    return {};
  }
};

}  // namespace heddle::kv_detail
