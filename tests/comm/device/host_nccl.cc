#include "host_nccl.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <heddle/comm_error.h>

namespace heddle::test {

using namespace comm_detail;
using Bytes = std::vector<std::byte>;

namespace {

// The parameters with which a rank starts a collective. They must be equal on all ranks.
struct Start {
  Kind kind;
  std::size_t count;
  DType dtype;
  ReduceOp op = ReduceOp::sum;
  int root = -1;
  bool operator==(const Start&) const = default;
};

// What the ranks have started as their n-th collective, for one n.
struct Round {
  std::vector<std::optional<Start>> starts;
  std::vector<Bytes> in;
  bool complete(bool careless) const {
    for (std::optional<Start> start : starts) {
      if (start && starts[0] && careless) start->op = starts[0]->op;
      if (!start || start != starts[0]) return false;
    }
    return true;
  }
};

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

Bytes copy_of(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return data ? Bytes(begin, begin + bytes) : Bytes();
}

Bytes reduced(const Round& round) {
  const Start& start = *round.starts[0];
  Bytes sum = round.in[0];
  const std::size_t elements = sum.size() / size_of(start.dtype);
  for (std::size_t rank = 1; rank < round.in.size(); ++rank) {
    combine_of(start.op, start.dtype)(sum.data(), sum.data(), round.in[rank].data(), elements);
  }
  if (start.op == ReduceOp::avg) scale(sum.data(), elements, start.dtype, static_cast<int>(round.in.size()));
  return sum;
}

}  // namespace

// State shared by the ranks of one communicator.
struct HostWorld {
  explicit HostWorld(int ranks) : size(ranks) {}
  const int size;
  std::mutex mutex;  // guards the members below
  std::condition_variable news;
  int joined = 0;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
  std::map<std::pair<int, int>, std::deque<Bytes>> mail;  // messages by (from, to)
};

namespace {

// The state of a rank that the work on its stream uses. It may outlive HostRanks.
struct Member {
  std::shared_ptr<HostWorld> world;
  int rank;
  bool alone, careless;
  std::atomic<bool> aborted{false};
  std::uint64_t starts = 0;  // number of collectives started on the rank's stream

  // Waits until what() returns true. Returns false if the rank was aborted.
  bool wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& what) {
    world->news.notify_all();
    world->news.wait(lock, [&] { return aborted || (!alone && what()); });
    return !aborted;
  }

