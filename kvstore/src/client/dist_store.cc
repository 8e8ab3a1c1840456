#include "client/dist_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/graph.h>
#include <heddle/number_text.h>
#include <heddle/var_use.h>

#include "client/answers.h"
#include "stores/adding.h"
#include "stores/agreement.h"
#include "stores/local_store.h"
#include "stores/update_rule.h"
#include "wire/row_state.h"
#include "wire/state_blob.h"

namespace heddle {
namespace {

using kv_detail::Call;
using kv_detail::Client;
using kv_detail::Kind;
using kv_detail::Reply;
using kv_detail::Request;

constexpr std::chrono::milliseconds kLeaveLimit{5000};
// Name of the optimizer's array with a count of updates per row.
constexpr std::string kRowUpdates = "row_updates";

// Deletes the client. If the last op of a store ends on the client's own thread, another thread does it, as
// no thread can join itself. In the child of a fork nothing is done, since the connections are the parent's.
void end_client(Client* client) {
  if (client->in_child()) return;
  if (client->is_on_own_thread()) {
    std::thread([client] { delete client; }).detach();
  } else {
    delete client;
  }
}

NDArray host_copy(const NDArray& value) {
  return value.detach().copy_to(value.device().kind == DeviceKind::cuda ? cpu_pinned() : cpu());
}

}  // namespace

DistStore::DistStore(std::string type, const kv_detail::ClientOptions& options, Codecs codecs)
    : type_(std::move(type)),
      codecs_(std::move(codecs)),
      client_(new Client(options), end_client),
      key_placer_(options.placement, static_cast<int>(client_->servers())),
      inits_(current_engine().new_var()),
      order_(current_engine().new_var()),
      exceptions_(std::uncaught_exceptions()) {
  engine().add_progress_source(client_);
  call_all({.kind = Kind::ping});  // each server answers once it has accepted this worker
}

Engine& DistStore::engine() const {
  if (Engine* const engine = engine_of(order_).load()) return *engine;
  throw Error("KVStore: the engine of the store is destroyed");
}

// Without an error, waits for all pushes and pulls. After an error, first fails all calls that are no pushes,
// since such a call may wait for workers that wait for this worker.
DistStore::~DistStore() {
  if (!client_->in_child() && (std::uncaught_exceptions() > exceptions_ || client_->has_failed()))
    client_->give_up_waiting("the store was closed after an error, while this waited for other workers");
  try {
    if (engine_of(order_).load()) wait_for_ops();  // a destroyed engine has ended all ops
  } catch (const std::exception&) {
    // Called in an op that ops of this store wait for; the last of the waiting ops destroys the client.
    return;
  }
  client_->leave(kLeaveLimit);
}

void DistStore::wait_for_ops() const {
  engine().push([] {}, {.mutate = {order_}, .name = "kvstore_wait"}, CallSite::current());
  engine().wait(order_);
}

void DistStore::call_all(const Request& request) const {
  std::exception_ptr error;
  struct Outcome {
    std::atomic<std::uint32_t> over{0};
    std::exception_ptr error{};
  };
  std::vector<std::shared_ptr<Outcome>> all(client_->servers());
  for (std::size_t server = 0; server < all.size(); ++server) {
    all[server] = std::make_shared<Outcome>();
    Call call{.request = request};
    call.done = [one = all[server]](const Reply&, std::exception_ptr why) {
      one->error = std::move(why);
      one->over.store(1);
      one->over.notify_all();
    };
    client_->submit(server, std::move(call));
  }
  for (const auto& one : all) {
    client_->wait(one->over);
    if (one->error && !error) error = one->error;
  }
  if (error) std::rethrow_exception(error);
}

const DistStore::KeyPtr& DistStore::entry_of(const char* call, Key key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end())
    throw InvalidArgument(who_says(call, key) + "the key is unknown; init it first");
  return found->second;
}

const DistStore::KeyPtr& DistStore::checked(const char* call, Key key,
                                            std::span<const NDArray> arrays) const {
  const KeyPtr& entry = entry_of(call, key);
  check_arrays(call, key, arrays, entry->shape, entry->dtype, engine());
  return entry;
}

const DistStore::KeyPtr& DistStore::checked_pull(Key key, std::span<const NDArray> out) const {
  const KeyPtr& entry = entry_of("pull", key);
  check_targets("pull", key, out, entry->shape, entry->dtype, engine());
  return entry;
}

