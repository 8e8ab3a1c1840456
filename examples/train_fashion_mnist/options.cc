#include "options.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <heddle/heddle.h>

#include "command_line.h"

namespace {

constexpr const char* kFooter = R"(
Examples:
  train_fashion_mnist                                      five epochs with the defaults
  train_fashion_mnist --epochs 10 --save run.ckpt          a checkpoint after every epoch, and at Ctrl-C
  train_fashion_mnist --resume run.ckpt --save run.ckpt    goes on where it stopped, to the last bit
  HEDDLE_SCHEDULER=fuzz:7 train_fashion_mnist --limit 500  another order of ops, the same result
  heddle launch -n 2 -- train_fashion_mnist --kvstore allreduce    two processes, the same curve up to rounding
  heddle launch -n 2 --servers 1 -- train_fashion_mnist --kvstore dist_sync    the same, with the weights on a server

With --kvstore allreduce every rank takes its share of each batch of --batch pictures, drops out what one process would
drop, and adds its gradient to the mean over all: only the order of additions differs. Rank 0 prints and writes files;
all ranks read --data and --resume, and a run may go on with another number of ranks.

Exit status: 0 done, 1 failed, 2 bad flags, data or files, 130 interrupted.)";

// What is wrong with a rate; empty if `text` is a number in [0, 1000] and nothing else. Refuses NaN.
std::string problem_with_rate(const std::string& text) {
  char* end = nullptr;
  double rate = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && rate >= 0 && rate <= 1000 ? ""
                                                                          : text + " is not in [0 - 1000]";
}

std::string problem_with_store(const std::string& text) {
  for (const char* one : {"local", "allreduce", "dist_sync", "dist_async"}) {
    if (text == one) return "";
  }
  const std::string ssp = "dist_ssp:";
  const bool good = text.starts_with(ssp) && text.size() > ssp.size() &&
                    text.find_first_not_of("0123456789", ssp.size()) == std::string::npos;
  return good ? "" : text + " is not local, allreduce, dist_sync, dist_async or dist_ssp:N";
}

// What is wrong with a seed; empty if it is valid. Without this check the option's conversion to an unsigned
// number would accept -1.
std::string problem_with_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seed);
  return error == std::errc() && stopped == end ? "" : text + " is not in [0 - 18446744073709551615]";
}

void add_options(heddle::command_line::Program& app, Options& options) {
  app.footer(kFooter);
  app.add_option("--epochs", options.epochs, "passes over the training pictures")
      .type_name("N")
      .range(1, 100000)
      .show_default();
  app.add_option("--batch", options.batch,
                 "pictures a step, over all ranks, 0.3 MB of memory each; the last step may have fewer")
      .type_name("N")
      .range(1, 60000)
      .show_default();
  app.add_option("--lr", options.lr, "peak learning rate [0.1 with sgd, 0.002 with adam and adamw]")
      .type_name("RATE")
      .check(problem_with_rate);
  app.add_option("--optimizer", options.optimizer, "sgd (momentum 0.9, weight decay 5e-4), adam or adamw")
      .one_of({"sgd", "adam", "adamw"})
      .show_default();
  app.add_option("--schedule", options.schedule, "how the learning rate falls, after a warm-up")
      .one_of({"cosine", "constant", "step"})
      .show_default();
  app.add_option("--kvstore", options.kvstore,
                 "local: one process; allreduce: one rank of the job that this was launched in; dist_sync, "
                 "dist_async, dist_ssp:N: the same, with the weights on servers (heddle launch --servers)")
      .type_name("STORE")
      .check(problem_with_store)
      .show_default();
  app.add_option("--compression", options.compression,
                 "of gradients between processes: none, fp16, bf16, 1bit, 2bit:THRESHOLD, topk:RATIO; empty: "
                 "HEDDLE_COMM_COMPRESSION, or none")
      .type_name("CODEC")
      .show_default();
  app.add_option("--pull-compression", options.pull_compression,
                 "the same for weights that come from servers; empty: HEDDLE_STORE_PULL_COMPRESSION, or none")
      .type_name("CODEC")
      .show_default();
  app.add_option("--seed", options.seed, "of initial weights, order and dropout; one seed, one result")
      .type_name("N")
      .check(problem_with_seed)
      .show_default();
  app.add_option("--limit", options.limit, "use only the first N training and test pictures; 0: all")
      .type_name("N")
      .range(0, 60000)
      .show_default();
  app.add_option("--workers", options.workers, "worker threads; 0: HEDDLE_WORKERS, or one a usable core")
      .type_name("N")
      .range(0, 1024)
      .show_default();
  app.add_option("--data", options.data, "directory of the four IDX files, gzipped or not")
      .type_name("DIR")
      .show_default();
  app.add_option("--save", options.save, "write a checkpoint to this file after every epoch and at Ctrl-C")
      .type_name("FILE")
      .show_default();
  app.add_option("--resume", options.resume, "go on from this checkpoint, with the settings of its run")
      .type_name("FILE")
      .show_default();
  app.add_option("--plot", options.plot, "write curves of loss and accuracy to this SVG; empty: none")
      .type_name("FILE")
      .show_default();
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// Takes over the settings of a checkpoint's run. A flag that the user gave overrides a setting that may
// change. It is an error if it differs from a setting that may not.
void take_over_notes(const heddle::command_line::Program& app, Options& options) {
  std::map<std::string, std::string> given = options.to_notes();
  for (const auto& [name, saved] : heddle::checkpoint_notes(options.resume)) {
    auto option = app.find_option("--" + name);
    if (!option)
      throw heddle::Error("checkpoint '" + options.resume + "' is of another program: it notes " + name);
    bool free = name == "epochs" || name == "lr" || name == "schedule";
    if (option->given()) {
      if (free || given[name] == saved) continue;
      throw heddle::Error("--" + name + " " + given[name] + ": the run in '" + options.resume + "' has " +
                          saved + "; leave the flag out");
    }
    option->set(saved);
  }
}

}  // namespace

