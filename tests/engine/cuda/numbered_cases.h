// Test cases that are numbered on standard output: tools/gpu-check goes on behind one that has ended the program.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "lost_gpu.h"

namespace heddle::test {

// The exit status of a program that a numbered case has ended.
constexpr int kEndedByCase = 1;

// A listener of doctest's; works if numbered(). A case that fails has a line "#N failed". Ends the process behind a case that has lost a GPU, but for cases that are run alone since they do
// (doctest::skip()), and in a case that runs for more than HEDDLE_TEST_SECONDS.
class NumberedCases : public doctest::IReporter {
 public:
  explicit NumberedCases(const doctest::ContextOptions& options)
      : number_(options.first > 0 ? static_cast<int>(options.first) - 1 : 0) {
    const char* const seconds = std::getenv("HEDDLE_TEST_SECONDS");
    if (numbered() && seconds)
      watch_ = std::jthread([this, most = std::atoi(seconds)](std::stop_token stop) { watch(stop, most); });
  }

  void test_case_start(const doctest::TestCaseData& data) override {
    if (!numbered()) return;
    alone_ = data.m_skip;
    const std::lock_guard guard(mutex_);
    ++number_;
    runs_ = true;
    std::printf("#%d %s\n", number_, data.m_name);
    std::fflush(stdout);
    changed_.notify_all();
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (!numbered() || (stats.failure_flags & doctest::TestCaseFailureReason::Crash) != 0) return;
    {
      const std::lock_guard guard(mutex_);
      runs_ = false;
    }
    changed_.notify_all();
    if (!stats.testCaseSuccess) std::printf("#%d failed\n", number_);
    std::fflush(stdout);
    if (const std::string why = alone_ ? "" : lost_gpu(); !why.empty()) end("a GPU is lost: " + why);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  // Destructors and functions at exit might wait for what hangs or is lost.
  [[noreturn]] void end(const std::string& why) const {
    std::printf("#%d has ended the program: %s\n", number_, why.c_str());
    std::fflush(stdout);
    std::_Exit(kEndedByCase);
  }

  void watch(const std::stop_token& stop, int seconds) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait(lock, stop, [this] { return runs_; });
      const auto ended = [this, number = number_] { return !runs_ || number_ != number; };
      if (!changed_.wait_for(lock, stop, std::chrono::seconds(seconds), ended) && !stop.stop_requested())
        end("it has run for " + std::to_string(seconds) + " s");
    }
  }

  bool alone_ = false;
  std::mutex mutex_;  // guards number_ and runs_; nothing else is locked while it is held
  int number_;
  bool runs_ = false;
  std::condition_variable_any changed_;
  std::jthread watch_;
};

}  // namespace heddle::test
