// heddle server verify: shows the content of snapshots and checks them.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/reports/progress_line.h"
#include "server/reports/snapshot_report.h"
#include "server/subcommands.h"
#include "snapshot/snapshot_folder.h"

namespace heddle::tool {
namespace {

std::vector<std::string> files_of(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_directory(path, none)) return {path};
  std::vector<std::string> files;
  for (const kv_detail::SnapshotName& one : kv_detail::snapshots_in(path)) files.push_back(one.path);
  if (files.empty()) throw std::runtime_error(path + " has no snapshots, server-N-of-M-....snapshot");
  return files;
}

// Checks all snapshots at the path, including those older than another snapshot of the same server.
int run(const std::string& path) {
  int bad = 0;
  for (const std::string& file : files_of(path)) {
    ProgressLine progress("reading " + file);
    try {
      const kv_detail::SnapshotIndex index = kv_detail::index_snapshot(file, progress.callback());
      progress.end();
      const std::string text = snapshot_text(index);
      std::fwrite(text.data(), 1, text.size(), stdout);
    } catch (const kv_detail::SnapshotError& error) {
      progress.end();
      std::printf("%s\n\n", error.what());
      ++bad;
    }
  }
  return bad == 0 ? 0 : 1;
}

constexpr const char* kDescription =
    "Reads snapshots of servers, checks every byte, and says what is in them.\n\n"
    "    heddle server verify /var/lib/heddle/snapshots     all of a folder\n"
    "    heddle server verify server-0-of-2-00000017.snapshot\n\n"
    "For each key: its bytes on that server, its rounds, the pushes of each worker that are in it, pushes "
    "that wait\n"
    "for their round, and the arrays of the optimizer. Exit code 1: a file is torn or changed; the line "
    "names the\n"
    "file, the byte and what is wrong. A server takes the newest good one when it starts.";

}  // namespace

void add_server_verify(command_line::Command& server, Action& action) {
  auto path = std::make_shared<std::string>();
  command_line::Command command = server.add_command("verify", kDescription);
  command.add_option("path", *path, "a snapshot, or a folder of them").required().type_name("PATH");
  command.on_parsed([path, &action] { action = [path] { return run(*path); }; });
}

}  // namespace heddle::tool
