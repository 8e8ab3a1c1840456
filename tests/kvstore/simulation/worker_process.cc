#include "simulation/worker_process.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {
namespace {

constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

template <class Number> void append(std::vector<std::byte>& bytes, const std::vector<Number>& numbers) {
  const auto begin = std::as_bytes(std::span(numbers));
  bytes.insert(bytes.end(), begin.begin(), begin.end());
}

template <class Number> std::vector<std::byte> filled(std::size_t count, std::int64_t value) {
  std::vector<std::byte> bytes;
  append(bytes, std::vector<Number>(count, static_cast<Number>(value)));
  return bytes;
}

// Checks that all elements are equal; returns their value.
template <class Number> std::int64_t the_element_of(std::span<const std::byte> bytes) {
  std::vector<Number> values(bytes.size() / sizeof(Number));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Number));
  CHECK(std::count(values.begin(), values.end(), values[0]) == std::ssize(values));
  return static_cast<std::int64_t>(values[0]);
}

}  // namespace

WorkerProcess::WorkerProcess(Network& network, SimTransport& transport, const Plan& plan, std::uint32_t rank,
                             std::uint64_t incarnation, Versions versions, Ledger& ledger, ViewChecks& checks)
    : network_(network),
      transport_(transport),
      plan_(plan),
      rank_(rank),
      incarnation_(incarnation),
      versions_(versions),
      ledger_(ledger),
      checks_(checks),
      member_(transport, {.scheduler = "Scheduler",
                          .role = Role::worker,
                          .number = rank,
                          .servers = plan.servers,
                          .workers = plan.workers,
                          .incarnation = incarnation,
                          .job = "job",
                          .versions = versions}),
      links_(plan.servers),
      keys_(plan.keys.size()),
      groups_(plan.groups.size()) {
  member_.on_views = [this](const Views& views) {
    checks_.told(seen_, views);
    seen_ = views;
    set_views(views);
  };
  member_.on_refused = [this](const std::string&) { on_refused(); };
  for (std::uint32_t shard = 0; shard < plan_.servers; ++shard) {
    ask(shard, {.kind = Kind::set_optimizer, .text = "add"}, {}, [this](const Reply& reply, const auto&) {
      CAPTURE(reply.text);
      CHECK(reply.kind == Kind::done);
      if (++optimizers_ == plan_.servers) init_all();
    });
  }
}

std::uint64_t WorkerProcess::bytes_of(std::uint32_t key) const {
  return std::max(plan_of(key).rows, 1u) * plan_of(key).elements * sizeof(std::int64_t);
}

void WorkerProcess::init_all() {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (const std::uint32_t key : plan_.groups[group]) init(group, key);
  }
}

void WorkerProcess::init(std::size_t group, std::uint32_t key) {
  Request request{.kind = Kind::init,
                  .has_value = rank_ == 0,
                  .dtype = plan_of(key).rows > 0 ? DType::f64 : DType::i64,
                  .bytes = bytes_of(key),
                  .text = "key" + std::to_string(key)};
  std::vector<std::byte> zeros(rank_ == 0 ? bytes_of(key) : 0);
  ask(plan_of(key).shard, std::move(request), std::move(zeros),
      [this, group, key](const Reply& reply, const auto&) {
        CAPTURE(reply.text);
        REQUIRE(reply.kind == Kind::done);
        ledger_.check_resumed(key, rank_, reply.clock);
        ledger_.acknowledged(key, rank_, reply.clock);
        keys_[key] = {reply.key, reply.clock};
        working_ = ++inits_ == keys_.size();
        if (++groups_[group].ready == plan_.groups[group].size()) next_round(group);
      });
}

// Begins a group's next push. After a worker's restart a server may lack the latest push of some keys of the
// group: the worker pushes these keys first.
void WorkerProcess::next_round(std::size_t group) {
  const Keys& keys = plan_.groups[group];
  std::uint64_t clock = ~std::uint64_t{0};
  for (const std::uint32_t key : keys) clock = std::min(clock, keys_[key].clock);
  if (clock >= plan_.rounds) {
    groups_[group].over = true;
    return;
  }
  Keys behind;
  for (const std::uint32_t key : keys) {
    if (keys_[key].clock != clock) continue;
    behind.push_back(key);
    ledger_.sent(key, rank_, ++keys_[key].clock);
  }
  groups_[group].waiting = 2;
  plan_of(keys[0]).rows > 0 ? push_rows(group, keys[0]) : push(group, behind);
  pull(group, false);
}

