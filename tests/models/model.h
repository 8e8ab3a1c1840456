// A model: threads that use the product's own code, run by Relacy in one schedule after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "relacy_std.h"

namespace model {

// What a model derives from: thread(index) is a thread, after() looks at the end. `Threads` begin with the schedule, up
// to `More` are made by the product.
template <class Derived, int Threads, int More = 0> struct Schedule : rl::test_suite<Derived, Threads> {
  static constexpr rl::thread_id_t dynamic_thread_count = More;
  Schedule() { cells.begin(); }
  ~Schedule() { cells.end(); }
};

// Which schedules: random ones, or all with at most so many preemptions.
enum class Search { random, bounded };

struct Run {
  std::uint64_t first = 1, count = 0;  // random schedules by number: the same number is the same schedule
  Search search = Search::random;
  unsigned bound = 2;
  bool history = false;  // of the schedule that fails, to stdout
};
struct Outcome {
  bool passed;
  std::uint64_t schedules;
  std::string failure;
};

struct Program {
  const char* name;
  Outcome (*run)(const Run&);
  bool bounded;  // see below
};

Outcome run_schedules(const Run& run, bool (*simulate)(rl::test_params&));

template <class Model, template <rl::thread_id_t> class Scheduler> bool simulate_by(rl::test_params& params) {
  rl::ostringstream state;
  return rl::run_test<Model, Scheduler<Model::params::thread_count>>(params, state, false) ==
         rl::test_result_success;
}

// Of random schedules alone: searches of all are not even compiled, which takes as long as the program itself.
template <class Model> Program random_program(const char* name) {
  return {name, [](const Run& run) { return run_schedules(run, &simulate_by<Model, rl::random_scheduler>); },
          false};
}

// Small enough to search all schedules with few preemptions too, and no sleep in it ends by itself.
template <class Model> Program program(const char* name) {
  return {name,
          [](const Run& run) {
            const bool search = run.search == Search::bounded;
            return run_schedules(run, search ? &simulate_by<Model, rl::context_bound_scheduler>
                                             : &simulate_by<Model, rl::random_scheduler>);
          },
          true};
}

// The command line of a model; see model.cc. `must_fail` names weakened sites, as "SubmissionQueue::push exchange acquire",
// that the programs have to find.
int run_models(int argc, char** argv, const std::vector<Program>& programs,
               const std::vector<std::string>& must_fail);

inline void check(bool holds, const char* what, std::source_location at = std::source_location::current()) {
  if (!holds) fail(what, info(at));
}

}  // namespace model
