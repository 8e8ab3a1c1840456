// The amount of work of a test: smaller with sanitizers, and set by numbers on the command line for longer
// runs.
#pragma once

namespace heddle::test {

// Sanitizers slow programs down about ten times, so tests with many rounds or large data do less.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The N of the command-line argument --name=N; `otherwise` if the argument is not given.
long long argument(const char* name, long long otherwise);

}  // namespace heddle::test
