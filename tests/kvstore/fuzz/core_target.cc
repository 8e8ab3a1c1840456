// Fuzz target for the whole core of a server. An input is a sequence of connections, messages, cuts, restarts
// and passing time. A backup core gets the core's changes and has to follow them.
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include <heddle/compression.h>
#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/ops.h>

#include "fuzz/fuzz_target.h"
#include "server/server_core.h"
#include "server/state/state_stream.h"
#include "wire/replication.h"
#include "wire/state_blob.h"

namespace heddle::fuzz {
namespace {

using namespace kv_detail;

constexpr std::uint64_t kLimit = 1 << 14;  // the core's memory limit in bytes
constexpr std::size_t kMostPeers = 6, kMostSteps = 200;
constexpr std::chrono::seconds kTimeout{30};

constexpr int kNoPayload = 64;  // flag of a request in the input: the payload's length follows

enum class Step : std::uint8_t { connect, hello, request, raw, cut, time, bundle, filled, restart, count };
constexpr const char* kConsistencies[] = {"sync", "async", "ssp:1"};
constexpr const char* kTexts[] = {"", "a", "b", "add", "sgd lr=0.5 momentum=0.5", "adam lr=0.1"};
// Sizes of values in bytes. Most are equal, so that the requests of different workers match.
constexpr std::uint64_t kSizes[] = {0, 4, 8, 8, 8, 16, 4096, ~0ull};
constexpr std::uint64_t kRowSizes[] = {0, 4, 4, 8, 1, ~0ull};
constexpr const char* kCodecs[] = {"", "fp16", "2bit:0.5", "1bit", "topk:0.5", "none"};

// Applies the steps of an input to a core, as a transport would, and checks the core's answers.
class Program {
 public:
  explicit Program(Input input) : source_(input), core_(std::make_unique<ServerCore>(kOptions, 42)) {
    if (source_.below(2) == 0) return;
    backup_ = std::make_unique<ServerCore>(kOptions, 43);
    backup_->follow();
    core_->record_changes(true);
  }

  bool run() {
    for (std::size_t step = 0; step < kMostSteps && !source_.empty(); ++step) {
      switch (static_cast<Step>(source_.below(static_cast<std::uint8_t>(Step::count)))) {
        case Step::connect:
          connect();
          break;
        case Step::hello:
          hello();
          break;
        case Step::request:
          request();
          break;
        case Step::raw:
          raw();
          break;
        case Step::cut:
          if (const Peer peer = any_peer()) cut(peer);
          break;
        case Step::bundle:
          bundle();
          break;
        case Step::filled:
          filled();
          break;
        case Step::restart:
          restart();
          break;
        default:
          pass(std::chrono::seconds(source_.below(40)));
          begin_saving();
      }
      go_on_saving();
      look();
    }
    end();
    return accepted_;
  }

 private:
  void connect() {
    if (peers_.size() >= kMostPeers) return;
    core_->connected(++last_peer_, "");
    peers_.insert(last_peer_);
    known_.insert(last_peer_);
  }

  Peer any_peer() {
    if (peers_.empty()) return 0;
    return *std::next(peers_.begin(), source_.below(static_cast<std::uint8_t>(peers_.size())));
  }

  void hello() {
    Hello hello{.job = source_.below(8) == 0 ? "other" : "job",
                .consistency = kConsistencies[source_.below(16) % 3]};
    hello.workers = 1u + source_.below(3);
    hello.rank = source_.below(3);
    hello.incarnation = 100 + source_.below(3);
    deliver(any_peer(), encode(hello), {});
  }

  void request() {
    const Peer peer = any_peer();
    Request one;
    one.kind = static_cast<Kind>(static_cast<int>(Kind::init) + source_.below(10));
    const std::uint8_t flags = source_.get<std::uint8_t>();
    one.has_value = (flags & 1) != 0;
    one.overwrite = (flags & 2) != 0;
    one.dtype = (flags & 4) != 0 ? DType::i64 : DType::f32;
    one.lr = (flags & 8) != 0 ? 0.5 : 0.25;
    one.key = one.whole.rows = source_.below(3);
    one.number = ++last_number_ - ((flags & 16) != 0 ? source_.below(5) : 0);
    one.clock = one.whole.bytes = one.keys_digest = source_.below(6);
    one.bytes = kSizes[source_.below(std::size(kSizes))];
    one.offset = (flags & 32) != 0 ? source_.below(16) : 0;
    one.text = kTexts[source_.below(std::size(kTexts))];
    const std::size_t payload =
        (flags & kNoPayload) != 0 ? source_.below(16) : std::min<std::uint64_t>(one.bytes, 4096);
    deliver(peer, encode(one), Bytes(payload, std::byte{1}));
  }

