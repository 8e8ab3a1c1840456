// Helpers of the tests of the C ABI.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/c/engine.h>

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
#define IS(call, status) check_status((call), (status), #call, __FILE__, __LINE__)
#define OK(call) IS(call, HEDDLE_OK)

static inline void check(int holds, const char* text, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
  abort();
}

static inline void check_status(heddle_status got, heddle_status want, const char* text, const char* file,
                                int line) {
  const char *got_name = "", *want_name = "";
  if (got == want) return;
  heddle_status_name(got, &got_name);
  heddle_status_name(want, &want_name);
  fprintf(stderr, "%s:%d: %s (%d), want %s (%d): %s\n", file, line, got_name, (int)got, want_name, (int)want,
          text);
  abort();
}

static inline heddle_engine* new_engine(void) {  // makes an engine with the options of the environment
  heddle_engine* engine = NULL;
  OK(heddle_engine_create(NULL, &engine, NULL));
  return engine;
}

static inline int is_checked(void) {  // whether HEDDLE_CHECK=1 is in effect
  heddle_build build = {.struct_size = sizeof build};
  OK(heddle_build_describe(&build));
  return build.checked;
}

// Whether HEDDLE_SCHEDULER, threaded by default, begins with the name.
static inline int is_scheduler(const char* name) {
  const char* value = getenv("HEDDLE_SCHEDULER");
  if (!value || !*value) value = "threaded";
  return strncmp(value, name, strlen(name)) == 0;
}
