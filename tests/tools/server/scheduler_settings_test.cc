#include <chrono>
#include <map>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "files.h"
#include "server/launcher.h"
#include "server/reports/scheduler_metrics.h"
#include "server/settings.h"

using namespace heddle;
using namespace heddle::tool;

namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup_in(const Variables& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
}

const Variables kDmlc = {{"DMLC_PS_ROOT_URI", "127.0.0.1"},
                         {"DMLC_PS_ROOT_PORT", "9000"},
                         {"DMLC_NUM_SERVER", "3"},
                         {"DMLC_NUM_WORKER", "4"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::string only_problem(const SettingSources& sources, const SettingsTable& table) {
  const FoundSettings found = find_settings(sources, table);
  REQUIRE(found.problems.size() == 1);
  return found.problems.front();
}

template <class Call> std::string complaint(Call&& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("scheduler settings: without anybody's doing they are those of StoreSchedulerOptions") {
  const FoundSettings found = find_settings({}, scheduler_table());
  const StoreSchedulerOptions usual, &all = found.settings.scheduler;
  CHECK(found.problems.empty());
  CHECK(all.listen == "127.0.0.1:9462");
  CHECK(found.settings.metrics == "127.0.0.1:9465");
  CHECK(all.servers == usual.servers);
  CHECK(all.workers == usual.workers);
  CHECK(all.state_file == usual.state_file);
  CHECK(all.server_timeout == usual.server_timeout);
  CHECK(all.grace == usual.grace);
  CHECK(all.start_timeout == usual.start_timeout);
  CHECK(all.lost_after == usual.lost_after);
  CHECK(all.once == usual.once);
  CHECK(all.max_connections == usual.max_connections);
}

TEST_CASE("scheduler settings: flags, variables and lines set them, and what cannot be is named") {
  const test::TemporaryDirectory folder;
  SettingSources sources{.file = "scheduler.toml", .lines = parse_config("servers = 3\nonce = yes\n")};
  sources.environment = {{"HEDDLE_SCHEDULER_WORKERS", "5"}, {"HEDDLE_SCHEDULER_WRONG", "1"}};
  sources.flags = {{"state", folder.file("state")}, {"lost-after", "1.5s"}};
  const FoundSettings found = find_settings(sources, scheduler_table());
  CHECK(found.problems.empty());
  CHECK(found.settings.scheduler.servers == 3);
  CHECK(found.settings.scheduler.once);
  CHECK(found.settings.scheduler.workers == 5);
  CHECK(found.settings.scheduler.state_file == folder.file("state"));
  CHECK(found.settings.scheduler.lost_after == std::chrono::milliseconds(1500));
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0] == "HEDDLE_SCHEDULER_WRONG is the variable of no setting");

  const SettingsTable& table = scheduler_table();
  CHECK(only_problem({.flags = {{"servers", "257"}}}, table) ==
        "--servers: '257': want a number from 1 to 256");
  CHECK(only_problem({.flags = {{"once", "1"}}}, table) == "--once: '1': want yes or no");
  CHECK(only_problem({.flags = {{"grace", "4s"}}}, table) == "--grace: 4s is more than server-timeout, 3s");
  CHECK(only_problem({.flags = {{"state", "/none/state"}}}, table) == "--state: there is no directory /none");
  CHECK(only_problem({.flags = {{"metrics", "127.0.0.1:9462"}}}, table) ==
        "--metrics: 127.0.0.1:9462 is where workers connect");
}

TEST_CASE("server settings: a scheduler says what a server was not told, and copies need one") {
  const SettingsTable& table = server_table();
  const FoundSettings any = find_settings({.flags = {{"scheduler", "a:9462"}, {"replicas", "2"}}}, table);
  CHECK(any.problems.empty());
  CHECK(any.settings.server.scheduler == "a:9462");
  CHECK(any.settings.server.number == -1);
  CHECK(any.settings.server.servers == 0);
  CHECK(any.settings.server.replicas == 2);
  const FoundSettings told = find_settings({.flags = {{"scheduler", "a:9462"}, {"number", "7"}}}, table);
  CHECK(told.problems.empty());
  CHECK(told.settings.server.number == 7);
  CHECK(told.settings.server.replicas == 0);  // 0 means not set: the scheduler decides
  CHECK(only_problem({.flags = {{"scheduler", "a:9462"}, {"number", "2"}, {"servers", "2"}}}, table)
            .starts_with("--number: 2 of 2 servers"));
  CHECK(
      only_problem({.flags = {{"replicas", "2"}}}, table).starts_with("--replicas: copies need a scheduler"));
  CHECK(only_problem({.flags = {{"replicas", "3"}, {"scheduler", "a:1"}}}, table) ==
        "--replicas: '3': want a number from 1 to 2");
  CHECK(only_problem({.flags = {{"scheduler", "a:0"}}}, table)
            .starts_with("--scheduler: 'a:0': want HOST:PORT"));
}

TEST_CASE("scheduler settings: etcd, for a scheduler and for servers") {
  constexpr const char* kUrls = "http://a:2379,https://[::1]:2379";
  FoundSettings found = find_settings(
      {.flags = {{"etcd", kUrls}, {"etcd-prefix", "/x"}, {"etcd-lease", "5s"}}}, scheduler_table());
  CHECK(found.problems.empty());
  CHECK(found.notes.empty());
  CHECK(found.settings.scheduler.etcd.urls == kUrls);
  CHECK(found.settings.scheduler.etcd.prefix == "/x");
  CHECK(found.settings.scheduler.etcd.lease == std::chrono::seconds(5));
  found = find_settings({.flags = {{"etcd", kUrls}, {"replicas", "2"}}}, server_table());
  CHECK(found.problems.empty());
  CHECK(found.settings.server.etcd.prefix == EtcdOptions().prefix);
  CHECK(found.settings.server.number == -1);

  for (const SettingsTable* const table : {&scheduler_table(), &server_table()}) {
    for (const char* const wrong : {"a:1", "http://a", "http://a:0", "http://a:1,", ",", "http://a:1/"})
      CHECK(only_problem({.flags = {{"etcd", wrong}}}, *table)
                .starts_with("--etcd: '" + std::string(wrong) + "': want"));
    CHECK(only_problem({.flags = {{"etcd-prefix", "/x/"}}}, *table)
              .starts_with("--etcd-prefix: '/x/': want a name"));
    const std::string file = "/proc/self/status";
    CHECK(only_problem({.flags = {{"etcd", "https://a:1"}, {"etcd-key", file}}}, *table) ==
          "default: etcd-cert: etcd-cert and etcd-key need each other");
    CHECK(only_problem({.flags = {{"etcd", "https://a:1"}, {"etcd-ca", "/nope"}}}, *table) ==
          "--etcd-ca: /nope cannot be read: No such file or directory");
    CHECK(only_problem({.flags = {{"etcd", "http://a:1"}, {"etcd-ca", file}}}, *table) ==
          "--etcd: certificates need addresses that begin with https://");
  }
  CHECK(only_problem({.flags = {{"etcd-lease", "1s"}}}, scheduler_table()) ==
        "--etcd-lease: '1s': want a time from 2s to 10min");
}

TEST_CASE(
    "launcher settings: etcd's are those of all processes, and what a process is told itself goes before "
    "them") {
  const Variables job = {{"HEDDLE_STORE_ETCD", "http://a:1"}, {"HEDDLE_STORE_ETCD_PREFIX", "/x"}};
  const LauncherSettings server = launcher_settings_of_server(lookup_in(job));
  const LauncherSettings scheduler = launcher_settings_of_scheduler(lookup_in(job));
  FoundSettings found = find_settings({.launcher = server}, server_table());
  CHECK(found.settings.server.etcd.urls == "http://a:1");
  CHECK(found.settings.server.etcd.prefix == "/x");
  found = find_settings({.flags = {{"scheduler", "b:1"}}, .launcher = server}, server_table());
  CHECK(found.problems.empty());
  CHECK(found.settings.server.etcd.urls == "");
  const Variables dmlc = with(with(kDmlc, {{"DMLC_ROLE", "server"}}), job);
  CHECK_FALSE(launcher_settings_of_server(lookup_in(dmlc)).contains("scheduler"));
  found = find_settings({.launcher = scheduler}, scheduler_table());
  CHECK(found.settings.scheduler.etcd.urls == "http://a:1");
  found = find_settings({.flags = {{"once", "yes"}}, .launcher = scheduler}, scheduler_table());
  CHECK(found.problems.empty());
  CHECK(found.settings.scheduler.etcd.urls == "");
}

TEST_CASE("launcher settings: DMLC's variables name all roles, and settings go before them") {
  const Variables server = with(kDmlc, {{"DMLC_ROLE", "server"}});
  const LauncherSettings of_server = launcher_settings_of_server(lookup_in(server));
  FoundSettings found = find_settings({.launcher = of_server}, server_table());
  CHECK(found.problems.empty());
  CHECK(found.settings.server.scheduler == "127.0.0.1:9000");
  CHECK(found.settings.server.listen == "127.0.0.1:0");
  CHECK(found.settings.server.servers == 3);
  CHECK(found.settings.server.number == -1);
  CHECK(found.settings.metrics == "");
  CHECK(settings_table(found).find("DMLC_PS_ROOT_URI\n") != std::string::npos);
  found = find_settings({.flags = {{"scheduler", "b:1"}}, .launcher = of_server}, server_table());
  CHECK(found.settings.server.scheduler == "b:1");

  const Variables scheduler = with(kDmlc, {{"DMLC_ROLE", "scheduler"}, {"DMLC_PS_ROOT_URI", "localhost"}});
  found =
      find_settings({.launcher = launcher_settings_of_scheduler(lookup_in(scheduler))}, scheduler_table());
  CHECK(found.problems.empty());
  CHECK((found.settings.scheduler.listen == "127.0.0.1:9000" ||
         found.settings.scheduler.listen == "[::1]:9000"));
  CHECK(found.settings.scheduler.servers == 3);
  CHECK(found.settings.scheduler.workers == 4);
  CHECK(found.settings.scheduler.once);

  CHECK(launcher_settings_of_server(lookup_in({})).empty());
  CHECK(launcher_settings_of_scheduler(lookup_in({})).empty());
  CHECK(launcher_settings_of_server(lookup_in({{"HEDDLE_STORE_SCHEDULER", "c:1"}})).at("scheduler").first ==
        "c:1");
  CHECK(launcher_settings_of_server(
            lookup_in(with(server, {{"DMLC_NODE_HOST", "10.0.0.1"}, {"DMLC_PORT", "7"}})))
            .at("listen")
            .first == "10.0.0.1:7");
  CHECK(
      launcher_settings_of_server(lookup_in(with(server, {{"DMLC_INTERFACE", "eth0"}}))).at("listen").first ==
      "eth0:0");
}

TEST_CASE("launcher settings: a variable that is missing or wrong is named") {
  CHECK(complaint([] {
          launcher_role(lookup_in({{"DMLC_ROLE", "boss"}}));
        }) == "DMLC_ROLE: 'boss': want scheduler, server or worker");
  for (const char* const role : {"server", "scheduler"}) {
    for (const char* const missing : {"DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_SERVER"}) {
      const Variables all = with(kDmlc, {{"DMLC_ROLE", role}, {missing, ""}});
      const auto read = [&] {
        role[1] == 'e' ? launcher_settings_of_server(lookup_in(all))
                       : launcher_settings_of_scheduler(lookup_in(all));
      };
      CHECK(complaint(read) == std::string(missing) + " is not set, but DMLC_ROLE is '" + role + "'");
    }
  }
}

TEST_CASE("scheduler metrics: all of them are on the page, with their values") {
  StoreSchedulerStats stats{
      .uptime = 5, .begun = true, .version = 7, .servers = 2, .servers_here = 1, .unauthorized = 9};
  stats.shards = {{3, 1, -1, false, 1}, {1, 1, 0, true, 2}};
  const std::string text = scheduler_metrics_text(stats, "127.0.0.1:9462");
  const std::string page = test::read_file(HEDDLE_METRICS_PAGE);
  for (const char* const line :
       {"heddle_scheduler_info{address=\"127.0.0.1:9462\"} 1\n", "heddle_scheduler_views_version 7\n",
        "heddle_scheduler_servers_here 1\n", "heddle_scheduler_unauthorized_total 9\n",
        "heddle_scheduler_shard_copies{shard=\"0\"} 1\n", "heddle_scheduler_shard_copies{shard=\"1\"} 2\n",
        "heddle_scheduler_shard_primary{shard=\"0\"} 1\n"})
    CHECK(text.find(line) != std::string::npos);
  int families = 0;
  for (std::size_t at = text.find("# TYPE "); at != std::string::npos; at = text.find("# TYPE ", at + 1)) {
    const std::string name = text.substr(at + 7, text.find(' ', at + 7) - at - 7);
    CAPTURE(name);
    CHECK(page.find("| `" + name + "`") != std::string::npos);
    ++families;
  }
  CHECK(families == 15);
}