std::vector<ClientKeyPart> DistStore::place(const ClientKey& entry) {
  std::vector<ClientKeyPart> parts;
  for (const kv_detail::KeyPart& part : key_placer_.place({entry.name, entry.bytes(), entry.row_bytes}))
    parts.push_back(
        {.server = static_cast<std::size_t>(part.server), .offset = part.offset, .bytes = part.bytes});
  return parts;
}

void DistStore::do_init(Key key, const NDArray& value) {
  if (!value.defined()) throw InvalidArgument(who_says("init", key) + "the value is undefined");
  if (entries_.contains(key)) throw InvalidArgument(who_says("init", key) + "the key exists already");
  if (is_capturing())
    throw Error(who_says("init", key) + "a key is initialised once, outside of the capture of a graph");
  check_engine("init", key, value, engine());
  auto entry = std::make_shared<ClientKey>();
  entry->name = key.text();
  entry->shape = value.shape();
  entry->dtype = value.dtype();
  const bool has_rows = value.ndim() > 0 && value.shape()[0] > 0;
  entry->row_bytes = has_rows ? entry->bytes() / static_cast<std::size_t>(value.shape()[0]) : 0;
  // Keys of the first layers, which are needed first, have the highest priority.
  entry->priority = -static_cast<std::int32_t>(std::min<std::size_t>(entries_.size(), 1 << 30));
  entry->var = engine().new_var();
  entry->parts = place(*entry);
  set_codecs(*entry);
  entries_[key] = entry;
  Request request{.kind = Kind::init, .has_value = rank() == 0, .dtype = entry->dtype, .text = entry->name};
  push_value("kvstore_init", entry, host_copy(value), request);
}

// Pushes an op that sends the parts of a value. On ranks other than 0 an init or overwrite has no value.
void DistStore::push_value(const char* name, const KeyPtr& entry, const NDArray& value, Request request) {
  const bool is_push = request.kind == Kind::push && !request.overwrite;
  const NDArray flat = is_push ? compressed(entry, value, request) : value.contiguous();
  request.priority = entry->priority;
  request.dtype = entry->dtype;
  Access access = array_access(name, {&flat, 1}, {});
  access.read.add(order_);
  // The op also reads the var, since an op that only overwrites a var clears its error.
  if (is_push) access.read.add(entry->var);
  access.mutate.add(entry->var);
  if (request.kind == Kind::init && key_placer_.is_ordered()) {
    access.read.add(inits_);  // an op that only overwrites a var, without reading it, clears its error
    access.mutate.add(inits_);
  }
  access.name = name;
  StartTransfer op{std::make_shared<Transfer>(client_, entry), is_capturing()};
  op.transfer->push(request, is_push || request.has_value ? flat : NDArray());
  engine().push_async(std::move(op), access, CallSite::current());
}

void DistStore::check_update(Key key, const ClientKey& entry, const UpdateOptions& options) const {
  if (optimizer_) optimizer_->check(key, NDArray(entry.shape, entry.dtype), options);
  if (options.decay_scale != 1 && optimizer_ && optimizer_->params().at("weight_decay") != 0) {
    throw InvalidArgument(
        "KVStore::push: decay_scale is " + number_text(options.decay_scale) +
        ", which servers do not apply: their optimizer has one weight_decay for all values");
  }
  if (adds_) check_add(key, entry.dtype, options);
}

Request DistStore::push_request(Key key, const ClientKey& entry, const UpdateOptions& options) const {
  check_update(key, entry, options);
  return {.kind = Kind::push,
          .dtype = entry.dtype,
          .lr = options.lr.value_or(std::numeric_limits<double>::quiet_NaN()),
          .scale = options.grad_scale,
          .priority = entry.priority};
}

void DistStore::do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  const KeyPtr& entry = checked("push", key, values);
  const Request request = push_request(key, *entry, options);
  push_value("kvstore_push", entry, host_sum(values), request);
}

void DistStore::do_assign(Key key, const NDArray& value) {
  const KeyPtr& entry = checked("assign", key, {&value, 1});
  Request request{.kind = Kind::push,
                  .overwrite = true,
                  .has_value = rank() == 0,
                  .lr = std::numeric_limits<double>::quiet_NaN()};
  push_value("kvstore_assign", entry, host_copy(value), request);
}

void DistStore::do_pull(Key key, std::span<const NDArray> out) {
  const KeyPtr& entry = checked_pull(key, out);
  for (const NDArray& target : out) pull_value(entry, target);
}

