// Files of checkpoints: which ones a ModelCheckpoint removes, and what happens to all ranks if one cannot write.
#include <algorithm>
#include <files.h>
#include <filesystem>
#include <functional>
#include <message_of.h>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>
#include <heddle/log.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Names = std::vector<std::string>;

Names names_in(const std::string& folder) {
  Names names;
  for (const auto& one : std::filesystem::directory_iterator(folder))
    names.push_back(one.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

History fit_with(const AnyCallback& callback, std::int64_t epochs, const std::string& resume = "") {
  FitProgram program;
  FitOptions all = program.options(epochs);
  all.callbacks = {callback};
  all.resume = resume;
  return program.fit(all);
}

std::shared_ptr<ModelCheckpoint> keeping(const std::string& path, std::int64_t keep) {
  return std::make_shared<ModelCheckpoint>(path, ModelCheckpointOptions{.keep = keep});
}

// Calls body(rank, program) on a thread for each of two ranks, and trains afterwards, which needs both of them. Returns what
// the bodies have thrown.
Names errors_of_two_ranks(const std::function<void(std::size_t, FitProgram&)>& body,
                          const KVStoreOptions& options = {}) {
  const auto ranks = Communicator::create_local(2);
  Names errors(2), later(2);
  const auto run = [&](std::size_t rank) {
    later[rank] = message_of([&] {
      FitProgram program(
          {.params = {{"lr", 0.1}}, .store = KVStore::create("allreduce", ranks[rank], options)});
      errors[rank] = message_of([&] { body(rank, program); });
      program.fit(program.options(1));
    });
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(later == Names(2, "no error"));
  return errors;
}

}  // namespace

TEST_CASE("ModelCheckpoint: a run that goes on elsewhere removes no files where it came from") {
  TemporaryDirectory from, to;
  fit_with(keeping(from.file("ck-{epoch}"), 3), 4);
  CHECK(names_in(from.path) == Names{"ck-2", "ck-3", "ck-4"});
  fit_with(keeping(to.file("ck-{epoch}"), 2), 7, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"ck-2", "ck-3", "ck-4"});
  CHECK(names_in(to.path) == Names{"ck-6", "ck-7"});
  // Another name in the same folder, and the same one.
  fit_with(keeping(from.file("b-{epoch}"), 1), 6, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"b-6", "ck-2", "ck-3", "ck-4"});
  fit_with(keeping(from.file("./ck-{epoch}"), 2), 5, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"b-6", "ck-4", "ck-5"});
}

TEST_CASE(
    "ModelCheckpoint: nothing is removed but checkpoints of fit, and not the one that it goes on from") {
  TemporaryDirectory directory;
  fit_with(keeping(directory.file("{epoch}.run"), 1), 2);
  std::filesystem::rename(directory.file("2.run"), directory.file("1000.run"));
  write_file(directory.file("2024.run"), "text");
  std::filesystem::create_directory(directory.file("77.run"));
  const FitProgram other;
  save_checkpoint(directory.file("99.run"), {.parameters = other.net.state()});
  fit_with(keeping(directory.file("{epoch}.run"), 1), 4, directory.file("1000.run"));
  CHECK(names_in(directory.path) == Names{"1000.run", "2024.run", "4.run", "77.run", "99.run"});
}

TEST_CASE("ModelCheckpoint: each rank removes its residuals beside a checkpoint that is removed") {
  for (const bool are_apart : {false, true}) {
    TemporaryDirectory folders[2];
    const auto folder = [&](std::size_t rank) { return folders[are_apart ? rank : 0].path.string(); };
    const auto train = [&](std::int64_t epochs, const std::string& resume) {
      const Names errors = errors_of_two_ranks(
          [&](std::size_t rank, FitProgram& program) {
            FitOptions all = program.options(epochs);
            all.callbacks = {std::make_shared<ModelCheckpoint>(
                folder(rank) + "/{step}",
                ModelCheckpointOptions{.every_epochs = 0, .every_steps = 2, .keep = 2})};
            if (!resume.empty()) all.resume = folder(rank) + resume;
            program.fit(all);
          },
          {.compression = "2bit"});
      CHECK(errors == Names(2, "no error"));
    };
    const auto check = [&](const Names& kept) {
      Names own[2];
      for (const std::string& name : kept) {
        own[0].push_back(name);
        for (const std::size_t rank : {0, 1})
          own[are_apart ? rank : 0].push_back(name + ".residuals-" + name + "-" + std::to_string(rank) +
                                              "-of-2");
      }
      for (const std::size_t rank : {0, 1}) {
        std::sort(own[rank].begin(), own[rank].end());
        CHECK(names_in(folders[rank].path) == own[rank]);
      }
    };
    train(2, "");
    check({"10", "12"});
    // A run that is resumed at step 10 finds the file of step 12, which the run that was killed has left, and replaces it.
    if (are_apart) std::filesystem::copy(folders[0].file("10"), folders[1].file("10"));
    train(2, "/10");
    if (are_apart) std::filesystem::remove(folders[1].file("10"));
    check({"10", "12"});
  }
}

