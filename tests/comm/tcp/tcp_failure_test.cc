#include <array>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/arguments.h"
#include "tcp/frame.h"
#include "tcp/mesh.h"
#include "tcp/neighbours.h"
#include "tcp/tcp_transport.h"
#include "thread_ranks.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace std::chrono_literals;
using namespace heddle::test;

namespace {

CallRecord call_at(const char* file, std::uint32_t line) {
  CallRecord call;
  call.kind = Kind::all_reduce;
  call.dtype = DType::f32;
  call.sequence = 12;
  call.count = 4;
  call.root = 0;
  call.algorithm = Algorithm::ring;
  call.line = line;
  std::strcpy(call.site, file);
  call.set_agreement();
  return call;
}

bool is(const std::string& kind, const std::exception_ptr& error) { return kind_of(error) == kind; }

bool names(const std::exception_ptr& error, const std::string& what) {
  return text_of(error).find(what) != std::string::npos;
}

void exchange(Transport& transport, int with, std::size_t size = 16) {
  std::vector<std::byte> out(size), in(size);
  transport.transfer({.to = with, .out = out, .from = with, .in = in});
}

void receive(Transport& transport, int from, std::size_t size = 16) {
  std::vector<std::byte> in(size);
  transport.transfer({.from = from, .in = in});
}

// Ranks 0 and 1 make different calls. Rank 2 makes the same call as rank 0, and waits for a message that rank
// 0 does not send. Returns what each rank threw.
Outcomes two_that_differ(const std::function<void(CallRecord&)>& change, std::size_t size = 16) {
  return run_ranks(3, [&](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    const int rank = transport->rank();
    CallRecord call = call_at(rank == 1 ? "b.py" : "a.py", 10 + static_cast<std::uint32_t>(rank));
    if (rank == 1) change(call);
    call.set_agreement();
    transport->begin(call, "");
    if (rank == 2) return receive(*transport, 0);
    exchange(*transport, 1 - rank, rank == 1 ? size : 16);
  });
}

void check_named(const Outcomes& errors) {
  for (const auto& error : errors) {
    CAPTURE(text_of(error));
    CHECK(is("CommMismatch", error));
    for (const char* part : {"rank 0 called", "a.py:10", "rank 1 called", "b.py:11"})
      CHECK(names(error, part));
  }
}

std::string read_to_end(Connection& connection) {
  std::string all;
  std::array<char, 256> buffer;
  for (;;) {
    const Step step = connection.receive(std::as_writable_bytes(std::span(buffer)), {});
    if (step.outcome == Step::Outcome::closed) return all;
    if (step.outcome == Step::Outcome::would_block) std::this_thread::yield();
    all.append(buffer.data(), step.bytes);
  }
}

// Runs rank 0 with a real transport, and `impostor` as rank 1, which has the connections and the key. Returns
// what rank 0 threw.
std::exception_ptr with_impostor(const std::function<void(Mesh&)>& impostor, const TcpOptions& options = {}) {
  return run_ranks(2, [&](Rendezvous& rendezvous) {
    if (rendezvous.rank() == 0) {
      const auto transport = make_tcp_transport(rendezvous, options);
      transport->begin(call_at("a.py", 10), "");
      return receive(*transport, 1);
    }
    Mesh mesh = make_mesh(rendezvous, "127.0.0.1", {}, 10s);
    connect_neighbours(rendezvous, mesh, "another host");
    impostor(mesh);
    // Keeps the connections open until rank 0 closes them.
    if (mesh.links[0].control) read_to_end(*mesh.links[0].control);
  })[0];
}

void send_text(Connection& connection, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Step step = connection.send(std::as_bytes(std::span(text)).subspan(at), {});
    if (step.outcome == Step::Outcome::closed) return;
    at += step.bytes;
  }
}

std::string message(const Key& key, std::uint64_t number) {
  MessageHeader header;
  header.record = call_at("b.py", 11);
  header.bytes = 16;
  header.number = number;
  seal(header, key);
  return std::string(reinterpret_cast<const char*>(&header), kMessageHeader) + std::string(16, 'x');
}