NDArray DistStore::receiver_for(const NDArray& out) {
  const bool direct = out.device().kind == DeviceKind::cpu && out.is_contiguous();
  if (direct) return out.detach();
  const EngineScope scope(out.engine());
  return NDArray(out.shape(), out.dtype(), out.device().kind == DeviceKind::cuda ? cpu_pinned() : cpu());
}

void DistStore::pull_value(const KeyPtr& entry, const NDArray& out) {
  if (entry->pull_codec) return pull_compressed(entry, out);
  const NDArray memory = receiver_for(out);
  Access access = array_access("kvstore_pull", {}, {&memory, 1});
  access.read.add(order_);
  access.read.add(entry->var);
  access.name = "kvstore_pull";
  StartTransfer op{std::make_shared<Transfer>(client_, entry), is_capturing()};
  op.transfer->pull(memory);
  engine().push_async(std::move(op), access, CallSite::current());
  if (memory.storage() != out.storage()) out.assign(memory);
}

// Pushes one op for the push and the pull. If the pull would write to the array that is pushed, pushes two
// ops, since that array must not change before the server has it.
void DistStore::push_and_pull(const KeyPtr& entry, const NDArray& value, const NDArray& out,
                              Request request) {
  const NDArray memory = receiver_for(out);
  if (entry->pull_codec || (!entry->codec && value.storage() == memory.storage())) {
    push_value("kvstore_push", entry, value, request);
    return pull_value(entry, out);
  }
  const NDArray flat = compressed(entry, value, request);
  Access access = array_access("kvstore_push_pull", {&flat, 1}, {&memory, 1});
  access.read.add(order_);
  access.read.add(entry->var);  // an op that only overwrites a var, without reading it, clears its error
  access.mutate.add(entry->var);
  access.name = "kvstore_push_pull";
  StartTransfer op{std::make_shared<Transfer>(client_, entry), is_capturing()};
  op.transfer->push(request, flat);
  op.transfer->pull(memory);
  engine().push_async(std::move(op), access, CallSite::current());
  if (memory.storage() != out.storage()) out.assign(memory);
}

void DistStore::do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                             const UpdateOptions& options) {
  checked_pull(key, out);
  const KeyPtr& entry = checked("push", key, values);
  const Request request = push_request(key, *entry, options);
  push_and_pull(entry, host_sum(values), out[0], request);
  for (const NDArray& other : out.subspan(1)) pull_value(entry, other);
}

void DistStore::do_set_optimizer(const std::string& name, const OptimizerParams& params,
                                 const std::string& weights) {
  const std::string text = kv_detail::update_rule_text(name, params);
  wait_for_ops();
  const std::uint64_t digest = weights.empty() ? 0 : digest_of(weights);
  call_all({.kind = Kind::set_optimizer, .text = text, .keys_digest = digest});
  const kv_detail::UpdateRule rule = kv_detail::parse_update_rule(text);
  optimizer_ = rule.kind == kv_detail::UpdateRule::Kind::optimizer ? create_optimizer(name, params) : nullptr;
  adds_ = rule.kind == kv_detail::UpdateRule::Kind::add;
}

void DistStore::do_barrier() {
  engine().push_async(
      [client = client_](RunContext&, Completion completion) {
        // The barrier is sent to every server, since each has to know that this worker pushes nothing
        // meanwhile.
        auto answers = std::make_shared<Answers>(std::move(completion), client->servers());
        for (std::size_t server = 0; server < client->servers(); ++server) {
          Call call{.request = {.kind = Kind::barrier}};
          call.done = [answers](const Reply&, std::exception_ptr error) { answers->one(std::move(error)); };
          client->submit(server, std::move(call));
        }
      },
      {.mutate = {order_}, .name = "kvstore_barrier"}, CallSite::current());
  engine().wait(order_);
}

void DistStore::do_clear_errors() {
  engine().clear_error(order_, CallSite::current());
  for (const auto& [key, entry] : entries_) {
    engine().clear_error(entry->var, CallSite::current());
    if (entry->codec) engine().clear_error(entry->residual.var(), CallSite::current());
    if (entry->pull_codec) engine().clear_error(entry->pulled.var(), CallSite::current());
  }
  wait_for_ops();
  call_all({.kind = Kind::clear_errors});
  client_->reset_failed();
}

