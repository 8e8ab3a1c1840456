// Threads of a model have no cores; for the one source of a model, behind the product's.
#pragma once

#include <product/base/cores.h>

#include <heddle/usable_cores.h>

namespace heddle::detail {

std::optional<int> cores_by_affinity() { return std::nullopt; }
bool keep_off(pid_t, int, cpu_set_t&) noexcept { return false; }
void allow(const cpu_set_t&) noexcept {}

}  // namespace heddle::detail

namespace heddle {

int UsableCores::count() const { return 1; }  // models say how many workers they want
UsableCores usable_cores(const std::string&) { return {}; }
void change_core() noexcept {}

}  // namespace heddle
