// Data connections over MPI. MPI has no file descriptor to sleep on and makes progress only inside its functions, so a
// progress thread calls it from time to time, for connections whose owner sleeps and for messages that are sent while
// the owner computes. MPI cannot release a buffer after a peer has died or a call has failed, so messages are copied
// through buffers that belong to the connections, never to the caller.
#include "mpi/mpi_connections.h"

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

// The largest MPI message: enough for the full bandwidth of a network, and small enough to be copied within the cache.
constexpr std::size_t kPiece = 128 << 10;
// Messages of one connection that are in transit at once, in each direction.
constexpr std::size_t kPieces = 4;
// How long the progress thread sleeps: a fraction of the time that a connection's owner has slept, within these limits.
constexpr auto kShortestNap = 50us, kLongestNap = 1000us, kIdleNap = 5000us;
constexpr int kNapFraction = 8;
// How long the process waits at its end for the peers of communicators that have failed.
constexpr auto kFinalizeTimeout = 2s;

struct Piece {
  std::unique_ptr<std::byte[]> data{};
  MPI_Request request = MPI_REQUEST_NULL;
  std::size_t bytes = 0;
};

enum class State : std::uint8_t { done, in_transit, broken };

// Tests a send or a receive. Sets the piece's bytes when a receive is done.
State state_of(Piece& piece, bool receives) {
  if (piece.request == MPI_REQUEST_NULL) return State::done;
  int done = 0, bytes = 0;
  MPI_Status status;
  if (MPI_Test(&piece.request, &done, &status) != MPI_SUCCESS) return State::broken;
  if (!done) return State::in_transit;
  if (receives) {
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    piece.bytes = static_cast<std::size_t>(bytes);
  }
  return State::done;
}

// The peer of a connection as its socket shows it: a rank that leaves sends a byte before it closes the socket.
enum class PeerState : std::uint8_t { connected, left, dead };

PeerState peer_state(const Socket& socket) {
  char byte = 0;
  const ssize_t got = recv(socket.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got > 0) return PeerState::left;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? PeerState::connected : PeerState::dead;
}

class MpiConnection;

// The MPI communicator of the messages. Only this file uses it, so that the program's own receives cannot take them.
struct MpiComm {
  MPI_Comm comm = MPI_COMM_NULL;
  std::string name = "none";
  std::vector<int> members{};  // the members' ranks in MPI_COMM_WORLD
};

// The state of MPI in this process, and its progress thread.
class World {
 public:
  static World& get() {
    static World& world = *new World;  // never destroyed: communicators may be destroyed after static objects
    return world;
  }

  void start();
  // Collective of `members`. `tag` is the first member's; several threads may make communicators at the same time.
  MpiComm make_comm(const std::vector<int>& members, int tag);
  int new_tag();  // a tag for the messages that this rank receives in one communicator
  MpiComm latest_comm();

  int rank() const { return rank_; }
  // The functions below are called with mutex() locked.
  std::mutex& mutex() { return mutex_; }
  bool over() const { return over_; }
  void add(MpiConnection* connection);
  void remove(MpiConnection* connection) { std::erase(connections_, connection); }
  void keep_until_done(Piece&& piece) { orphans_.push_back(std::move(piece)); }
  void await_peer(std::unique_ptr<Connection> socket) {
    awaited_peers_.push_back(std::move(socket));
    all_peers_ended();
  }
  void owner_sleeps() {
    slept_ = Clock::now();
    wake_.notify_one();
  }

 private:
  World() = default;
  bool progress();
  bool all_peers_ended();
  void stop();
  void run();
  static int before_finalize(MPI_Comm, int, void*, void*);
  static void finalize();

  // Guards all below, and the connections' pieces. Not held while a communicator is made, which waits for other ranks.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<MpiConnection*> connections_;
  std::list<Piece> orphans_;  // pieces of destroyed connections; MPI still uses them
  // Sockets of communicators that have failed, whose peers may still leave or be dead.
  std::vector<std::unique_ptr<Connection>> awaited_peers_;
  bool lost_ = false;  // whether a peer has died
  Clock::time_point slept_{};
  MpiComm comm_;  // the latest communicator
  int rank_ = 0, size_ = 1, process_ = 0, next_tag_ = 1, most_tag_ = 32767;
  bool started_ = false, over_ = false;
  std::thread thread_;
};

