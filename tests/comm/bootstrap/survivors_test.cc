// How survivors agree, with messages that arrive late or never and ranks that die at any point. Also tests
// Communicator::shrink and grow.
#include "bootstrap/survivors.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <latch>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>

#include "files.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

struct Dead {};

// Ranks on threads, of which one runs at a time, in an order drawn from the seed. A broadcast reaches the
// other ranks one by one and late. If the sender dies meanwhile, some of them never get it. Each rank notices
// a death at a different time, and by then has all messages that the dead rank has sent it.
class World {
 public:
  World(int size, unsigned seed)
      : size_(size), turns_(at(size)), random_(seed), mail_(at(size)), runs_(at(size), true) {
    for (auto& to : mail_) to.resize(at(size));
    for (int rank = 0; rank < size; ++rank) {
      // Rank 0 lives. Each other rank lives with probability 1/3, and otherwise dies after up to 60 steps.
      dies_at_.push_back(rank == 0 || random_() % 3 == 0 ? -1 : static_cast<int>(random_() % 60));
    }
    turn_ = static_cast<int>(random_() % static_cast<unsigned>(size));
  }
  int size() const { return size_; }

  // Returns when it is the rank's turn. Until the rank calls step() again, only its code runs.
  void step(int rank) {
    std::unique_lock lock(mutex_);
    if (turn_ == rank && begun_) pass_on();
    turns_[at(rank)].wait(lock, [&] { return turn_ == rank; });
    begun_ = true;
    if (dies_at_[at(rank)] < 0 || dies_at_[at(rank)]-- > 0) return;
    end(rank);
    throw Dead();
  }
  void leave(int rank) {
    std::unique_lock lock(mutex_);
    end(rank);
  }

  // send() and receive() may be called only by the rank whose turn it is.
  void send(int from, int to, const std::string& message) { mail_[at(to)][at(from)].push_back(message); }
  void receive(int from, int to, bool all, std::string& newest) {
    auto& waiting = mail_[at(to)][at(from)];
    for (auto some = all ? waiting.size() : random_() % (waiting.size() + 1); some > 0; --some) {
      newest = std::move(waiting.front());
      waiting.pop_front();
    }
  }
  bool is_found_dead(int rank) { return !runs_[at(rank)] && random_() % 3 == 0; }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  void end(int rank) {
    runs_[at(rank)] = false;
    pass_on();
  }
  void pass_on() {
    std::vector<int> candidates;
    for (int rank = 0; rank < size_; ++rank) {
      if (runs_[at(rank)]) candidates.push_back(rank);
    }
    if (!candidates.empty()) turn_ = candidates[random_() % candidates.size()];
    begun_ = false;
    turns_[at(turn_)].notify_one();
  }

  const int size_;
  std::mutex mutex_;  // guards turn_; all other members are used only by the rank whose turn it is
  std::vector<std::condition_variable> turns_;  // indexed by rank
  int turn_ = 0;
  bool begun_ = false;
  std::mt19937 random_;
  std::vector<std::vector<std::deque<std::string>>> mail_;  // messages by [to][from]
  std::vector<char> runs_;
  std::vector<int> dies_at_;  // for each rank the number of steps until it dies; -1: the rank lives
};

class WorldChannel final : public ControlChannel {
 public:
  WorldChannel(World& world, int rank)
      : world_(world), rank_(rank), newest_(static_cast<std::size_t>(world.size())), dead_(newest_.size()) {}
  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  bool is_alive(int rank) override {
    char& dead = dead_[static_cast<std::size_t>(rank)];
    dead = dead || world_.is_found_dead(rank);
    return !dead;
  }
  void broadcast(const std::string& message) override {
    for (int to = 0; to < size(); ++to) {
      world_.step(rank_);
      if (to != rank_) world_.send(rank_, to, message);
    }
  }
  std::string latest_message(int rank) override {
    std::string& newest = newest_[static_cast<std::size_t>(rank)];
    world_.receive(rank, rank_, dead_[static_cast<std::size_t>(rank)], newest);
    return newest;
  }
  void wait() override { world_.step(rank_); }

 private:
  World& world_;
  const int rank_;
  std::vector<std::string> newest_;
  std::vector<char> dead_;
};

struct End {
  bool alive = false;
  std::string set;  // concatenated names of the survivors on which the rank has agreed
};

