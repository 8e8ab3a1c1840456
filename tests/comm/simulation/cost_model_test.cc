#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/cost_model.h>
#include <heddle/error.h>

#include "../support/files.h"
#include "algorithms/message_collectives.h"
#include "algorithms/tuning.h"
#include "thread_ranks.h"
#include "virtual_network.h"

using namespace heddle;
using heddle::test::algorithm_of;
using heddle::test::Deed;
using heddle::test::RecordingTransport;
using heddle::test::virtual_seconds;

namespace {

constexpr AllReduce kKinds[] = {AllReduce::ring, AllReduce::tree, AllReduce::recursive_doubling,
                                AllReduce::halving_doubling, AllReduce::hierarchical};

// A network in which a message costs 100, each byte 1, and combining a byte 0.5.
NetworkCost simple() {
  NetworkCost network;
  network.local = {100, 1};
  network.gamma = 0.5;
  return network;
}

// A network whose links between hosts cost more than those within a host.
NetworkCost two_levels(int ranks_per_host) {
  NetworkCost network = simple();
  network.remote = {700, 3};
  network.ranks_per_host = ranks_per_host;
  return network;
}

std::string message_of(const std::string& text) {
  try {
    tuning_from_text(text, "file");
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "";
}

// The transfers of rank 0 in an all_reduce. The size of the first message shows which algorithm was chosen.
std::vector<Deed> chosen_deeds(const NetworkCost& cost, int ranks, std::size_t bytes, bool reproducible,
                               std::vector<int> hosts = {}) {
  RecordingTransport transport(0, ranks, std::move(hosts));
  comm_detail::MessageCollectives collectives(transport, reproducible, true, cost);
  std::vector<std::byte> data(bytes);
  comm_detail::Collective call;
  call.record.kind = comm_detail::Kind::all_reduce;
  call.record.count = bytes;
  call.in = call.out = data.data();
  collectives.run(call);
  std::vector<Deed> messages = transport.take();
  std::erase_if(messages, [](const Deed& deed) { return deed.to < 0 && deed.from < 0; });
  return messages;
}

std::vector<Deed> deeds_of(AllReduce kind, int ranks, std::size_t bytes, int ranks_per_host) {
  RecordingTransport transport(0, ranks);
  std::vector<std::byte> data(bytes);
  algorithm_of(kind, ranks, ranks_per_host)(
      transport, {data.data(), bytes, 1, [](std::byte*, const std::byte*, const std::byte*, std::size_t) {}});
  return transport.take();
}

bool same(const std::vector<Deed>& a, const std::vector<Deed>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Deed& x, const Deed& y) {
           return x.to == y.to && x.from == y.from && x.out == y.out;
         });
}

}  // namespace

TEST_CASE("cost model: what each algorithm takes on one host, counted by hand") {
  const NetworkCost network = simple();
  // 3 + 3 steps, each of which costs 100 + 200; three of them also combine 200 bytes.
  CHECK(all_reduce_seconds(AllReduce::ring, network, 4, 800) == doctest::Approx(6 * 300 + 3 * 100));
  // Two steps, each of which costs 100 + 800 and combines 800 bytes.
  CHECK(all_reduce_seconds(AllReduce::recursive_doubling, network, 4, 800) ==
        doctest::Approx(2 * 900 + 2 * 400));
  // Steps of 400 and of 200 bytes, which also combine as many, and the same steps back without combining.
  CHECK(all_reduce_seconds(AllReduce::halving_doubling, network, 4, 800) ==
        doctest::Approx(2 * (500 + 300) + 300));
  // The 800 bytes are one piece. The root has two children, whose messages it combines one after the other.
  CHECK(all_reduce_seconds(AllReduce::tree, network, 4, 800) == doctest::Approx(4 * 900 + 2 * 400));
  // The fifth rank adds two messages to the steps of four ranks; one of them is combined.
  CHECK(all_reduce_seconds(AllReduce::recursive_doubling, network, 5, 800) ==
        doctest::Approx(4 * 900 + 3 * 400));
  for (const AllReduce kind : kKinds) CHECK(all_reduce_seconds(kind, network, 1, 800) == 0);
}

