// MPI has no file descriptor to sleep on and goes on only while somebody calls it, so a thread of the process calls it
// once in a while: for ranks that sleep, and for what was sent while this one computes. And MPI cannot be told to let go of
// memory, neither when a peer has died nor when a call has failed: it gets pieces of the connection's, never the caller's.
#include "tcp/mpi_wires.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mpi.h>
#include <mutex>
#include <optional>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <heddle/comm_error.h>

#include "tcp/mesh.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A message of MPI: large enough for a fabric's best speed, small enough to be copied within the cache.
constexpr std::size_t kPiece = 128 << 10;
// Of one connection on their way at once, each way.
constexpr std::size_t kPieces = 4;
// Whoever has waited for long need not be woken at once.
constexpr auto kShortestNap = 50us, kLongestNap = 1000us, kIdleNap = 5000us;
constexpr int kNapsToWait = 8;
// At the end of the process, for those that were in a communicator that has failed.
constexpr auto kGoodbye = 2s;

struct Piece {
  std::unique_ptr<std::byte[]> data{};
  MPI_Request request = MPI_REQUEST_NULL;
  std::size_t bytes = 0;
};

enum class State : std::uint8_t { done, on_its_way, broken };

// Of a send or a receive; a receive that is done has the bytes that have come.
State state_of(Piece& piece, bool receives) {
  if (piece.request == MPI_REQUEST_NULL) return State::done;
  int done = 0, bytes = 0;
  MPI_Status status;
  if (MPI_Test(&piece.request, &done, &status) != MPI_SUCCESS) return State::broken;
  if (!done) return State::on_its_way;
  if (receives) {
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    piece.bytes = static_cast<std::size_t>(bytes);
  }
  return State::done;
}

// What the other end of a connection has said on its socket: it says goodbye before it ends, if it can.
enum class Parting : std::uint8_t { none, goodbye, death };

Parting parting_of(const Socket& socket) {
  char word = 0;
  const ssize_t got = recv(socket.fd(), &word, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got > 0) return Parting::goodbye;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Parting::none : Parting::death;
}

class MpiConnection;

// Where the messages go: a communicator of MPI that is nobody else's, so that no receive of the program's takes them.
struct Fabric {
  MPI_Comm comm = MPI_COMM_NULL;
  std::string name = "none";
  std::vector<int> members{};  // their ranks in MPI_COMM_WORLD
};

// MPI as this process has it.
class World {
 public:
  static World& get() {
    static World& world = *new World;  // never destroyed: communicators may be, after everything else
    return world;
  }

  void start();
  // Collective of those, who have all come. The first one's tag; calls of several threads may cross.
  Fabric make_fabric(const std::vector<int>& members, int tag);
  int new_tag();  // for what one communicator gets
  Fabric latest_fabric();

  int rank() const { return rank_; }
  // Under mutex().
  std::mutex& mutex() { return mutex_; }
  bool over() const { return over_; }
  void add(MpiConnection* connection);
  void remove(MpiConnection* connection) { std::erase(connections_, connection); }
  void bury(Piece&& piece) { dead_.push_back(std::move(piece)); }
  void await_goodbye(std::unique_ptr<Connection> socket) {
    partings_.push_back(std::move(socket));
    all_have_parted();
  }
  void somebody_sleeps() {
    slept_ = Clock::now();
    wake_.notify_one();
  }

 private:
  World() = default;
  bool look();
  bool all_have_parted();
  void stop();
  void run();
  static int before_finalize(MPI_Comm, int, void*, void*);
  static void finalize();

  std::mutex
      mutex_;  // guards all below, and the connections' pieces; nothing but fabric_'s making is done without it
  std::condition_variable wake_;
  std::vector<MpiConnection*> connections_;
  std::list<Piece> dead_;  // of connections that are gone: MPI still has them
  std::vector<std::unique_ptr<Connection>>
      partings_;       // of communicators that have failed: the other end may be dead
  bool lost_ = false;  // it was
  Clock::time_point slept_{};
  Fabric fabric_;  // the latest
  int rank_ = 0, size_ = 1, process_ = 0, next_tag_ = 1, most_tag_ = 32767;
  bool started_ = false, over_ = false;
  std::thread thread_;
};

class MpiConnection final : public Connection {
 public:
  // Each end has a tag for what comes to it, which is that of no other communicator there.
  MpiConnection(std::unique_ptr<Connection> socket, MPI_Comm comm, int peer, int tag, int peer_tag)
      : socket_(std::move(socket)), comm_(comm), peer_(peer), tag_(tag), peer_tag_(peer_tag) {
    const std::lock_guard lock(world_.mutex());
    world_.add(this);
  }
  ~MpiConnection() override;

  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  Step receive(std::span<std::byte> head, std::span<std::byte> body) override;
  std::optional<pollfd> before_sleep(bool to_send, bool to_receive) override;
  const Socket& socket() const override { return socket_->socket(); }
  void finish_sending() override;
  bool all_delivered() override;

