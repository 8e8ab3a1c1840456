#include "train/networks/table.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unistd.h>

#include "train/networks/child.h"
#include "train/networks/trainee.h"

namespace heddle::bench {
namespace {

constexpr double kTolerance = 1e-3;    // of losses, relative
constexpr double kTolerance16 = 0.03;  // in bf16

// The file with the initial state of a network. It is removed at the end.
struct StartFile {
  std::string path;
  explicit StartFile(const std::string& network)
      : path(std::filesystem::temp_directory_path() /
             ("heddle-train-bench-" + std::to_string(::getpid()) + ".safetensors")) {
    save_start(network, path);
  }
  ~StartFile() { std::filesystem::remove(path); }
  StartFile(const StartFile&) = delete;
  StartFile& operator=(const StartFile&) = delete;
};

struct Torch {
  std::unique_ptr<Trainee> process;
  std::string setting;
  double first_step = 0;
};

// What was measured of a network with one number of workers. Speeds are steps a second.
struct Row {
  Result eager, captured;
  std::optional<Result> torch{};
  std::string setting{}, losses{};
  double first_step = 0, torch_first_step = 0, memory = 0, torch_memory = 0;

  const Result& best() const { return eager.median > captured.median ? eager : captured; }
};
using Rows = std::map<int, Row>;  // by workers

// Starts PyTorch with each setting, and keeps the fastest process; none if PyTorch does not run.
Torch start_torch(const NetworkOptions& options, const NetworkKind& kind, int threads,
                  const std::string& start) {
  Torch best;
  double most = 0;
  for (const TorchSetting& setting : network_settings(kind, threads, options.compile)) {
    std::vector<std::string> command{options.python, NETWORKS_TORCH_SCRIPT,
                                     "--threads",    std::to_string(threads),
                                     "--network",    kind.name,
                                     "--start",      start};
    command.insert(command.end(), setting.arguments.begin(), setting.arguments.end());
    if (options.precision == "bf16") command.push_back("--bf16");
    try {
      auto process = std::make_unique<Trainee>(command, setting.environment);
      const double rate = process->prepare(options.seconds / 2);
      std::fprintf(stderr, "  pytorch %s: %.2f ms a step, the first one after %.1f s\n", setting.name.c_str(),
                   1e3 / rate, process->first_step());
      if (rate <= most) continue;
      most = rate;
      best = {std::move(process), setting.name};
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "  pytorch %s does not work: %s\n", setting.name.c_str(), error.what());
    }
  }
  if (best.process) best.process->prepare(options.seconds);
  return best;
}

std::unique_ptr<Trainee> start_heddle(const NetworkOptions& options, const NetworkKind& kind, int workers,
                                      const std::string& start, bool captured) {
  return std::make_unique<Trainee>(
      std::vector<std::string>{"/proc/self/exe", "--child", kind.name, "--start", start, "--mode",
                               captured ? "captured" : "eager", "--workers", std::to_string(workers),
                               "--precision", options.precision},
      std::vector<std::pair<std::string, std::string>>{});
}

std::string compare_losses(const Trainee& eager, const Trainee& captured, const Trainee* torch,
                           double tolerance) {
  if (eager.losses() != captured.losses()) return "**captured differs from eager**";
  if (!torch) return "";
  const double difference = loss_difference(eager, *torch);
  char text[64];
  std::snprintf(text, sizeof text, difference > tolerance ? "**differ by %.1e**" : "%.1e", difference);
  return text;
}

Row measure_network(const NetworkOptions& options, const NetworkKind& kind, int workers,
                    const std::string& start) {
  const CoreLimit limit(0, workers);
  const auto eager = start_heddle(options, kind, workers, start, false),
             captured = start_heddle(options, kind, workers, start, true);
  Case the_case{"train", kind.name, "steps/s", workers, {}};
  for (const auto& [name, trainee] :
       {std::pair("heddle eager", eager.get()), {"heddle captured", captured.get()}}) {
    std::fprintf(stderr, "  %s: %.2f ms a step\n", name, 1e3 / trainee->prepare(options.seconds));
    the_case.subjects.push_back({name, [trainee = trainee] { return trainee->run(); }});
  }
  const Torch torch = options.torch ? start_torch(options, kind, workers, start) : Torch();
  if (torch.process) the_case.subjects.push_back({"pytorch", [&] { return torch.process->run(); }});
  std::vector<Result> results = measure(the_case, options.common);
  append_json(results, options.common);
  Row row{.eager = results[0], .captured = results[1]};
  row.losses = compare_losses(*eager, *captured, torch.process.get(),
                              options.precision == "f32" ? kTolerance : kTolerance16);
  row.first_step = eager->first_step();
  row.memory = (row.eager.median > row.captured.median ? eager : captured)->peak_memory();
  if (!torch.process) return row;
  row.torch = results[2];
  row.setting = torch.setting;
  row.torch_first_step = torch.process->first_step();
  row.torch_memory = torch.process->peak_memory();
  return row;
}

void print_row(const NetworkKind& kind, int workers, const Row& row) {
  std::printf("| %s | %d | %.2f | %.2f |", kind.name.c_str(), workers, 1e3 / row.eager.median,
              1e3 / row.captured.median);
  if (row.torch) {
    std::printf(" %.2f | %.2f | %.2f | %.2f | %s | %s |\n", 1e3 / row.torch->median,
                median_ratio(row.best(), *row.torch), row.first_step, row.torch_first_step,
                row.setting.c_str(), row.losses.c_str());
  } else {
    std::printf(" | | %.2f | | | %s |\n", row.first_step, row.losses.c_str());
  }
  std::fflush(stdout);
}

std::string number(double value, const char* format = "%.2f") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Captured over eager for each number of workers, then the most workers over the fewest, and memory with the most.
void print_other(const NetworkKind& kind, const Rows& rows) {
  std::string line = "| " + kind.name;
  for (const auto& [workers, row] : rows) line += " | " + number(median_ratio(row.captured, row.eager));
  const Row &first = rows.begin()->second, &last = rows.rbegin()->second;
  const bool torch = first.torch && last.torch;
  if (rows.size() > 1) {
    line += " | " + number(last.best().median / first.best().median) + " | ";
    if (torch) line += number(last.torch->median / first.torch->median);
  }
  line += " | " + number(last.memory, "%.0f") + " | ";
  line += torch ? number(last.torch_memory, "%.0f") + " | " + number(last.memory / last.torch_memory) : "| ";
  std::printf("%s |\n", line.c_str());
}

void print_other_heads(const Rows& rows) {
  const int least = rows.begin()->first, most = rows.rbegin()->first;
  std::printf(
      "\nSpeeds divided by each other, and the largest resident memory of a process in MiB with %d "
      "thread%s.\n\n",
      most, most == 1 ? "" : "s");
  std::string line = "| Network", rule = "|---|---|---|---|";
  for (const auto& [workers, row] : rows) {
    line += " | Captured over eager, " + std::to_string(workers);
    rule += "---|";
  }
  if (rows.size() > 1) {
    line += " | " + std::to_string(most) + " threads over " + std::to_string(least) + " | PyTorch's";
    rule += "---|---|";
  }
  std::printf("%s | Memory | PyTorch's | Ratio |\n%s\n", line.c_str(), rule.c_str());
}

void print_heads(const NetworkOptions& options) {
  std::printf(
      "Milliseconds a training step, medians of %d runs of about %.1f s by turns, %s. Ratio: PyTorch's time "
      "divided by "
      "the better one of ours (median of the runs' ratios). First step: seconds from the start of the "
      "process to its "
      "first loss. Losses: the largest relative difference in the first 5 steps.\n\n",
      options.common.runs, options.seconds, options.precision.c_str());
  std::printf(
      "| Network | Threads | Eager | Captured | PyTorch | Ratio | First step, s | PyTorch's | PyTorch's "
      "setting | "
      "Losses |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::fflush(stdout);
}

bool wanted(const NetworkOptions& options, const NetworkKind& kind) {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), kind.name) != options.only.end();
}

}  // namespace

bool measure_networks(const NetworkOptions& options) {
  bool agreed = true;
  std::vector<std::pair<const NetworkKind*, Rows>> measured;
  print_heads(options);
  for (const NetworkKind& kind : network_kinds()) {
    if (!wanted(options, kind)) continue;
    std::fprintf(stderr, "%s: %s\n", kind.name.c_str(), kind.text.c_str());
    const StartFile start(kind.name);
    Rows rows;
    for (const int workers : options.common.workers) {
      std::fprintf(stderr, " %d thread%s\n", workers, workers == 1 ? "" : "s");
      const Row& row =
          rows.emplace(workers, measure_network(options, kind, workers, start.path)).first->second;
      print_row(kind, workers, row);
      agreed &= row.losses.find("differ") == std::string::npos;
    }
    measured.emplace_back(&kind, std::move(rows));
  }
  if (measured.empty()) return agreed;
  print_other_heads(measured[0].second);
  for (const auto& [kind, rows] : measured) print_other(*kind, rows);
  return agreed;
}

}  // namespace heddle::bench
