#include "virtual_network.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace heddle::test {
namespace {

// The list into which the combine function writes what the rank does whose algorithm runs; null: no algorithm runs.
thread_local std::vector<Deed>* recorded = nullptr;

constexpr double kNever = std::numeric_limits<double>::infinity();

// A message on its way: what is left of its latency, and of its bytes, which arrive after the latency.
struct Message {
  int from, to;
  double latency, bytes;
};

// A rank's progress through its deeds, of which number `at` is the present one.
struct Player {
  std::vector<Deed> deeds{};
  std::size_t at = 0;
  bool sending = false, receiving = false;  // the parts of the present deed that are not done yet
  double combining_until = kNever;          // when the deed's combining ends, which follows its messages
  bool done() const { return at == deeds.size(); }
};

class Game {
 public:
  Game(const NetworkCost& network, std::vector<std::vector<Deed>> all)
      : network_(network), players_(all.size()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      players_[i].deeds = std::move(all[i]);
      begin(players_[i]);
    }
  }

  double play() {
    while (!std::all_of(players_.begin(), players_.end(), [](const Player& one) { return one.done(); })) {
      start_messages();
      const double step = until_next();
      if (step == kNever) throw std::runtime_error("the ranks wait for each other");
      advance(step);
    }
    return now_;
  }

 private:
  static constexpr double kInstant = 1e-15;

  void begin(Player& player) {
    if (player.done()) return;
    const Deed& deed = player.deeds[player.at];
    player.sending = deed.to >= 0;
    player.receiving = deed.from >= 0;
    player.combining_until = kNever;
    combine_if_through(player);
  }

  void combine_if_through(Player& player) {
    if (player.done() || player.sending || player.receiving || player.combining_until != kNever) return;
    player.combining_until = now_ + player.deeds[player.at].combined * network_.gamma;
  }

  bool local(int a, int b) const { return a / network_.ranks_per_host == b / network_.ranks_per_host; }
  bool under_way(int from, int to) const {
    return std::any_of(messages_.begin(), messages_.end(),
                       [&](const Message& one) { return one.from == from && one.to == to; });
  }

  void start_messages() {
    for (int from = 0; from < static_cast<int>(players_.size()); ++from) {
      const Player& sender = players_[static_cast<std::size_t>(from)];
      if (sender.done() || !sender.sending) continue;
      const Deed& deed = sender.deeds[sender.at];
      const Player& receiver = players_[static_cast<std::size_t>(deed.to)];
      if (receiver.done() || !receiver.receiving || receiver.deeds[receiver.at].from != from) continue;
      if (under_way(from, deed.to)) continue;
      const LinkCost& link = local(from, deed.to) ? network_.local : network_.remote;
      messages_.push_back({from, deed.to, link.alpha, deed.out});
    }
  }

  // Seconds that the message now needs for each byte. Messages that leave a host at the same time share its
  // link.
  double pace(const Message& message) const {
    if (local(message.from, message.to)) return network_.local.beta;
    const auto sharing = std::count_if(messages_.begin(), messages_.end(), [&](const Message& other) {
      return other.latency <= 0 && local(other.from, message.from) && !local(other.from, other.to);
    });
    return network_.remote.beta * static_cast<double>(std::max<std::ptrdiff_t>(sharing, 1));
  }

  double until_next() const {
    double step = kNever;
    for (const Message& one : messages_)
      step = std::min(step, one.latency > 0 ? one.latency : one.bytes * pace(one));
    for (const Player& one : players_) {
      if (!one.done() && one.combining_until != kNever) step = std::min(step, one.combining_until - now_);
    }
    return std::max(step, 0.0);
  }

  void advance(double step) {
    std::vector<double> paces;
    for (const Message& one : messages_) paces.push_back(pace(one));
    now_ += step;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      Message& one = messages_[i];
      if (one.latency > 0) {
        one.latency = one.latency - step > kInstant ? one.latency - step : 0;
      } else {
        const double left = one.bytes * paces[i] - step;
        one.bytes = left > kInstant ? left / paces[i] : -1;
      }
    }
    arrive();
    for (Player& one : players_) {
      if (one.done() || one.combining_until > now_ + kInstant) continue;
      ++one.at;
      begin(one);
    }
  }

  void arrive() {
    std::erase_if(messages_, [&](const Message& one) {
      if (one.bytes >= 0) return false;
      Player &sender = players_[static_cast<std::size_t>(one.from)],
             &receiver = players_[static_cast<std::size_t>(one.to)];
      sender.sending = false;
      receiver.receiving = false;
      combine_if_through(sender);
      combine_if_through(receiver);
      return true;
    });
  }

  const NetworkCost& network_;
  std::vector<Player> players_;
  std::vector<Message> messages_;
  double now_ = 0;
};

}  // namespace

void RecordingTransport::transfer(const comm_detail::Transfer& transfer) {
  deeds_.push_back({transfer.to, transfer.from, static_cast<double>(transfer.out.size()),
                    transfer.combine ? static_cast<double>(transfer.in.size()) : 0});
  recorded = &deeds_;
}

void RecordingTransport::combine(std::byte*, const std::byte*, const std::byte*, std::size_t bytes) {
  if (recorded) recorded->push_back({-1, -1, 0, static_cast<double>(bytes)});
}

double virtual_seconds(const ReduceBytes& algorithm, const NetworkCost& network, int ranks,
                       std::size_t bytes) {
  std::vector<std::vector<Deed>> all;
  std::vector<std::byte> data(bytes);
  for (int rank = 0; rank < ranks; ++rank) {
    RecordingTransport transport(rank, ranks);
    algorithm(transport, {data.data(), bytes, 1, RecordingTransport::combine});
    all.push_back(transport.take());
    recorded = nullptr;
  }
  return Game(network, std::move(all)).play();
}

ReduceBytes algorithm_of(AllReduce kind, int ranks, int ranks_per_host) {
  switch (kind) {
    case AllReduce::ring:
      return comm_detail::ring_all_reduce;
    case AllReduce::tree:
      return comm_detail::tree_all_reduce;
    case AllReduce::recursive_doubling:
      return comm_detail::recursive_doubling_all_reduce;
    case AllReduce::halving_doubling:
      return comm_detail::halving_doubling_all_reduce;
    case AllReduce::hierarchical:
      break;
  }
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return [hosts](comm_detail::Transport& transport, const comm_detail::Operand& operand) {
    comm_detail::hierarchical_all_reduce(transport, operand, hosts);
  };
}

}  // namespace heddle::test