  // Under the world's mutex, by its thread: wakes the owner if that can go on. True if there is something to wait for.
  bool look();

 private:
  // Oldest first. Those from `first` on are with MPI; the owner alone touches the data of the others.
  struct Queue {
    std::array<Piece, kPieces> pieces{};
    std::size_t first = 0, count = 0;
    Piece& at(std::size_t place) { return pieces[(first + place) % kPieces]; }
    void drop() { first = (first + 1) % kPieces, --count; }
  };
  // All under the world's mutex.
  bool room();
  bool arrived();
  void post_receives();
  void drop_arrived();
  void post_send(Piece& piece);
  void check(int result) { broken_ |= result != MPI_SUCCESS; }
  bool dead() const { return broken_ || world_.over(); }

  Piece* piece_to_fill();
  Piece* piece_to_read();

  World& world_ = World::get();
  std::unique_ptr<Connection> socket_;
  const MPI_Comm comm_;
  const int peer_, tag_, peer_tag_;
  Queue out_, in_;
  Piece end_;             // of no bytes: nothing more comes
  std::size_t read_ = 0;  // bytes of the oldest piece of in_
  bool ended_ = false, broken_ = false;
  bool failed_ = true;                             // nobody has asked whether all is delivered
  bool wants_room_ = false, wants_bytes_ = false;  // the owner sleeps until there are
  Alarm alarm_;
};

void World::add(MpiConnection* connection) {
  connections_.push_back(connection);
  if (!thread_.joinable() && !over_) thread_ = std::thread([this] { run(); });
  wake_.notify_one();
}

void World::start() {
  const std::lock_guard lock(mutex_);
  if (over_)
    throw CommError("MPI has been finalized: no communicator of the backend 'mpi' can be made any more");
  if (started_) return;
  int there = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&there);
  if (there) {
    MPI_Query_thread(&threads);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    process_ = getpid();
    std::atexit(finalize);
  }
  if (threads < MPI_THREAD_MULTIPLE) {
    throw InvalidArgument(
        there ? "the communication backend 'mpi' needs MPI_THREAD_MULTIPLE: the program has to ask "
                "MPI_Init_thread for it"
              : "this MPI has no MPI_THREAD_MULTIPLE, which the communication backend 'mpi' needs");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  int known = 0, *most = nullptr, key = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &known);
  if (known) most_tag_ = *most;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, this);
  started_ = true;
}

int World::new_tag() {
  const std::lock_guard lock(mutex_);
  if (next_tag_ > (most_tag_ - size_) / size_) {
    throw CommError("this MPI has no more tags to tell communicators of the backend 'mpi' apart");
  }
  return next_tag_++;
}

Fabric World::latest_fabric() {
  const std::lock_guard lock(mutex_);
  return fabric_;
}

// Without the mutex: the others may wait for what this process does elsewhere.
Fabric World::make_fabric(const std::vector<int>& members, int tag) {
  Fabric fabric{MPI_COMM_NULL, std::to_string(members[0]) + "." + std::to_string(tag), members};
  MPI_Group all, group;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group);
  const int own_tag = tag * size_ + members[0];  // nobody else's, whoever makes another one meanwhile
  const int result = MPI_Comm_create_group(MPI_COMM_WORLD, group, own_tag, &fabric.comm);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  if (result != MPI_SUCCESS) throw CommError("MPI_Comm_create_group failed");
  MPI_Comm_set_errhandler(fabric.comm, MPI_ERRORS_RETURN);
  const std::lock_guard lock(mutex_);
  return fabric_ = fabric;
}

void World::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (connections_.empty() && dead_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto longest = look() ? kLongestNap : kIdleNap;
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - slept_);
    wake_.wait_for(lock, std::clamp<std::chrono::microseconds>(waited / kNapsToWait, kShortestNap, longest));
  }
}

bool World::look() {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, fabric_.comm, &there,
             MPI_STATUS_IGNORE);  // goes on, whatever is under way
  bool busy = false;
  for (MpiConnection* connection : connections_) busy |= connection->look();
  std::erase_if(dead_, [](Piece& piece) { return state_of(piece, true) != State::on_its_way; });
  return busy;
}

void World::stop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (MpiConnection* connection : connections_) connection->look();  // who sleeps there is not to sleep on
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// MPI_Finalize, whoever calls it, begins with this.
int World::before_finalize(MPI_Comm, int, void*, void*) {
  get().stop();
  return MPI_SUCCESS;
}