// Exchanges names among the survivors. Returns the names, concatenated.
std::string make_names(Survivors& survivors, const std::string& name) {
  std::string made;
  survivors.make([&] {
    made.clear();
    for (const std::string& other : survivors.all_gather(name)) made += other;
    for (const std::string& other : survivors.all_gather(made)) {
      if (other != made) throw CommError("the others have other names");
    }
  });
  return made;
}

std::vector<End> run_world(int size, unsigned seed, Outcomes& errors) {
  World world(size, seed);
  std::vector<End> ends(static_cast<std::size_t>(size));
  errors = on_threads(size, [&](int rank) {
    End& end = ends[static_cast<std::size_t>(rank)];
    try {
      world.step(rank);
      WorldChannel channel(world, rank);
      Survivors survivors(channel, 10s, 1);
      end.set = make_names(survivors, std::string(1, static_cast<char>('a' + rank)));
      end.alive = true;
    } catch (const Dead&) {
      return;
    } catch (...) {
      world.leave(rank);
      throw;
    }
    world.leave(rank);
  });
  return ends;
}

NDArray ones(std::int64_t count) { return full({count}, 1); }

// The number of the communicator's ranks, counted by an all_reduce.
float count_of(Communicator& comm) {
  NDArray data = ones(100);
  comm.all_reduce(data);
  return data.to_vector<float>()[0];
}

LaunchEnvironment job_of(const std::string& place, int rank, int size) {
  LaunchEnvironment job;
  job.rank = job.local_rank = rank;
  job.size = job.local_size = size;
  job.rendezvous = "unix:" + place;
  return job;
}

}  // namespace

TEST_CASE("whoever dies when, those that are left have made the same with the same ranks") {
  int deaths = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const int size = 2 + static_cast<int>(seed % 5);
    Outcomes errors;
    const std::vector<End> ends = run_world(size, seed, errors);
    for (const std::exception_ptr& error : errors) CHECK(text_of(error) == "");
    std::string set;
    for (int rank = 0; rank < size; ++rank) {
      const End& end = ends[static_cast<std::size_t>(rank)];
      deaths += !end.alive;
      if (!end.alive) continue;
      if (set.empty()) set = end.set;
      CHECK(end.set == set);  // all agree on one set, which may include a rank that died after the agreement
      CHECK(end.set.find(static_cast<char>('a' + rank)) != std::string::npos);
    }
  }
  CHECK(deaths > 200);
}

TEST_CASE("messages of survivors are encoded and decoded, and invalid bytes are refused") {
  SurvivorMessage message{
      {true, false, true, true, true, true, true, true, false, true}, 7, Phase::failed, "text", "be"};
  const std::string bytes = encode(message);
  SurvivorMessage same;
  REQUIRE(decode(bytes, 10, same));
  CHECK(encode(same) == bytes);
  CHECK(same.alive == message.alive);
  CHECK(same.previous_text == "be");
  CHECK_FALSE(decode(bytes, 9, same));
  std::mt19937 random(5);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode(bytes.substr(0, size), 10, same));
  for (int i = 0; i < 10'000; ++i) {
    std::string hostile = bytes;
    for (auto n = 1 + random() % 4; n > 0; --n)
      hostile[random() % hostile.size()] = static_cast<char>(random());
    if (decode(hostile, 10, same)) CHECK(encode(same).size() == hostile.size());
  }
}

TEST_CASE("those that are left go on without the ranks that leave, on every back end, again and again") {
  for (const char* backend : {"shm", "tcp"}) {
    CAPTURE(std::string(backend));
    run_job(backend, 5, {}, [](Communicator& whole) {
      if (whole.rank() == 2) return;
      CHECK_THROWS_AS((count_of(whole), count_of(whole)), CommError);
      const auto four = whole.shrink();
      REQUIRE(four->size() == 4);
      REQUIRE(four->rank() == whole.rank() - (whole.rank() > 2));
      CHECK(count_of(*four) == 4);
      CHECK_THROWS_WITH_AS(whole.shrink(), doctest::Contains("has been shrunk already"), CommError);
      if (four->rank() < 2) return;
      CHECK_THROWS_AS((count_of(*four), count_of(*four)), CommError);
      const auto two = four->shrink();
      CHECK(count_of(*two) == 2);
    });
  }
}

