// Residuals of compressed pushes, by key, for a checkpoint.
#include "client/dist_store.h"
#include "stores/local_store.h"

namespace heddle {

std::map<std::string, NDArray> DistStore::do_residuals() const {
  std::map<std::string, NDArray> all;
  for (const auto& [key, entry] : entries_) {
    if (entry->codec) all[entry->name] = entry->residual.copy();
  }
  for (const auto& [name, residual] : all) residual.wait();
  return all;
}

void DistStore::check_residuals_of(const std::map<std::string, NDArray>& residuals) const {
  const auto refuse = [](const std::string& name, const std::string& why) {
    throw InvalidArgument("KVStore::set_residuals, key " + name + ": " + why);
  };
  for (const auto& [name, value] : residuals) {
    const auto found = entries_.find(Key(name));
    if (found == entries_.end()) refuse(name, "the key is unknown; init it first");
    const ClientKey& entry = *found->second;
    if (!entry.codec) refuse(name, "its pushes are not compressed");
    if (!value.defined() || value.shape() != entry.shape || value.dtype() != DType::f32)
      refuse(name, "got " + describe(value) + ", want f32 " + entry.shape.to_string());
  }
  if (residuals.empty()) return;
  for (const auto& [key, entry] : entries_) {
    if (entry->codec && !residuals.contains(entry->name))
      refuse(entry->name, "it is missing, and its pushes are compressed");
  }
}

std::map<std::string, NDArray> DistStore::do_set_residuals(const ReadResiduals& read, bool only_check) {
  std::map<std::string, NDArray> residuals;
  check_together([&] {
    wait_for_ops();
    residuals = read();
    check_residuals_of(residuals);
  });
  if (only_check) return residuals;
  for (const auto& [key, entry] : entries_) {
    if (!entry->codec) continue;
    const auto found = residuals.find(entry->name);
    found == residuals.end() ? entry->residual.fill(0) : entry->residual.assign(found->second.detach());
  }
  return residuals;
}

}  // namespace heddle
