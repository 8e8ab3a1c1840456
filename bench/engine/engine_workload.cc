#include "engine/engine_workload.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "engine/engine_targets.h"

namespace heddle::bench {

Stage::Stage(Program program)
    : program_(std::move(program)), cells_(program_.cells), expected_(serial_checksum(program_)) {}

void Stage::clear() { std::fill(cells_.begin(), cells_.end(), Cell()); }

void Stage::check(const std::string& subject) const {
  if (checksum(cells_) != expected_) throw std::runtime_error(subject + " computed something else");
}

double Stage::set_spin(std::uint64_t steps) {
  program_.steps = steps;
  const double seconds = run_serially();
  expected_ = checksum(cells_);
  return seconds;
}

double Stage::run_serially() {
  clear();
  const double start = now();
  for (std::uint32_t i = 0; i < ops(); ++i) run_op(program_, cells(), i);
  return now() - start;
}

double Stage::run_unordered(int workers) {
  const auto share = [this, workers](int worker) {
    volatile std::uint64_t value = 1;
    for (std::uint32_t i = static_cast<std::uint32_t>(worker); i < ops();
         i += static_cast<std::uint32_t>(workers)) {
      value = program_.work(value, program_.steps);
    }
  };
  const double start = now();
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < workers; ++worker) others.emplace_back(share, worker);
    share(0);
  }
  return now() - start;
}

std::vector<Subject> subjects(const Setting& setting, Stage& stage, const Fits& fits,
                              const Measurement& measurement) {
  std::vector<Subject> result;
  for (const PeerKind& kind : setting.peers) {
    if (!fits(kind)) continue;
    try {
      std::shared_ptr<Peer> peer = kind.make(stage.program(), stage.cells(), setting.workers);
      result.push_back({kind.name, [&stage, measurement, peer, name = kind.name] {
                          stage.clear();
                          const double value = measurement(*peer);
                          stage.check(name);
                          return value;
                        }});
    } catch (const std::runtime_error& error) {
      std::printf("without %s: %s\n", kind.name.c_str(), error.what());
    }
  }
  return result;
}

bool any_peer(const PeerKind&) { return true; }
bool pushing_peer(const PeerKind& kind) { return kind.pushing != Pushing::whole_program; }
bool queueing_peer(const PeerKind& kind) { return kind.pushing == Pushing::queues; }

std::vector<Result> run_case(const Setting& setting, const Case& the_case) {
  std::vector<Result> results = measure(the_case, setting.options);
  if (!results.empty()) report(setting, results);
  return results;
}

void print_header(const Setting& setting) {
  std::printf(
      "\n%d worker%s, median of %d runs; a cache line goes to another core and back (RT) in %.0f ns\n",
      setting.workers, setting.workers == 1 ? "" : "s", setting.options.runs, setting.round_trip);
  std::printf("%-18s %-16s %12s %-8s %10s .. %-10s %12s %9s\n", "case", "subject", "median", "", "min", "max",
              "heddle/peer", "RT");
}

void report(const Setting& setting, const std::vector<Result>& results) {
  print_table(results, [&](const Result& result) {
    char round_trips[32] = "";
    if (result.unit.starts_with("ns") && setting.round_trip > 0) {
      std::snprintf(round_trips, sizeof round_trips, "%.2f", result.median / setting.round_trip);
    }
    char note[128];
    std::snprintf(note, sizeof note, "%8s  %s", round_trips,
                  setting.targets ? target_note(result, results.front()).c_str() : "");
    return std::string(note);
  });
  append_json(results, setting.options);
}

void Gate::pass(void* gate) {
  auto& self = *static_cast<Gate*>(gate);
  self.reached_ = true;
  self.open_.wait(false);
}

void Gate::wait_for_op() const {
  while (!reached_) std::this_thread::yield();
}

void Gate::open() {
  open_ = true;
  open_.notify_all();
}

}  // namespace heddle::bench