TEST_CASE("who lives, and does not come to shrink, is named") {
  for (const char* backend : {"shm", "tcp"}) {
    CAPTURE(std::string(backend));
    std::mutex mutex;
    std::condition_variable change;
    bool over = false;
    run_job(backend, 2, {.timeout = 1000ms}, [&](Communicator& comm) {
      std::unique_lock lock(mutex);
      if (comm.rank() == 1) return change.wait(lock, [&] { return over; });
      CHECK_THROWS_WITH_AS(comm.shrink(), doctest::Contains("have not called shrink: 1"), CommError);
      over = true;
      change.notify_all();
    });
  }
}

TEST_CASE("of two threads of a rank that shrink one communicator, one is refused") {
  for (const char* backend : {"shm", "tcp"}) {
    CAPTURE(std::string(backend));
    std::latch refused(1);
    run_job(backend, 2, {}, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        refused.wait();
        CHECK(count_of(*comm.shrink()) == 2);
        return;
      }
      std::atomic<int> made = 0;
      const Outcomes outcomes = on_threads(2, [&](int) {
        try {
          const auto whole = comm.shrink();
          CHECK(count_of(*whole) == 2);
          ++made;
        } catch (const CommError& error) {
          CHECK(std::string(error.what()).find("another thread is shrinking") != std::string::npos);
          refused.count_down();
        }
      });
      CHECK(made == 1);
    });
  }
}

TEST_CASE("a rank that has gone comes back, and more than there were") {
  for (const char* backend : {"shm", "tcp"}) {
    CAPTURE(std::string(backend));
    const TemporaryDirectory directory;
    const std::string place = directory.file("job");
    const CommOptions options{.backend = backend};
    std::latch three_again(3);
    const Outcomes outcomes = on_threads(4, [&](int rank) {
      std::shared_ptr<Communicator> comm;
      if (rank < 3) {
        comm = Communicator::create(options, job_of(place, rank, 3));
        CHECK(count_of(*comm) == 3);
        if (rank == 1) {
          comm.reset();
          comm = Communicator::create(options, job_of(place, rank, 3));
        } else {
          CHECK_THROWS_AS((count_of(*comm), count_of(*comm)), CommError);
          comm = comm->grow();
        }
        REQUIRE(comm->rank() == rank);
        CHECK(count_of(*comm) == 3);
        three_again.arrive_and_wait();  // waits, since grow() aborts calls that another rank has not finished
        comm = comm->grow(4, 20s);
      } else {
        three_again.wait();
        comm = Communicator::create({.backend = backend, .timeout = 20s}, job_of(place, rank, 4));
      }
      CHECK(count_of(*comm) == 4);
    });
    for (const std::exception_ptr& outcome : outcomes) CHECK(text_of(outcome) == "");
  }
}

TEST_CASE("who does not come back is named, and the ranks that have called may call again") {
  run_job("shm", 3, {}, [](Communicator& comm) {
    if (comm.rank() == 1) return;
    CHECK_THROWS_WITH_AS(comm.grow(0, 1s), doctest::Contains("rank 1 of 3 has not come to"), CommError);
    CHECK_THROWS_AS(comm.grow(0, 100ms), CommError);
    const auto rest = comm.shrink();
    CHECK(count_of(*rest) == 2);
  });
}

TEST_CASE("only the ranks of a job can meet again") {
  run_local(2, {}, [](Communicator& comm) {
    CHECK_THROWS_WITH_AS(comm.grow(), doctest::Contains("only ranks of create()"), InvalidArgument);
  });
  run_job("shm", 2, {}, [](Communicator& comm) {
    CHECK_THROWS_AS(comm.split(0)->grow(), InvalidArgument);
    if (comm.rank() == 1)
      CHECK_THROWS_WITH_AS(comm.grow(1), doctest::Contains("want more than this process's rank"),
                           InvalidArgument);
    CHECK_THROWS_AS(comm.grow(0, -1ms), InvalidArgument);
    CHECK(count_of(comm) == 2);  // the communicator still works after the refused calls
  });
  const auto alone = Communicator::create({}, LaunchEnvironment{});
  CHECK_THROWS_WITH_AS(alone->grow(2), doctest::Contains("HEDDLE_RENDEZVOUS"), InvalidArgument);
  CHECK(count_of(*alone->grow()) == 1);
}
