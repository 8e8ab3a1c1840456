#include "plan.h"

#include <algorithm>
#include <charconv>
#include <sched.h>
#include <sstream>
#include <stdexcept>

namespace heddle::tool {
namespace {

constexpr int kMostRanks = 4096;

[[noreturn]] void refuse(const std::string& word) {
  throw std::runtime_error("--hosts: '" + word + "' is no HOST or HOST:RANKS");
}

Host parse_host(const std::string& word) {
  Host host;
  const std::size_t colon = word.rfind(':');
  host.name = word.substr(0, colon);
  if (colon != std::string::npos) {
    const char *at = word.data() + colon + 1, *end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(at, end, host.slots);
    if (error != std::errc{} || stop != end || host.slots < 1 || host.slots > kMostRanks) refuse(word);
  }
  // Refuses a host's name that starts with '-': ssh would take it for an option.
  const bool odd =
      host.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@") !=
      std::string::npos;
  if (host.name.empty() || host.name.front() == '-' || odd) refuse(word);
  if (host.name == "localhost") host.name.clear();
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream words(list + ",");
  for (std::string word; std::getline(words, word, ',');) hosts.push_back(parse_host(word));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (hosts[i].name == hosts[j].name) throw std::runtime_error("--hosts names a host twice");
    }
  }
  return hosts;
}

std::vector<RankPlan> place_ranks(const std::vector<Host>& hosts, int ranks) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (ranks == 0) ranks = slots;
  if (ranks > slots || ranks > kMostRanks) {
    throw std::runtime_error("-n asks for " + std::to_string(ranks) + " ranks, there is room for " +
                             std::to_string(std::min(slots, kMostRanks)));
  }
  std::vector<RankPlan> plan;
  for (const Host& host : hosts) {
    const int here = std::min(host.slots, ranks - static_cast<int>(plan.size()));
    for (int local = 0; local < here; ++local) {
      plan.push_back({static_cast<int>(plan.size()), host.name, local, here});
    }
  }
  return plan;
}

Environment identity(const RankPlan& rank, int size, const std::string& rendezvous) {
  return {{"HEDDLE_RANK", std::to_string(rank.rank)},
          {"HEDDLE_SIZE", std::to_string(size)},
          {"HEDDLE_LOCAL_RANK", std::to_string(rank.local_rank)},
          {"HEDDLE_LOCAL_SIZE", std::to_string(rank.local_size)},
          {"HEDDLE_RENDEZVOUS", rendezvous}};
}

std::vector<int> cores_of(int local_rank, int local_size) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<unsigned>(core), &set)) all.push_back(core);
  }
  const auto count = static_cast<long>(all.size());
  if (count < local_size) return {};
  return {all.begin() + count * local_rank / local_size, all.begin() + count * (local_rank + 1) / local_size};
}

std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

std::string remote_script(const RankPlan& rank, const std::string& directory, const Environment& environment,
                          const std::vector<std::string>& program) {
  std::string script = "cd " + shell_word(directory) + " || exit 126\n";
  for (const auto& [name, value] : environment) script += "export " + name + "=" + shell_word(value) + "\n";
  script += "n=$(( $(nproc 2>/dev/null || echo 1) / " + std::to_string(rank.local_size) +
            " )); [ $n -ge 1 ] || n=1\n"
            "export HEDDLE_WORKERS=${HEDDLE_WORKERS:-$n} OMP_NUM_THREADS=${OMP_NUM_THREADS:-$n}\n";
  std::string command;
  for (const std::string& word : program) command += shell_word(word) + " ";
  // setsid gives the program its own process group, but only when it runs: until then a signal goes to the
  // process, since there is no group. A second process ends the program when stdin ends, which also happens
  // if the launcher dies.
  script +=
      "exec 3<&0\nsetsid " + command +
      "</dev/null 3<&- & p=$!\n"
      "setsid sh -c 's=TERM; while read -r l; do s=$l; done; kill -$s -$0 || kill -$s $0; i=0\n"
      "while kill -0 $0 && [ $i -lt 50 ]; do i=$((i+1)); sleep 0.1; done; kill -KILL -$0 || kill -KILL $0' $p"
      " <&3 3<&- >/dev/null 2>&1 & w=$!\n"
      "exec 3<&- </dev/null\ntrap 'kill -TERM -$p || kill -TERM $p' TERM INT HUP\nwait $p; s=$?\n"
      "exec 2>/dev/null\nkill -KILL -$p\nkill -KILL -$w || kill -KILL $w\nexit $s\n";
  return "exec sh -c " + shell_word(script);
}

}  // namespace heddle::tool
