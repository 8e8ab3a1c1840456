#include "server/settings.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/memory.h>

#include "files.h"

using namespace heddle;
using namespace heddle::tool;

namespace {

SettingSources file_of(std::string_view text) { return {.file = "server.toml", .lines = parse_config(text)}; }

std::string origin(const FoundSettings& found, const std::string& name) {
  for (const SettingValue& one : found.values) {
    if (one.name == name) return one.origin;
  }
  return "nowhere";
}

std::string only_problem(const SettingSources& sources) {
  const FoundSettings found = find_settings(sources);
  REQUIRE(found.problems.size() == 1);
  return found.problems.front();
}

std::string problem_of_line(const std::string& line) {
  const std::vector<ConfigLine> lines = parse_config(line);
  REQUIRE(lines.size() == 1);
  return lines.front().problem;
}

std::string value_of_line(const std::string& line) {
  const std::vector<ConfigLine> lines = parse_config(line);
  REQUIRE(lines.size() == 1);
  REQUIRE(lines.front().problem == "");
  return lines.front().value;
}

}  // namespace

TEST_CASE("settings: without anybody's doing they are those of ServerOptions, at fixed ports of this host") {
  const FoundSettings found = find_settings({});
  const ServerOptions usual;
  CHECK(found.problems.empty());
  CHECK(found.values.size() == server_settings().size());
  CHECK(found.settings.server.listen == "127.0.0.1:9463");
  CHECK(found.settings.metrics == "127.0.0.1:9464");
  CHECK(found.settings.server.transport == usual.transport);
  CHECK(found.settings.server.keys == usual.keys);
  CHECK(found.settings.server.number == usual.number);
  CHECK(found.settings.server.servers == usual.servers);
  CHECK(found.settings.server.memory_limit == usable_memory() / 5 * 4);
  CHECK(found.settings.memory_limit.find(": 80 % of ") != std::string::npos);
  const FoundSettings third = find_settings({.flags = {{"servers-on-host", "3"}}});
  CHECK(third.settings.server.memory_limit == usable_memory() / 5 * 4 / 3);
  CHECK(third.settings.memory_limit.ends_with(", for one of 3 servers on the host"));
  CHECK(find_settings({.flags = {{"memory-limit", "6MiB"}, {"servers-on-host", "3"}}})
            .settings.server.memory_limit == 6u << 20);
  CHECK(found.settings.server.job_memory_limit == usual.job_memory_limit);
  CHECK(found.settings.server.max_connections == usual.max_connections);
  CHECK(found.settings.server.worker_timeout == usual.worker_timeout);
  CHECK(found.settings.log.level == LogOptions{}.level);
  CHECK(found.settings.log.format == LogOptions{}.format);
  CHECK(origin(found, "listen") == "default");
}

TEST_CASE("settings: a flag goes before the environment, and that before the file") {
  SettingSources sources =
      file_of("# servers of a job\nservers = 2\nnumber = 1\n\nworker-timeout = \"5s\"\n");
  sources.environment = {
      {"HEDDLE_SERVER_NUMBER", "2"}, {"HEDDLE_SERVER_SERVERS", "4"}, {"HEDDLE_SERVER_KEYS", ""}};
  sources.flags = {{"number", "3"}};
  const FoundSettings found = find_settings(sources);
  CHECK(found.problems.empty());
  CHECK(found.settings.server.number == 3);
  CHECK(found.settings.server.servers == 4);
  CHECK(found.settings.server.worker_timeout == std::chrono::seconds(5));
  CHECK(origin(found, "number") == "--number");
  CHECK(origin(found, "servers") == "HEDDLE_SERVER_SERVERS");
  CHECK(origin(found, "worker-timeout") == "server.toml:5");
  CHECK(origin(found, "keys") == "default");
}

TEST_CASE("settings: all of them can be set by a file, and the table shows them") {
  const heddle::test::TemporaryDirectory keys;
  heddle::test::write_file(keys.file("comm.key"), "k");
  heddle::test::write_file(keys.file("comm.allowed"), "a");
  const SettingSources sources =
      file_of("listen = \"[::1]:7000\"\ntransport = 'zmq'\nkeys = \"" + keys.path.string() +
              "\"\nnumber = 1\nservers = 3\nmemory-limit = 8GiB\njob-memory-limit = \"512 "
              "MiB\"\nmax-connections = 12\n"
              "worker-timeout = 1.5s\nmetrics = off\nlog-level = debug\nlog-format = json\nlog-file = \"" +
              keys.file("log") + "\"\n");
  CHECK(only_problem(sources) ==
        "server.toml:7: job-memory-limit: '512 MiB': want bytes like 4096 or 8GiB; units are kB, MB, GB, TB, "
        "KiB, MiB, GiB and TiB");
  SettingSources good = sources;
  good.lines[6].value = "512MiB";
  const FoundSettings found = find_settings(good);
  CHECK(found.problems.empty());
  CHECK(found.settings.server.listen == "[::1]:7000");
  CHECK(found.settings.server.transport == "zmq");
  CHECK(found.settings.server.keys == keys.path.string());
  CHECK(found.settings.server.memory_limit == std::uint64_t{8} << 30);
  CHECK(found.settings.server.job_memory_limit == std::uint64_t{512} << 20);
  CHECK(found.settings.server.max_connections == 12);
  CHECK(found.settings.server.worker_timeout == std::chrono::milliseconds(1500));
  CHECK(found.settings.metrics == "");
  CHECK(found.settings.log.level == ServerEvent::Level::debug);
  CHECK(found.settings.log.format == LogFormat::json);
  CHECK(found.settings.log.file == keys.file("log"));
  const std::string table = settings_table(found);
  CHECK(std::count(table.begin(), table.end(), '\n') ==
        static_cast<std::ptrdiff_t>(server_settings().size()));
  CHECK(table.find("\nnumber             1") != std::string::npos);
  CHECK(table.find("server.toml:13\n") != std::string::npos);
}