std::string flipped(std::string text, std::size_t bits, std::mt19937& random) {
  const std::size_t bit = random() % bits;
  text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  return text;
}

ControlFrame frame_of(FrameKind kind, std::uint64_t number, std::int32_t rank = 1, std::uint32_t epoch = 7) {
  return {kind, epoch, rank, number};
}

// A rank's rendezvous that calls `strangers` with rank 0's address, after the ranks have exchanged addresses
// and before this rank connects.
class AfterStrangers : public Rendezvous {
 public:
  AfterStrangers(Rendezvous& inner, std::function<void(const std::string&)> strangers)
      : inner_(inner), strangers_(std::move(strangers)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::uint32_t epoch() const override { return inner_.epoch(); }
  std::vector<std::string> all_gather(const std::string& mine) override {
    const auto all = inner_.all_gather(mine);
    // Only after the first exchange, in which the texts are addresses.
    if (strangers_) std::exchange(strangers_, nullptr)(all[0]);
    return all;
  }

 private:
  Rendezvous& inner_;
  std::function<void(const std::string&)> strangers_;
};

Outcomes with_strangers(const std::function<void(const std::string&)>& strangers) {
  return run_ranks(2, [&](Rendezvous& rendezvous) {
    AfterStrangers after(rendezvous, strangers);
    const auto transport = make_tcp_transport(
        rendezvous.rank() == 1 ? static_cast<Rendezvous&>(after) : rendezvous, {.timeout = 10min});
    transport->begin(call_at("a.py", 10), "");
    exchange(*transport, 1 - rendezvous.rank());
  });
}

}  // namespace

TEST_CASE("tcp: ranks that call different things learn what both called, also one that waits for a third") {
  check_named(two_that_differ([](CallRecord& r) { r.kind = Kind::reduce; }));
  check_named(two_that_differ([](CallRecord& r) { r.op = ReduceOp::max; }));
  check_named(two_that_differ([](CallRecord& r) { r.dtype = DType::i32; }));
  check_named(two_that_differ([](CallRecord& r) { r.count = 5; }));
  check_named(two_that_differ([](CallRecord& r) { r.root = 1; }));
  check_named(two_that_differ([](CallRecord& r) { r.sequence = 13; }));
  check_named(two_that_differ([](CallRecord& r) { r.epoch = 1; }));
  check_named(two_that_differ([](CallRecord& r) { r.algorithm = Algorithm::tree; }));
}

TEST_CASE("tcp: another length than is waited for") {
  for (std::size_t size : {0u, 15u, 17u, 1'000'000u}) {
    const auto errors = two_that_differ([](CallRecord&) {}, size);
    check_named(errors);
    const std::string odd =
        size % 4 ? std::to_string(size) + " bytes" : std::to_string(size / 4) + " elements";
    const bool sent = names(errors[0], " and sends rank 0 " + odd) &&
                      names(errors[0], " and waits for 4 elements of rank 1");
    const bool wanted = names(errors[0], " and sends rank 1 4 elements") &&
                        names(errors[0], " and waits for " + odd + " of rank 0");
    CHECK((sent || wanted));
  }
}

TEST_CASE("tcp: a send meets the recv that it is meant for") {
  const auto pair = [](int sends_to, int receives_from) {
    return run_ranks(2, [&](Rendezvous& rendezvous) {
      const auto transport = make_tcp_transport(rendezvous, {});
      CallRecord call = call_at("a.py", 10);
      call.kind = transport->rank() == 0 ? Kind::send : Kind::recv;
      call.root = transport->rank() == 0 ? sends_to : receives_from;
      call.set_agreement();
      transport->begin(call, "");
      if (transport->rank() == 1) return receive(*transport, 0);
      std::vector<std::byte> out(16);
      transport->transfer({.to = 1, .out = out});
    });
  };
  CHECK(text_of(pair(1, 0)[1]) == "");
  CHECK(is("CommMismatch", pair(0, 0)[1]));
}

