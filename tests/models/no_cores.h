// Replaces the product's cores.cc, since threads of a model have no cores. The source file of a model
// includes it after the product's sources.
#pragma once

#include <product/base/cores.h>

#include <heddle/usable_cores.h>

namespace heddle::detail {

std::optional<int> cores_by_affinity() { return std::nullopt; }

}  // namespace heddle::detail

namespace heddle {

int UsableCores::count() const { return 1; }  // unused: models pass their number of workers
UsableCores usable_cores(const std::string&) { return {}; }
void change_core() noexcept {}

}  // namespace heddle