// MPI_Finalize waits for all processes of the job, also for those that have died or stand still; then it is left out.
void World::finalize() {
  World& world = get();
  if (getpid() != world.process_) return;
  int over = 0;
  MPI_Finalized(&over);
  if (over) return;
  for (const auto end = Clock::now() + kGoodbye;; std::this_thread::sleep_for(1ms)) {
    std::unique_lock lock(world.mutex_);
    for (const MpiConnection* connection : world.connections_)
      world.lost_ |= parting_of(connection->socket()) == Parting::death;
    const bool parted = world.all_have_parted();
    if (!world.lost_ && !parted && Clock::now() < end) continue;
    lock.unlock();
    return parted && !world.lost_ ? (void)MPI_Finalize() : world.stop();
  }
}

// As far as it matters. What has parted is forgotten.
bool World::all_have_parted() {
  std::erase_if(partings_, [this](const std::unique_ptr<Connection>& connection) {
    const Parting parting = parting_of(connection->socket());
    lost_ |= parting == Parting::death;
    return parting != Parting::none;
  });
  return partings_.empty();
}

MpiConnection::~MpiConnection() {
  const std::lock_guard lock(world_.mutex());
  world_.remove(this);
  for (Piece& piece : in_.pieces) {
    if (!world_.over() && piece.request != MPI_REQUEST_NULL) MPI_Cancel(&piece.request);
  }
  for (Queue* queue : {&in_, &out_}) {
    for (Piece& piece : queue->pieces) {
      if (piece.request != MPI_REQUEST_NULL) world_.bury(std::move(piece));
    }
  }
  if (end_.request != MPI_REQUEST_NULL) world_.bury(std::move(end_));
  if (failed_ && !world_.over()) world_.await_goodbye(std::move(socket_));
}

bool MpiConnection::room() {
  while (out_.count > 0 && !dead()) {
    const State state = state_of(out_.at(0), false);
    if (state == State::on_its_way) break;
    if (state == State::broken) broken_ = true;
    if (state == State::done) out_.drop();
  }
  return out_.count < kPieces;
}

bool MpiConnection::arrived() {
  if (dead()) return false;
  post_receives();
  if (dead()) return false;
  const State state = state_of(in_.at(0), true);
  broken_ |= state == State::broken;
  return state == State::done;
}

void MpiConnection::post_receives() {
  while (in_.count < kPieces && !ended_ && !dead()) {
    Piece& piece = in_.at(in_.count++);
    if (!piece.data) piece.data = std::make_unique_for_overwrite<std::byte[]>(kPiece);
    check(
        MPI_Irecv(piece.data.get(), static_cast<int>(kPiece), MPI_BYTE, peer_, tag_, comm_, &piece.request));
  }
}

void MpiConnection::drop_arrived() {
  read_ = 0;
  in_.drop();
}

void MpiConnection::post_send(Piece& piece) {
  ++out_.count;
  check(MPI_Isend(piece.data.get(), static_cast<int>(piece.bytes), MPI_BYTE, peer_, peer_tag_, comm_,
                  &piece.request));
}

Piece* MpiConnection::piece_to_fill() {
  const std::lock_guard lock(world_.mutex());
  wants_room_ = false;
  return !dead() && room() && !dead() ? &out_.at(out_.count) : nullptr;
}

Piece* MpiConnection::piece_to_read() {
  const std::lock_guard lock(world_.mutex());
  wants_bytes_ = false;
  if (ended_ || !arrived()) return nullptr;
  ended_ = in_.at(0).bytes == 0;
  return ended_ ? nullptr : &in_.at(0);
}

std::size_t copy(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t bytes = std::min(from.size(), to.size());
  if (bytes > 0) std::memcpy(to.data(), from.data(), bytes);
  return bytes;
}

Step MpiConnection::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  std::size_t moved = 0;
  while (moved < head.size() + body.size()) {
    Piece* piece = piece_to_fill();
    if (!piece) break;
    if (!piece->data) piece->data = std::make_unique_for_overwrite<std::byte[]>(kPiece);
    const std::span<std::byte> place(piece->data.get(), kPiece);
    const std::size_t first = moved < head.size() ? copy(head.subspan(moved), place) : 0;
    const std::size_t second = copy(body.subspan(moved + first - head.size()), place.subspan(first));
    piece->bytes = first + second;
    const std::lock_guard lock(world_.mutex());
    if (dead()) break;
    moved += piece->bytes;
    post_send(*piece);
  }
  if (moved > 0) return {Step::Outcome::moved, moved};
  const std::lock_guard lock(world_.mutex());
  return {dead() ? Step::Outcome::closed : Step::Outcome::would_block, 0};
}

