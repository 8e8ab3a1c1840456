#include "snapshot/merged_job.h"

#include <algorithm>
#include <map>
#include <utility>

#include "wire/job_settings.h"

namespace heddle::kv_detail {
namespace {

using Role = StateArray::Role;

std::string server_text(std::size_t server) { return "server " + std::to_string(server); }

// In what a part of a key contradicts the key's first part, as text; empty: in nothing.
std::string difference(const MergedKey::Part& first, const MergedKey::Part& other) {
  const auto both = [&](const char* what, std::uint64_t a, std::uint64_t b) {
    return server_text(first.server) + " has " + std::to_string(a) + " " + what + ", " +
           server_text(other.server) + " " + std::to_string(b);
  };
  const KeyIndex &a = *first.index, &b = *other.index;
  for (std::size_t rank = 0; rank < a.clocks.clocks.size(); ++rank) {
    const std::string of = "pushes of worker " + std::to_string(rank);
    if (a.clocks.clocks[rank] != b.clocks.clocks[rank])
      return both(of.c_str(), a.clocks.clocks[rank], b.clocks.clocks[rank]);
    if (a.clocks.missed[rank] != b.clocks.missed[rank])
      return both(("missed " + of).c_str(), a.clocks.missed[rank], b.clocks.missed[rank]);
  }
  if (a.key.whole_bytes != b.key.whole_bytes)
    return both("bytes in all", a.key.whole_bytes, b.key.whole_bytes);
  if (a.key.rounds != b.key.rounds) return both("rounds", a.key.rounds, b.key.rounds);
  const auto pushes = [](const KeyIndex& key) {
    return static_cast<std::uint64_t>(
        std::count_if(key.arrays.begin(), key.arrays.end(),
                      [](const ArrayIndex& one) { return one.array.role == Role::push; }));
  };
  if (pushes(a) != pushes(b)) return both("pushes that wait", pushes(a), pushes(b));
  return {};
}

bool is_alike(const StateArray& a, const StateArray& b) {
  return a.role == b.role && a.overwrite == b.overwrite && a.has_value == b.has_value && a.dtype == b.dtype &&
         a.rank == b.rank && a.name == b.name;
}

void set_arrays(MergedKey::Part& part, bool with_pushes) {
  for (const ArrayIndex& one : part.index->arrays) {
    if (one.array.role == Role::optimizer) part.state[one.array.name] = &one;
    if (one.array.role == Role::value || (one.array.role == Role::push && with_pushes))
      part.arrays.push_back(&one);
  }
}

// Whether the array of optimizer state with this name says which rows the other arrays belong to.
bool is_of_rows(const std::string& name) { return name == "rows" || name == "width"; }

bool has_state_like(const MergedKey::Part& a, const MergedKey::Part& b) {
  return std::all_of(a.state.begin(), a.state.end(), [&b](const auto& one) {
    const auto other = b.state.find(one.first);
    return is_of_rows(one.first) ||
           (other != b.state.end() && is_alike(one.second->array, other->second->array));
  });
}

class Merger {
 public:
  Merger(const std::vector<SnapshotIndex>& parts, bool newest_parts)
      : parts_(parts), newest_parts_(newest_parts) {}

  std::vector<MergedJob> all() const {
    std::vector<MergedJob> jobs;
    std::map<std::string, std::vector<const JobIndex*>> by_name;
    for (const SnapshotIndex& part : parts_) {
      for (const JobIndex& job : part.jobs) by_name[job.job.name].push_back(&job);
    }
    for (const auto& [name, on_servers] : by_name) {
      if (on_servers.size() != parts_.size()) {
        throw Error("job '" + name + "' is on " + std::to_string(on_servers.size()) + " of " +
                    std::to_string(parts_.size()) + " servers: the snapshots are of different moments");
      }
      jobs.push_back(merged(on_servers));
    }
    return jobs;
  }

 private:
  MergedJob merged(const std::vector<const JobIndex*>& on_servers) const {
    const JobIndex& first = *on_servers.front();
    MergedJob result{.job = first.job, .workers = first.workers};
    std::map<std::string, std::vector<MergedKey::Part>> by_key;
    std::vector<std::string> order;
    for (std::size_t server = 0; server < on_servers.size(); ++server) {
      check_job(first, *on_servers[server], server);
      result.job.generation = std::max(result.job.generation, on_servers[server]->job.generation);
      for (const KeyIndex& key : on_servers[server]->keys) {
        auto& parts = by_key[key.key.name];
        if (parts.empty()) order.push_back(key.key.name);
        parts.push_back({.server = server, .index = &key});
      }
    }
    if (parse_job_settings(first.job.consistency).is_ordered()) sort_by_index(first.job.name, by_key, order);
    KeyPlacer placer(placement_of(first.job), static_cast<int>(parts_.size()));
    for (const std::string& name : order) {
      try {
        result.keys.push_back(merged(std::move(by_key[name]), placer));
      } catch (const Error& error) {
        throw Error("job '" + first.job.name + "', key " + name + ": " + error.what());
      }
    }
    return result;
  }

  void check_job(const JobIndex& first, const JobIndex& other, std::size_t server) const {
    const StateJob &a = first.job, &b = other.job;
    if (a.consistency == b.consistency && a.workers == b.workers && a.rule == b.rule) return;
    const auto text = [](const StateJob& job) {
      return job.consistency + ", " + std::to_string(job.workers) + " workers, optimizer '" + job.rule + "'";
    };
    throw Error("job '" + a.name + "' has " + text(a) + " on server 0, and " + text(b) + " on " +
                server_text(server) + ": the snapshots are of different moments");
  }

