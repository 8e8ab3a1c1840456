// Kills a training at random moments with SIGKILL, and starts it again from its checkpoint, until it is done: weights and
// history must be those of a training that nobody killed, and no temporary file is left. With several ranks, which are threads,
// there is a checkpoint for each step, of which the last ones are kept, and the newest one is found by its name.
//
//   fit_kills --count=5 [--seed=1] [--ranks=1]
//   fit_kills --train CHECKPOINT RESULT RANKS    the training
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <heddle/heddle.h>

#include "fit_program.h"

namespace {

using namespace heddle;
using namespace heddle::test;
using Clock = std::chrono::steady_clock;

// A training from the checkpoint on.
FitResult train(FitProgram& program, const std::string& checkpoint, bool is_one) {
  FitOptions all = program.options(12);
  all.batch = is_one ? 4 : 6;  // each rank has several rows of the last batch
  all.resume = checkpoint;     // with {step}: the newest one
  all.callbacks = {
      std::make_shared<ReduceOnPlateau>(
          ReduceOnPlateauOptions{.factor = 0.5, .min_delta = 0.05, .patience = 1}),
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 20, .restore_best = true}),
      std::make_shared<ModelCheckpoint>(checkpoint,
                                        ModelCheckpointOptions{.every_steps = 1, .keep = is_one ? 0 : 3})};
  return program.result(program.fit(std::move(all)));
}

std::vector<FitResult> train_ranks(const std::string& checkpoint, std::size_t count) {
  if (count == 1) {
    FitProgram program;
    return {train(program, checkpoint, true)};
  }
  const auto ranks = Communicator::create_local(static_cast<int>(count));
  std::vector<FitResult> results(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        FitProgram program({.optimizer = "adam", .store = KVStore::create("allreduce", ranks[rank])});
        default_generator() = Generator(5).jumped(static_cast<std::int64_t>(rank));
        results[rank] = train(program, checkpoint + "-{step}", false);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& one : threads) one.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

// Trains, and writes what the ranks have computed as text without rounding.
void train_and_write(const std::string& checkpoint, const std::string& result_path, std::size_t count) {
  const std::vector<FitResult> results = train_ranks(checkpoint, count);
  std::ofstream file(result_path + ".new");
  for (const FitResult& result : results) {
    file << std::hexfloat << result.steps << "\n";
    for (const auto& [name, values] : result.values) {
      file << name;
      for (const double value : values) file << " " << value;
      file << "\n";
    }
    for (const std::vector<float>& array : result.state) {
      for (const float value : array) file << value << " ";
      file << "\n";
    }
  }
  file.close();
  std::filesystem::rename(result_path + ".new", result_path);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whether there is a file whose name begins, or has within it, as told.
bool has_file(const std::string& directory, const std::string& begin, const std::string& part) {
  for (const auto& one : std::filesystem::directory_iterator(directory)) {
    const std::string name = one.path().filename().string();
    if (name.starts_with(begin) && name.find(part) != std::string::npos) return true;
  }
  return false;
}

pid_t start(const char* program, const std::string& checkpoint, const std::string& result,
            const std::string& ranks) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  ::execl(program, program, "--train", checkpoint.c_str(), result.c_str(), ranks.c_str(), nullptr);
  std::_Exit(127);
}

// Waits until the child has ended, or until `deadline`, when it is killed. Returns whether it was killed.
bool run_until(pid_t child, Clock::time_point deadline) {
  int status = 0;
  for (bool was_killed = false;;) {
    if (::waitpid(child, &status, was_killed ? 0 : WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
      if (was_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
      throw std::runtime_error("the training has failed with status " + std::to_string(status));
    }
    if (Clock::now() >= deadline) {
      ::kill(child, SIGKILL);
      was_killed = true;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// Kills trainings `count` times in all. Each life is long enough for at least its start, and for a random part of a run.
int kill_trainings(const char* program, int count, unsigned seed, const std::string& ranks) {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-kills-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
  const std::string directory = pattern + "/";
  const Clock::time_point begin = Clock::now();
  run_until(start(program, directory + "plain", directory + "wanted", ranks), Clock::time_point::max());
  const auto whole = Clock::now() - begin;
  std::mt19937 random(seed);
  int killed = 0, runs = 0, resumed = 0, failures = 0;
  while (killed < count && failures == 0) {
    const std::string name = "run" + std::to_string(runs), checkpoint = directory + name;
    const std::string result = directory + "result";
    std::filesystem::remove(result);
    for (int lives = 0;; ++lives) {
      const double part = std::uniform_real_distribution(0.05, 1.0)(random);
      const bool spare = killed >= count || lives >= 20;
      const auto life = std::chrono::duration_cast<Clock::duration>(whole * part);
      if (has_file(directory, name, "")) ++resumed;
      if (!run_until(start(program, checkpoint, result, ranks),
                     spare ? Clock::time_point::max() : Clock::now() + life))
        break;
      ++killed;
    }
    ++runs;
    const bool has_rest = has_file(directory, name, ".tmp-");
    if (has_rest) std::printf("a temporary file of %s is left\n", name.c_str());
    if (has_rest || content_of(result) != content_of(directory + "wanted")) ++failures;
  }
  std::printf("%d kills in %d trainings, %d lives that resumed, %d trainings differ\n", killed, runs, resumed,
              failures);
  if (failures > 0) {
    std::printf("what they have left is in %s\n", directory.c_str());
    return EXIT_FAILURE;
  }
  std::filesystem::remove_all(pattern);
  return resumed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 4 && arguments[0] == "--train") {
      train_and_write(arguments[1], arguments[2], static_cast<std::size_t>(std::stoi(arguments[3])));
      return EXIT_SUCCESS;
    }
    int count = 5;
    unsigned seed = 1;
    std::string ranks = "1";
    for (const std::string& one : arguments) {
      if (one.starts_with("--count=")) count = std::stoi(one.substr(8));
      if (one.starts_with("--ranks=")) ranks = one.substr(8);
      if (one.starts_with("--seed=")) seed = static_cast<unsigned>(std::stoul(one.substr(7)));
    }
    return kill_trainings(argv[0], count, seed, ranks);
  } catch (const std::exception& error) {
    std::cerr << "fit_kills: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