// Joins the optimizer state of all parts of a key. Takes scalar counts, which are equal on all servers, from
// the first part, and concatenates the parts of every other array. An array of counts per row is split like
// the rows.
std::map<std::string, NDArray> DistStore::state_of(const ClientKey& entry) const {
  std::map<std::string, NDArray> all;
  std::map<std::string, std::size_t> filled;
  if (!entry.is_known()) std::rethrow_exception(not_initialised(entry.name));
  for (const ClientKeyPart& part : entry.parts) {
    std::vector<std::byte> bytes;
    Call call{.request = {.kind = Kind::get_state, .key = part.number, .clock = part.clock}};
    call.collect = &bytes;
    client_->call(part.server, std::move(call));
    const std::size_t rows = entry.row_bytes > 0 ? part.bytes / entry.row_bytes : 0;
    for (const auto& [name, array] :
         kv_detail::whole_state(kv_detail::decode_state(bytes), static_cast<std::int64_t>(rows))) {
      const auto size = static_cast<std::size_t>(array.size()) * size_of(array.dtype());
      const bool of_rows = name == kRowUpdates && entry.row_bytes > 0;
      const bool whole = of_rows || (size == part.bytes && entry.dtype == array.dtype() && name != "updates");
      const std::size_t offset =
          of_rows ? part.offset / entry.row_bytes * size_of(array.dtype()) : part.offset;
      NDArray& target = all[name];
      if (!target.defined()) {
        target = NDArray(of_rows ? Shape{entry.shape[0]}
                         : whole ? entry.shape
                                 : Shape(array.shape()),
                         array.dtype());
        target.fill(0);
        target.wait();
      }
      if (!whole && part.offset > 0) continue;
      array.wait();
      if (size > 0)
        std::memcpy(target.data<std::byte>() + (whole ? offset : 0), array.data<const std::byte>(), size);
    }
  }
  return all;
}

std::map<std::string, NDArray> DistStore::optimizer_state() const {
  const EngineScope scope(engine());
  wait_for_ops();
  std::map<std::string, NDArray> all;
  for (const auto& [key, entry] : entries_) {
    for (auto& [name, array] : state_of(*entry)) all[entry->name + "." + name] = std::move(array);
  }
  return all;
}

// Runs `own`, and blocks until all workers have run theirs. If it throws on one worker, all workers throw.
void DistStore::check_together(const std::function<void()>& own) const {
  std::exception_ptr error;
  std::string why;
  try {
    own();
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    why = thrown.what();
  }
  try {
    call_all({.kind = Kind::barrier, .text = why.substr(0, 1000)});
  } catch (const StoreError&) {
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
}

void DistStore::do_set_optimizer_state(const std::map<std::string, NDArray>& state) {
  check_together([&] {
    check_state(state);
    wait_for_ops();
    if (rank() == 0) send_state(state);
  });
}

void DistStore::check_state(const std::map<std::string, NDArray>& state) const {
  if (!optimizer_ && !state.empty())
    throw InvalidArgument("KVStore::set_optimizer_state: the store has no optimizer");
  if (!optimizer_) return;
  const EngineScope scope(engine());
  Optimizer::Weights weights;
  for (const auto& [key, entry] : entries_) weights[key] = NDArray(entry->shape, entry->dtype);
  create_optimizer(optimizer_->name(), optimizer_->params())->set_state(state, weights);
}

void DistStore::send_state(const std::map<std::string, NDArray>& state) const {
  for (const auto& [key, entry] : entries_) {
    if (!entry->is_known()) std::rethrow_exception(not_initialised(entry->name));
    const std::string prefix = entry->name + ".";
    for (const ClientKeyPart& part : entry->parts) {
      kv_detail::StateArrays arrays;
      for (auto found = state.lower_bound(prefix); found != state.end() && found->first.starts_with(prefix);
           ++found) {
        // This entry belongs to another key, whose name begins with `prefix`.
        if (found->first.find('.', prefix.size()) != std::string::npos) continue;
        NDArray flat = found->second.contiguous().view_as({found->second.size()});
        const bool of_rows = found->first == prefix + kRowUpdates && entry->row_bytes > 0;
        const auto element = static_cast<std::int64_t>(of_rows ? entry->row_bytes : size_of(flat.dtype()));
        if (found->first != prefix + "updates")
          flat = flat.slice(0, {static_cast<std::int64_t>(part.offset) / element,
                                static_cast<std::int64_t>(part.offset + part.bytes) / element});
        arrays[found->first.substr(prefix.size())] = flat;
      }
      const auto bytes = std::make_shared<const std::vector<std::byte>>(kv_detail::encode_state(arrays));
      Call call{.request = {.kind = Kind::set_state, .key = part.number}};
      if (entry->has_whole_rows()) call.request.row_bytes = entry->row_bytes;
      call.payload = {bytes, *bytes};
      client_->call(part.server, std::move(call));
    }
  }
}

}  // namespace heddle
