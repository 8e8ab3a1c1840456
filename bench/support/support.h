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
  std::string filter;           // only cases whose name contains it
  std::string json;             // file to append one object a result to; empty: none
  std::vector<int> workers{2};  // threads that every subject may use; one set of cases for each number
  int runs = 7;                 // measured ones; one more before them warms up
  bool quick = false;           // fewer ops, the same runs: under 30 seconds
};

// --filter --workers --runs --quick --json
void add_options(command_line::Command& app, Options& options);

// The same without --workers.
void add_run_options(command_line::Command& app, Options& options);

// A library that does the case's work; `run` does it once and returns what was measured, in the case's unit.
struct Subject {
  std::string name;
  std::function<double()> run;
};

struct Case {
  std::string bench, name, unit;
  int workers;
  std::vector<Subject> subjects;  // heddle first, its peers after it
};

struct Result {
  std::string bench, case_name, subject;
  int workers;
  std::string unit;
  double median, min, max;
  int runs;
  std::vector<double> values{};  // in the order of the runs
};

double median(std::vector<double> values);
// The median of a's values over b's of the same round: what the machine does in a round falls on both alike.
double median_ratio(const Result& a, const Result& b);

// Runs the subjects in turn (A B A B ...), first once each unmeasured. Between two runs it waits until threads that
// spin after their work have gone to sleep.
std::vector<Result> measure(const Case& the_case, const Options& options);

// The results of one case, with the ratio of the first subject's median to each. `note` stands in a last column.
void print_table(const std::vector<Result>& results,
                 const std::function<std::string(const Result&)>& note = nullptr);

// Appends to options.json, if it is set. Throws std::runtime_error if the file cannot be written.
void append_json(const std::vector<Result>& results, const Options& options);

// Seconds on a clock that never jumps.
double now();

// Nanoseconds that a cache line takes from one core to another and back, undisturbed: the least of several rounds. 0 where
// there is only one core.
double cache_line_round_trip();

// Holds this thread, and the threads and processes that it starts from now on, to `count` of the cores that it may use, from
// the first-th on, counted round: a subject's helper threads then cost it the time that they take.
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
