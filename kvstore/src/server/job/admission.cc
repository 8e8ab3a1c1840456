#include "server/job/admission.h"

#include <algorithm>
#include <memory>
#include <new>

#include "server/job/key_change.h"
#include "server/key/compression.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

// A set_state may have as many bytes as kMostStates arrays of the value's size, and kStateHeads for heads of
// arrays and counts.
constexpr std::uint64_t kMostStates = 8, kStateHeads = 64 << 10;

std::string of_worker(const StoredKey& key, std::uint32_t rank, const std::string& why) {
  return "key " + key.name() + ", worker " + std::to_string(rank) + ": " + why;
}

}  // namespace

std::span<std::byte> Admission::memory_for(std::uint32_t rank, const Request& request, std::size_t bytes) {
  JobWorker& worker = job_.workers[rank];
  if (worker.left) throw MalformedMessage("a request after leave");
  if (!job_.restored.lost(rank, request).empty()) return {};
  if (request.kind == Kind::set_state) return memory_for_state(rank, request, bytes);
  if (request.kind == Kind::pull && request.row_bytes > 0) return memory_for_rows(rank, request, bytes);
  if (request.kind == Kind::push_many) {
    worker.bundle.resize(bytes);
    return worker.bundle;
  }
  if (request.kind != Kind::init && request.kind != Kind::push)
    throw MalformedMessage("a payload where none belongs");
  return memory_for_value(rank, request, bytes);
}

std::span<std::byte> Admission::memory_for_value(std::uint32_t rank, const Request& request,
                                                 std::size_t bytes) {
  const bool is_init = request.kind == Kind::init;
  if (std::string why; is_init && (job_.keys.out_of_order(request) || !job_.keys.has_room_for(request, why)))
    return {};
  JobKey& key = is_init ? job_.keys.of_init(request) : job_.keys.of(request.key);
  if (request.offset == 0 && !begin(rank, request, key, bytes)) return {};
  Incoming* const value = BufferChange(job_.memory, job_.workers[rank])->incoming.find(*key);
  if (!value) return {};  // the value was refused at its first piece
  if (request.bytes != value->bytes()) throw MalformedMessage("pieces of different values");
  return {value->at(request.offset), bytes};
}

// Memory for a piece of the list of rows of a pull. Empty: the pull is refused, and the worker has been told.
std::span<std::byte> Admission::memory_for_rows(std::uint32_t rank, const Request& request,
                                                std::size_t bytes) {
  const StoredKey& key = *job_.keys.of(request.key);
  if (const std::string why = row_problem(request, key.bytes(), key.dtype()); !why.empty()) {
    if (request.offset == 0) job_.replies.fail(rank, request, "key " + key.name() + ": " + why);
    return {};
  }
  if (std::string why; request.offset == 0 && !job_.memory.has_room(request.bytes, why)) {
    ++job_.counters.refused;
    job_.replies.fail(rank, request, of_worker(key, rank, why));
    return {};
  }
  return BufferChange(job_.memory, job_.workers[rank])->row_lists.memory_for(request, bytes);
}

std::span<std::byte> Admission::memory_for_state(std::uint32_t rank, const Request& request,
                                                 std::size_t bytes) {
  const StoredKey& key = *job_.keys.of(request.key);
  const JobWorker& worker = job_.workers[rank];
  if (request.number <= worker.state_set) return {};
  if (request.bytes > kMostStates * key.bytes() + kStateHeads)
    throw MalformedMessage("a state of " + std::to_string(request.bytes) + " bytes");
  if (request.offset == 0) begin_state(rank, request, key);
  const auto& state = worker.buffers->state;
  if (!state || state->size() != request.bytes) return {};
  return std::span(*state).subspan(request.offset, bytes);
}

