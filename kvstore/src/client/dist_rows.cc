// Pushes and pulls of rows: each server gets only the rows of its part of the value.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <heddle/array_op.h>

#include "client/answers.h"
#include "client/dist_store.h"
#include "stores/local_store.h"
#include "stores/row_values.h"

namespace heddle {
namespace {

using kv_detail::Kind;
using kv_detail::Reply;
using kv_detail::Request;
using kv_detail::ServerCall;
using Numbers = std::span<const std::int64_t>;

// Those of `rows`, which are in rising order, that lie in [first, first + count).
Numbers rows_between(Numbers rows, std::int64_t first, std::int64_t count) {
  const auto begin = std::lower_bound(rows.begin(), rows.end(), first);
  return {begin, std::lower_bound(begin, rows.end(), first + count)};
}

// The payload of a push or pull of rows: their numbers, counted from `first`, and behind them `values`, if
// any.
kv_detail::Payload payload_of(Numbers rows, std::int64_t first, std::span<const std::byte> values) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(rows.size_bytes() + values.size());
  std::byte* to = bytes->data();
  for (const std::int64_t row : rows) {
    const std::int64_t number = row - first;
    std::memcpy(to, &number, sizeof number);
    to += sizeof number;
  }
  if (!values.empty()) std::memcpy(to, values.data(), values.size());
  return {bytes, *bytes};
}

}  // namespace

void DistStore::check_parts(const char* call, Key key, const ClientKey& entry) const {
  check_has_rows(call, key, entry.shape, entry.dtype);
  if (entry.bytes() == 0 || entry.has_whole_rows()) return;
  throw InvalidArgument(who_says(call, key) + std::to_string(entry.shape[0]) + " rows of " +
                        std::to_string(entry.row_bytes) + " bytes are cut to have parts of one size on " +
                        std::to_string(entry.parts.size()) + " servers; push and pull the whole value");
}

void DistStore::do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) {
  const KeyPtr& entry = entry_of("push", key);
  check_rows_like("push", key, value, entry->shape, entry->dtype);
  check_parts("push", key, *entry);
  check_engine("push", key, value.values(), engine());
  check_update(key, *entry, options);
  Request request{.kind = Kind::push,
                  .dtype = entry->dtype,
                  .row_bytes = entry->row_bytes,
                  .lr = options.lr.value_or(std::numeric_limits<double>::quiet_NaN()),
                  .scale = options.grad_scale,
                  .priority = entry->priority};
  if (entry->bytes() == 0) {
    request.row_bytes = 0;
    return push_value("kvstore_push", entry, NDArray(entry->shape, entry->dtype), request);
  }
  const RowSparse rows = on_device(value, cpu());
  const NDArray reads[] = {rows.rows(), rows.values(), rows.count()};
  Access access = array_access("kvstore_push_rows", reads, {});
  access.read.add(order_);
  access.read.add(entry->var);  // an op that only overwrites a var, without reading it, clears its error
  access.mutate.add(entry->var);
  access.name = "kvstore_push_rows";
  engine().push_async(
      [client = client_, entry, rows, request, who = who_says("push", key)](RunContext&,
                                                                            Completion completion) {
        try {
          send_rows(*client, entry, present_rows(who, rows), rows.values(), request, completion);
        } catch (const std::exception&) {
          completion.fail(std::current_exception());
        }
      },
      access, CallSite::current());
}

// Sends a push for each part of the key. A part without such rows gets an empty push, since every server
// counts the pushes of the key.
void DistStore::send_rows(kv_detail::Client& client, const KeyPtr& entry, Numbers rows, const NDArray& values,
                          const Request& request, Completion& completion) {
  if (!entry->is_known()) return completion.fail(not_initialised(entry->name));
  const auto row_bytes = static_cast<std::int64_t>(entry->row_bytes);
  const auto answers = std::make_shared<Answers>(std::move(completion), entry->parts.size());
  std::vector<ServerCall> calls;
  for (ClientKeyPart& part : entry->parts) {
    const auto first = static_cast<std::int64_t>(part.offset) / row_bytes;
    const Numbers mine = rows_between(rows, first, static_cast<std::int64_t>(part.bytes) / row_bytes);
    const std::byte* const from = values.data<const std::byte>() +
                                  static_cast<std::size_t>(mine.data() - rows.data()) * entry->row_bytes;
    ServerCall& one = calls.emplace_back();
    one.server = part.server;
    one.call.request = request;
    one.call.request.key = part.number;
    one.call.request.clock = part.clock + 1;
    one.call.payload = payload_of(mine, first, {from, mine.size() * entry->row_bytes});
    one.call.done = [answers, entry, &part](const Reply&, std::exception_ptr error) {
      if (!error) ++part.clock;
      answers->one(std::move(error));
    };
  }
  client.submit(calls);
}

