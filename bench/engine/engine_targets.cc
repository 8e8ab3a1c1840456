#include "engine/engine_targets.h"

#include <cstdio>

namespace heddle::bench {

namespace {

struct Target {
  const char* case_name;
  double limit;
  bool at_least = false;  // true: the value must be at least `limit`; false: at most
};

// Targets for runs with one worker, where no cache line moves between workers.
constexpr Target kOneWorker[] = {{"chain", 50}, {"independent", 50}, {"fan", 50}, {"dag", 90}};

constexpr Target kAnyWorkers[] = {
    {"chain", 60}, {"independent", 80}, {"fan", 80},     {"dag", 150},   {"push", 60},
    {"push1", 70}, {"push2", 80},       {"push3", 90},   {"push4", 100}, {"push_a_var", 10},
    {"metg", 500}, {"pushwait", 300},   {"memory", 256}, {"idle", 1},    {"dag10us_efficiency", 98, true},
};

template <std::size_t count>
const Target* find(const Target (&targets)[count], const std::string& case_name) {
  for (const Target& target : targets) {
    if (case_name == target.case_name) return &target;
  }
  return nullptr;
}

std::string verdict(double value, double limit, bool at_least, const char* unit) {
  char text[64];
  const bool met = at_least ? value >= limit : value <= limit;
  std::snprintf(text, sizeof text, "target %s %g%s: %s", at_least ? ">=" : "<=", limit, unit,
                met ? "met" : "missed");
  return text;
}

}  // namespace

std::string target_note(const Result& result, const Result& first) {
  const Target* alone = result.workers == 1 ? find(kOneWorker, result.case_name) : nullptr;
  if (result.subject == "clang_omp" && alone && first.subject == "heddle") {
    return verdict(first.median / result.median, 1, false, "x");
  }
  if (result.subject != "heddle") return "";
  const Target* target = alone ? alone : find(kAnyWorkers, result.case_name);
  return target ? verdict(result.median, target->limit, target->at_least, "") : "";
}

}  // namespace heddle::bench