double Options::learning_rate() const { return lr.value_or(optimizer == "sgd" ? 0.1 : 0.002); }

std::map<std::string, std::string> Options::to_notes() const {
  return {
      {"epochs", std::to_string(epochs)}, {"batch", std::to_string(batch)}, {"lr", exact(learning_rate())},
      {"optimizer", optimizer},           {"schedule", schedule},           {"seed", std::to_string(seed)},
      {"limit", std::to_string(limit)}};
}

ParsedOptions parse_options(int argc, char** argv) {
  heddle::command_line::Program app(
      "train_fashion_mnist",
      "Trains a small convolutional network on Fashion-MNIST (60,000 pictures of clothes in ten classes).");
  Options options;
  add_options(app, options);
  app.on_parsed([&] {
    if (!options.resume.empty()) take_over_notes(app, options);
  });
  if (const auto status = app.parse(argc, argv)) return {std::nullopt, *status};
  return {options, 0};
}

void check_writable(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw heddle::Error(flag + " '" + path + "' is a directory");
  std::string probe = path + ".probe";
  if (std::ofstream file(probe); !file || !(file << ' ') || !file.flush()) {
    throw heddle::Error(flag + " '" + path + "' cannot be written: " + std::strerror(errno));
  }
  std::filesystem::remove(probe, ignored);
}

void check_distinct(const Options& options) {
  auto place = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  for (const auto& [flag, path] :
       {std::pair{"--save", options.save}, std::pair{"--resume", options.resume}}) {
    if (path.empty() || options.plot.empty() || place(path) != place(options.plot)) continue;
    throw heddle::Error(std::string(flag) + " and --plot are the same file, '" + path + "'");
  }
}

void check_ranks(const Options& options, int ranks) {
  const std::string job = std::to_string(ranks) + " ranks";
  if (options.kvstore == "local" && ranks > 1) {
    throw heddle::Error("--kvstore local: this is one of " + job +
                        ", each of which would train alone; want --kvstore allreduce or dist_sync");
  }
  if (options.kvstore == "local" && !options.compression.empty()) {
    throw heddle::Error(
        "--compression " + options.compression +
        ": nothing is compressed with --kvstore local; want --kvstore allreduce or dist_sync");
  }
  const bool pulls = options.kvstore != "local" && options.kvstore != "allreduce";
  if (!pulls && !options.pull_compression.empty()) {
    throw heddle::Error("--pull-compression " + options.pull_compression + ": with --kvstore " +
                        options.kvstore + " weights come from no server; want --kvstore dist_sync");
  }
  if (ranks > options.batch) {
    throw heddle::Error("--batch " + std::to_string(options.batch) + ": " + job +
                        " share each batch, and each wants a picture of it");
  }
}
