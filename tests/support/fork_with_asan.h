// Makes fork() safe under AddressSanitizer in programs with other threads.
#pragma once

namespace heddle::test {

// AddressSanitizer's allocator does not handle forks. A lock that another thread holds stays locked in the
// child, which then hangs. After this call fork() first waits, for at most ten seconds, until all other
// threads sleep. Does nothing in builds without AddressSanitizer.
void make_forks_safe_with_asan();

}  // namespace heddle::test
