// The changes of a server's state, as records for its backup.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/transport.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

class StateSaver;

struct Change {
  std::vector<std::byte> record;
  Payload payload{};
};

struct Changes {
  bool wanted = false;  // somebody takes `all`
  bool following =
      false;  // this is the state of a backup: it makes the changes that it is told of, and refuses none
  std::uint64_t count = 0;  // also of those that nobody wants
  std::vector<Change> all{};
  mutable std::vector<StateSaver*> savers{};  // who has to know of a key before it changes

  void add(const Record& record, Payload payload = {}) {
    ++count;
    if (wanted) all.push_back({encode(record), std::move(payload)});
  }
};

}  // namespace heddle::kv_detail