Step MpiConnection::receive(std::span<std::byte> head, std::span<std::byte> body) {
  std::size_t moved = 0;
  while (moved < head.size() + body.size()) {
    const Piece* piece = piece_to_read();
    if (!piece) break;
    const auto fresh = std::span<const std::byte>(piece->data.get(), piece->bytes).subspan(read_);
    const std::size_t first = moved < head.size() ? copy(fresh, head.subspan(moved)) : 0;
    const std::size_t in_head = std::min(moved + first, head.size());
    const std::size_t second = copy(fresh.subspan(first), body.subspan(moved + first - in_head));
    moved += first + second;
    read_ += first + second;
    const std::lock_guard lock(world_.mutex());
    if (read_ == piece->bytes) drop_arrived();
  }
  if (moved > 0) return {Step::Outcome::moved, moved};
  const std::lock_guard lock(world_.mutex());
  return {ended_ || dead() ? Step::Outcome::closed : Step::Outcome::would_block, 0};
}

std::optional<pollfd> MpiConnection::before_sleep(bool to_send, bool to_receive) {
  alarm_.quiet();
  const std::lock_guard lock(world_.mutex());
  if ((to_send && room()) || (to_receive && (ended_ || arrived())) || dead()) return std::nullopt;
  wants_room_ = to_send;
  wants_bytes_ = to_receive;
  world_.somebody_sleeps();
  return pollfd{alarm_.fd(), POLLIN, 0};
}

bool MpiConnection::look() {
  const bool has_room = room(), has_bytes = wants_bytes_ && arrived();
  if (has_bytes || (wants_room_ && has_room) || dead()) {
    if (wants_room_ || wants_bytes_) alarm_.ring();
    wants_room_ = wants_bytes_ = false;
  }
  return wants_room_ || wants_bytes_ || out_.count > 0;
}

void MpiConnection::finish_sending() {
  const std::lock_guard lock(world_.mutex());
  const char goodbye = 1;
  [[maybe_unused]] const auto sent = ::send(socket().fd(), &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!dead()) check(MPI_Isend(nullptr, 0, MPI_BYTE, peer_, peer_tag_, comm_, &end_.request));
}

bool MpiConnection::all_delivered() {
  const std::lock_guard lock(world_.mutex());
  failed_ = false;
  if (dead()) return true;
  while (!ended_ && arrived()) {
    ended_ = in_.at(0).bytes == 0;
    drop_arrived();
  }
  room();
  const bool on_their_way = out_.count > 0 || state_of(end_, false) == State::on_its_way;
  return dead() || !on_their_way || parting_of(socket()) != Parting::none;
}

// What a rank says of itself.
struct PeerInfo {
  int rank = 0, tag = 0;
  std::string fabric{};
  std::string to_string() const { return std::to_string(rank) + " " + std::to_string(tag) + " " + fabric; }
  static PeerInfo from(const std::string& text) {
    PeerInfo card;
    std::istringstream(text) >> card.rank >> card.tag >> card.fabric;
    return card;
  }
};

// Started without mpirun, each process is alone in a world of its own, of which it is rank 0.
void check_world(const std::vector<int>& members) {
  for (std::size_t later = 1; later < members.size(); ++later) {
    const auto other =
        std::find(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(later), members[later]);
    if (other - members.begin() == static_cast<std::ptrdiff_t>(later)) continue;
    throw CommError(
        "rank " + std::to_string(other - members.begin()) + " and rank " + std::to_string(later) +
        " are both rank " + std::to_string(members[later]) +
        " of an MPI_COMM_WORLD: the backend 'mpi' needs all ranks in one, as mpirun and srun make it");
  }
}

void lay(Rendezvous& rendezvous, Mesh& mesh) {
  World& world = World::get();
  Fabric fabric = world.latest_fabric();
  const PeerInfo mine{world.rank(), world.new_tag(), fabric.name};
  std::vector<PeerInfo> cards;
  std::vector<int> members;
  for (const std::string& text : rendezvous.all_gather(mine.to_string())) {
    cards.push_back(PeerInfo::from(text));
    members.push_back(cards.back().rank);
  }
  check_world(members);
  const auto has_this = [&](const PeerInfo& card) { return card.fabric == mine.fabric; };
  const bool common = mine.fabric != Fabric().name && std::all_of(cards.begin(), cards.end(), has_this);
  if (!common) fabric = world.make_fabric(members, cards[0].tag);
  for (int other = 0; other < rendezvous.size(); ++other) {
    if (other == mesh.rank) continue;
    const PeerInfo& card = cards[static_cast<std::size_t>(other)];
    const auto at = std::find(fabric.members.begin(), fabric.members.end(), card.rank);
    const auto peer = static_cast<int>(at - fabric.members.begin());
    auto& data = mesh.links[static_cast<std::size_t>(other)].data;
    data = std::make_unique<MpiConnection>(std::move(data), fabric.comm, peer, mine.tag, card.tag);
  }
}

}  // namespace

Wires mpi_wires() {
  World::get().start();
  return lay;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data());
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace heddle::comm_detail
