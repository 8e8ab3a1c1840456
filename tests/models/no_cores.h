// Replaces cores.cc: threads of a model have no cores. A model's only source file includes it after the
// product's sources.
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