class MpiConnection final : public Connection {
 public:
  // Messages to this rank have the tag `tag`, those to the peer `peer_tag`; both are unique on the receiver.
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

  // Called by the progress thread, under the world's mutex. Wakes the owner if the owner can go on. True: progress()
  // has to be called again soon.
  bool progress();

 private:
  // The pieces of one direction, oldest first. MPI uses the `count` pieces from `first` on; the data of the
  // other pieces belong to the owner.
  struct Queue {
    std::array<Piece, kPieces> pieces{};
    std::size_t first = 0, count = 0;
    Piece& at(std::size_t place) { return pieces[(first + place) % kPieces]; }
    void drop() { first = (first + 1) % kPieces, --count; }
  };
  // The functions below are called with the world's mutex locked.
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
  Piece end_;             // the empty message that ends the stream
  std::size_t read_ = 0;  // bytes already read of the oldest piece of in_
  bool ended_ = false, broken_ = false;
  bool failed_ = true;                             // true until all_delivered() is called, which does not
                                                   // happen after a failure
  bool wants_room_ = false, wants_bytes_ = false;  // whether the owner sleeps until there is room, or data
  EventFd wake_event_;
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

MpiComm World::latest_comm() {
  const std::lock_guard lock(mutex_);
  return comm_;
}

// Blocks without the mutex, since other ranks may take part only after this process has made progress elsewhere.
MpiComm World::make_comm(const std::vector<int>& members, int tag) {
  MpiComm mpi{MPI_COMM_NULL, std::to_string(members[0]) + "." + std::to_string(tag), members};
  MPI_Group all, group;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group);
  // Differs from the tags of other groups that are made at the same time.
  const int own_tag = tag * size_ + members[0];
  const int result = MPI_Comm_create_group(MPI_COMM_WORLD, group, own_tag, &mpi.comm);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  if (result != MPI_SUCCESS) throw CommError("MPI_Comm_create_group failed");
  MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
  const std::lock_guard lock(mutex_);
  return comm_ = mpi;
}

void World::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (connections_.empty() && orphans_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto longest = progress() ? kLongestNap : kIdleNap;
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - slept_);
    wake_.wait_for(lock, std::clamp<std::chrono::microseconds>(waited / kNapFraction, kShortestNap, longest));
  }
}

bool World::progress() {
  int there = 0;
  // MPI makes progress in this call, whose result is not needed.
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.comm, &there, MPI_STATUS_IGNORE);
  bool busy = false;
  for (MpiConnection* connection : connections_) busy |= connection->progress();
  std::erase_if(orphans_, [](Piece& piece) { return state_of(piece, true) != State::in_transit; });
  return busy;
}

void World::stop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    // Wakes the owners of connections that sleep.
    for (MpiConnection* connection : connections_) connection->progress();
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// The delete callback of an attribute of MPI_COMM_SELF: MPI_Finalize calls it first, also when the program finalizes
// MPI.
int World::before_finalize(MPI_Comm, int, void*, void*) {
  get().stop();
  return MPI_SUCCESS;
}

// MPI_Finalize waits for all processes of the job, even for dead or stopped ones. So MPI_Finalize is not
// called if there are such processes.
void World::finalize() {
  World& world = get();
  if (getpid() != world.process_) return;
  int over = 0;
  MPI_Finalized(&over);
  if (over) return;
  for (const auto end = Clock::now() + kFinalizeTimeout;; std::this_thread::sleep_for(1ms)) {
    std::unique_lock lock(world.mutex_);
    for (const MpiConnection* connection : world.connections_)
      world.lost_ |= peer_state(connection->socket()) == PeerState::dead;
    const bool all_ended = world.all_peers_ended();
    if (!world.lost_ && !all_ended && Clock::now() < end) continue;
    lock.unlock();
    return all_ended && !world.lost_ ? (void)MPI_Finalize() : world.stop();
  }
}

