#include "comm/comm_subjects.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>

namespace heddle::bench {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The path of a library's program, beside this program.
std::string program_of(const std::string& library) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / ("comm_bench_" + library);
  if (!fs::exists(program)) {
    throw std::runtime_error(program.filename().string() +
                             " was not built (bench/README.md says what it needs)");
  }
  return program.string();
}

class Starter {
 public:
  Starter(const CommSetting& setting, const MeetingPlace& place) : setting_(setting), place_(place) {}

  std::shared_ptr<Ranks> start_heddle(const std::string& name, const Words& environment) {
    return setting_.backend == "mpi" ? start_mpi(name, "heddle", environment)
                                     : start_each(name, "heddle", environment);
  }

  // Starts the library's program once for each rank.
  std::shared_ptr<Ranks> start_each(const std::string& name, const std::string& library,
                                    const Words& environment) {
    RankCommands commands{{}, place_.path(name + ".control")};
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      Words words{"env"};
      words.insert(words.end(), environment.begin(), environment.end());
      if (setting_.hosts > 1)
        words.push_back("HEDDLE_COMM_HOST=" + std::to_string(rank * setting_.hosts / setting_.ranks));
      words.push_back(program_of(library));
      for (const std::string& word : arguments(name)) words.push_back(word);
      words.push_back("rank=" + std::to_string(rank));
      words.push_back("size=" + std::to_string(setting_.ranks));
      commands.words.push_back(words);
    }
    return std::make_shared<Ranks>(name, setting_.ranks, commands);
  }

  std::shared_ptr<Ranks> start_mpi(const std::string& name, const std::string& library,
                                   const Words& environment) {
    Words words{"env"};
    words.insert(words.end(), environment.begin(), environment.end());
    const Words mpirun{"mpirun",
                       "-n",
                       std::to_string(setting_.ranks),
                       "--oversubscribe",
                       "--allow-run-as-root",
                       "--bind-to",
                       "none",
                       "--mca",
                       "plm",
                       "isolated"};
    words.insert(words.end(), mpirun.begin(), mpirun.end());
    if (setting_.backend == "tcp") {
      for (const char* word :
           {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"}) {
        words.push_back(word);
      }
    }
    words.push_back(program_of(library));
    for (const std::string& word : arguments(name)) words.push_back(word);
    return std::make_shared<Ranks>(name, setting_.ranks,
                                   RankCommands{{words}, place_.path(name + ".control")});
  }

 private:
  Words arguments(const std::string& name) const {
    Words words{"control=" + place_.path(name + ".control"), "meeting=" + place_.path(name + ".meeting"),
                "backend=" + setting_.backend};
    if (setting_.pin) words.push_back("pin");
    return words;
  }

  const CommSetting& setting_;
  const MeetingPlace& place_;
};

// Settings that keep glibc from mapping, faulting in and unmapping temporary memory in every large call.
const Words kTunedMalloc{"MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592",
                         "MALLOC_TOP_PAD_=268435456"};

using Start = std::function<std::shared_ptr<Ranks>()>;

class Subjects {
 public:
  explicit Subjects(const CommSetting& setting) : setting_(setting) {}

  // Adds subjects that share the same ranks.
  void add(const Start& start, const std::vector<std::pair<std::string, Words>>& named) {
    std::shared_ptr<Ranks> ranks;
    for (const auto& [name, variants] : named) {
      if (!wanted(name)) continue;
      try {
        if (!ranks) ranks = start();
        all_.push_back({name, ranks, variants});
      } catch (const std::exception& error) {
        std::printf("without %s: %s\n", name.c_str(), error.what());
        return;
      }
    }
  }

  std::vector<CommSubject> take() { return std::move(all_); }

 private:
  bool wanted(const std::string& name) const {
    const auto& list = setting_.subjects;
    return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
  }

  const CommSetting& setting_;
  std::vector<CommSubject> all_;
};

}  // namespace

std::size_t bytes_of(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  const std::string suffixes = " KMG", suffix = digits < text.size() ? text.substr(digits) : " ";
  const std::size_t power = suffixes.find(static_cast<char>(std::toupper(suffix[0])));
  if (digits == 0 || digits > 12 || suffix.size() > 1 || power == std::string::npos) {
    throw std::runtime_error("a size is a number of bytes, with K, M or G after it or not: " + text);
  }
  return std::stoul(text.substr(0, digits)) << (10 * power);
}

MeetingPlace::MeetingPlace() {
  std::string name = (fs::temp_directory_path() / "comm_bench_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder like " + name);
  folder_ = name;
}

MeetingPlace::~MeetingPlace() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<CommSubject> start_subjects(const CommSetting& setting, const MeetingPlace& place) {
  Starter starter(setting, place);
  Subjects subjects(setting);
  const bool reduces = setting.collective == "all_reduce";
  const auto heddle = [&] { return starter.start_heddle("heddle", {}); };
  if (reduces) {
    subjects.add(heddle, {{"heddle", {"raw"}}, {"heddle_shared", {"shared"}}, {"heddle_op", {"op"}}});
    for (const std::string& algorithm : setting.algorithms) {
      const std::string name = "heddle_" + algorithm;
      subjects.add([&] { return starter.start_heddle(name, {"HEDDLE_COMM_ALGORITHM=" + algorithm}); },
                   {{name, {"raw"}}});
    }
  } else {
    subjects.add(heddle, {{"heddle_op", {"op"}}});
    if (setting.collective == "burst") {
      subjects.add([&] { return starter.start_heddle("heddle_unfused", {"HEDDLE_COMM_FUSION=0"}); },
                   {{"heddle_unfused", {"op"}}});
    }
  }
  subjects.add([&] { return starter.start_mpi("openmpi", "openmpi", {}); }, {{"openmpi", {"usual"}}});
  subjects.add([&] { return starter.start_mpi("openmpi_tuned", "openmpi", kTunedMalloc); },
               {{"openmpi_tuned", {"usual"}}});
  if (reduces) {
    subjects.add([&] { return starter.start_each("gloo", "gloo", kTunedMalloc); },
                 {{"gloo", {"ring", "bcube", "ring_chunked", "halving_doubling"}}});
    if (setting.backend == "tcp" && setting.ranks == 2)
      subjects.add([&] { return starter.start_each("sockets", "sockets", {}); }, {{"sockets", {"usual"}}});
  }
  return subjects.take();
}

}  // namespace heddle::bench