// Allocates the memory that a set_state is received into. If there is no room, sets state_refusal instead.
void Admission::begin_state(std::uint32_t rank, const Request& request, const StoredKey& key) {
  JobWorker& worker = job_.workers[rank];
  BufferChange(job_.memory, worker)->forget_state();
  if (std::string why; !job_.make_room(request.bytes, why)) {
    ++job_.counters.refused;
    BufferChange(job_.memory, worker)->state_refusal = of_worker(key, rank, why);
    return;
  }
  BufferChange(job_.memory, worker)->state = std::make_shared<std::vector<std::byte>>(request.bytes);
}

// If a key contradicts the init's position in the order, the init fails. As long as that key has no value,
// nobody knows whose order is the right one, and the key may never get a value. So waiting inits of that key
// fail, too.
JobKey* Admission::key_of_init(std::uint32_t rank, const Request& init, std::size_t payload) {
  const bool is_last_piece = payload == 0 || is_last(init, payload);
  if (JobKey* const other = job_.keys.out_of_order(init)) {
    if (!is_last_piece) return nullptr;
    const std::string why = job_.keys.order_problem(rank, init, **other);
    if (!(*other)->has_value()) waiting_.fail(*other, why);
    job_.replies.fail(rank, init, why);
    return nullptr;
  }
  if (std::string why; !job_.keys.has_room_for(init, why)) {
    if (!is_last_piece) return nullptr;
    ++job_.counters.refused;
    job_.replies.fail(rank, init, "key " + init.text + ": " + why);
    return nullptr;
  }
  return &job_.keys.of_init(init);
}

bool Admission::begin(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload) {
  BufferChange(job_.memory, job_.workers[rank])->incoming.drop(*key);
  refused_.erase({rank, &key});
  const bool known = request.kind == Kind::init ? key->has_value() : request.clock <= key->clock(rank);
  std::string why = problem_with(rank, request, *key);
  if (why.empty() && known) return false;
  const bool is_last_piece = payload == 0 || is_last(request, payload);
  if (why.empty()) {
    const std::uint64_t decoded = is_compressed(request) ? key->bytes() : 0,
                        state = state_needed(request, *key);
    if (!job_.make_room(request.bytes + decoded + state, why)) {
      refuse(rank, request, key, why, is_last_piece);
      return false;
    }
    if (allocate(rank, request, key, state)) return true;
    why = "key " + key->name() + ": the server has no memory for " + std::to_string(request.bytes) + " bytes";
  }
  tell(rank, request, key, why, is_last_piece);
  return false;
}