TEST_CASE("settings: a wrong value is named with the place that sets it") {
  CHECK(only_problem({.flags = {{"listen", "9463"}}}) ==
        "--listen: '9463': want HOST:PORT, such as 127.0.0.1:9463 or [::1]:9463");
  CHECK(only_problem({.environment = {{"HEDDLE_SERVER_LOG_LEVEL", "loud"}}}) ==
        "HEDDLE_SERVER_LOG_LEVEL: 'loud': want debug, info, warning or error");
  CHECK(only_problem(file_of("\n\nmax-connections = -1\n")) ==
        "server.toml:3: max-connections: '-1': want a number from 1 to 1000000");
  CHECK(only_problem(file_of("servers = 2\nlisten = 1:2\nservers = 3\n")) ==
        "server.toml:3: servers is set in line 1 too");
  CHECK(only_problem(file_of("number 3\n")) == "server.toml:1: want NAME = VALUE");
  CHECK(only_problem(file_of("port = 3\n"))
            .starts_with("server.toml:1: there is no setting 'port'; there is: listen"));
  CHECK(find_settings(file_of("number = x\nservers = y\nmetrics = z\n")).problems.size() == 3);
}

TEST_CASE("settings: values that cannot be are refused, at their edges") {
  const std::pair<const char*, const char*> bad[] = {{"listen", "0.0.0.0:1"},
                                                     {"listen", "[::]:1"},
                                                     {"listen", "*:1"},
                                                     {"listen", ""},
                                                     {"listen", ":9463"},
                                                     {"listen", "::1:9463"},
                                                     {"listen", "a:65536"},
                                                     {"listen", "a:-1"},
                                                     {"listen", "a:1 "},
                                                     {"listen", "http://a:1"},
                                                     {"listen", "a:1,b:2"},
                                                     {"metrics", "9464"},
                                                     {"transport", "tcp"},
                                                     {"number", "-1"},
                                                     {"number", "1x"},
                                                     {"servers", "0"},
                                                     {"servers", "65537"},
                                                     {"memory-limit", "-1"},
                                                     {"memory-limit", "1e300"},
                                                     {"memory-limit", "nan"},
                                                     {"memory-limit", "inf"},
                                                     {"max-connections", "0"},
                                                     {"worker-timeout", "0s"},
                                                     {"worker-timeout", "30"},
                                                     {"worker-timeout", "1e9s"},
                                                     {"worker-timeout", "nans"},
                                                     {"log-format", "JSON"},
                                                     {"job-memory-limits", "a"},
                                                     {"job-memory-limits", "=1"},
                                                     {"job-memory-limits", "a=x"},
                                                     {"job-memory-limits", "a=1,a=2"},
                                                     {"job-memory-limits", "a=1,"},
                                                     {"job-memory-limits", ",a=1"},
                                                     {"job-memory-limits", "a\t=1"}};
  for (const auto& [name, value] : bad) {
    CAPTURE(name);
    CAPTURE(value);
    CHECK(find_settings({.flags = {{name, value}}}).problems.size() == 1);
  }
  const std::pair<const char*, const char*> good[] = {
      {"metrics", "0.0.0.0:1"}, {"listen", "eth0:0"}, {"listen", "server-0.heddle:65535"},
      {"metrics", ""},          {"servers", "65536"}, {"memory-limit", "8388608GiB"},
      {"worker-timeout", "1ms"}};
  for (const auto& [name, value] : good) {
    CAPTURE(value);
    CHECK(find_settings({.flags = {{name, value}}}).problems.empty());
  }
}

TEST_CASE("settings: limits of jobs by name") {
  using Limits = std::map<std::string, std::uint64_t>;
  const auto limits = [](const SettingSources& sources) {
    const FoundSettings found = find_settings(sources);
    CHECK(found.problems.empty());
    return found.settings.server.job_memory_limits;
  };
  CHECK(limits({}).empty());
  CHECK(limits({.flags = {{"job-memory-limits", "research=2GiB,a b=c=512,off=0"}}}) ==
        Limits{{"research", std::uint64_t{2} << 30}, {"a b=c", 512}, {"off", 0}});
  CHECK(limits({.environment = {{"HEDDLE_SERVER_JOB_MEMORY_LIMITS", "a=1KiB"}}}) == Limits{{"a", 1024}});
  CHECK(limits(file_of("job-memory-limits = \"a=1KiB,b=4\"\n")) == Limits{{"a", 1024}, {"b", 4}});
  CHECK(only_problem(file_of("\njob-memory-limits = \"a=1,b\"\n")) ==
        "server.toml:2: job-memory-limits: 'b': want JOB=BYTES, such as research=2GiB");
  CHECK(only_problem({.flags = {{"memory-limit", "1GiB"}, {"job-memory-limits", "a=1MiB,b=2GiB"}}}) ==
        "--job-memory-limits: that of b is more than memory-limit, 1GiB");
}

