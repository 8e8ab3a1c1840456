#include "core/backend_table.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace heddle::comm_detail {

void BackendTable::add(BackendInfo info) {
  for (const BackendInfo& other : all_) {
    if (other.name == info.name) throw std::logic_error("two back ends have the name '" + info.name + "'");
  }
  all_.push_back(std::move(info));
}

const std::vector<BackendInfo>& backends() {
  static const std::vector<BackendInfo>& all = *[] {
    auto* const found = new std::vector<BackendInfo>;
    BackendTable table(*found);
    register_backends(table);
    std::ranges::sort(*found, {}, &BackendInfo::name);
    return found;
  }();
  return all;
}

const BackendInfo* find_backend(const std::string& name) {
  const auto found = std::ranges::find(backends(), name, &BackendInfo::name);
  return found == backends().end() ? nullptr : &*found;
}

}  // namespace heddle::comm_detail