// Removes the sockets whose peer has left or died, and notes in lost_ if one has died. True if none is left.
bool World::all_peers_ended() {
  std::erase_if(awaited_peers_, [this](const std::unique_ptr<Connection>& connection) {
    const PeerState state = peer_state(connection->socket());
    lost_ |= state == PeerState::dead;
    return state != PeerState::connected;
  });
  return awaited_peers_.empty();
}

MpiConnection::~MpiConnection() {
  const std::lock_guard lock(world_.mutex());
  world_.remove(this);
  for (Piece& piece : in_.pieces) {
    if (!world_.over() && piece.request != MPI_REQUEST_NULL) MPI_Cancel(&piece.request);
  }
  for (Queue* queue : {&in_, &out_}) {
    for (Piece& piece : queue->pieces) {
      if (piece.request != MPI_REQUEST_NULL) world_.keep_until_done(std::move(piece));
    }
  }
  if (end_.request != MPI_REQUEST_NULL) world_.keep_until_done(std::move(end_));
  if (failed_ && !world_.over()) world_.await_peer(std::move(socket_));
}

bool MpiConnection::room() {
  while (out_.count > 0 && !dead()) {
    const State state = state_of(out_.at(0), false);
    if (state == State::in_transit) break;
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
  wake_event_.clear();
  const std::lock_guard lock(world_.mutex());
  if ((to_send && room()) || (to_receive && (ended_ || arrived())) || dead()) return std::nullopt;
  wants_room_ = to_send;
  wants_bytes_ = to_receive;
  world_.owner_sleeps();
  return pollfd{wake_event_.fd(), POLLIN, 0};
}

bool MpiConnection::progress() {
  const bool has_room = room(), has_bytes = wants_bytes_ && arrived();
  if (has_bytes || (wants_room_ && has_room) || dead()) {
    if (wants_room_ || wants_bytes_) wake_event_.signal();
    wants_room_ = wants_bytes_ = false;
  }
  return wants_room_ || wants_bytes_ || out_.count > 0;
}

void MpiConnection::finish_sending() {
  const std::lock_guard lock(world_.mutex());
  const char leave = 1;
  [[maybe_unused]] const auto sent = ::send(socket().fd(), &leave, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
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
  const bool in_transit = out_.count > 0 || state_of(end_, false) == State::in_transit;
  return dead() || !in_transit || peer_state(socket()) != PeerState::connected;
}

// The data that a rank sends to the others at the rendezvous.
struct PeerInfo {
  int rank = 0, tag = 0;
  std::string comm{};
  std::string to_string() const { return std::to_string(rank) + " " + std::to_string(tag) + " " + comm; }
  static PeerInfo from(const std::string& text) {
    PeerInfo info;
    std::istringstream(text) >> info.rank >> info.tag >> info.comm;
    return info;
  }
};

// Processes that were not started by mpirun or srun are each rank 0 of an MPI_COMM_WORLD of their own.
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

void connect_over_mpi(Rendezvous& rendezvous, Mesh& mesh) {
  World& world = World::get();
  MpiComm mpi = world.latest_comm();
  const PeerInfo mine{world.rank(), world.new_tag(), mpi.name};
  std::vector<PeerInfo> peers;
  std::vector<int> members;
  for (const std::string& text : rendezvous.all_gather(mine.to_string())) {
    peers.push_back(PeerInfo::from(text));
    members.push_back(peers.back().rank);
  }
  check_world(members);
  const auto has_this = [&](const PeerInfo& info) { return info.comm == mine.comm; };
  const bool common = mine.comm != MpiComm().name && std::all_of(peers.begin(), peers.end(), has_this);
  if (!common) mpi = world.make_comm(members, peers[0].tag);
  for (int other = 0; other < rendezvous.size(); ++other) {
    if (other == mesh.rank) continue;
    const PeerInfo& info = peers[static_cast<std::size_t>(other)];
    const auto at = std::find(mpi.members.begin(), mpi.members.end(), info.rank);
    const auto peer = static_cast<int>(at - mpi.members.begin());
    auto& data = mesh.links[static_cast<std::size_t>(other)].data;
    data = std::make_unique<MpiConnection>(std::move(data), mpi.comm, peer, mine.tag, info.tag);
  }
}

}  // namespace

ConnectData mpi_connections() {
  World::get().start();
  return connect_over_mpi;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data());
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace heddle::comm_detail