  void bundle() {
    const Peer peer = any_peer();
    const std::uint8_t flags = source_.get<std::uint8_t>();
    Request one{.kind = (flags & 1) != 0 ? Kind::push_many : Kind::pull_many, .number = ++last_number_};
    one.entries.resize(source_.below(5));
    for (BundleEntry& entry : one.entries) {
      entry.key = source_.below(3);
      entry.clock = source_.below(6);
      entry.bytes = static_cast<std::uint32_t>(kSizes[source_.below(6)]);
      entry.dtype = (flags & 2) != 0 ? DType::i64 : DType::f32;
      one.bytes += entry.bytes;
    }
    const bool has_payload = one.kind == Kind::push_many;
    deliver(peer, encode(one), Bytes(has_payload ? one.bytes : 0, std::byte{1}));
  }

  // Makes a request whose payload is part of the input: rows, encoded gradients, or an optimizer's state.
  void filled() {
    constexpr Kind kKinds[] = {Kind::push, Kind::pull, Kind::set_state};
    const Peer peer = any_peer();
    Request one{.kind = kKinds[source_.below(3)], .key = source_.below(3), .number = ++last_number_};
    one.clock = source_.below(6);
    one.row_bytes = kRowSizes[source_.below(std::size(kRowSizes))];
    one.text = kCodecs[source_.below(std::size(kCodecs))];
    const std::uint8_t flags = source_.get<std::uint8_t>();
    const Input payload = source_.take(source_.get<std::uint8_t>());
    one.bytes = payload.size();
    if ((flags & 1) != 0) one.offset = source_.below(16);
    // Makes this the first piece of a larger value.
    if ((flags & 2) != 0) one.bytes += source_.below(64);
    deliver(peer, encode(one), {payload.begin(), payload.end()});
  }

  void raw() {
    const Peer peer = any_peer();
    const std::size_t payload = source_.below(64), head = source_.get<std::uint8_t>();
    const Input bytes = source_.take(head);
    deliver(peer, {bytes.begin(), bytes.end()}, Bytes(payload, std::byte{1}));
  }

  // Begins to save the core's state key by key. What is saved must equal the state at this moment, whatever
  // happens until the end.
  void begin_saving() {
    if (saver_) return;
    expected_.clear();
    saved_.clear();
    save_state(*core_, [this](Bytes head, const Payload& payload) {
      expected_.emplace_back(std::move(head), Bytes(payload.bytes.begin(), payload.bytes.end()));
    });
    saver_ = std::make_unique<StateSaver>(*core_);
  }

  void go_on_saving() {
    const auto keep = [this](Bytes head, Payload payload) {
      saved_.push_back({std::move(head), std::move(payload)});
    };
    if (!saver_ || !saver_->go_on(1, keep)) return;
    saver_ = nullptr;
    want(saved_.size() == expected_.size(), "a state of another length");
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      want(saved_[i].head == expected_[i].first, "a state of another moment");
      want(std::ranges::equal(saved_[i].payload.bytes, expected_[i].second), "values of another moment");
    }
    saved_.clear();
  }

  // Replaces the core by another one that loads its saved state.
  void restart() {
    saver_ = nullptr;
    for (const Peer peer : std::set<Peer>(peers_)) cut(peer);
    look();
    auto next = std::make_unique<ServerCore>(kOptions, 44);
    StateLoader loader(*next, now_);
    try {
      save_state(*core_, [&](const Bytes& head, const Payload& payload) { loader.add(head, payload.bytes); });
    } catch (const MalformedMessage&) {
      want(false, "a state that cannot be loaded");
    }
    want(loader.complete(), "a state without an end");
    core_ = std::move(next);
    core_->record_changes(backup_ != nullptr);
  }

  // Gives the core a message. As in a transport, an exception that refuses the message closes the connection.
  void deliver(Peer peer, const Bytes& head, const Bytes& payload) {
    if (peer == 0) return;
    try {
      if (!payload.empty()) {
        const std::span<std::byte> memory = core_->memory_for(peer, head, payload.size());
        want(memory.empty() || memory.size() >= payload.size(), "too little memory for a payload");
        if (!memory.empty()) std::copy(payload.begin(), payload.end(), memory.begin());
      }
      core_->received(peer, head, payload.size(), now_);
    } catch (const Error&) {
      cut(peer);
    } catch (const std::bad_alloc&) {
      cut(peer);
    }
  }

  void cut(Peer peer) {
    peers_.erase(peer);
    core_->disconnected(peer, "cut", now_);
  }