RowSparse DistStore::do_pull_rows(Key key, const NDArray& rows, const NDArray* out) {
  const KeyPtr& entry = entry_of("pull_rows", key);
  check_parts("pull_rows", key, *entry);
  check_pull_rows(key, rows, out, entry->shape, entry->dtype, engine());
  const EngineScope scope(engine());
  const NDArray list = rows.device() == cpu() ? rows.detach().contiguous() : rows.detach().copy_to(cpu());
  if (entry->bytes() == 0)
    return retain(NDArray(entry->shape, entry->dtype), rows_within(key, list, entry->shape[0]));
  Shape room = entry->shape;
  room[0] = std::min(rows.size(), entry->shape[0]);
  const RowSparse found(entry->shape, NDArray({room[0]}, DType::i64), NDArray(room, entry->dtype),
                        NDArray({1}, DType::i64));
  const NDArray writes[] = {found.rows(), found.values(), found.count()};
  Access access = array_access("kvstore_pull_rows", {&list, 1}, writes);
  access.read.add(order_);
  access.read.add(entry->var);
  access.name = "kvstore_pull_rows";
  engine().push_async(
      [client = client_, entry, list, found, who = who_says("pull_rows", key)](RunContext&,
                                                                               Completion completion) {
        try {
          fetch_rows(*client, entry, row_numbers(who, list, entry->shape[0]), found, completion);
        } catch (const std::exception&) {
          completion.fail(std::current_exception());
        }
      },
      access, CallSite::current());
  return found;
}

// Pulls the rows `numbers`, which may be in any order and come twice, to `found`.
void DistStore::fetch_rows(kv_detail::Client& client, const KeyPtr& entry, std::vector<std::int64_t> numbers,
                           const RowSparse& found, Completion& completion) {
  if (!entry->is_known()) return completion.fail(not_initialised(entry->name));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  auto* const rows = found.rows().data<std::int64_t>();
  std::fill(std::copy(numbers.begin(), numbers.end(), rows), rows + found.capacity(), entry->shape[0]);
  *found.count().data<std::int64_t>() = static_cast<std::int64_t>(numbers.size());
  const auto owner = std::make_shared<NDArray>(found.values());
  const auto row_bytes = static_cast<std::int64_t>(entry->row_bytes);
  std::byte* into = owner->data<std::byte>();
  std::vector<ServerCall> calls;
  for (const ClientKeyPart& part : entry->parts) {
    const auto first = static_cast<std::int64_t>(part.offset) / row_bytes;
    const Numbers mine = rows_between(numbers, first, static_cast<std::int64_t>(part.bytes) / row_bytes);
    if (mine.empty()) continue;
    ServerCall& one = calls.emplace_back();
    one.server = part.server;
    one.call.request.kind = Kind::pull;
    one.call.request.key = part.number;
    one.call.request.clock = part.clock;
    one.call.request.row_bytes = entry->row_bytes;
    one.call.request.priority = entry->priority;
    one.call.payload = payload_of(mine, first, {});
    one.call.into = {into, mine.size() * entry->row_bytes};
    one.call.owner = owner;
    into += one.call.into.size();
  }
  if (calls.empty()) return completion.done();
  const auto answers = std::make_shared<Answers>(std::move(completion), calls.size());
  for (ServerCall& one : calls)
    one.call.done = [answers](const Reply&, std::exception_ptr error) { answers->one(std::move(error)); };
  client.submit(calls);
}

}  // namespace heddle