TEST_CASE("tcp: the first error is what every later call gets") {
  const auto errors = run_ranks(2, [](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    CallRecord call = call_at("a.py", 10);
    call.sequence = static_cast<std::uint64_t>(transport->rank());
    call.set_agreement();
    transport->begin(call, "");
    CHECK_THROWS_AS(exchange(*transport, 1 - transport->rank()), CommMismatch);
    transport->abort("too late");
    exchange(*transport, 1 - transport->rank());
  });
  for (const auto& error : errors) CHECK(is("CommMismatch", error));
}

TEST_CASE("tcp: abort reaches ranks that wait for each other") {
  const auto errors = run_ranks(4, [](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    const int rank = transport->rank();
    transport->begin(call_at("a.py", 10), "");
    if (rank == 3) transport->abort("rank 3 has had enough");
    receive(*transport, (rank + 1) % 3);
  });
  for (const auto& error : errors) {
    CHECK(is("CommAborted", error));
    CHECK(names(error, "rank 3 has had enough"));
  }
}

TEST_CASE("tcp: abort from another thread, while data lies unread") {
  const auto errors = run_ranks(2, [](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    transport->begin(call_at("a.py", 10), "");
    std::vector<std::byte> more_than_fits(64u << 20);
    std::thread other([&] {
      if (transport->rank() == 1) transport->abort("enough");
    });
    try {
      transport->transfer({.to = 1 - transport->rank(), .out = more_than_fits});
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
  for (const auto& error : errors) CHECK(is("CommAborted", error));
}

TEST_CASE("tcp: waiting for a rank that has left") {
  for (const bool sending : {false, true}) {
    const auto errors = run_ranks(4, [&](Rendezvous& rendezvous) {
      const auto transport = make_tcp_transport(rendezvous, {});
      const int rank = transport->rank();
      if (rank == 2) return;
      transport->begin(call_at("a.py", 10), "");
      std::vector<std::byte> more_than_fits(64u << 20);
      if (rank == 0 && sending) return transport->transfer({.to = 2, .out = more_than_fits});
      receive(*transport, rank == 0 ? 2 : 0);
    });
    CHECK(text_of(errors[2]) == "");
    for (int rank : {0, 1, 3}) {
      CHECK(is("PeerLost", errors[static_cast<std::size_t>(rank)]));
      CHECK(names(errors[static_cast<std::size_t>(rank)], "rank 2 left"));
    }
  }
}

TEST_CASE("tcp: a rank that leaves does not disturb those who do not want anything from it") {
  const auto errors = run_ranks(3, [](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    if (transport->rank() == 2) return;
    transport->begin(call_at("a.py", 10), "");
    for (int i = 0; i < 1000; ++i) exchange(*transport, 1 - transport->rank());
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("tcp: a rank whose process is killed is lost to all others, also to those who wait for another") {
  SharedTable table(3);
  const auto children = fork_ranks(table, 3, [](int rank, SharedTable& ranks) {
    const auto rendezvous = ranks.rendezvous(rank);
    const auto transport = make_tcp_transport(*rendezvous, {});
    transport->begin(call_at("a.py", 10), "");
    if (rank < 2) exchange(*transport, 1 - rank);
    if (rank == 1) raise(SIGKILL);
    receive(*transport, rank == 0 ? 1 : 0);
  });
  CHECK(wait_for(children[1]) == "signal 9");
  for (int rank : {0, 2}) {
    CHECK(wait_for(children[static_cast<std::size_t>(rank)]) == "exit 3");
    CHECK(table.said(rank).rfind("PeerLost: rank 1 ", 0) == 0);
  }
}

TEST_CASE("tcp: a rank whose process is stopped is silent") {
  SharedTable table(3);
  const auto children = fork_ranks(table, 3, [](int rank, SharedTable& ranks) {
    const auto rendezvous = ranks.rendezvous(rank);
    const auto transport = make_tcp_transport(*rendezvous, {.timeout = 1s});
    transport->begin(call_at("a.py", 10), "");
    if (rank < 2) exchange(*transport, 1 - rank);
    if (rank == 1) raise(SIGSTOP);
    receive(*transport, rank == 0 ? 1 : 0);
  });
  for (int rank : {0, 2}) {
    CHECK(wait_for(children[static_cast<std::size_t>(rank)]) == "exit 3");
    CHECK(table.said(rank).rfind("PeerSilent: rank 1 ", 0) == 0);
  }
  kill(children[1], SIGKILL);
  CHECK(wait_for(children[1]) == "signal 9");
}

TEST_CASE("tcp: a rank that never shows a sign of life is silent; one that does is waited for") {
  CHECK(is("PeerSilent", with_impostor([](Mesh&) {}, {.timeout = 1000ms})));
  const auto alive = with_impostor(
      [](Mesh& mesh) {
        // Sends the heartbeats of several timeouts, each one after rank 0 has sent something.
        std::byte sink[256];
        std::uint64_t number = 0;
        while (number < 20) {
          const Step step = mesh.links[0].control->receive(sink, {});
          if (step.outcome == Step::Outcome::closed) return;
          if (step.outcome == Step::Outcome::moved) {
            send_text(*mesh.links[0].control, encode(frame_of(FrameKind::heartbeat, ++number), mesh.key));
          }
          std::this_thread::yield();
        }
        send_text(*mesh.links[0].data, message(mesh.key, 0));
        send_text(*mesh.links[0].control, encode(frame_of(FrameKind::leave, ++number), mesh.key));
      },
      {.timeout = 1s});
  CHECK(text_of(alive) == "");
}

TEST_CASE("tcp: what an impostor may send, and what not") {
  const auto on_control = [](const std::function<std::string(const Key&)>& text) {
    return with_impostor([&](Mesh& mesh) { send_text(*mesh.links[0].control, text(mesh.key)); });
  };
  const auto frame = [&](const ControlFrame& f) {
    return on_control([&](const Key& key) { return encode(f, key); });
  };
  CHECK(is("CommMismatch", frame(frame_of(FrameKind::hello, 1))));
  CHECK(is("CommMismatch", frame(frame_of(FrameKind::heartbeat, 2))));
  CHECK(is("CommMismatch", frame(frame_of(FrameKind::heartbeat, 1, 0))));
  CHECK(is("CommMismatch", frame(frame_of(FrameKind::heartbeat, 1, 1, 8))));
  CHECK(is("CommMismatch", on_control([](const Key&) { return std::string(5000, '\xff'); })));
  ControlFrame abort = frame_of(FrameKind::abort, 1);
  abort.failure = {Failure::Type::aborted, 1, "over\x1b[2J"};
  CHECK(text_of(frame(abort)) == "over?[2J");
  CHECK(is("CommMismatch",
           with_impostor([](Mesh& mesh) { send_text(*mesh.links[0].data, message(mesh.key, 1)); })));
}

TEST_CASE("tcp: a rank that sends an invalid message gets the error") {
  std::string heard;
  with_impostor([&](Mesh& mesh) {
    send_text(*mesh.links[0].control, encode(frame_of(FrameKind::heartbeat, 5), mesh.key));
    const std::string all = read_to_end(*mesh.links[0].control);
    auto rest = std::as_bytes(std::span(all));
    for (Decoded next; (next = decode(rest, mesh.key)).outcome == Decoded::Outcome::frame;) {
      rest = rest.subspan(next.used);
      heard = next.frame.failure.text;
    }
  });
  CHECK(heard == "rank 1 sends rank 0 an invalid message");
}

// The number of frames on each kind of connection is a hundredth of the argument --frames=N, since each frame
// costs a communicator.
TEST_CASE("tcp: hostile bytes on established connections are refused") {
  std::mt19937 random(2);
  const long long rounds = test::argument("frames", 10'000) / 100;
  for (long long i = 0; i < rounds; ++i) {
    const auto data = with_impostor([&](Mesh& mesh) {
      send_text(*mesh.links[0].data, flipped(message(mesh.key, 0), kMessageHeader * 8, random));
    });
    CHECK(is("CommMismatch", data));
    const auto control = with_impostor([&](Mesh& mesh) {
      const std::string frame = encode(frame_of(FrameKind::leave, 1), mesh.key);
      // A flip may change the frame's length to a larger one, which rank 0 refuses only when more bytes
      // arrive.
      send_text(*mesh.links[0].control,
                flipped(frame, frame.size() * 8, random) + std::string(kMaxFrame, '\0'));
    });
    CHECK(is("CommMismatch", control));
    const auto cut = with_impostor([&](Mesh& mesh) {
      const std::string whole = message(mesh.key, 0);
      send_text(*mesh.links[0].data, whole.substr(0, random() % whole.size()));
      mesh.links[0].data.reset();
      mesh.links[0].control.reset();
    });
    CHECK(is("PeerLost", cut));
  }
}

// The argument --frames=N sets the number of connections.
TEST_CASE("tcp: strangers at the port are dropped, and disturb nobody") {
  std::mt19937 random(3);
  const long long frames = test::argument("frames", 3000);
  const auto errors = with_strangers([&](const std::string& text) {
    const Key key = key_from(text.substr(0, 32));
    const auto port = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(' ') + 1)));
    ControlFrame hello = frame_of(FrameKind::hello, 0);
    for (long long i = 0; i < frames; ++i) {
      hello.use = static_cast<ConnectionUse>(i % 2);
      std::string hostile = flipped(encode(hello, key), kFrameHeader * 8, random);
      if (i % 3 == 1) hostile.resize(random() % hostile.size());
      if (i % 3 == 2) hostile = encode(hello, random_key()) + hostile;
      const auto stranger = plain_connection(connect_to("127.0.0.1", port));
      send_text(*stranger, hostile);
      // Waits after two of three connections, so that the listener's queue, which the kernel bounds, does not
      // overflow.
      if (i % 3 != 1) CHECK(read_to_end(*stranger) == "");
    }
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("tcp: hellos of ranks that are not wanted are dropped") {
  const auto errors = with_strangers([](const std::string& text) {
    const Key key = key_from(text.substr(0, 32));
    const auto port = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(' ') + 1)));
    for (const ControlFrame& frame : {frame_of(FrameKind::hello, 0, 0), frame_of(FrameKind::hello, 0, 2),
                                      frame_of(FrameKind::hello, 0, -1), frame_of(FrameKind::hello, 0, 1, 8),
                                      frame_of(FrameKind::hello, 1), frame_of(FrameKind::leave, 0)}) {
      const auto stranger = plain_connection(connect_to("127.0.0.1", port));
      send_text(*stranger, encode(frame, key));
      CHECK(read_to_end(*stranger) == "");
    }
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("tcp: a rank that meets the others but never connects is named") {
  const auto errors = run_ranks(2, [](Rendezvous& rendezvous) {
    if (rendezvous.rank() == 1)
      return (void)rendezvous.all_gather(to_text(random_key()) + " plain 127.0.0.1 1");
    make_tcp_transport(rendezvous, {.timeout = 50ms});
  });
  CHECK(is("CommError", errors[0]));
  CHECK(names(errors[0], "rank 1 has not connected"));
}

TEST_CASE("tcp: leaving ends though nobody reads what was sent") {
  const auto errors = run_ranks(2, [](Rendezvous& rendezvous) {
    if (rendezvous.rank() == 1) {
      Mesh mesh = make_mesh(rendezvous, "127.0.0.1", {}, 10s);
      connect_neighbours(rendezvous, mesh, "another host");
      rendezvous.all_gather("rank 0 has left");
      return;
    }
    {
      const auto transport = make_tcp_transport(rendezvous, {.timeout = 1000ms});
      transport->begin(call_at("a.py", 10), "");
      // More than the receiving kernel buffers, and usually less than the sending and the receiving kernel
      // buffer together: then this rank leaves with a part unsent.
      std::vector<std::byte> out(1'900'000);
      try {
        transport->transfer({.to = 1, .out = out});
      } catch (const PeerSilent&) {
      }
    }
    rendezvous.all_gather("left");
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}