TEST_CASE("fit: what rank 0 cannot write ends the training on all ranks, which can go on") {
  TemporaryDirectory directory;
  const std::string none = directory.file("none/x"), gone = directory.file("gone");
  const auto errors_with = [&](const std::function<void(FitOptions&)>& change) {
    return errors_of_two_ranks([&](std::size_t, FitProgram& program) {
      FitOptions all = program.options(3);
      change(all);
      program.fit(all);
    });
  };
  const std::vector<std::function<void(FitOptions&)>> changes{
      [&](FitOptions& all) { all.save_on_interrupt = none; },
      [&](FitOptions& all) { all.callbacks = {ModelCheckpoint(none)}; },
      [&](FitOptions& all) { all.callbacks = {CsvLogger(none)}; },
      [&](FitOptions& all) { all.callbacks = {TensorBoard("/dev/null/x")}; },
  };
  for (const auto& change : changes) {
    const Names errors = errors_with(change);
    CAPTURE(errors[0]);
    CAPTURE(errors[1]);
    CHECK_FALSE(contains(errors[0], "rank 0 refused it"));
    CHECK((contains(errors[0], none) || contains(errors[0], "/dev/null/x")));
    CHECK(errors[1] == "fit: rank 0 refused it: " + errors[0]);
  }
  // The folder is lost while the training goes on.
  for (const std::int64_t keep : {0, 1}) {
    for (const bool by_steps : {false, true}) {
      CAPTURE(keep);
      CAPTURE(by_steps);
      std::filesystem::create_directory(gone);
      const Names errors = errors_of_two_ranks([&](std::size_t rank, FitProgram& program) {
        const auto loses = std::make_shared<TestCallback>();
        loses->batch_begin = [&, rank](FitRun& run) {
          std::error_code error;  // of a file that the writer makes meanwhile
          while (rank == 0 && run.step() == 7 && std::filesystem::exists(gone))
            std::filesystem::remove_all(gone, error);
        };
        FitOptions all = program.options(3);
        all.callbacks = {loses, std::make_shared<ModelCheckpoint>(
                                    gone + "/{step}", ModelCheckpointOptions{.every_epochs = by_steps ? 0 : 1,
                                                                             .every_steps = by_steps ? 2 : 0,
                                                                             .keep = keep})};
        program.fit(all);
      });
      CAPTURE(errors[0]);
      CAPTURE(errors[1]);
      CHECK(contains(errors[0], "CheckpointWriter::save: file '" + gone));
      CHECK(contains(errors[1], "rank 0 refused it: "));
    }
  }
}

TEST_CASE("ModelCheckpoint: a number that begins with zeros is none of a file that fit has written") {
  TemporaryDirectory directory;
  const auto copy = [&](const char* from, const char* to) {
    std::filesystem::copy(directory.file(from), directory.file(to));
  };
  fit_with(keeping(directory.file("c-{epoch}"), 2), 3);
  CHECK(names_in(directory.path) == Names{"c-2", "c-3"});
  for (const char* name : {"c-0002", "c-0004", "c-00", "c-09"}) copy("c-3", name);
  fit_with(keeping(directory.file("c-{epoch}"), 2), 5, directory.file("c-3"));
  CHECK(names_in(directory.path) == Names{"c-00", "c-0002", "c-0004", "c-09", "c-4", "c-5"});
  // The newest one is 5, not 09.
  CHECK(fit_with(keeping(directory.file("c-{epoch}"), 2), 6, directory.file("c-{epoch}"))["loss"].size() ==
        6);
  CHECK(names_in(directory.path) == Names{"c-00", "c-0002", "c-0004", "c-09", "c-5", "c-6"});
  // Zero itself is a number, as of step 0, and so are values below 1 and decimals that begin with zeros.
  TemporaryDirectory others;
  std::filesystem::copy(directory.file("c-6"), others.file("v-0-0.0625"));
  std::filesystem::copy(directory.file("c-5"), others.file("v-1-00.0625"));
  std::filesystem::copy(directory.file("c-5"), others.file("v-1-0.06255"));
  CHECK(fit_with(keeping(directory.file("d"), 0), 6, others.file("v-{epoch}-{loss}"))["loss"].size() == 6);
  std::filesystem::remove(others.file("v-0-0.0625"));
  CHECK(fit_with(keeping(directory.file("d"), 0), 1, others.file("v-{epoch}-{loss}"))["loss"].size() == 1);
}