TEST_CASE("cost model: ranks of a host share its link, and its cores") {
  // The first step is within a host. The second is between hosts, where both ranks of a host send at once and
  // share the link.
  CHECK(all_reduce_seconds(AllReduce::recursive_doubling, two_levels(2), 4, 800) ==
        doctest::Approx(900 + 400 + 700 + 3 * 1600 + 400));
  // Within a host: 2 x (100 + 400), and 200 for combining. Between hosts: each rank has a half of 400 bytes
  // and sends 200 bytes twice, at 3 a byte for each of the two ranks of a host; combining costs 100.
  CHECK(all_reduce_seconds(AllReduce::hierarchical, two_levels(2), 4, 800) ==
        doctest::Approx(1000 + 200 + 2 * (700 + 2 * 3 * 200) + 100));
  NetworkCost crowded = simple();
  crowded.cores = 2;
  CHECK(all_reduce_seconds(AllReduce::ring, crowded, 8, 800) ==
        doctest::Approx(4 * all_reduce_seconds(AllReduce::ring, simple(), 8, 800)));
  CHECK(all_reduce_seconds(AllReduce::ring, crowded, 2, 800) ==
        doctest::Approx(all_reduce_seconds(AllReduce::ring, simple(), 2, 800)));
}

TEST_CASE("cost model: the same as the algorithms themselves, message by message, on one host") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    // Both numbers are divisible by 2 ... 9, so that ranks have equal parts. A tree has one piece with the
    // first number, and five with the second.
    for (const std::size_t bytes : {5040u, 322560u}) {
      for (const AllReduce kind : kKinds) {
        if (kind == AllReduce::hierarchical) continue;
        CAPTURE(name_of(kind));
        CAPTURE(ranks);
        CAPTURE(bytes);
        const double exact = virtual_seconds(algorithm_of(kind, ranks, ranks), simple(), ranks, bytes);
        const double model = all_reduce_seconds(kind, simple(), ranks, static_cast<double>(bytes));
        CHECK(model == doctest::Approx(exact).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("cost model: the same as the algorithms themselves, message by message, on several hosts") {
  for (const int here : {1, 2, 4}) {
    for (const int hosts : {2, 3, 4}) {
      const int ranks = here * hosts;
      for (const AllReduce kind : kKinds) {
        CAPTURE(name_of(kind));
        CAPTURE(ranks);
        CAPTURE(here);
        const double exact =
            virtual_seconds(algorithm_of(kind, ranks, here), two_levels(here), ranks, 322560);
        CHECK(all_reduce_seconds(kind, two_levels(here), ranks, 322560) ==
              doctest::Approx(exact).epsilon(0.05));
      }
    }
  }
}

TEST_CASE("cost model: auto runs what the model says takes least") {
  NetworkCost latency = simple(), bandwidth = simple();
  latency.local = {1e6, 1};
  bandwidth.local = {1, 1};
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const NetworkCost& cost : {latency, bandwidth, NetworkCost{}}) {
      for (const std::size_t bytes : {48u, 4800u, 480000u}) {
        AllReduce best = AllReduce::recursive_doubling;
        for (const AllReduce kind : {AllReduce::halving_doubling, AllReduce::tree, AllReduce::ring}) {
          if (all_reduce_seconds(kind, cost, ranks, static_cast<double>(bytes)) <
              all_reduce_seconds(best, cost, ranks, static_cast<double>(bytes)))
            best = kind;
        }
        CAPTURE(ranks);
        CAPTURE(bytes);
        CHECK(same(chosen_deeds(cost, ranks, bytes, false), deeds_of(best, ranks, bytes, ranks)));
      }
    }
  }
}

TEST_CASE("cost model: two levels are chosen where they are faster, and never where bits are promised") {
  NetworkCost cost = two_levels(2);
  cost.local = {1, 0.01};
  cost.remote = {1, 100};
  const std::vector<int> hosts{0, 0, 1, 1, 2, 2};
  CHECK(same(chosen_deeds(cost, 6, 48000, false, hosts), deeds_of(AllReduce::hierarchical, 6, 48000, 2)));
  CHECK(same(chosen_deeds(cost, 6, 48000, true, hosts), deeds_of(AllReduce::tree, 6, 48000, 2)));
  NetworkCost bandwidth = simple();
  bandwidth.local = {1, 1};  // with these costs a ring, or halving and doubling, is cheapest
  CHECK(same(chosen_deeds(bandwidth, 4, 48000, true), deeds_of(AllReduce::halving_doubling, 4, 48000, 4)));
}

TEST_CASE("tuning: a file is read, written and read again; what it does not name keeps its value") {
  const NetworkCost network =
      tuning_from_text("# measured today\n\nlocal_alpha_us 12.5  # small\r\nremote_beta_ns\t0.08\n", "file");
  CHECK(network.local.alpha == doctest::Approx(12.5e-6));
  CHECK(network.remote.beta == doctest::Approx(0.08e-9));
  CHECK(network.local.beta == NetworkCost{}.local.beta);
  const NetworkCost again = tuning_from_text(tuning_to_text(network), "file");
  CHECK(again.local.alpha == doctest::Approx(network.local.alpha));
  CHECK(again.remote.alpha == doctest::Approx(network.remote.alpha));
  CHECK(again.gamma == doctest::Approx(network.gamma));
}

TEST_CASE("tuning: a bad file is named with its line") {
  CHECK(
      message_of("gamma_ns 1\nlocal_alpha 3\n").starts_with("file:2: there is no 'local_alpha'; there is "));
  CHECK(message_of("gamma_ns one") == "file:1: 'one' is no number of 0 to 1e9");
  CHECK(message_of("gamma_ns -1") == "file:1: '-1' is no number of 0 to 1e9");
  CHECK(message_of("gamma_ns nan") == "file:1: 'nan' is no number of 0 to 1e9");
  CHECK(message_of("\n\ngamma_ns") == "file:3: want 'gamma_ns NUMBER'");
  CHECK(message_of("gamma_ns 1 2") == "file:1: want 'gamma_ns NUMBER'");
  CHECK(message_of("gamma_ns 1\ngamma_ns 2") == "file:2: gamma_ns stands here for the second time");
  CHECK_THROWS_AS(tuning_from_file("/nowhere/at/all"), InvalidArgument);
}

TEST_CASE("tuning: all ranks have rank 0's, and its errors") {
  const heddle::test::TemporaryFile good, bad;
  heddle::test::write_file(good.path, "local_alpha_us 77\n");
  heddle::test::write_file(bad.path, "local_alpha_us 77\nnonsense\n");
  const auto check = [&](comm_detail::Rendezvous& rendezvous, const std::string& file) {
    return comm_detail::agreed_tuning(rendezvous, rendezvous.rank() == 0 ? file : "/nowhere/at/all");
  };
  auto errors = test::run_ranks(3, [&](comm_detail::Rendezvous& rendezvous) {
    if (check(rendezvous, good.path).local.alpha != 77 * 1e-6) throw std::runtime_error("not rank 0's");
  });
  for (const auto& error : errors) CHECK(test::text_of(error) == "");
  errors = test::run_ranks(3, [&](comm_detail::Rendezvous& rendezvous) { check(rendezvous, bad.path); });
  for (const auto& error : errors) {
    const std::string text = test::text_of(error);
    CHECK(text.find("HEDDLE_COMM_TUNING: " + bad.path + ":2: ") != std::string::npos);
  }
}
