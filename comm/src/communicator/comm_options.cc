#include "communicator/comm_options.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <unistd.h>
#include <vector>

#include "connection/environment.h"
#include "core/backend_table.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

// Deadlines of longer timeouts could overflow.
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24);

std::chrono::milliseconds seconds_of(const char* name, const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 0.01 && seconds <= 86400)) {
    throw InvalidArgument(std::string(name) + " is '" + text + "'; want seconds, 0.01 to 86400");
  }
  return std::chrono::milliseconds(std::lround(seconds * 1000));
}

std::size_t bytes_of(const char* name, const std::string& text) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(std::string(name) + " is '" + text + "'; want bytes, as 262144; 0: no fusion");
  }
  return bytes;
}

}  // namespace

void check_timeout(const char* who, std::chrono::milliseconds timeout) {
  const std::string problem = std::string(who) + ": timeout is ";
  if (timeout.count() < 0) throw InvalidArgument(problem + "negative");
  if (timeout <= kLongestTimeout) return;
  throw InvalidArgument(problem + std::to_string(timeout.count()) + " ms; want a day at most");
}

BackendOptions backend_options(const CommOptions& options) {
  BackendOptions result;
  const std::string timeout = variable("HEDDLE_COMM_TIMEOUT"), algorithm = variable("HEDDLE_COMM_ALGORITHM");
  check_timeout("CommOptions", options.timeout);
  if (options.timeout.count() > 0) {
    result.timeout = options.timeout;
  } else if (!timeout.empty()) {
    result.timeout = seconds_of("HEDDLE_COMM_TIMEOUT", timeout);
  }
  const std::string& wanted = options.algorithm.empty() ? algorithm : options.algorithm;
  if (!wanted.empty()) result.algorithm = algorithm_from_name(wanted);
  result.tuning = variable("HEDDLE_COMM_TUNING");
  if (const std::string fusion = variable("HEDDLE_COMM_FUSION"); !fusion.empty())
    result.fusion = bytes_of("HEDDLE_COMM_FUSION", fusion);
  if (options.gpu < -1) {
    throw InvalidArgument("CommOptions: gpu is " + std::to_string(options.gpu) +
                          "; want a GPU's number, or -1");
  }
  result.gpu = options.gpu;
  result.backend = backend_name(options);
  result.reproducible = options.reproducible || flag_of("HEDDLE_COMM_REPRODUCIBLE");
  return result;
}

std::string backend_name(const CommOptions& options) {
  const std::string name = options.backend.empty() ? variable("HEDDLE_COMM_BACKEND") : options.backend;
  return name.empty() ? "auto" : name;
}

namespace {

struct Setting {
  const char *what, *where;
  std::string value;
};

std::vector<Setting> settings_of(const BackendOptions& options) {
  return {{"back ends", "HEDDLE_COMM_BACKEND and CommOptions::backend", options.backend},
          {"algorithms", "HEDDLE_COMM_ALGORITHM and CommOptions::algorithm", name_of(options.algorithm)},
          {"orders of reduction", "HEDDLE_COMM_REPRODUCIBLE and CommOptions::reproducible",
           options.reproducible ? "the reproducible one" : "any"}};
}

constexpr const char* kSettings = "settings";  // identifies the text among those of other all_gathers

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Text such as "rank 0 wants auto, ranks 1, 3 want tcp".
std::string who_wants_what(const std::vector<std::string>& values) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < values.size(); ++rank) ranks[values[rank]].push_back(rank);
  std::string text;
  for (std::size_t first = 0; first < values.size(); ++first) {
    const std::vector<std::size_t>& alike = ranks[values[first]];
    if (alike.front() != first) continue;
    text += (text.empty() ? "" : ", ") + std::string(alike.size() == 1 ? "rank " : "ranks ");
    for (const std::size_t rank : alike) text += (rank == first ? "" : ", ") + std::to_string(rank);
    text += (alike.size() == 1 ? " wants " : " want ") + values[first];
  }
  return text;
}

}  // namespace