  static void sort_by_index(const std::string& job,
                            const std::map<std::string, std::vector<MergedKey::Part>>& by_key,
                            std::vector<std::string>& order) {
    std::map<std::uint32_t, std::string> by_place;
    for (const auto& [name, parts] : by_key) {
      for (const MergedKey::Part& part : parts) {
        const auto [found, made] = by_place.try_emplace(part.index->key.place, name);
        if (!made && found->second != name)
          throw Error("job '" + job + "' has two keys of one place, " + found->second + " and " + name +
                      ": the snapshots are of different moments");
      }
    }
    if (by_place.size() != by_key.size() ||
        (!by_place.empty() && by_place.rbegin()->first >= by_place.size()))
      throw Error(
          "job '" + job + "' has " + std::to_string(by_key.size()) +
          " keys whose servers depend on those before, and some of these are missing: the snapshots are "
          "of different moments");
    order.clear();
    for (const auto& [place, name] : by_place) order.push_back(name);
  }

  MergedKey merged(std::vector<MergedKey::Part> parts, KeyPlacer& placer) const {
    MergedKey result{.key = parts.front().index->key, .clocks = parts.front().index->clocks};
    result.key.bytes = 0;
    for (MergedKey::Part& part : parts) {
      part.offset = result.key.bytes;
      result.key.bytes += part.index->key.bytes;
    }
    check_placement(result, parts, placer);
    const std::string differs = differing(parts);
    if (!differs.empty() && !newest_parts_) {
      throw Error(differs +
                  ": the snapshots are of different moments. --newest-parts takes each part as it is, which "
                  "no program has ever seen together");
    }
    for (MergedKey::Part& part : parts) {
      set_arrays(part, differs.empty());
      check_arrays(parts.front(), part);
      take_newest(result, *part.index);
    }
    result.parts = std::move(parts);
    return result;
  }

  // Throws Error unless the parts are those into which workers split the value for this number of servers.
  void check_placement(const MergedKey& merged, const std::vector<MergedKey::Part>& parts,
                       KeyPlacer& placer) const {
    const StateKey& key = merged.key;
    // With an explicit placement the value may be on any server, since the list is not known here.
    const bool anywhere = placer.is_listed() && parts.size() == 1;
    const std::vector<KeyPart> expected =
        anywhere ? std::vector<KeyPart>{{key.name, 0, key.bytes, static_cast<int>(parts[0].server)}}
                 : placer.place({key.name, key.bytes, merged.row_bytes()});
    const bool all = key.whole_bytes == 0 || key.whole_bytes == key.bytes;
    const bool good = all && std::equal(expected.begin(), expected.end(), parts.begin(), parts.end(),
                                        [](const KeyPart& a, const MergedKey::Part& b) {
                                          return static_cast<std::size_t>(a.server) == b.server &&
                                                 a.bytes == b.index->key.bytes;
                                        });
    if (good) return;
    std::string found;
    for (const MergedKey::Part& part : parts) {
      found += (found.empty() ? "" : ", ") + std::to_string(part.index->key.bytes) + " bytes on " +
               server_text(part.server);
    }
    throw Error("it has " + found + ", where workers of " + std::to_string(parts_.size()) +
                " servers would not put them: parts are missing");
  }

  static std::string differing(const std::vector<MergedKey::Part>& parts) {
    for (const MergedKey::Part& part : parts) {
      if (std::string how = difference(parts.front(), part); !how.empty()) return how;
    }
    return {};
  }

  static void check_arrays(const MergedKey::Part& first, const MergedKey::Part& part) {
    const bool good =
        part.index->key.dtype == first.index->key.dtype &&
        std::equal(first.arrays.begin(), first.arrays.end(), part.arrays.begin(), part.arrays.end(),
                   [](const auto* a, const auto* b) { return is_alike(a->array, b->array); }) &&
        has_state_like(first, part) && has_state_like(part, first);
    if (good) return;
    throw Error(server_text(first.server) + " and " + server_text(part.server) +
                " have different arrays of it: the snapshots are of different moments");
  }

  // Raises the counts of the merged key to those of the part, if these are larger.
  static void take_newest(MergedKey& result, const KeyIndex& part) {
    result.key.rounds = std::max(result.key.rounds, part.key.rounds);
    if (result.key.failure.empty()) result.key.failure = part.key.failure;
    if (result.key.failures.empty()) result.key.failures = part.key.failures;
    for (std::size_t rank = 0; rank < part.clocks.clocks.size(); ++rank) {
      const std::uint64_t progress = std::max(result.clocks.clocks[rank] + result.clocks.missed[rank],
                                              part.clocks.clocks[rank] + part.clocks.missed[rank]);
      result.clocks.clocks[rank] = std::max(result.clocks.clocks[rank], part.clocks.clocks[rank]);
      result.clocks.missed[rank] = progress - result.clocks.clocks[rank];
    }
  }

  const std::vector<SnapshotIndex>& parts_;
  const bool newest_parts_;
};

}  // namespace

PlacementRule placement_of(const StateJob& job) {
  const std::string text = parse_job_settings(job.consistency).placement;
  return text.starts_with("explicit") ? PlacementRule(Placement::by_list) : placement_from(text);
}

std::vector<MergedJob> merge_jobs(const std::vector<SnapshotIndex>& parts, bool newest_parts) {
  return Merger(parts, newest_parts).all();
}

}  // namespace heddle::kv_detail
