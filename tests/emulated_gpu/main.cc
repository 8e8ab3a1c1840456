// No handlers of doctest's: the runtime has its own, which tells faults of kernels from those of the host.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
