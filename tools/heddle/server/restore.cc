// heddle server restore: converts snapshots to another number of servers.
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/reports/plan_report.h"
#include "server/reports/progress_line.h"
#include "server/subcommands.h"
#include "snapshot/reshard.h"
#include "snapshot/snapshot_folder.h"

namespace heddle::tool {
namespace {

using kv_detail::SnapshotIndex;
using kv_detail::SnapshotName;

constexpr std::uint32_t kMostServers = 65'536;

struct Options {
  std::vector<std::string> folders;
  std::string out, placement;
  std::uint32_t servers = 0, from = 0;
  bool newest_parts = false;
};

std::string text_of(const std::vector<std::string>& folders) {
  std::string all;
  for (const std::string& one : folders) all += (all.empty() ? "" : ", ") + one;
  return all + (folders.size() == 1 ? " has" : " have");
}

// The number of servers of the job that made the snapshots.
std::uint32_t servers_of(const Options& options) {
  std::set<std::uint32_t> found;
  for (const std::string& folder : options.folders) {
    for (const SnapshotName& one : kv_detail::snapshots_in(folder)) found.insert(one.servers);
  }
  if (found.empty())
    throw std::runtime_error(text_of(options.folders) + " no snapshots, server-N-of-M-....snapshot");
  if (options.from != 0) return options.from;
  if (found.size() == 1) return *found.begin();
  std::string all;
  for (const std::uint32_t one : found) all += (all.empty() ? "" : " and of ") + std::to_string(one);
  throw std::runtime_error(text_of(options.folders) + " snapshots of " + all +
                           " servers; --from says which to take");
}

// The newest valid snapshot of one server in a folder. Prints to stderr why newer snapshots are invalid.
std::optional<SnapshotIndex> newest_in(const std::string& folder, std::uint32_t number,
                                       std::uint32_t servers) {
  for (const SnapshotName& one : kv_detail::snapshots_of(folder, number, servers)) {
    ProgressLine progress("reading " + one.path);
    try {
      SnapshotIndex index = kv_detail::index_snapshot(one.path, progress.callback());
      progress.end();
      std::printf("%s: of %s\n", one.path.c_str(), kv_detail::utc_text(index.header.time).c_str());
      return index;
    } catch (const kv_detail::SnapshotError& error) {
      progress.end();
      std::fprintf(stderr, "note: %s; the one before is taken\n", error.what());
    }
  }
  return std::nullopt;
}

// The newest valid snapshot of shard `number` in all folders. With replication several servers write
// snapshots of a shard, so they may be in several folders.
SnapshotIndex newest(const Options& options, std::uint32_t number, std::uint32_t servers) {
  std::optional<SnapshotIndex> found;
  for (const std::string& folder : options.folders) {
    std::optional<SnapshotIndex> one = newest_in(folder, number, servers);
    if (one && (!found || one->header.time > found->header.time)) found = std::move(one);
  }
  if (found) return std::move(*found);
  throw std::runtime_error(text_of(options.folders) + " no good snapshot of server " +
                           std::to_string(number) + " of " + std::to_string(servers) +
                           "; the state of a job is that of all its servers: name the folders of all");
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

int run(const Options& options) {
  const std::uint32_t servers = servers_of(options);
  std::vector<SnapshotIndex> parts;
  for (std::uint32_t number = 0; number < servers; ++number)
    parts.push_back(newest(options, number, servers));
  kv_detail::PlacementRule placement;
  if (!options.placement.empty()) placement = kv_detail::placement_from(options.placement);
  ProgressLine progress("writing to " + options.out);
  const kv_detail::Resharded made = kv_detail::reshard(parts, {.out = options.out,
                                                               .servers = options.servers,
                                                               .incarnation = random_number(),
                                                               .newest_parts = options.newest_parts,
                                                               .placement = placement,
                                                               .progress = progress.callback()});
  progress.end();
  for (const std::string& note : made.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  for (const std::string& file : made.files) std::printf("wrote %s\n", file.c_str());
  return 0;
}

constexpr const char* kDescription =
    "Makes snapshots for another number of servers: values that were split are put together and placed "
    "anew.\n\n"
    "    heddle server restore of-host-a of-host-b --servers 3 --out snapshots-of-3\n"
    "    heddle server --number 0 --servers 3 --snapshots snapshots-of-3     each of them, with its own "
    "copy\n\n"
    "The folders have the snapshots of all servers of the job. Copy each server's folder as it is: files in "
    "two of them\n"
    "may have the same name. Of each server's part the newest good snapshot is taken, whichever folder it is "
    "in.\n"
    "Start the workers anew, with the new HEDDLE_SERVERS: they go on with the values of the "
    "snapshots.\n\n"
    "Servers write snapshots one by one. Those that they write when they are stopped while nobody pushes fit "
    "together;\n"
    "others may be of different moments. A job whose workers have left, or are gone for --worker-timeout, "
    "has "
    "ended and\n"
    "is in no snapshot: kill the workers, then stop all servers by SIGQUIT, within that time.\n\n"
    "If parts of one value have had different pushes, nothing is written and the key is named; "
    "--newest-parts "
    "takes each\n"
    "part as it is. Keys that are whole but of different\n"
    "moments are noted. Exit code 1: something does not fit or cannot be read or written.";

}  // namespace

void add_server_restore(command_line::Command& server, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = server.add_command("restore", kDescription);
  command.add_option("folders", options->folders, "with the snapshots of all servers")
      .required()
      .type_name("DIR");
  command.add_option("--servers", options->servers, "how many servers there will be")
      .required()
      .range(std::uint32_t{1}, kMostServers)
      .type_name("N");
  command.add_option("--out", options->out, "folder for the new snapshots; it has none of N servers yet")
      .required()
      .type_name("DIR");
  command
      .add_option("--from", options->from,
                  "how many servers there were, if the folder has snapshots of several")
      .range(std::uint32_t{1}, kMostServers)
      .type_name("N");
  command
      .add_option(
          "--placement", options->placement,
          "explicit:KEY=SERVER,... or explicit:@FILE: for jobs whose placement is explicit, the list that "
          "their workers will have. Other placements stay")
      .check(problem_with_placement)
      .type_name("PLACEMENT");
  command.add_flag("--newest-parts", options->newest_parts,
                   "take parts of one value that have had different pushes; pushes that wait are left out");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
