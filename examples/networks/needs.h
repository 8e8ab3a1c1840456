// What packages need: pairs to learn from, and some that are held out.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

struct Needs {
  std::vector<std::string> names, package_names;  // of what is needed, and of what needs it, by their numbers
  std::vector<std::set<std::int64_t>> known;      // what each package needs, without what is held out
  heddle::NDArray packages, needed;               // (pairs): the pairs to learn from
  std::vector<std::int64_t> test_packages, test_needed;
};

// Reads the table that data/collect.py writes. Holds out one need of each package that has four or more.
Needs read_needs(const std::string& path);
