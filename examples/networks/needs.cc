#include "needs.h"

#include <cstdio>
#include <map>

#include <heddle/heddle.h>

#include "table.h"

using namespace heddle;

Needs read_needs(const std::string& path) {
  std::map<std::string, std::int64_t> packages, items;
  std::vector<std::vector<std::int64_t>> needs;
  Needs all;
  for (const auto& row : read_table(path, 2)) {
    const auto [package, is_new] = packages.emplace(row[0], packages.size());
    const auto [item, is_new_item] = items.emplace(row[1], items.size());
    if (is_new) {
      needs.emplace_back();
      all.package_names.push_back(row[0]);
    }
    if (is_new_item) all.names.push_back(row[1]);
    needs[static_cast<std::size_t>(package->second)].push_back(item->second);
  }
  std::vector<std::int64_t> learn_packages, learn_needed;
  for (std::size_t package = 0; package < needs.size(); ++package) {
    std::vector<std::int64_t>& of = needs[package];
    if (of.size() >= 4) {
      const std::size_t out = package % of.size();
      all.test_packages.push_back(static_cast<std::int64_t>(package));
      all.test_needed.push_back(of[out]);
      of.erase(of.begin() + static_cast<std::ptrdiff_t>(out));
    }
    for (std::int64_t item : of) {
      learn_packages.push_back(static_cast<std::int64_t>(package));
      learn_needed.push_back(item);
    }
    all.known.emplace_back(of.begin(), of.end());
  }
  const auto pairs = static_cast<std::int64_t>(learn_packages.size());
  all.packages = array(learn_packages, {pairs});
  all.needed = array(learn_needed, {pairs});
  std::printf("%zu packages need %zu others: %lld pairs, and %zu that are held out\n", needs.size(),
              items.size(), static_cast<long long>(pairs), all.test_needed.size());
  return all;
}
