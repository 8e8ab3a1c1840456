// Which scheduler leads, and that a former leader cannot change anything, on a store in memory.
#include "membership/leadership.h"

#include <string>

#include <doctest/doctest.h>

#include "membership/elected_state_store.h"
#include "membership/leading_scheduler.h"
#include "membership/shared_store.h"
#include "message_of.h"
#include "wire/membership.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

struct Contender {
  Contender(SharedStore& in, std::string name)
      : store(in),
        link(in, [this] { return std::exchange(fate, Fate::done); }),
        part(link, "/c", std::move(name), 3s, [this] { return store.now; }) {}
  SharedStore& store;
  Fate fate = Fate::done;  // what happens to the next request to the store
  StoreLink link;
  Leadership part;
};

struct Keeper {
  explicit Keeper(SharedStore& store, std::uint32_t servers = 2)
      : link(store, [this] { return fate; }),
        keeper(
            link, {.prefix = "/c", .address = "a:1", .servers = servers}, [&store] { return store.now; },
            [] {}) {}
  Fate fate = Fate::done;
  StoreLink link;
  ElectedStateStore keeper;
};

// A state store whose answers the test sets.
struct ToldKeeper final : StateStore {
  std::uint64_t term(Time) override { return now; }
  std::optional<SchedulerState> state() override { return std::nullopt; }
  std::uint64_t save(std::uint64_t, const SchedulerState&) override { return ++saves; }
  std::uint64_t saved() override { return done; }
  std::uint64_t now = 1, saves = 0, done = 0;
};

// The state of a cluster of two servers.
SchedulerState some_state() {
  SchedulerState state{.cluster = 1, .servers = 2};
  state.views.version = 1;
  state.views.shards.resize(2);
  state.synced.resize(2);
  return state;
}

std::string state_in(SharedStore& store) {
  const auto entry = store.get(state_key("/c"));
  return entry ? entry->value : "";
}

}  // namespace

TEST_CASE("leadership: one leads, the next one when its lease has ended, and reads what was saved") {
  SharedStore store;
  Contender a(store, "a:1"), b(store, "b:1");
  CHECK(a.part.campaign());
  CHECK_FALSE(a.part.load());
  CHECK(a.part.save("first"));
  CHECK_FALSE(b.part.campaign());
  CHECK(b.part.leader() == "a:1");
  store.now += 2s;
  CHECK(a.part.renew());
  CHECK(a.part.valid_until() == store.now + 3s);
  store.now += 2s;
  CHECK_FALSE(b.part.campaign());
  store.now += 2s;
  CHECK(b.part.campaign());
  CHECK(b.part.load() == "first");
  CHECK_FALSE(a.part.renew());
}

TEST_CASE("leadership: a save of a former leader is refused, also one that arrives late") {
  SharedStore store;
  Contender a(store, "a:1"), b(store, "b:1");
  REQUIRE(a.part.campaign());
  a.part.load();
  CHECK(a.part.save("1"));
  a.fate = Fate::late;
  CHECK_THROWS_AS(a.part.save("2"), Error);
  store.now += 4s;
  REQUIRE(b.part.campaign());
  CHECK(b.part.load() == "1");
  store.late.front()();
  CHECK(state_in(store) == "1");
  CHECK_FALSE(a.part.save("2"));
  CHECK(b.part.save("3"));
  CHECK_FALSE(a.part.save("4"));
  CHECK(state_in(store) == "3");
}

TEST_CASE("leadership: of two saves of one leader the older one never follows the newer one") {
  SharedStore store;
  Contender a(store, "a:1");
  REQUIRE(a.part.campaign());
  a.part.load();
  a.fate = Fate::late;
  CHECK_THROWS_AS(a.part.save("old"), Error);
  SUBCASE("it arrives after the newer one") {
    CHECK(a.part.save("new"));
    store.late.front()();
  }
  SUBCASE("it arrives before the newer one") {
    store.late.front()();
    CHECK(a.part.save("new"));
  }
  CHECK(state_in(store) == "new");
}

