// Servers under faults lose nothing, refuse unauthenticated peers, and do not grow. Short runs are tests.
//
//     kv_faults messages [--count=N] [--transport=net|zmq] [--seed=S] [--rare=N] [--scheduled]
//         delays, losses, half-open connections, corruption, cuts, replays and reordering between workers and
//         servers: sums are exact. --scheduled: with a scheduler and replicas
//     kv_faults strangers [--count=N] [--transport=net|zmq] [--seed=S]
//         unauthenticated connections send garbage, partial handshakes, oversize lengths: all are refused
//     kv_faults kills [--count=N] [--transport=net|zmq] [--seed=S] [--untimed]
//         replicated servers, workers, the scheduler are killed under load: exact sums, repairs within 1 s
//     kv_faults soak [--seconds=T] [--transport=net|zmq] [--seed=S]
//         workers that join, leave and are killed under load: the server's memory stays flat
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "faults/programs.h"

namespace {

using heddle::test::FaultSettings;

FaultSettings settings_in(int argc, char** argv) {
  FaultSettings settings;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "--count") {
      settings.count = std::atoll(value.c_str());
    } else if (name == "--seconds") {
      settings.seconds = std::atof(value.c_str());
    } else if (name == "--transport") {
      settings.transport = value;
    } else if (name == "--seed") {
      settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--rare") {
      settings.rare = std::atoi(value.c_str());
    } else if (name == "--scheduled") {
      settings.scheduled = true;
    } else if (name == "--untimed") {
      settings.untimed = true;
    } else {
      throw std::invalid_argument("what is " + word + "?");
    }
  }
  return settings;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "worker" && argc == 7)
    return heddle::test::run_worker(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]),
                                    std::strtoull(argv[6], nullptr, 10));
  if (what == "messages") return run_messages(settings_in(argc, argv));
  if (what == "strangers") return run_strangers(settings_in(argc, argv));
  if (what == "kills") return run_kills(settings_in(argc, argv));
  if (what == "soak") return run_soak(settings_in(argc, argv), argv[0]);
  std::fprintf(
      stderr,
      "kv_faults messages|strangers|kills|soak [--count=N] [--seconds=T] [--transport=net|zmq] [--seed=S] "
      "[--rare=N] [--scheduled] [--untimed]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_faults: %s\n", error.what());
    return 1;
  }
}
