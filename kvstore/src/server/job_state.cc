// The state of optimizers that workers set.
#include <utility>

#include "server/job.h"
#include "wire/state_blob.h"

namespace heddle::kv_detail {

void Job::set_state(std::uint32_t rank, const Request& request, std::size_t payload) {
  if (request.number <= workers_[rank].state_set)
    return is_last(request, payload) ? done(rank, request) : void();
  std::vector<std::byte>& state = workers_[rank].state;
  if (!is_last(request, payload) || state.size() != request.bytes) return;
  StoredKey& key = key_of(request);
  if (!key.has_value()) return fail(rank, request, "key " + key.name() + ": it has no value yet");
  const std::uint64_t before = key.state_bytes();
  const auto whole = std::make_shared<const std::vector<std::byte>>(std::exchange(state, {}));
  try {
    key.set_state(rule_, decode_state(*whole), request.row_bytes);
  } catch (const InvalidArgument& error) {
    return fail(rank, request, "key " + key.name() + ": " + error.what());
  }
  workers_[rank].state_set = request.number;
  use(static_cast<std::int64_t>(key.state_bytes()) - static_cast<std::int64_t>(before));
  changed(rank, request, {whole, *whole});
  done(rank, request);
}

}  // namespace heddle::kv_detail
