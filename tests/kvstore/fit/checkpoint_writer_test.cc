// Checkpoints that are written while training goes on.
#include <csignal>
#include <files.h>
#include <filesystem>
#include <message_of.h>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {}  // namespace

TEST_CASE("CheckpointWriter: the bytes of save_checkpoint, of the moment of the call, while steps go on") {
  for (const bool captured : {false, true}) {
    TemporaryDirectory directory;
    FitProgram program;
    Checkpoint checkpoint{
        .parameters = program.net.state(), .trainer = &program.trainer, .counters = {{"step", 0}}};
    const auto train = [&](const std::vector<NDArray>& batch) {
      const NDArray loss = cross_entropy(program.net(batch[0]), batch[1]);
      backward(loss);
      program.trainer.step();
      return loss;
    };
    CapturedStep step = program.trainer.capture(train);
    CheckpointWriter writer(3);
    std::vector<CheckpointSave> saves;
    for (int i = 0; i < 9; ++i) {
      captured ? (void)step({program.x, program.labels}) : (void)train({program.x, program.labels});
      checkpoint.counters["step"] = i;
      saves.push_back(writer.save(directory.file("late" + std::to_string(i)), checkpoint));
      if (i % 3 == 0) save_checkpoint(directory.file("now" + std::to_string(i)), checkpoint);
    }
    writer.wait();
    CHECK(writer.idle());
    for (const CheckpointSave& one : saves) {
      CHECK(one.done());
      CHECK(one.error().empty());
      one.wait();
    }
    for (const char* number : {"0", "3", "6"})
      CHECK(read_file(directory.file(std::string("late") + number)) ==
            read_file(directory.file(std::string("now") + number)));
  }
}

TEST_CASE("CheckpointWriter: an error arrives at wait() or at the next call, and leaves no file") {
  TemporaryDirectory directory;
  FitProgram program;
  const Checkpoint checkpoint{.parameters = program.net.state(), .trainer = &program.trainer};
  CheckpointWriter writer;
  const CheckpointSave save = writer.save(directory.file("none/run"), checkpoint);
  CHECK(contains(message_of([&] { save.wait(); }), "No such file or directory"));
  CHECK(contains(save.error(), "none/run"));
  writer.save(directory.file("good"), checkpoint).wait();  // the error was told

  writer.save(directory.file("none/run"), checkpoint);
  CHECK(contains(message_of([&] {
                   writer.save(directory.file("good"), checkpoint),
                       writer.save(directory.file("good"), checkpoint);
                 }),
                 "No such file or directory"));
  writer.save(directory.file("none/run"), checkpoint);
  CHECK(contains(message_of([&] { writer.wait(); }), "No such file or directory"));
  writer.wait();

  // A disk that is full: a file may not grow beyond a few bytes.
  writer.save(directory.file("run"), checkpoint).wait();
  const std::string before = read_file(directory.file("run"));
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100, old.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &small);
  const CheckpointSave full_disk = writer.save(directory.file("run"), checkpoint);
  const std::string message = message_of([&] { full_disk.wait(); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK(contains(message, "cannot be written"));
  CHECK(read_file(directory.file("run")) == before);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory.path)) ++files;
  CHECK(files == 2);

  CHECK(message_of([] { CheckpointWriter(0); }) == "CheckpointWriter: most is 0; want 1 or more");
}

TEST_CASE("CheckpointWriter: an array with an error fails the save") {
  TemporaryDirectory directory;
  NDArray weight = ones({4});
  array_push("failing", {}, {weight}, [] { throw Error("no weight"); });
  CheckpointWriter writer;
  const CheckpointSave save = writer.save(directory.file("run"), {.parameters = {{"weight", weight}}});
  CHECK(contains(message_of([&] { save.wait(); }), "no weight"));
  CHECK_FALSE(std::filesystem::exists(directory.file("run")));
  weight.engine().clear_error(weight.var());
}
