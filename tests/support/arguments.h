// Numbers given to a test program on its command line, for runs longer than the everyday one.
#pragma once

namespace heddle::test {

// The N of --name=N, else `otherwise`.
long long argument(const char* name, long long otherwise);

}  // namespace heddle::test
