// A model: threads that run the product's own code under Relacy, in one thread schedule after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "relacy_std.h"

namespace model {

// Base class of a model: thread(index) is the body of a thread, after() checks the state at the end.
// `Threads` threads start with each schedule; the product's code may create up to `More` further threads.
template <class Derived, int Threads, int More = 0> struct Schedule : rl::test_suite<Derived, Threads> {
  static constexpr rl::thread_id_t dynamic_thread_count = More;
  Schedule() { cells.begin(); }
  ~Schedule() { cells.end(); }
};

// random: random schedules; bounded: all schedules with at most Run::bound preemptions.
enum class Search { random, bounded };

struct Run {
  std::uint64_t first = 1, count = 0;  // numbers of random schedules: the same number gives the same schedule
  Search search = Search::random;
  unsigned bound = 2;
  bool history = false;  // whether to print the steps of a failing schedule
};
struct Outcome {
  bool passed;
  std::uint64_t schedules;
  std::string failure;
};

struct Program {
  const char* name;
  Outcome (*run)(const Run&);
  bool bounded;  // whether the program supports Search::bounded
};

Outcome run_schedules(const Run& run, bool (*simulate)(rl::test_params&));

template <class Model, template <rl::thread_id_t> class Scheduler> bool simulate_by(rl::test_params& params) {
  rl::ostringstream state;
  return rl::run_test<Model, Scheduler<Model::params::thread_count>>(params, state, false) ==
         rl::test_result_success;
}

// A program that supports random schedules only. The bounded search is not even compiled for it, since that
// would double the compilation time.
template <class Model> Program random_program(const char* name) {
  return {name, [](const Run& run) { return run_schedules(run, &simulate_by<Model, rl::random_scheduler>); },
          false};
}

// A program that supports both searches: for models that are small enough for a bounded search, and in which
// no thread depends on a timeout.
template <class Model> Program program(const char* name) {
  return {name,
          [](const Run& run) {
            const bool search = run.search == Search::bounded;
            return run_schedules(run, search ? &simulate_by<Model, rl::context_bound_scheduler>
                                             : &simulate_by<Model, rl::random_scheduler>);
          },
          true};
}

// The command line of a model, described in model.cc. The programs must find each weakened memory order named
// in `must_fail`, such as "SubmissionQueue::push exchange acquire".
int run_models(int argc, char** argv, const std::vector<Program>& programs,
               const std::vector<std::string>& must_fail);

inline void check(bool holds, const char* what, std::source_location at = std::source_location::current()) {
  if (!holds) fail(what, info(at));
}

}  // namespace model