namespace {

constexpr const char* kAnyEngine = "any";

// kAnyEngine if the engine can run several ranks; else a word that identifies the engine and its process, a space, and
// why_not_shared().
std::string single_engine(const Engine& engine) {
  const std::string why = why_not_shared(engine);
  if (why.empty()) return kAnyEngine;
  static const std::uint64_t process = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  return std::to_string(process) + "/" + std::to_string(getpid()) + "/" +
         std::to_string(reinterpret_cast<std::uintptr_t>(&engine)) + " " + why;
}

// Gathers the texts of all ranks, and returns the lines of each text, by rank.
std::vector<std::vector<std::string>> gather_lines(Rendezvous& rendezvous,
                                                   const std::vector<std::string>& mine) {
  std::string text = kSettings;
  for (const std::string& line : mine) text += "\n" + line;
  std::vector<std::vector<std::string>> all;
  for (const std::string& theirs : rendezvous.all_gather(text)) {
    all.push_back(lines_of(theirs));
    if (all.back().size() == mine.size() + 1 && all.back()[0] == kSettings) continue;
    throw CommMismatch("rank " + std::to_string(all.size() - 1) +
                       " sent no settings: does it run another version?");
  }
  return all;
}

std::vector<std::string> line_of_all(const std::vector<std::vector<std::string>>& all, std::size_t line) {
  std::vector<std::string> values;
  for (const auto& theirs : all) values.push_back(theirs[line + 1]);
  return values;
}

void check_engines(const std::vector<std::string>& engines) {
  std::map<std::string, std::size_t> ranks;
  for (std::size_t rank = 0; rank < engines.size(); ++rank) {
    const auto [same, first] = ranks.emplace(engines[rank], rank);
    if (first || engines[rank] == kAnyEngine) continue;
    throw InvalidArgument("Communicator::create: ranks " + std::to_string(same->second) + " and " +
                          std::to_string(rank) + " share an engine" +
                          engines[rank].substr(engines[rank].find(' ')));
  }
}

}  // namespace

std::string why_not_shared(const Engine& engine) {
  const EngineOptions options = engine.options();
  if (options.scheduler == Scheduler::naive) {
    return "whose scheduler is naive, which runs each op inside its push, one after the other, so "
           "that ranks on threads of one engine would wait for each other for ever; want the "
           "scheduler threaded or fuzz, or ranks that are processes";
  }
  if (options.max_ops != 0 || options.max_bytes != 0) {
    return "that bounds its ops (max_ops, max_bytes), so that the calls of one rank can take all the"
           " room that another rank's call needs to be pushed, and both wait for ever; want an "
           "engine for each rank, or one without bounds";
  }
  return "";
}

void agree_on_settings(Rendezvous& rendezvous, const BackendOptions& options, const Engine& engine) {
  const std::vector<Setting> settings = settings_of(options);
  std::vector<std::string> mine;
  for (const Setting& setting : settings) mine.push_back(setting.value);
  mine.push_back(single_engine(engine));
  const auto all = gather_lines(rendezvous, mine);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::vector<std::string> values = line_of_all(all, i);
    if (std::set<std::string>(values.begin(), values.end()).size() == 1) continue;
    throw CommMismatch(std::string("the ranks want different ") + settings[i].what + ": " +
                       who_wants_what(values) + "; " + settings[i].where + " must be the same on all ranks");
  }
  check_engines(line_of_all(all, settings.size()));
}

void check_backend_name(const std::string& name) {
  if (name == "auto" || find_backend(name)) return;
  std::string known = "auto";
  for (const BackendInfo& info : backends()) {
    if (!info.threads) known += ", " + info.name;
  }
  throw InvalidArgument("there is no communication backend '" + name + "'; there is " + known);
}

std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options) {
  check_backend_name(name);
  if (const BackendInfo* info = find_backend(name)) return info->make(rendezvous, options);
  try {
    return find_backend("shm")->make(rendezvous, options);
  } catch (const CommError&) {  // shm is not possible; this is thrown on all ranks, or on none
    return find_backend("tcp")->make(rendezvous, options);
  }
}

}  // namespace heddle::comm_detail
