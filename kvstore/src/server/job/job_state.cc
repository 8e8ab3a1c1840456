// The optimizer's state that workers set.
#include <utility>

#include "server/job/job.h"
#include "wire/state_blob.h"

namespace heddle::kv_detail {
namespace {

// Most bytes that the table of rows takes besides the state that was received.
std::uint64_t row_slot_bytes(const StateArrays& state, std::span<const std::byte> whole,
                             std::uint64_t row_bytes) {
  const auto rows = state.find("rows");
  if (rows != state.end()) return static_cast<std::uint64_t>(rows->second.size()) * kRowSlotBytes;
  return row_bytes == 0 ? 0 : whole.size() / row_bytes * kRowSlotBytes;
}

}  // namespace

void Job::set_state(std::uint32_t rank, const Request& request, std::size_t payload) {
  Worker& worker = workers_[rank];
  if (!is_last(request, payload)) return;
  if (request.number <= worker.state_set) return done(rank, request);
  if (const std::string why = std::exchange(worker.state_refusal, {}); !why.empty())
    return fail(rank, request, why);
  if (worker.state.size() != request.bytes) return;
  StoredKey& key = key_of(request);
  const auto whole = std::make_shared<const std::vector<std::byte>>(std::exchange(worker.state, {}));
  std::string why;
  // Decoding needs memory for the arrays, beside the received bytes and the state that the key has.
  const auto has_room = [&](std::uint64_t slots) {
    if (make_room(whole->size() + slots, why)) return true;
    ++counters_.refused;
    return false;
  };
  try {
    if (!key.has_value()) {
      why = "it has no value yet";
    } else if (has_room(0)) {
      const StateArrays state = decode_state(*whole);
      if (has_room(row_slot_bytes(state, *whole, request.row_bytes))) {
        copy_before_write(key);
        key.set_state(rule_, state, request.row_bytes);
      }
    }
  } catch (const InvalidArgument& error) {
    why = error.what();
  }
  memory_.recount(worker);
  if (!why.empty()) return fail(rank, request, "key " + key.name() + ": " + why);
  worker.state_set = request.number;
  ++settings_;
  key.reserve_for_waiting(rule_, state_sizes_.of(rule_, key.dtype()));
  memory_.recount(key);
  changed(rank, request, {whole, *whole});
  done(rank, request);
}

}  // namespace heddle::kv_detail
