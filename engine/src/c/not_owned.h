// Distinguishes handles on the default engine from handles on engines that the program has made.
#pragma once

namespace heddle {
class Engine;
}

namespace heddle::c {

// The deleter of a shared pointer to the default engine, which belongs to the process.
struct NotOwned {
  void operator()(Engine*) const {}
};

}  // namespace heddle::c