// Allocates memory for a value, and reserves memory for the optimizer state that its push will make.
bool Admission::allocate(std::uint32_t rank, const Request& request, JobKey& key, std::uint64_t state) {
  try {
    BufferChange(job_.memory, job_.workers[rank])->incoming.add(*key, request);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (state > 0) KeyChange::reserve_state(job_.keys, key, key->memory().state + state);
  return true;
}

Incoming* Admission::arrived(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload) {
  if (request.bytes == 0 && !begin(rank, request, key, payload)) return nullptr;
  Incoming* const value = BufferChange(job_.memory, job_.workers[rank])->incoming.find(*key);
  return value && value->arrived(request.offset, payload) ? value : nullptr;
}

RowList Admission::rows_of_pull(std::uint32_t rank, const Request& request, std::size_t payload) {
  const StoredKey& key = *job_.keys.of(request.key);
  const std::string why = row_problem(request, key.bytes(), key.dtype());
  if (why.empty())
    return BufferChange(job_.memory, job_.workers[rank])
        ->row_lists.arrived(request, payload, key.bytes() / request.row_bytes);
  if (payload == 0) job_.replies.fail(rank, request, "key " + key.name() + ": " + why);
  return nullptr;
}

// Bytes of optimizer state that a push of a whole value will make, as far as they are not reserved yet.
std::uint64_t Admission::state_needed(const Request& request, const StoredKey& key) {
  if (job_.optimizer.rule.kind != UpdateRule::Kind::optimizer || request.kind != Kind::push ||
      request.overwrite || request.row_bytes > 0)
    return 0;
  const std::uint64_t needed = key.value().optimizer().bytes_for_whole(job_.optimizer.size(key.dtype()),
                                                                       key.value().size()),
                      has = key.memory().state;
  return needed > has ? needed - has : 0;
}

bool Admission::make_room_for_state(std::uint32_t rank, const Request& push, JobKey& key,
                                    const Incoming& value, std::uint64_t& of_rows, std::uint64_t& of_whole) {
  if (const RowValues& rows = value.rows(); rows.defined())
    of_rows = key->value().optimizer().bytes_for_rows(job_.optimizer.rule, rows.rows, rows.width(),
                                                      key->value().size(), key->dtype());
  of_whole = state_needed(push, *key);
  std::string why;
  if (of_rows + of_whole == 0 || job_.make_room(of_rows + of_whole, why)) return true;
  refuse(rank, push, key, why, true);
  return false;
}

// Refuses a value for which there is no room.
void Admission::refuse(std::uint32_t rank, const Request& request, JobKey& key, const std::string& room,
                       bool last) {
  ++job_.counters.refused;
  const std::string why = of_worker(*key, rank, room);
  BufferChange(job_.memory, job_.workers[rank])->incoming.drop(*key);
  // With sync consistency the refused push is missing in its round, and the workers would be at different
  // rounds. So the key fails.
  if (request.kind == Kind::push && job_.in_rounds()) job_.keys.fail(key, why);
  tell(rank, request, key, why, last);
}

// Tells the worker that a value is refused, but only at its last piece: a worker that has been told may
// change the memory that it sends from.
void Admission::tell(std::uint32_t rank, const Request& request, JobKey& key, const std::string& why,
                     bool last) {
  if (last) {
    job_.replies.fail(rank, request, why);
  } else {
    refused_[{rank, &key}] = why;
  }
  if (request.kind == Kind::init && request.has_value) waiting_.fail(key, why);
  if (key->failures.any()) waiting_.answer(key);
}

bool Admission::fail_refused(std::uint32_t rank, const Request& request, const JobKey& key,
                             std::size_t payload) {
  if (!is_last(request, payload)) return false;
  const auto found = refused_.find({rank, &key});
  if (found == refused_.end()) return false;
  job_.replies.fail(rank, request, found->second);
  refused_.erase(found);
  return true;
}

void Admission::forget_refused(std::uint32_t rank) {
  std::erase_if(refused_, [rank](const auto& one) { return one.first.first == rank; });
}

std::string Admission::problem_with(std::uint32_t rank, const Request& request, const StoredKey& key) const {
  const auto who = [&key] { return "key " + key.name() + ": "; };
  const auto worker = [&] { return who() + "worker " + std::to_string(rank); };
  if (request.row_bytes > 0) {
    if (const std::string why = row_problem(request, key.bytes(), key.dtype()); !why.empty())
      return worker() + " has " + why;
  }
  if (is_compressed(request)) {
    if (const std::string why = codec_problem(request, key.value().size(), key.dtype()); !why.empty())
      return worker() + " has " + why;
  }
  const bool has_bytes = !request.overwrite || request.has_value,
             other_size = request.row_bytes == 0 && !is_compressed(request) && request.bytes != key.bytes();
  if (has_bytes && (other_size || request.dtype != key.dtype())) {
    return worker() + " has " + std::to_string(request.bytes) + " bytes of " + name_of(request.dtype) +
           ", the key " + std::to_string(key.bytes()) + " of " + name_of(key.dtype());
  }
  if (request.kind == Kind::init && is_other_whole(request, key)) {
    return worker() + " has " + std::to_string(request.whole.bytes) + " bytes on all servers, the key " +
           std::to_string(key.whole.bytes);
  }
  if (request.kind == Kind::push && !key.has_value()) return who() + "it has no value yet";
  if (request.kind != Kind::push || request.clock <= key.clock(rank)) return {};
  if (!key.failures.any() && key.pushes().ahead(rank) >= kMostAhead) {
    return worker() + " is " + std::to_string(kMostAhead) +
           " rounds ahead of another worker; pull now and then, which waits for the others";
  }
  return key.failures.text(rank);
}

}  // namespace heddle::kv_detail
