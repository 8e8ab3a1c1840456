// Kills a training at random moments with SIGKILL, and starts it again from its checkpoint, until it is done: weights and
// history must be those of a training that nobody killed.
//
//   fit_kills --count=5 [--seed=1]
//   fit_kills --train CHECKPOINT RESULT    the training
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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

#include <heddle/heddle.h>

#include "fit_program.h"

namespace {

using namespace heddle;
using namespace heddle::test;
using Clock = std::chrono::steady_clock;

// Trains from the checkpoint on, and writes what it has computed as text without rounding.
void train(const std::string& checkpoint, const std::string& result_path) {
  FitProgram program;
  FitOptions all = program.options(12);
  all.batch = 4;
  all.resume = checkpoint;
  all.callbacks = {
      std::make_shared<ReduceOnPlateau>(
          ReduceOnPlateauOptions{.factor = 0.5, .min_delta = 0.05, .patience = 1}),
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 20, .restore_best = true}),
      std::make_shared<ModelCheckpoint>(checkpoint, ModelCheckpointOptions{.every_steps = 1})};
  const FitResult result = program.result(program.fit(std::move(all)));
  std::ofstream file(result_path + ".new");
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
  file.close();
  std::filesystem::rename(result_path + ".new", result_path);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

pid_t start(const char* program, const std::string& checkpoint, const std::string& result) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  ::execl(program, program, "--train", checkpoint.c_str(), result.c_str(), nullptr);
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
int kill_trainings(const char* program, int count, unsigned seed) {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-kills-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
  const std::string directory = pattern + "/";
  const Clock::time_point begin = Clock::now();
  run_until(start(program, directory + "plain", directory + "wanted"), Clock::time_point::max());
  const auto whole = Clock::now() - begin;
  std::mt19937 random(seed);
  int killed = 0, runs = 0, resumed = 0, failures = 0;
  while (killed < count && failures == 0) {
    const std::string checkpoint = directory + "run" + std::to_string(runs), result = directory + "result";
    std::filesystem::remove(result);
    for (int lives = 0;; ++lives) {
      const double part = std::uniform_real_distribution(0.05, 1.0)(random);
      const bool spare = killed >= count || lives >= 20;
      const auto life = std::chrono::duration_cast<Clock::duration>(whole * part);
      if (std::filesystem::exists(checkpoint)) ++resumed;
      if (!run_until(start(program, checkpoint, result),
                     spare ? Clock::time_point::max() : Clock::now() + life))
        break;
      ++killed;
    }
    ++runs;
    if (content_of(result) != content_of(directory + "wanted")) ++failures;
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
    if (arguments.size() == 3 && arguments[0] == "--train") {
      train(arguments[1], arguments[2]);
      return EXIT_SUCCESS;
    }
    int count = 5;
    unsigned seed = 1;
    for (const std::string& one : arguments) {
      if (one.starts_with("--count=")) count = std::stoi(one.substr(8));
      if (one.starts_with("--seed=")) seed = static_cast<unsigned>(std::stoul(one.substr(7)));
    }
    return kill_trainings(argv[0], count, seed);
  } catch (const std::exception& error) {
    std::cerr << "fit_kills: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