  void pass(Clock::duration time) {
    now_ += time;
    core_->tick(now_);
  }

  void look() {
    const Outbox outbox = core_->take_outbox();
    for (const Change& change : outbox.changes) follow(change);
    for (const auto& [peer, head] : outbox.greetings) check_head(peer, head, 0);
    for (const Outgoing& one : outbox.replies) {
      check_head(one.peer, encode(one.reply), one.payload.bytes.size());
      accepted_ = accepted_ || one.reply.kind == Kind::value;
      unsigned sum = 0;  // reading every byte lets an address sanitizer find invalid memory
      for (const std::byte byte : one.payload.bytes) sum += std::to_integer<unsigned>(byte);
      want(sum <= 255 * one.payload.bytes.size(), "bytes");
    }
    for (const Peer peer : outbox.closed) peers_.erase(peer);
    const ServerStats stats = core_->stats(now_);
    want(stats.value_bytes + stats.state_bytes + stats.waiting_bytes <= kLimit, "more memory than the limit");
    want(core_->peers().size() <= peers_.size(), "a peer that is gone is known");
  }

  void follow(const Change& change) {
    if (!backup_) return;
    const std::span<const std::byte> payload = change.payload.bytes;
    try {
      const Record record = decode_record(change.record, payload.size());
      if (!payload.empty()) {
        const std::span<std::byte> memory = backup_->memory_for(record, payload.size());
        want(memory.size() >= payload.size(), "a payload that the backup does not want");
        std::copy(payload.begin(), payload.end(), memory.begin());
      }
      backup_->apply(record, payload.size(), now_);
    } catch (const Error& error) {
      want(false, error.what());
    }
    backup_->take_outbox();
  }

  void check_head(Peer peer, const Bytes& head, std::size_t payload) {
    want(peer == 0 || known_.contains(peer), "an answer to nobody");
    try {
      decode_from_server(head, payload);
    } catch (const MalformedMessage&) {
      want(false, "an answer that no worker understands");
    }
  }

  // Checks that the core holds nothing after all peers have been gone for a long time.
  void end() {
    saver_ = nullptr;
    saved_.clear();
    for (const Peer peer : std::set<Peer>(peers_)) cut(peer);
    pass(std::chrono::seconds(1));
    pass(2 * kTimeout);
    look();
    const ServerStats stats = core_->stats(now_);
    want(stats.jobs == 0 && stats.keys == 0 && core_->peers().empty(), "a job that nobody has is kept");
    want(core_->memory_used() == 0, "memory that nobody has is counted");
  }