void WorkerProcess::push(std::size_t group, const Keys& keys) {
  const std::uint64_t clock = keys_[keys[0]].clock;
  Request request{.kind = Kind::push, .dtype = DType::i64, .lr = kNoRate};
  std::vector<std::byte> values;
  if (plan_.groups[group].size() > 1) request.kind = Kind::push_many;
  for (const std::uint32_t key : keys) {
    const auto value = filled<std::int64_t>(plan_of(key).elements, Ledger::value_of(rank_));
    values.insert(values.end(), value.begin(), value.end());
    if (request.kind == Kind::push_many) {
      request.entries.push_back(
          {keys_[key].number, static_cast<std::uint32_t>(value.size()), clock, DType::i64});
    } else {
      request.key = keys_[key].number;
      request.clock = clock;
    }
  }
  ask(plan_of(keys[0]).shard, std::move(request), std::move(values),
      [this, group, keys, clock](const Reply& reply, const auto&) {
        CAPTURE(reply.text);
        CHECK(reply.kind == Kind::done);
        acknowledged(group, keys, clock);
      });
}

void WorkerProcess::push_rows(std::size_t group, std::uint32_t key) {
  const std::uint64_t clock = keys_[key].clock;
  const std::vector<std::int64_t> rows = ledger_.rows_of_push(key, rank_, clock);
  std::vector<std::byte> payload;
  append(payload, rows);
  append(payload, std::vector<double>(rows.size() * plan_of(key).elements,
                                      static_cast<double>(Ledger::value_of(rank_))));
  Request request{.kind = Kind::push,
                  .dtype = DType::f64,
                  .key = keys_[key].number,
                  .clock = clock,
                  .row_bytes = plan_of(key).elements * sizeof(double),
                  .lr = kNoRate};
  ask(plan_of(key).shard, std::move(request), std::move(payload),
      [this, group, key, clock](const Reply& reply, const auto&) {
        CAPTURE(reply.text);
        CHECK(reply.kind == Kind::done);
        acknowledged(group, {key}, clock);
      });
}

void WorkerProcess::acknowledged(std::size_t group, const Keys& keys, std::uint64_t clock) {
  for (const std::uint32_t key : keys) ledger_.acknowledged(key, rank_, clock);
  go_on(group);
}

void WorkerProcess::pull(std::size_t group, bool last) {
  const Keys& keys = plan_.groups[group];
  if (plan_of(keys[0]).rows > 0 && network_.below(3) != 0) return pull_rows(group, keys[0], last);
  Request request{.kind = Kind::pull, .key = keys_[keys[0]].number, .clock = keys_[keys[0]].clock};
  std::vector<Ledger::Pull> pulls;
  for (const std::uint32_t key : keys)
    pulls.push_back(ledger_.begin_pull(key, rank_, keys_[key].clock, last));
  if (keys.size() > 1) {
    request = {.kind = Kind::pull_many};
    for (const std::uint32_t key : keys) {
      request.entries.push_back(
          {keys_[key].number, static_cast<std::uint32_t>(bytes_of(key)), keys_[key].clock, DType::i64});
      request.bytes += bytes_of(key);
    }
  }
  ask(plan_of(keys[0]).shard, std::move(request), {},
      [this, group, last, pulls = std::move(pulls)](const Reply& reply, const Bytes& value) {
        CAPTURE(reply.text);
        REQUIRE(reply.kind == Kind::value);
        check(pulls, value);
        pulled(group, last);
      });
}