TEST_CASE("leadership: what was done without an answer is found out") {
  SharedStore store;
  Contender a(store, "a:1");
  REQUIRE_FALSE(store.get(leader_key("/c")));
  int asked = 0;
  StoreLink third_unanswered(
      // A campaign calls get, grant and put_if, so the put_if stays unanswered.
      store, [&] { return ++asked == 3 ? Fate::unanswered : Fate::done; });
  Leadership part(third_unanswered, "/c", "b:1", 3s, [&] { return store.now; });
  CHECK_THROWS_AS(part.campaign(), Error);
  CHECK_FALSE(a.part.campaign());
  CHECK(part.campaign());
  part.load();
  Contender other(store, "c:1");
  CHECK(part.save("1"));
  asked = 2;
  CHECK_THROWS_AS(part.save("2"), Error);
  CHECK(state_in(store) == "2");
  CHECK(part.save("2"));
  asked = 2;
  CHECK_THROWS_AS(part.save("3"), Error);
  CHECK(part.save("4"));
  CHECK(state_in(store) == "4");
  part.resign();
  CHECK(other.part.campaign());
  CHECK(other.part.load() == "4");
}

TEST_CASE("elected state store: a term ends with its lease, also while the store does not answer") {
  SharedStore store;
  Keeper one(store);
  one.keeper.step();
  CHECK(one.keeper.term(store.now) == 1);
  CHECK(one.keeper.save(1, some_state()) == 1);
  CHECK(one.keeper.saved() == 0);
  one.keeper.step();
  CHECK(one.keeper.saved() == 1);
  one.fate = Fate::lost;
  CHECK(one.keeper.save(1, some_state()) == 2);
  one.keeper.step();
  CHECK(one.keeper.term(store.now + 2999ms) == 1);
  CHECK(one.keeper.term(store.now + 3s) == 0);
  CHECK(one.keeper.term(store.now) == 0);  // at an earlier time: a term that has ended stays ended
  one.fate = Fate::done;
  one.keeper.step();
  CHECK(one.keeper.saved() == 1);
  store.now += 3s;
  one.keeper.step();
  CHECK(one.keeper.term(store.now) == 2);
  CHECK(one.keeper.state() == some_state());
  std::string names;
  for (const ServerEvent& event : one.keeper.take_events()) names += event.name + " ";
  CHECK(names == "became_leader etcd_unreachable lost_leadership etcd_reached became_leader ");
}

TEST_CASE("elected state store: a state that is of no use is named, also by a scheduler that stands by") {
  SharedStore store;
  Keeper first(store);
  first.keeper.step();
  first.keeper.save(first.keeper.term(store.now), some_state());
  first.keeper.step();
  Keeper other(store, 3);
  other.keeper.step();
  CHECK_FALSE(other.keeper.is_good());
  CHECK(message_of<Error>([&] { other.keeper.term(store.now); }) ==
        "etcd's key /c/state is of 2 servers, not of 3; another cluster needs another prefix");
  store.put_if({}, "/c/state", "nonsense", 0);
  Keeper third(store);
  third.keeper.step();
  CHECK(message_of<Error>([&] {
          third.keeper.term(store.now);
        }).starts_with("etcd's key /c/state is damaged: "));
}

TEST_CASE("leading scheduler: what tells of a save waits for it, and is forgotten with the term") {
  const StoreSchedulerOptions options{.servers = 1};
  ToldKeeper keeper;
  LeadingScheduler scheduler(options, [] { return 7; });
  const SharedStore::Time now{1h};
  const auto registration = [&](Peer peer, Role role) {
    scheduler.core()->connected(peer);
    scheduler.core()->received(
        peer, encode(Registration{.role = role, .incarnation = peer, .job = "job", .address = "a:1"}), now);
  };
  CHECK(scheduler.follow(keeper, now).empty());
  registration(1, Role::worker);
  // The worker gets its answer at once, since without views there is nothing to save.
  CHECK(scheduler.deliver(keeper).size() == 1);
  registration(2, Role::server);
  CHECK(scheduler.deliver(keeper).empty());
  CHECK(keeper.saves == 1);
  registration(3, Role::worker);
  // The worker's answer waits, since it contains views that are not saved yet.
  CHECK(scheduler.deliver(keeper).empty());
  SUBCASE("it is saved") {
    keeper.done = 1;
    CHECK(scheduler.deliver(keeper).size() == 2);
  }
  SUBCASE("the term ends") {
    keeper.now = 0;
    CHECK(scheduler.follow(keeper, now).size() == 3);
    CHECK_FALSE(scheduler.core());
    CHECK(scheduler.deliver(keeper).empty());
    keeper.now = 2;
    scheduler.follow(keeper, now);
    registration(4, Role::worker);
    // The worker's answer does not wait for what the former term has not saved.
    CHECK(scheduler.deliver(keeper).size() == 1);
  }
}