  static inline const ServerOptions kOptions{.memory_limit = kLimit, .worker_timeout = kTimeout};
  Source source_;
  std::unique_ptr<ServerCore> core_, backup_;
  std::unique_ptr<StateSaver> saver_{};  // declared after the core, so destroyed before it
  std::vector<std::pair<Bytes, Bytes>> expected_{};
  std::vector<SavedMessage> saved_{};
  Clock::time_point now_ = Clock::time_point{} + std::chrono::hours(1);
  std::set<Peer> peers_, known_;
  Peer last_peer_ = 0;
  std::uint64_t last_number_ = 10;
  bool accepted_ = false;
};

bool run_core(Input input) {
  static Engine engine{{.scheduler = Scheduler::naive}};
  const EngineScope scope(engine);
  return Program(input).run();
}

// --- valid inputs

struct Writing {
  Bytes bytes;
  explicit Writing(bool with_backup) { put({with_backup ? 1 : 0}); }
  void put(Step step) { bytes.push_back(static_cast<std::byte>(step)); }
  void put(std::initializer_list<int> values) {
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  }
  void connect() { put(Step::connect); }
  void hello(int peer, int consistency, int workers, int rank) {
    put(Step::hello);
    put({1, consistency, workers - 1, rank, rank, peer});
  }
  // Size 2 is an index into kSizes: 8 bytes.
  void request(Kind kind, int peer, int flags, int clock, int text = 0, int size = 2) {
    put(Step::request);
    put({peer, static_cast<int>(kind) - static_cast<int>(Kind::init), flags, 0, clock, size, text});
    if ((flags & kNoPayload) != 0) put({0});
  }
  void time(int seconds) {
    put(Step::time);
    put({seconds});
  }
  // Pushes or pulls keys 0 and 1, both of 8 bytes, in one message.
  void bundle(Kind kind, int peer, int clock) {
    put(Step::bundle);
    put({peer, kind == Kind::push_many ? 1 : 0, 2, 0, clock, 2, 1, clock, 2});
  }
  // `kind`: 0 push, 1 pull, 2 set_state. `rows` and `codec` are indices into kRowSizes and kCodecs.
  void filled(int peer, int kind, int key, int clock, int rows, int codec, const Bytes& payload) {
    put(Step::filled);
    put({peer, kind, key, clock, rows, codec, 0, static_cast<int>(payload.size())});
    append(bytes, payload);
  }
};

Bytes two_workers(int consistency, int rule) {
  Writing all(rule == 4);
  for (const int peer : {0, 1}) all.connect(), all.hello(peer, consistency, 2, peer);
  for (const int peer : {0, 1}) all.request(Kind::set_optimizer, peer, kNoPayload, 0, rule);
  all.request(Kind::init, 0, 1, 0, 1);
  all.request(Kind::init, 1, kNoPayload, 0, 1);
  for (const int clock : {1, 2, 3}) {
    for (const int peer : {0, 1}) all.request(Kind::push, peer, 8, clock);
    for (const int peer : {0, 1}) all.request(Kind::pull, peer, kNoPayload, clock);
  }
  all.request(Kind::get_state, 0, kNoPayload, 3);
  all.request(Kind::clear_errors, 1, kNoPayload, 0);
  for (const int peer : {0, 1}) all.request(Kind::barrier, peer, kNoPayload, 0);
  all.time(20);
  all.put(Step::cut), all.put({1});
  all.time(31);
  all.connect(), all.hello(1, consistency, 2, 1);
  all.request(Kind::init, 1, kNoPayload, 0, 1);
  all.request(Kind::push, 1, 8, 4);
  all.request(Kind::pull, 1, kNoPayload, 4);
  all.request(Kind::leave, 0, kNoPayload, 0);
  return all.bytes;
}

// An input in which a worker with two keys of two rows uses bundles, rows, codecs and optimizer state; then
// the core restarts.
Bytes small_values(int consistency, int rule) {
  Writing all(consistency != 1);
  all.connect(), all.hello(0, consistency, 1, 0);
  all.request(Kind::set_optimizer, 0, kNoPayload, 0, rule);
  for (const int key : {1, 2}) all.request(Kind::init, 0, 1, 0, key);
  all.bundle(Kind::push_many, 0, 1), all.bundle(Kind::pull_many, 0, 1);
  Bytes row_list, row_push;
  append_value(row_list, std::int64_t{1});
  append(row_push, row_list), append_value(row_push, 0.5F);
  all.filled(0, 0, 0, 2, 1, 0, row_push), all.filled(0, 1, 0, 2, 1, 0, row_list);
  for (int codec = 1; codec < 5; ++codec) {
    const Bytes encoded(make_codec(kCodecs[codec])->encoded_bytes(2));
    all.filled(0, 0, 1, 1 + codec, 0, codec, encoded), all.filled(0, 1, 1, 1 + codec, 0, codec, {});
  }
  all.filled(0, 2, 0, 0, 0, 0, encode_state({{"velocity", NDArray({2})}}));
  all.filled(0, 2, 0, 0, 1, 0,
             encode_state({{"rows", full({1}, 1, DType::i64)},
                           {"width", full({1}, 1, DType::i64)},
                           {"velocity", NDArray({1})}}));
  all.request(Kind::get_state, 0, kNoPayload, 2);
  all.put(Step::restart);
  all.connect(), all.hello(0, consistency, 1, 0);
  all.bundle(Kind::pull_many, 0, 1);
  return all.bytes;
}

std::vector<Bytes> core_seeds() {
  static Engine engine{{.scheduler = Scheduler::naive}};
  const EngineScope scope(engine);
  std::vector<Bytes> all;
  for (const int consistency : {0, 1, 2}) {
    for (const int rule : {3, 4, 5}) {
      all.push_back(two_workers(consistency, rule));
      all.push_back(small_values(consistency, rule));
    }
  }
  Writing raw(false);  // writes requests by Step::raw, with encoded heads
  raw.connect(), raw.hello(0, 1, 1, 0);
  raw.request(Kind::init, 0, 1, 0, 1);
  const auto put_head = [&raw](const Request& request, int payload) {
    const Bytes head = encode(request);
    raw.put(Step::raw);
    raw.put({0, payload, static_cast<int>(head.size())});
    append(raw.bytes, head);
  };
  put_head({.kind = Kind::push, .number = 9, .clock = 1, .bytes = 8}, 8);
  put_head({.kind = Kind::pull, .number = 10, .clock = 1}, 0);
  raw.request(Kind::pull, 0, kNoPayload, 0);
  all.push_back(raw.bytes);
  return all;
}

}  // namespace

const Target kCore{"core", run_core, core_seeds, 20};

}  // namespace heddle::fuzz