void WorkerProcess::pull_rows(std::size_t group, std::uint32_t key, bool last) {
  std::vector<std::int64_t> rows;
  for (std::uint32_t row = 0; row < plan_of(key).rows; ++row) {
    if (last || network_.below(2) == 0) rows.push_back(row);
  }
  std::vector<std::byte> payload;
  append(payload, rows);
  Request request{.kind = Kind::pull,
                  .dtype = DType::f64,
                  .key = keys_[key].number,
                  .clock = keys_[key].clock,
                  .row_bytes = plan_of(key).elements * sizeof(double)};
  ask(plan_of(key).shard, std::move(request), std::move(payload),
      [this, group, last, rows, pull = ledger_.begin_pull(key, rank_, keys_[key].clock, last)](
          const Reply& reply, const Bytes& value) {
        CAPTURE(reply.text);
        REQUIRE(reply.kind == Kind::value);
        check_rows(pull, rows, value);
        pulled(group, last);
      });
}

void WorkerProcess::check(const std::vector<Ledger::Pull>& pulls, const Bytes& value) {
  std::size_t offset = 0;
  for (const Ledger::Pull& pull : pulls) {
    const KeyPlan& key = plan_of(pull.key);
    const std::size_t bytes = bytes_of(pull.key);
    REQUIRE(offset + bytes <= value.size());
    if (key.rows > 0) {
      std::vector<std::int64_t> rows(key.rows);
      for (std::uint32_t row = 0; row < key.rows; ++row) rows[row] = row;
      check_rows(pull, rows, value);
    } else if (bytes > 0) {
      ledger_.check(pull, 0, the_element_of<std::int64_t>(std::span(value).subspan(offset, bytes)));
    }
    offset += bytes;
  }
  CHECK(offset == value.size());
}

void WorkerProcess::check_rows(const Ledger::Pull& pull, const std::vector<std::int64_t>& rows,
                               const Bytes& value) {
  const std::size_t bytes = plan_of(pull.key).elements * sizeof(double);
  REQUIRE(value.size() == rows.size() * bytes);
  for (std::size_t i = 0; i < rows.size(); ++i)
    ledger_.check(pull, static_cast<std::uint32_t>(rows[i]),
                  the_element_of<double>(std::span(value).subspan(i * bytes, bytes)));
}

void WorkerProcess::pulled(std::size_t group, bool last) {
  if (!last) return go_on(group);
  ++last_pulls_;
}

// Continues with a group once its push is acknowledged and its values are pulled. Sometimes pulls again
// without a push.
void WorkerProcess::go_on(std::size_t group) {
  if (--groups_[group].waiting > 0) return;
  if (network_.below(4) == 0) {
    groups_[group].waiting = 1;
    return pull(group, false);
  }
  const auto most = static_cast<std::uint64_t>(plan_.most_pause.count());
  if (most == 0 || network_.below(2) == 0) return next_round(group);
  pauses_.emplace_back(network_.now + std::chrono::milliseconds(network_.below(most)), group);
}

bool WorkerProcess::is_over() const {
  return working_ && std::all_of(groups_.begin(), groups_.end(), [](const Group& one) { return one.over; });
}

void WorkerProcess::pull_all() {
  if (!is_over() || std::exchange(pulls_all_, true)) return;
  for (std::size_t group = 0; group < groups_.size(); ++group) pull(group, true);
}

std::string WorkerProcess::state() const {
  std::string text = "worker " + std::to_string(rank_) +
                     (member_.is_registered() ? "" : " " + member_.why()) + ", views " +
                     std::to_string(seen_.version) + ": clocks";
  for (const Key& key : keys_) text += " " + std::to_string(key.clock);
  for (const Link& link : links_)
    text += "; " + link.address + (link.greeted ? " greeted, " : " away, ") +
            std::to_string(link.calls.size()) + " calls";
  return text;
}

void WorkerProcess::ask(std::uint32_t shard, Request request, Bytes payload, Done done) {
  Link& link = links_[shard];
  request.number = ++link.last_number;
  if (!payload.empty()) request.bytes = payload.size();
  Call& call = link.calls[request.number];
  call.head = encode(request);
  call.payload = std::move(payload);
  call.done = std::move(done);
  if (link.greeted) send(link, call);
}

void WorkerProcess::send(Link& link, const Call& call) {
  const auto bytes = std::make_shared<const Bytes>(call.payload);
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(kPieceBytes, bytes->size() - offset);
    Bytes head = call.head;
    if (bytes->size() > kPieceBytes) {
      Request request = std::get<Request>(decode_from_worker(call.head, 0));
      request.offset = offset;
      head = encode(request);
    }
    transport_.send(link.peer, {std::move(head), {bytes, std::span(*bytes).subspan(offset, piece)}});
    offset += piece;
  } while (offset < bytes->size());
}