  std::shared_ptr<Round> meet(const Start& start, Bytes in) {
    std::unique_lock lock(world->mutex);
    std::shared_ptr<Round>& place = world->rounds[starts++];
    if (!place) {
      place = std::make_shared<Round>();
      place->starts.resize(at(world->size));
      place->in.resize(at(world->size));
    }
    const std::shared_ptr<Round> round = place;
    round->starts[at(rank)] = start;
    round->in[at(rank)] = std::move(in);
    return wait_for(lock, [&] { return round->complete(careless); }) ? round : nullptr;
  }
};

class HostRanks final : public DeviceRanks {
 public:
  HostRanks(HostNccl& library, std::shared_ptr<HostWorld> world, int rank)
      : library_(library), member_(std::make_shared<Member>()) {
    member_->world = std::move(world);
    member_->rank = rank;
    member_->alone = library.alone;
    member_->careless = library.careless;
    const std::lock_guard lock(member_->world->mutex);
    ++member_->world->joined;
  }
  ~HostRanks() override {
    if (!finished_) abort();
  }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                  Stream& stream) override {
    run({Kind::all_reduce, count, dtype, op}, in, count, out, stream,
        [](const Round& round, int) { return reduced(round); });
  }
  void reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int root,
              Stream& stream) override {
    run({Kind::reduce, count, dtype, op, root}, in, count, member_->rank == root ? out : nullptr, stream,
        [](const Round& round, int) { return reduced(round); });
  }
  void broadcast(const void* in, void* out, std::size_t count, DType dtype, int root,
                 Stream& stream) override {
    run({Kind::broadcast, count, dtype, ReduceOp::sum, root}, in, count, out, stream,
        [root](const Round& round, int) { return round.in[at(root)]; });
  }
  void all_gather(const void* in, void* out, std::size_t count, DType dtype, Stream& stream) override {
    run({Kind::all_gather, count, dtype}, in, count, out, stream, [](const Round& round, int) {
      Bytes all;
      for (const Bytes& part : round.in) all.insert(all.end(), part.begin(), part.end());
      return all;
    });
  }
  void reduce_scatter(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                      Stream& stream) override {
    const auto all = count * at(member_->world->size);
    run({Kind::reduce_scatter, count, dtype, op}, in, all, out, stream, [](const Round& round, int rank) {
      const Bytes sum = reduced(round);
      const auto part = static_cast<std::ptrdiff_t>(sum.size() / round.in.size());
      return Bytes(sum.begin() + rank * part, sum.begin() + (rank + 1) * part);
    });
  }
  void send(const void* in, std::size_t count, DType dtype, int to, Stream& stream) override {
    first_of_group_.push_back([member = member_, in, bytes = count * size_of(dtype), to] {
      const std::lock_guard lock(member->world->mutex);
      member->world->mail[{member->rank, to}].push_back(copy_of(in, bytes));
      member->world->news.notify_all();
    });
    start_unless_in_group(stream);
  }
  void recv(void* out, std::size_t count, DType dtype, int from, Stream& stream) override {
    then_of_group_.push_back([member = member_, out, bytes = count * size_of(dtype), from] {
      std::unique_lock lock(member->world->mutex);
      std::deque<Bytes>& mail = member->world->mail[{from, member->rank}];
      if (!member->wait_for(lock, [&] { return !mail.empty() && mail.front().size() == bytes; })) return;
      if (bytes > 0) std::memcpy(out, mail.front().data(), bytes);
      mail.pop_front();
    });
    start_unless_in_group(stream);
  }
  void group_begin() override { in_group_ = true; }
  void group_end() override {
    in_group_ = false;
    if (group_stream_) start_unless_in_group(*group_stream_);
  }

  // Reports once after each start that the library is busy, as if the work were not on the stream yet.
  bool busy() override {
    if (library_.sick_rank == member_->rank) throw CommError("a cable has come loose");
    const std::lock_guard lock(member_->world->mutex);
    return (!member_->alone && member_->world->joined < member_->world->size) ||
           std::exchange(starting_, false);
  }
  void finish() override { finished_ = true; }
  void abort() noexcept override {
    ++library_.aborts;
    const std::lock_guard lock(member_->world->mutex);
    member_->aborted = true;
    member_->world->news.notify_all();
  }

 private:
  using Result = std::function<Bytes(const Round&, int)>;
  void run(const Start& start, const void* in, std::size_t count_in, void* out, Stream& stream,
           Result result) {
    starting_ = true;
    ++library_.starts;
    const std::size_t bytes = count_in * size_of(start.dtype);
    stream.enqueue([member = member_, start, in, bytes, out, result = std::move(result)] {
      const auto round = member->meet(start, copy_of(in, bytes));
      if (!round || !out) return;
      const Bytes made = result(*round, member->rank);
      if (!made.empty()) std::memcpy(out, made.data(), made.size());
    });
  }

  void start_unless_in_group(Stream& stream) {
    group_stream_ = &stream;
    if (in_group_) return;
    starting_ = true;
    stream.enqueue([first = std::exchange(first_of_group_, {}), then = std::exchange(then_of_group_, {})] {
      for (const auto& send : first) send();
      for (const auto& recv : then) recv();
    });
    group_stream_ = nullptr;
  }

  HostNccl& library_;
  const std::shared_ptr<Member> member_;
  std::vector<std::function<void()>> first_of_group_, then_of_group_;
  Stream* group_stream_ = nullptr;
  bool in_group_ = false, finished_ = false, starting_ = false;
};

}  // namespace

HostNccl::HostNccl(int devices, DeviceKind kind)
    : devices_(devices), kind_(kind), before_(replace_nccl(this)) {}
HostNccl::~HostNccl() { replace_nccl(before_); }

std::string HostNccl::new_id() {
  if (no_ids) throw std::runtime_error("no more ids");
  const std::lock_guard lock(mutex_);
  return "world" + std::to_string(++ids_);
}

std::unique_ptr<DeviceRanks> HostNccl::join(const std::string& id, int rank, int size, Device) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<HostWorld>& world = worlds_[id];
  if (!world) world = std::make_shared<HostWorld>(size);
  return std::make_unique<HostRanks>(*this, world, rank);
}

}  // namespace heddle::test
