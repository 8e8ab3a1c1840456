// The calls of CUDA without which Heddle does not work on a GPU, each tried alone.
#pragma once

namespace heddle::bench {

// Tries them on one GPU and prints a line for each. Returns how many do not work.
int try_calls(int device);

}  // namespace heddle::bench
