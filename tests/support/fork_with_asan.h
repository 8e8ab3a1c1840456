// Forks of programs with other threads, under AddressSanitizer.
#pragma once

namespace heddle::test {

// AddressSanitizer's allocator takes no care of forks: what another thread has locked at that moment stays locked in the child,
// which hangs. From now on fork() waits until the other threads, which have just begun or ended something, sleep; those that
// never do are waited for a few seconds. Does nothing in builds without it.
void make_forks_safe_with_asan();

}  // namespace heddle::test
