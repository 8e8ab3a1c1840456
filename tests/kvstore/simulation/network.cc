#include "simulation/network.h"

#include <algorithm>
#include <cstring>

namespace heddle::kv_detail::sim {

using std::chrono::microseconds;

Peer SimTransport::connect(const std::string& address) {
  Network& net = network_;
  const Peer mine = ++net.last_peer_, other = ++net.last_peer_;
  const auto host = net.hosts_.find(address);
  const std::uint64_t my_life = net.hosts_.at(address_).life;
  net.ends_[mine] = {address_, my_life, other, true, {}};
  const auto quiet = net.silence(address_, address);
  const bool there = host != net.hosts_.end();
  if (!there) {
    net.at_host(address_, my_life, net.now + net.delay() + quiet,
                [&net, mine](Process&) { net.end(mine, "connection refused"); });
    return mine;
  }
  const std::uint64_t life = host->second.life;
  const auto when = net.now + net.delay() + quiet;
  net.ends_[other] = {address, life, mine, true, when};
  net.ends_[mine].last = when;
  net.at_host(address, life, when, [&net, other](Process& process) {
    if (net.ends_.contains(other)) process.connected(other, "");
  });
  net.at_host(address_, my_life, when, [&net, mine](Process& process) {
    if (net.ends_.contains(mine)) process.connected(mine, "");
  });
  return mine;
}

void SimTransport::send(Peer peer, Message message) {
  Network& net = network_;
  const auto mine = net.ends_.find(peer);
  if (mine == net.ends_.end()) return;
  const auto other = net.ends_.find(mine->second.other);
  if (other == net.ends_.end()) return;
  Network::End& to = other->second;
  if (net.on_send) net.on_send(address_, to.address, mine->second.other, message);
  to.last = std::max(to.last, net.now + net.delay() + net.silence(address_, to.address));
  // Reads the payload from the sender's memory only at delivery, so a test finds senders that change it too
  // early.
  net.at_host(to.address, to.life, to.last,
              [&net, number = mine->second.other, message = std::move(message)](Process&) {
                net.deliver(number, message);
              });
}

void SimTransport::close(Peer peer) {
  Network& net = network_;
  const auto mine = net.ends_.find(peer);
  if (mine == net.ends_.end()) return;
  const Peer other = mine->second.other;
  net.ends_.erase(mine);
  const auto there = net.ends_.find(other);
  if (there == net.ends_.end()) return;
  const auto when = std::max(there->second.last, net.now + net.delay());
  net.at_host(there->second.address, there->second.life, when,
              [&net, other](Process&) { net.end(other, "closed by the other side"); });
}

SimTransport& Network::add(const std::string& address) {
  transports_.push_back(std::make_unique<SimTransport>(*this, address));
  hosts_[address] = {transports_.back().get(), nullptr, ++lives_, {}};
  return *transports_.back();
}

void Network::run(SimTransport& transport, Process& process, Clock::duration interval) {
  Host& host = hosts_.at(transport.address());
  host.process = &process;
  tick(transport.address(), host.life, interval);
}

void Network::tick(const std::string& address, std::uint64_t life, Clock::duration interval) {
  at_host(address, life, now + interval, [this, address, life, interval](Process& process) {
    process.tick();
    tick(address, life, interval);
  });
}

void Network::kill(const std::string& address) {
  hosts_.erase(address);
  std::vector<Peer> others;
  for (auto end = ends_.begin(); end != ends_.end();) {
    const bool mine = end->second.address == address;
    if (mine) others.push_back(end->second.other);
    end = mine ? ends_.erase(end) : std::next(end);
  }
  std::sort(others.begin(), others.end());
  for (const Peer other : others) {
    const auto there = ends_.find(other);
    if (there == ends_.end()) continue;
    at_host(there->second.address, there->second.life, std::max(there->second.last, now + delay()),
            [this, other](Process&) { end(other, "the other side has died"); });
  }
}

void Network::pause(const std::string& address, Clock::duration time) {
  const auto host = hosts_.find(address);
  if (host != hosts_.end()) host->second.paused_until = now + time;
}

void Network::separate(const std::string& a, const std::string& b, Clock::duration time) {
  separate_until_[std::minmax(a, b)] = now + time;
}

void Network::cut_one() {
  std::vector<Peer> all;
  for (const auto& [peer, end] : ends_) all.push_back(peer);
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  close_both(all[below(all.size())], "cut");
}

void Network::cut(const std::string& a, const std::string& b) {
  std::vector<Peer> all;
  for (const auto& [peer, end] : ends_) {
    const auto other = ends_.find(end.other);
    if (end.address == a && other != ends_.end() && other->second.address == b) all.push_back(peer);
  }
  std::sort(all.begin(), all.end());
  for (const Peer peer : all) close_both(peer, "cut");
}

Clock::duration Network::delay() {
  const bool slow = below(50) == 0;
  return microseconds(20 + below(slow ? 30'000 : 500));
}

Clock::duration Network::silence(const std::string& a, const std::string& b) const {
  const auto found = separate_until_.find(std::minmax(a, b));
  if (found == separate_until_.end() || found->second <= now) return {};
  return found->second - now;
}

void Network::after(Clock::duration time, std::function<void()> what) {
  events_.push({now + time, ++last_order_, std::move(what)});
}

void Network::at_host(const std::string& address, std::uint64_t life, Clock::time_point time,
                      std::function<void(Process&)> what) {
  events_.push(
      {time, ++last_order_, [this, address, life, what = std::move(what)] {
         const auto host = hosts_.find(address);
         if (host == hosts_.end() || host->second.life != life) return;
         Host& mine = host->second;
         if (mine.paused_until <= now && mine.backlog.empty()) {
           if (mine.process) what(*mine.process);
           return;
         }
         mine.backlog.push_back(what);
         if (mine.backlog.size() == 1)
           events_.push({mine.paused_until, ++last_order_, [this, address, life] { resume(address, life); }});
       }});
}

void Network::resume(const std::string& address, std::uint64_t life) {
  for (;;) {
    const auto host = hosts_.find(address);
    if (host == hosts_.end() || host->second.life != life || host->second.backlog.empty()) return;
    Host& mine = host->second;
    if (mine.paused_until > now) {
      events_.push({mine.paused_until, ++last_order_, [this, address, life] { resume(address, life); }});
      return;
    }
    const auto what = std::move(mine.backlog.front());
    mine.backlog.pop_front();
    if (mine.process) what(*mine.process);
  }
}

bool Network::step() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now = std::max(now, event.time);
  event.what();
  return true;
}

void Network::end(Peer at, const std::string& why) {
  const auto found = ends_.find(at);
  if (found == ends_.end()) return;
  const std::string address = found->second.address;
  ends_.erase(found);
  hosts_.at(address).process->disconnected(at, why);
}

// Closes the connection at both of its ends at once. Messages on the way are lost.
void Network::close_both(Peer at, const std::string& why) {
  const auto found = ends_.find(at);
  if (found == ends_.end()) return;
  for (const Peer one : {at, found->second.other}) {
    const auto there = ends_.find(one);
    if (there == ends_.end()) continue;
    const std::string address = there->second.address;
    const std::uint64_t life = there->second.life;
    there->second.open = false;
    at_host(address, life, now, [this, one, why](Process&) { end(one, why); });
  }
}

void Network::deliver(Peer to, const Message& message) {
  const auto found = ends_.find(to);
  if (found == ends_.end() || !found->second.open) return;
  Process& process = *hosts_.at(found->second.address).process;
  const auto& bytes = message.payload.bytes;
  std::vector<std::byte> own;
  try {
    std::span<std::byte> memory;
    if (!bytes.empty()) {
      memory = process.memory_for(to, message.head, bytes.size());
      if (!ends_.contains(to)) return;
      if (memory.empty()) {
        own.resize(bytes.size());
        memory = own;
      }
      std::memcpy(memory.data(), bytes.data(), bytes.size());
      memory = memory.first(bytes.size());
    }
    process.received(to, message.head, memory);
  } catch (const MalformedMessage& error) {
    const auto still = ends_.find(to);
    if (still == ends_.end()) return;
    const Peer other = still->second.other;
    end(to, error.what());
    const auto there = ends_.find(other);
    if (there == ends_.end()) return;
    at_host(there->second.address, there->second.life, std::max(there->second.last, now + delay()),
            [this, other](Process&) { end(other, "closed by the other side"); });
  }
}

}  // namespace heddle::kv_detail::sim