TEST_CASE("fit: the newest file to resume at is a checkpoint of fit, and without any the others are named") {
  TemporaryDirectory directory, empty;
  fit_with(keeping(directory.file("c-{epoch}"), 0), 2);
  write_file(directory.file("c-99"), "notes");
  const FitProgram other;
  save_checkpoint(directory.file("c-98"), {.parameters = other.net.state()});
  std::filesystem::create_directory(directory.file("c-97"));
  std::string log;
  set_log([&](std::string_view text) { log += text; });
  CHECK(fit_with(keeping(empty.file("d"), 0), 3, directory.file("c-{epoch}"))["loss"].size() == 3);
  set_log({});
  CHECK(contains(log, "are no checkpoints of fit(), are left out: '" + directory.file("c-98") + "', '" +
                          directory.file("c-99") + "'"));
  for (const char* name : {"c-1", "c-2"}) std::filesystem::remove(directory.file(name));
  const std::string wanted = "fit: resume is '" + directory.file("c-{epoch}") +
                             "', and the files of such names are no checkpoints of fit(): '" +
                             directory.file("c-98") + "', '" + directory.file("c-99") + "'";
  CHECK(message_of([&] { fit_with(keeping(empty.file("d"), 0), 3, directory.file("c-{epoch}")); }) == wanted);
  // Of two ranks one has such files, and the other none at all.
  for (const std::size_t bad : {std::size_t{0}, std::size_t{1}}) {
    const Names errors = errors_of_two_ranks([&](std::size_t rank, FitProgram& program) {
      FitOptions all = program.options(1);
      all.resume = rank == bad ? directory.file("c-{epoch}") : empty.file("none-{epoch}");
      program.fit(all);
    });
    CHECK(errors[bad] == wanted);
    CHECK(errors[1 - bad] == "fit: rank " + std::to_string(bad) + " refused it: " + wanted);
  }
}

TEST_CASE("fit: paths to resume at that cannot be, and long ones") {
  FitProgram program;
  FitOptions all = program.options(1);
  const auto refused = [&](const std::string& path) {
    all.resume = path;
    return message_of([&] { program.fit(all); });
  };
  TemporaryDirectory directory;
  CHECK(contains(refused(directory.file("run-{epoch}/ck")), "in the file's name, not in its folder's"));
  for (const char* const part : {"a", "{epoch}", "{x}", "{", "\\", "("})
    for (const char* const end : {"", "{epoch}"}) {
      std::string path = "/";
      for (int i = 0; i < 30'000; ++i) path += part;
      CHECK(contains(refused(path + end), "cannot be read"));
    }
  CHECK(program.trainer.steps() == 0);
  write_file(directory.file("(1)+[2].run"), "no checkpoint");
  CHECK(contains(refused(directory.file("({epoch})+[{step}].run")), "(1)+[2].run"));
  std::filesystem::create_directory(directory.file("9.folder"));
  CHECK(refused(directory.file("{epoch}.folder")) == "no error");  // there is no file: it begins
}

TEST_CASE("EarlyStopping: a run that it has ended, and that is told to go on, waits anew") {
  TemporaryDirectory directory;
  const auto train = [&](bool goes_on) {
    FitProgram program;
    FitOptions all = program.options(12);
    all.callbacks = {EarlyStopping({.monitor = "loss", .min_delta = 100, .patience = 1}),
                     std::make_shared<ModelCheckpoint>(directory.file("run"))};
    all.resume = directory.file("run");
    all.resume_stopped = goes_on;
    return program.fit(all)["loss"].size();
  };
  CHECK(train(false) == 3);
  CHECK(train(false) == 3);
  CHECK(train(true) == 5);
  CHECK(train(true) == 7);
}

TEST_CASE("fit: a name that leaves no room for a temporary file is refused before the training") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(1);
  for (const std::string& name : {std::string(250, 'n'), std::string(245, 'n') + "{epoch}"}) {
    all.callbacks = {ModelCheckpoint(directory.file(name))};
    CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }), "bytes; want 223 or fewer"));
  }
  // A value takes six bytes at least, and a place may be longer than what fills it.
  all.callbacks = {ModelCheckpoint(directory.file(std::string(218, 'n') + "{loss}"))};
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }), "has 224 bytes; want 223 or fewer"));
  all.callbacks = {ModelCheckpoint(directory.file("{epoch}/" + std::string(224, 'n')))};
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }), "has 224 bytes; want 223 or fewer"));
  CHECK(program.trainer.steps() == 0);
  all.callbacks = {ModelCheckpoint(directory.file(std::string(223, 'n')))};
  program.fit(all);
  const std::string metric(260, 'm');
  all.metrics = {{"accuracy", 0, metric}};
  all.callbacks = {ModelCheckpoint(directory.file("{" + metric + "}-{epoch}"))};
  program.fit(all);
  CHECK(names_in(directory.path).size() == 2);
  CHECK(names_in(directory.path)[0].ends_with("-1"));
}

TEST_CASE("fit: a checkpoint whose steps are not known is not taken for a missing file") {
  TemporaryDirectory directory;
  FitProgram program;
  save_checkpoint(directory.file("c-7"), {.parameters = program.net.state(), .counters = {{"fit.epoch", 7}}});
  FitOptions all = program.options(1);
  all.resume = directory.file("c-{epoch}");
  CHECK(contains(message_of([&] { program.fit(all); }), "'" + directory.file("c-7") + "'"));
  CHECK(program.trainer.steps() == 0);
}
