// How much a test does: in a build with sanitizers, and by numbers on the command line, for longer runs.
#pragma once

namespace heddle::test {

// Sanitizers make a program run about ten times longer: tests of many rounds or large data then do less.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The N of --name=N, else `otherwise`.
long long argument(const char* name, long long otherwise);

}  // namespace heddle::test
