// gpu_differential: runs random elementwise programs on a device and writes, or compares, the bits of their results.
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <heddle/device.h>
#include <heddle/error.h>

#include "command_line.h"
#include "differential_program.h"
#include "lost_gpu.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

struct Options {
  std::string device = "gpu", write, expect;
  std::uint64_t seed = 1;
  int seeds = 200, first = 1;
  double seconds = 1e9;
};

using Programs = std::map<std::uint64_t, std::vector<StepLine>>;  // by seed

Programs read_programs(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  Programs programs;
  for (std::string text; std::getline(in, text);) {
    if (const auto line = parse_line(text)) programs[line->seed].push_back(*line);
  }
  if (programs.empty()) throw std::runtime_error(path + " has no results");
  return programs;
}

class Comparison {
 public:
  // Prints the first step whose results differ; later steps may have it as an operand. Two results of libm are counted only.
  void compare(const std::vector<StepLine>& expected, const std::vector<StepLine>& found) {
    ++programs_;
    if (expected.size() != found.size())
      return differ(expected.front(), found.front(), "has another number of steps");
    for (std::size_t i = 0; i < found.size(); ++i) {
      const StepLine &a = expected[i], &b = found[i];
      if (b.kind == "broken") return differ(a, b, "failed, for the reason above");
      if (a.seed != b.seed || a.step != b.step || a.op != b.op)
        return differ(a, b, "is another program: the file was made by another version");
      if (a.kind == "libm" && b.kind == "libm") {
        ++libm_;
        libm_unequal_[b.op] += a.hash != b.hash;
      } else if (a == b) {
        ++compared_[b.kind];
      } else {
        return differ(a, b, b.kind == "input" ? "was made of other values by the CPU" : "differs");
      }
    }
  }

  // A program without results.
  void failed(std::uint64_t seed, const std::string& why) {
    if (++failed_ <= 10)
      std::printf("FAILED: the program of seed %llu: %s\n", static_cast<unsigned long long>(seed),
                  why.c_str());
  }

  // Prints what was compared. Whether no program failed, nothing differed, and something was compared if it was to be.
  bool report(bool compared) const {
    if (failed_ > 0) std::printf("FAILED: %d programs\n", failed_);
    if (!compared) return failed_ == 0;
    std::printf("%d programs:", programs_);
    for (const auto& [kind, count] : compared_) std::printf(" %d %s,", count, kind.c_str());
    std::printf(" %d results of libm\n", libm_);
    for (const auto& [op, count] : libm_unequal_) {
      if (count == 0) continue;
      std::printf("libm: %s has other bits in %d results, which is allowed\n", op.c_str(), count);
    }
    for (const auto& [what, seeds] : differing_) {
      std::printf("DIFFERENT %s %s in %zu programs; seeds", what.first.c_str(), what.second.c_str(),
                  seeds.size());
      int printed = 0;
      for (const std::uint64_t seed : seeds) {
        if (++printed <= 10) std::printf(" %llu", static_cast<unsigned long long>(seed));
      }
      std::puts("");
    }
    return differing_.empty() && failed_ == 0 && compared_.count("bits");
  }

 private:
  void differ(const StepLine& a, const StepLine& b, const char* how) {
    auto& seeds = differing_[{b.op, b.dtype}];
    seeds.insert(b.seed);
    if (seeds.size() > 3) return;
    std::printf("operator %s, dtype %s, seed %llu %s:\n", b.op.c_str(), b.dtype.c_str(),
                static_cast<unsigned long long>(b.seed), how);
    std::cout << "  expected ";
    write_line(std::cout, a);
    std::cout << "  found    ";
    write_line(std::cout, b);
    std::cout.flush();
  }

  int programs_ = 0, libm_ = 0, failed_ = 0;
  std::map<std::string, int> compared_, libm_unequal_;
  std::map<std::pair<std::string, std::string>, std::set<std::uint64_t>> differing_;  // by operator and dtype
};

// The programs to be run: those of a file, or of seeds in a row.
Programs wanted_programs(const Options& options) {
  if (!options.expect.empty()) return read_programs(options.expect);
  Programs programs;
  for (int i = 0; i < options.seeds; ++i) programs[options.seed + static_cast<std::uint64_t>(i)];
  return programs;
}

// Runs the program of one seed, writes its lines and compares them.
void run_one(const Options& options, std::uint64_t seed, const std::vector<StepLine>& expected,
             std::ofstream& out, Comparison& comparison) {
  try {
    const std::vector<StepLine> found = run_program(seed, options.device == "gpu" ? gpu(0) : cpu());
    for (const StepLine& line : found) {
      if (out.is_open()) write_line(out, line);
    }
    out.flush();
    if (!options.expect.empty()) comparison.compare(expected, found);
  } catch (const Error& error) {
    comparison.failed(seed, error.what());
  }
}

int run(const Options& options) {
  const bool on_gpu = options.device == "gpu";
  if (on_gpu && gpu_count() == 0) {
    std::puts("no GPU: nothing was run.");
    return 77;
  }
  const Programs programs = wanted_programs(options);
  std::ofstream out;
  if (!options.write.empty()) out.open(options.write, options.first > 1 ? std::ios::app : std::ios::trunc);
  Comparison comparison;
  int number = 0, done = 0;
  std::string lost;
  const auto start = std::chrono::steady_clock::now();
  for (const auto& [seed, lines] : programs) {
    if (++number < options.first) continue;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > options.seconds)
      break;
    if (numbered())
      std::printf("#%d the program of seed %llu\n", number, static_cast<unsigned long long>(seed));
    run_one(options, seed, lines, out, comparison);
    ++done;
    if (on_gpu && !(lost = lost_gpu()).empty()) break;
  }
  if (out.is_open() && !out) throw std::runtime_error("cannot write " + options.write);
  if (!lost.empty()) {
    std::printf("a GPU is lost: %s\n", lost.c_str());
  } else if (numbered()) {
    std::puts("#end");
  }
  std::printf("%d of %zu programs were run\n", done, programs.size());
  const bool same = comparison.report(!options.expect.empty());
  const std::string wrong = problems();
  std::fputs(wrong.c_str(), stdout);
  return same && wrong.empty() && lost.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (numbered()) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Options options;
  command_line::Program program(
      "gpu_differential",
      "Runs random elementwise programs on a device and compares the bits of their results.");
  program.add_option("--device", options.device, "where they run").one_of({"gpu", "cpu"}).show_default();
  program.add_option("--seed", options.seed, "the first seed").show_default();
  program.add_option("--seeds", options.seeds, "how many seeds").show_default();
  program.add_option("--first", options.first, "the number of the first program that is run").show_default();
  program.add_option("--write", options.write, "a file for the results, one line a step");
  program.add_option("--expect", options.expect, "such a file, whose seeds are run and compared");
  program.add_option("--seconds", options.seconds, "after this time no further program is started");
  if (const auto status = program.parse(argc, argv)) return *status;
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
