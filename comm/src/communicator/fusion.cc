#include "communicator/fusion.h"

#include <cstring>
#include <limits>

namespace heddle::comm_detail {

std::uint8_t count_fusable(const std::deque<std::shared_ptr<Call>>& calls, const Backend& backend,
                           std::size_t max_bytes) {
  std::uint8_t count = 0;
  std::size_t bytes = 0;
  for (const std::shared_ptr<Call>& call : calls) {
    const CallRecord &first = calls.front()->what.record, &record = call->what.record;
    if (!call->ready || record.op != first.op || record.dtype != first.dtype || !backend.may_fuse(call->what))
      break;
    bytes += call->what.bytes();
    if (bytes > max_bytes || count == std::numeric_limits<std::uint8_t>::max()) break;
    ++count;
  }
  return count > 1 ? count : 0;
}

void run_fused(std::span<const std::shared_ptr<Call>> calls, Backend& backend,
               std::vector<std::byte>& memory) {
  Collective all;
  all.record = calls.front()->what.record;
  all.record.count = 0;
  for (const std::shared_ptr<Call>& call : calls) {
    all.members.push_back(call->what.record);
    all.record.count += call->what.record.count;
  }
  all.record.ahead = calls.back()->what.record.ahead;
  if (memory.size() < all.bytes()) memory.resize(all.bytes());
  std::byte* at = memory.data();
  for (const std::shared_ptr<Call>& call : calls) {
    std::memcpy(at, call->what.in, call->what.bytes());
    at += call->what.bytes();
  }
  all.in = all.out = memory.data();
  backend.run(all);
  at = memory.data();
  for (const std::shared_ptr<Call>& call : calls) {
    std::memcpy(call->what.out, at, call->what.bytes());
    at += call->what.bytes();
  }
  calls.back()->what.record.ahead = all.record.ahead;
}

}  // namespace heddle::comm_detail
