// Whole jobs that encrypt: the rendezvous, the mesh, and the refusal of unknown keys.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "arguments.h"
#include "bootstrap/rendezvous.h"
#include "net/tls_ends.h"
#include "tcp/mesh.h"
#include "tcp/tcp_transport.h"
#include "thread_ranks.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

std::string free_place() { return "tcp:127.0.0.1:" + std::to_string(port_of(listen_on("127.0.0.1", {}, 1))); }

LaunchEnvironment job_of(int rank, int size, const std::string& place) {
  return {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .rendezvous = place};
}

SecurityPolicy with(const Keys& keys) {
  return SecurityPolicy({.encrypt = true, .directory = keys.directory.path});
}
SecurityPolicy without() { return SecurityPolicy(SecurityPolicy::Options{}); }

bool holds(const std::exception_ptr& error, const std::string& part) {
  return text_of(error).find(part) != std::string::npos;
}

// Each rank sends `size` bytes to the next rank, and checks what it gets.
void ring(Transport& transport, std::size_t size) {
  CallRecord call;
  call.kind = Kind::all_gather;
  call.dtype = DType::u8;
  call.set_agreement();
  transport.begin(call, "");
  const int ranks = transport.size(), rank = transport.rank(), from = (rank + ranks - 1) % ranks;
  const std::vector<std::byte> out(size, static_cast<std::byte>(rank + 1));
  std::vector<std::byte> in(size);
  transport.transfer({.to = (rank + 1) % ranks, .out = out, .from = from, .in = in});
  transport.end();
  if (in != std::vector<std::byte>(size, static_cast<std::byte>(from + 1)))
    throw std::runtime_error("other bytes than were sent");
}

}  // namespace