TEST_CASE("settings: values that do not fit together") {
  CHECK(only_problem(file_of("servers = 2\nnumber = 2\n")) ==
        "server.toml:2: number: 2 of 2 servers; numbers begin at 0, and servers is how many");
  CHECK(only_problem({.flags = {{"memory-limit", "1GiB"}, {"job-memory-limit", "2GiB"}}}) ==
        "--job-memory-limit: 2GiB is more than memory-limit, 1GiB");
  CHECK(only_problem({.flags = {{"listen", "127.0.0.1:9464"}}}) ==
        "default: metrics: 127.0.0.1:9464 is where workers connect");
  CHECK(find_settings({.flags = {{"listen", "127.0.0.1:0"}, {"metrics", "127.0.0.1:0"}}}).problems.empty());
  CHECK(only_problem({.flags = {{"log-file", "/nowhere/at/all"}}}) ==
        "--log-file: there is no directory /nowhere/at");
  CHECK(find_settings({.flags = {{"keys", "/nowhere"}}}).problems.size() == 2);
}

TEST_CASE("settings: a variable that looks like a setting is noted, and no mistake") {
  const FoundSettings found =
      find_settings({.environment = {{"HEDDLE_SERVER_LISTN", "x"}, {"HEDDLE_SERVER_CONFIG", "y"}}});
  CHECK(found.problems.empty());
  CHECK(found.notes == std::vector<std::string>{"HEDDLE_SERVER_LISTN is the variable of no setting"});
}

TEST_CASE("settings: the number of a host") {
  CHECK(number_in_host("heddle-server-3") == 3);
  CHECK(number_in_host("heddle-server-12.heddle.default.svc.cluster.local") == 12);
  CHECK(number_in_host("7") == 7);
  CHECK_THROWS_WITH_AS(number_in_host("laptop"), "hostname: 'laptop' ends in no number", std::runtime_error);
  CHECK_THROWS_AS(number_in_host(""), std::runtime_error);
  CHECK_THROWS_AS(number_in_host("host-99999999999"), std::runtime_error);
}

TEST_CASE("config file: values with and without quotes, comments, blank lines") {
  CHECK(value_of_line("a = b") == "b");
  CHECK(value_of_line("  a=b # c") == "b");
  CHECK(value_of_line("a = \"b # c\" # d") == "b # c");
  CHECK(value_of_line(R"(a = "q\"w\\e\n\t")") == "q\"w\\e\n\t");
  CHECK(value_of_line(R"(a = 'C:\keys')") == R"(C:\keys)");
  CHECK(value_of_line("a = \"\"") == "");
  CHECK(value_of_line("a = b\r") == "b");
  const std::vector<ConfigLine> lines = parse_config("\n# c\na = 1\n\n  b-c = 2");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].line == 3);
  CHECK(lines[1].line == 5);
  CHECK(lines[1].name == "b-c");
  CHECK(lines[1].value == "2");
}

TEST_CASE("config file: lines that are none") {
  CHECK(problem_of_line("[server]") == "settings stand in no table; want NAME = VALUE");
  CHECK(problem_of_line("listen") == "want NAME = VALUE");
  CHECK(problem_of_line("= 3") == "want NAME = VALUE");
  CHECK(problem_of_line("Listen = 3") == "want NAME = VALUE");
  CHECK(problem_of_line("a =") == "the value is missing; nothing is written \"\"");
  CHECK(problem_of_line("a = # b") == "the value is missing; nothing is written \"\"");
  CHECK(problem_of_line("a = \"b") == "the closing \" is missing");
  CHECK(problem_of_line("a = \"b\\") == "the closing \" is missing");
  CHECK(problem_of_line("a = \"b\" c") == "something stands behind the value");
  CHECK(problem_of_line("a = b\"c\"") == "a quote inside a value without quotes");
  CHECK(problem_of_line(R"(a = "\x")") == R"(unknown escape \x; there is \" \\ \n \t)");
}

TEST_CASE("config file: what is no file of settings is refused before it is read whole") {
  const heddle::test::TemporaryFile file;
  heddle::test::write_file(file.path, std::string((1u << 20) + 1, '#'));
  CHECK_THROWS_WITH_AS(read_config_file(file.path), (file.path + " has more than 1 MiB").c_str(),
                       std::runtime_error);
  CHECK_THROWS_AS(read_config_file(file.directory.path.string()), std::runtime_error);
  CHECK_THROWS_AS(read_config_file(file.directory.file("missing")), std::runtime_error);
}
