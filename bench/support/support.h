// What every benchmark shares: options, interleaved runs, medians, a table and JSON lines.
#pragma once

#include <functional>
#include <sched.h>
#include <string>
#include <vector>

namespace heddle::command_line {
class Command;
}

namespace heddle::bench {

struct Options {
  std::string filter;  // only cases whose names contain this text run
  std::string json;    // file to which one object per result is appended; empty: none
  // Numbers of threads. The cases run once for each, and every subject then uses that many threads.
  std::vector<int> workers{2};
  int runs = 7;        // number of measured runs, which follow one unmeasured run
  bool quick = false;  // whether the runs are shortened, so that the benchmark takes under 30 seconds
};

// Adds --filter --workers --runs --quick --json.
void add_options(command_line::Command& app, Options& options);

// Adds --filter --runs --quick --json.
void add_run_options(command_line::Command& app, Options& options);

// A library that does the case's work; `run` does it once and returns the measured value in the case's unit.
struct Subject {
  std::string name;
  std::function<double()> run;
};

struct Case {
  std::string bench, name, unit;
  int workers;
  std::vector<Subject> subjects;  // the libraries to compare, Heddle first
};

struct Result {
  std::string bench, case_name, subject;
  int workers;
  std::string unit;
  double median, min, max;
  int runs;
  std::vector<double> values{};  // the measured values, in the order of the runs
};

double median(std::vector<double> values);
// The median, over all rounds, of the ratio of a's value to b's value in the same round. A disturbance of the
// machine during a round affects a and b alike.
double median_ratio(const Result& a, const Result& b);

// Runs the subjects interleaved (A B A B ...), after one unmeasured run of each. Waits between two runs until
// spinning threads have gone to sleep.
std::vector<Result> measure(const Case& the_case, const Options& options);

// Prints the results of one case, with the ratio of the first subject's median to each. `note` is the last
// column.
void print_table(const std::vector<Result>& results,
                 const std::function<std::string(const Result&)>& note = nullptr);

// Appends JSON lines to the file options.json, if it is set. Throws std::runtime_error if the file cannot be
// written.
void append_json(const std::vector<Result>& results, const Options& options);

// Seconds on a monotonic clock.
double now();

// Nanoseconds that a cache line takes from one core to another and back: the minimum over several rounds. 0
// if there is only one core.
double cache_line_round_trip();

// Pins this thread, and the threads and processes that it starts later, to `count` of its allowed cores:
// those from number `first` on, cyclically. A subject's helper threads then compete with its workers for the
// cores.
class CoreLimit {
 public:
  CoreLimit(int first, int count);
  ~CoreLimit();
  CoreLimit(const CoreLimit&) = delete;
  CoreLimit& operator=(const CoreLimit&) = delete;

 private:
  cpu_set_t previous_;
};

}  // namespace heddle::bench