void WorkerProcess::tick() {
  member_.tick(network_.now);
  for (Link& link : links_) {
    if (link.peer == 0 && !link.address.empty() && network_.now >= link.next_try)
      link.peer = transport_.connect(link.address);
    if (!link.greeted || network_.now < link.next_ping) continue;
    link.next_ping = network_.now + std::chrono::seconds(1);
    transport_.send(link.peer, {encode(Request{.kind = Kind::ping, .number = ++link.last_number})});
  }
  for (const auto& [time, group] : std::exchange(pauses_, {})) {
    if (time > network_.now) {
      pauses_.emplace_back(time, group);
    } else {
      next_round(group);
    }
  }
}

void WorkerProcess::drop(Link& link) {
  link.peer = 0;
  link.greeted = false;
  link.next_try = network_.now + std::chrono::milliseconds(5 + network_.below(20));
  for (auto& [number, call] : link.calls) call.value.clear();
}

void WorkerProcess::set_views(const Views& views) {
  for (std::uint32_t shard = 0; shard < plan_.servers; ++shard) {
    const ServerInfo* primary = find_server(views, views.shards[shard].primary);
    Link& link = links_[shard];
    if (!primary || primary->address == link.address) continue;
    if (link.peer != 0) transport_.close(link.peer);
    drop(link);
    link.address = primary->address;
    link.next_try = network_.now;
  }
}

WorkerProcess::Link* WorkerProcess::link_of(Peer peer) {
  const int shard = shard_of(peer);
  return shard < 0 ? nullptr : &links_[static_cast<std::size_t>(shard)];
}

int WorkerProcess::shard_of(Peer peer) const {
  for (std::size_t shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].peer == peer) return static_cast<int>(shard);
  }
  return -1;
}

void WorkerProcess::connected(Peer peer, const std::string&) {
  if (member_.owns(peer)) return member_.connected(peer, network_.now);
  const int shard = shard_of(peer);
  if (shard < 0) return;
  const Hello hello{.oldest = versions_.oldest,
                    .newest = versions_.newest,
                    .job = "job",
                    .consistency = plan_.consistency,
                    .rank = rank_,
                    .workers = plan_.workers,
                    .server = static_cast<std::uint32_t>(shard),
                    .servers = plan_.servers,
                    .incarnation = incarnation_};
  transport_.send(peer, {encode(hello)});
}

void WorkerProcess::disconnected(Peer peer, const std::string& why) {
  if (member_.owns(peer)) return member_.disconnected(peer, why, network_.now);
  if (Link* link = link_of(peer)) drop(*link);
}

void WorkerProcess::welcomed(Link& link, const Welcome& welcome) {
  if (!checks_.greeted(static_cast<std::uint32_t>(&link - links_.data()), welcome.incarnation)) {
    lost_ = true;
    return;
  }
  CHECK(versions_.has(welcome.protocol));
  link.greeted = true;
  for (const auto& [number, call] : link.calls) send(link, call);
}

void WorkerProcess::received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) {
  if (member_.owns(peer)) return member_.received(peer, head, network_.now);
  Link* link = link_of(peer);
  if (!link) return;
  const FromServer message = decode_from_server(head, payload.size());
  if (const auto* welcome = std::get_if<Welcome>(&message)) return welcomed(*link, *welcome);
  const auto& reply = std::get<Reply>(message);
  if (reply.number == 0) {
    CAPTURE(reply.text);
    CHECK(reply.clock == 1);
    transport_.close(peer);
    return drop(*link);
  }
  const auto found = link->calls.find(reply.number);
  if (found == link->calls.end()) return;
  Call& call = found->second;
  CHECK(reply.offset == call.value.size());
  call.value.insert(call.value.end(), payload.begin(), payload.end());
  if (reply.kind == Kind::value && call.value.size() < reply.bytes) return;
  const Call mine = std::move(call);
  link->calls.erase(found);
  mine.done(reply, mine.value);
}

}  // namespace heddle::kv_detail::sim