TEST_CASE("tls: ranks meet at a port, and their texts are of any size") {
  const Keys keys;
  for (int size : {2, 5}) {
    const std::string place = free_place();
    const auto errors = on_threads(size, [&](int rank) {
      const auto all = make_rendezvous(job_of(rank, size, place), 30s, with(keys));
      for (std::size_t length : {0u, 1u, 20000u, 65536u}) {
        const auto texts = all->all_gather(std::string(length, static_cast<char>('a' + rank)));
        for (int other = 0; other < size; ++other) {
          if (texts.at(static_cast<std::size_t>(other)) !=
              std::string(length, static_cast<char>('a' + other)))
            throw std::runtime_error("wrong text");
        }
      }
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }
}

TEST_CASE("tls: where ranks meet, one that encrypts and one that does not both learn of it") {
  const Keys keys;
  for (const bool root_encrypts : {true, false}) {
    const std::string place = free_place();
    const auto errors = on_threads(2, [&](int rank) {
      make_rendezvous(job_of(rank, 2, place), 30s, (rank == 0) == root_encrypts ? with(keys) : without());
    });
    for (const auto& error : errors) {
      CAPTURE(text_of(error));
      CHECK((holds(error, "HEDDLE_COMM_ENCRYPT") || holds(error, "does not encrypt")));
    }
    CHECK(holds(errors[0],
                root_encrypts ? "does not encrypt, and rank 0 does" : "encrypts, and rank 0 does not"));
  }
}

TEST_CASE(
    "tls: where ranks meet, a rank whose key is not allowed is told so, and named to who waits for it") {
  const Keys keys, other;
  other.allow(keys);
  const std::string place = free_place();
  const auto errors = on_threads(2, [&](int rank) {
    make_rendezvous(job_of(rank, 2, place), rank == 0 ? 3000ms : 30000ms, with(rank == 0 ? keys : other));
  });
  CHECK(holds(errors[1], "does not accept this process's key " + other.fingerprint()));
  CHECK(holds(errors[0], "rank 1 of 2 has not come"));
  CHECK(holds(errors[0], "the key " + other.fingerprint()));
}

TEST_CASE("tls: a rank does not talk to a rank 0 whose key is not allowed") {
  const Keys keys, other;
  keys.allow(other);
  const std::string place = free_place();
  const auto errors = on_threads(2, [&](int rank) {
    make_rendezvous(job_of(rank, 2, place), rank == 0 ? 3000ms : 30000ms, with(rank == 0 ? keys : other));
  });
  CHECK(holds(errors[1], "the key " + keys.fingerprint()));
  CHECK(holds(errors[1], other.key.allowed_file));
  CHECK(holds(errors[0], "does not accept this process's key " + keys.fingerprint()));
}

TEST_CASE("tls: messages of any size go round") {
  const Keys keys;
  for (int ranks : {2, 3, 5}) {
    const auto errors = run_ranks(ranks, [&](Rendezvous& rendezvous) {
      const auto transport = make_tcp_transport(rendezvous, {.security = keys.security()});
      for (std::size_t size : {0u, 1u, 16384u, 1'000'003u}) ring(*transport, size);
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }
}

TEST_CASE("tls: many MiB each way at the same time") {
  const Keys keys;
  const auto errors = run_ranks(2, [&](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {.security = keys.security()});
    ring(*transport, (kSanitized ? 16 : 64) << 20);
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("tls: ranks of one mesh that do not accept each other all learn who and what helps") {
  const Keys keys, other;  // ranks 0 and 1 accept rank 2's key, and rank 2 does not accept theirs
  keys.allow(other);
  const auto errors = run_ranks(3, [&](Rendezvous& rendezvous) {
    make_tcp_transport(rendezvous, {.security = (rendezvous.rank() == 2 ? other : keys).security()});
  });
  for (const auto& error : errors) {
    CHECK(holds(error, "rank 2 does not accept rank 0: the key " + keys.fingerprint() + " is not in " +
                           other.key.allowed_file));
  }
}

TEST_CASE("tls: ranks of one mesh that do not all encrypt learn of it") {
  const Keys keys;
  for (const int odd : {0, 1}) {
    const auto errors = run_ranks(2, [&](Rendezvous& rendezvous) {
      make_tcp_transport(rendezvous, {.security = rendezvous.rank() == odd ? Security() : keys.security()});
    });
    for (const auto& error : errors) {
      CHECK(holds(error, odd == 0 ? "rank 1 encrypts and rank 0 does not"
                                  : "rank 1 does not encrypt and rank 0 does"));
    }
  }
}

TEST_CASE("tls: strangers at the port of a mesh disturb nobody") {
  const Keys keys, stranger;
  std::mt19937 random(8);
  const auto errors = run_ranks(2, [&](Rendezvous& rendezvous) {
    if (rendezvous.rank() == 0)
      return ring(*make_tcp_transport(rendezvous, {.security = keys.security()}), 1000);
    // A rendezvous like that of make_mesh, but other programs connect after rank 0 listens and before this
    // rank connects.
    struct Visited final : Rendezvous {
      Visited(Rendezvous& real, const std::function<void(const std::string&)>& company)
          : real_(real), company_(company) {}
      int rank() const override { return real_.rank(); }
      int size() const override { return real_.size(); }
      std::uint32_t epoch() const override { return real_.epoch(); }
      std::vector<std::string> all_gather(const std::string& mine) override {
        auto texts = real_.all_gather(mine);
        ++round_;
        if (round_ == 1) address_ = texts[0];
        if (round_ == 2) company_(address_);  // after round 2, in which the ranks exchange handshake errors
        return texts;
      }
      std::string address_{};
      int round_ = 0;
      Rendezvous& real_;
      const std::function<void(const std::string&)>& company_;
    };
    const std::function<void(const std::string&)> company = [&](const std::string& text) {
      const auto port = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(' ') + 1)));
      for (int i = 0; i < 100; ++i) {
        const bool encrypts = i % 2 == 0;
        const auto one = (encrypts ? stranger.security() : Security()).connect(connect_to("127.0.0.1", port));
        std::string hostile(random() % 200 + 1, '\0');
        for (char& letter : hostile) letter = static_cast<char>(random());
        hostile[0] = 'x';
        std::array<std::byte, 16> answer{};
        Step step;
        while ((step = one->receive(answer, {})).outcome == Step::Outcome::would_block) {
          one->send(std::as_bytes(std::span(hostile)), {});
          std::this_thread::yield();
        }
        if (encrypts && one->handshake_error().empty())
          throw std::runtime_error("a stranger was not refused");
      }
    };
    Visited visited(rendezvous, company);
    ring(*make_tcp_transport(visited, {.security = keys.security()}), 1000);
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}
