// The callback that writes records for TensorBoard; tests/python/test_fit.py reads them with TensorBoard's own reader.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <heddle/fit.h>

#include "files.h"
#include "fit_program.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

std::string only_file(const std::string& folder) {
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return bytes;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

}  // namespace

TEST_CASE(
    "TensorBoard: values of epochs, losses of batches, histograms and the graph; training is the same") {
  TemporaryDirectory directory;
  FitProgram plain;
  const FitResult wanted = plain.result(plain.fit(plain.options(2)));
  FitProgram watched;
  FitOptions all = watched.options(2);
  all.callbacks = {TensorBoard(directory.file("logs"), {.every_steps = 1, .histograms = 2, .graph = true})};
  const FitResult found = watched.result(watched.fit(all));
  CHECK(found == wanted);
  const std::string bytes = only_file(directory.file("logs"));
  CHECK(count(bytes, "batch_loss") == static_cast<std::size_t>(watched.trainer.steps()));
  CHECK(count(bytes, "\x04loss") == 2);  // the tag's length, and the tag
  CHECK(bytes.find("0.weight") != std::string::npos);
}

TEST_CASE("TensorBoard: bad options and folders") {
  CHECK(message_of<InvalidArgument>([] { TensorBoard("logs", {.every_steps = -1}); }) ==
        "TensorBoard: every_steps is -1; want 0 or more");
  FitProgram program;
  FitOptions all = program.options(1);
  all.callbacks = {TensorBoard("/proc/none/logs")};
  CHECK(message_of<Error>([&] { program.fit(all); }).find("/proc/none/logs") != std::string::npos);
}

TEST_CASE(
    "TensorBoard: a run that resumes takes the place of one that was killed before its first checkpoint") {
  // The mark of an event that takes the place of later steps: a session log whose status is START.
  const std::string start("\x3a\x02\x08\x01", 4);
  for (const bool resumes : {false, true}) {
    TemporaryDirectory directory;
    FitProgram program;
    FitOptions all = program.options(1);
    if (resumes) all.resume = directory.file("run");
    all.callbacks = {TensorBoard(directory.file("logs"))};
    program.fit(all);
    CHECK(count(only_file(directory.file("logs")), start) == (resumes ? 1 : 0));
  }
}
