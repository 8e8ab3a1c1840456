#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "heddle_program.h"
#include "server/http_client.h"

using heddle::test::File;
using heddle::test::holds;
using heddle::test::Outcome;
using heddle::test::run_heddle;
using heddle::tool::http_get;

namespace {

constexpr std::chrono::seconds kTimeout{20};

// A running `heddle server`, which logs JSON.
class RunningServer {
 public:
  explicit RunningServer(std::vector<std::string> arguments) {
    int log[2];
    REQUIRE(::pipe2(log, O_CLOEXEC) == 0);
    arguments.insert(arguments.begin(), {HEDDLE_PROGRAM, "server", "--listen", "127.0.0.1:0", "--metrics",
                                         "127.0.0.1:0", "--log-format", "json"});
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {
      ::dup2(log[1], STDERR_FILENO);
      ::execv(words[0], words.data());
      ::_exit(99);
    }
    ::close(log[1]);
    log_ = log[0];
  }
  ~RunningServer() {
    if (id_ > 0) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
    ::close(log_);
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // Reads the log up to the next line with this event, and returns that line. Fails if the log ends before.
  nlohmann::json event(const std::string& name) {
    while (true) {
      const std::size_t end = text_.find('\n');
      if (end == std::string::npos) {
        read_more();
        continue;
      }
      const auto line = nlohmann::json::parse(text_.substr(0, end));
      text_.erase(0, end + 1);
      if (line["event"] == name) return line;
    }
  }
  void signal(int number) const { CHECK(::kill(id_, number) == 0); }
  int status() {
    int status = 0;
    CHECK(::waitpid(id_, &status, 0) == id_);
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  void read_more() {
    pollfd wanted{log_, POLLIN, 0};
    REQUIRE(::poll(&wanted, 1, 20'000) == 1);
    char part[4096];
    const ssize_t count = ::read(log_, part, sizeof part);
    REQUIRE(count > 0);
    text_.append(part, static_cast<std::size_t>(count));
  }

  pid_t id_ = 0;
  int log_ = -1;
  std::string text_;
};

}  // namespace

TEST_CASE("heddle server: serves, tells how it is, drains at SIGTERM and ends well") {
  RunningServer server({"--number", "1", "--servers", "2", "--memory-limit", "1GiB"});
  const auto started = server.event("started");
  const std::string metrics = started["metrics"];
  CHECK(started["number"] == "1");
  CHECK(http_get(metrics, "/healthz", kTimeout).text == "ok\n");
  CHECK(http_get(metrics, "/readyz", kTimeout).text == "ok\n");
  CHECK(http_get(metrics, "/livez", kTimeout).status == 200);
  CHECK(holds(http_get(metrics, "/metrics", kTimeout).text, "heddle_server_memory_limit_bytes 1073741824\n"));
  const Outcome status = run_heddle("server status --interval 0s " + metrics);
  CHECK(status.status == 0);
  CHECK(status.out.starts_with(std::string(started["address"]) + ": server 1 of 2, transport net"));
  const Outcome json =
      run_heddle("server status --json --interval 10ms --metrics http://" + metrics + "/metrics");
  CHECK(json.status == 0);
  CHECK(nlohmann::json::parse(json.out)["servers"] == 2);
  server.signal(SIGTERM);
  const auto signal = server.event("signal");
  CHECK(signal["signal"] == "SIGTERM");
  CHECK(signal["then"] == "drain");
  CHECK(server.event("ended")["how"] == "drained");
  CHECK(server.status() == 0);
}

TEST_CASE("heddle server: an administrator asks it how it is, and lets it drain") {
  RunningServer server({"--number", "1", "--servers", "2"});
  const std::string address = server.event("started")["address"];
  const Outcome status = run_heddle("server status --interval 0s --at " + address);
  CHECK(status.status == 0);
  CHECK(status.out.starts_with(address + ": server 1 of 2, transport net"));
  const Outcome drain = run_heddle("server drain --at " + address);
  CHECK(drain.status == 0);
  CHECK(drain.out == address + " drains\n");
  CHECK(server.event("administrator")["wish"] == "drain");
  CHECK(server.event("ended")["how"] == "drained");
  CHECK(server.status() == 0);
  const Outcome gone = run_heddle("server drain --at " + address);
  CHECK(gone.status == 1);
  CHECK(holds(gone.error, "the server at " + address + ": "));
  CHECK(run_heddle("server drain").status == 2);
}

TEST_CASE("heddle server: a server that waits for its scheduler is well, but not ready") {
  RunningServer server({"--scheduler", "127.0.0.1:1", "--number", "0", "--servers", "2"});
  const std::string metrics = server.event("started")["metrics"];
  CHECK(http_get(metrics, "/healthz", kTimeout).text == "ok\n");
  CHECK(http_get(metrics, "/livez", kTimeout).status == 200);
  const auto ready = http_get(metrics, "/readyz", kTimeout);
  CHECK(ready.status == 503);
  CHECK(ready.text == "this server is not the primary of shard 0\n");
}

TEST_CASE("heddle server: SIGINT drains too; SIGHUP does not end it") {
  RunningServer server({});
  server.event("started");
  server.signal(SIGHUP);
  CHECK(server.event("log_reopened")["worked"] == "yes");
  server.signal(SIGINT);
  CHECK(server.event("signal")["signal"] == "SIGINT");
  CHECK(server.status() == 0);
}

TEST_CASE("heddle server: an address that is in use is an error in the log") {
  RunningServer first({});
  const auto started = first.event("started");
  for (const char* setting : {"--listen", "--metrics"}) {
    const bool metrics = std::string(setting) == "--metrics";
    RunningServer second({setting, started[metrics ? "metrics" : "address"]});
    CHECK(second.event("failed")["level"] == "error");
    CHECK(second.status() == 1);
  }
}

TEST_CASE("heddle server: --check-config shows each setting and where it comes from") {
  const File file("listen = \"127.0.0.1:7000\"  # for tests\nservers = 3\n");
  const Outcome good = run_heddle("server --check-config --number 2 --config " + file.path());
  CHECK(good.status == 0);
  CHECK(good.error == "");
  CHECK(holds(good.out, file.path() + ":1\n"));
  CHECK(holds(good.out, "--number\n"));
  CHECK(holds(good.out, "default\n"));
  const Outcome off = run_heddle("server --check-config --metrics ''");
  CHECK(off.status == 0);
  CHECK(holds(off.out, "--metrics\n"));
}

TEST_CASE("heddle server: wrong settings end with 2 and say where they are, checked or not") {
  const File file("servers = 3\nmemory-limit = lots\nlisen = 1:2\n");
  for (const char* check : {"--check-config ", ""}) {
    const Outcome bad = run_heddle(std::string("server ") + check + "--number 1 --config " + file.path());
    CHECK(bad.status == 2);
    CHECK(holds(bad.error, file.path() + ":2: memory-limit: 'lots': want bytes"));
    CHECK(holds(bad.error, file.path() + ":3: there is no setting 'lisen'"));
  }
  const Outcome missing = run_heddle("server --config /nowhere/server.toml");
  CHECK(missing.status == 2);
  CHECK(missing.error == "cannot read /nowhere/server.toml: No such file or directory\n");
}

TEST_CASE("heddle server: the environment may name the file") {
  const File file("servers = many\n");
  ::setenv("HEDDLE_SERVER_CONFIG", file.path().c_str(), 1);
  const Outcome outcome = run_heddle("server");
  ::unsetenv("HEDDLE_SERVER_CONFIG");
  CHECK(outcome.status == 2);
  CHECK(holds(outcome.error, file.path() + ":1: servers: 'many'"));
}

TEST_CASE("heddle server: mistakes in the command line name the command") {
  const Outcome word = run_heddle("server statsu");
  CHECK(word.status == 2);
  CHECK(holds(word.error, "heddle server: there is no command 'statsu'; there is: status, plan"));
  const Outcome option = run_heddle("server status --intervall 3s");
  CHECK(option.status == 2);
  CHECK(holds(option.error, "heddle server status --help says more"));
  CHECK(run_heddle("server status --interval 3").status == 2);
  CHECK(run_heddle("server plan").status == 2);
}

TEST_CASE("heddle server status: a server that is not there is exit code 1") {
  const Outcome outcome = run_heddle("server status 127.0.0.1:1 --timeout 5s");
  CHECK(outcome.status == 1);
  CHECK(outcome.out == "");
  CHECK(holds(outcome.error, "127.0.0.1:1"));
}

TEST_CASE("heddle server: help teaches") {
  const Outcome help = run_heddle("server --help");
  CHECK(help.status == 0);
  for (const char* text :
       {"    heddle server ", "--number 1 --servers 2", "ExecStart=", "SIGTERM", "--memory-limit"})
    CHECK(holds(help.out, text));
  CHECK(holds(run_heddle("server plan --help").out, "--placement"));
}

TEST_CASE("metrics that cannot be served say whether the port is taken or the host is unknown") {
  const std::string host = "no..name";  // invalid, since a label is empty: it is refused without a DNS query
  const Outcome unknown = run_heddle("server --listen 127.0.0.1:0 --metrics " + host + ":0");
  CHECK(unknown.status != 0);
  CHECK(holds(unknown.out + unknown.error, "is no host: "));
  // 192.0.2.1 is in TEST-NET-1, so it is not an address of this host.
  const Outcome taken = run_heddle("server --listen 127.0.0.1:0 --metrics 192.0.2.1:9");
  CHECK(taken.status != 0);
  CHECK(holds(taken.out + taken.error, "Cannot assign requested address"));
}

TEST_CASE(
    "heddle server: settings with which it cannot start are found by --check-config, and are no reason to "
    "start again") {
  for (const std::string role : {"server", "scheduler"}) {
    const std::string command = role + " --metrics off --listen nosuchinterface:9463";
    const Outcome checked = run_heddle(command + " --check-config");
    CHECK(checked.status == 2);
    CHECK(holds(checked.error, "listen: "));
    CHECK(holds(checked.error, "nosuchinterface"));
    const Outcome started = run_heddle(command);
    CHECK(started.status == 2);
    CHECK(holds(started.error, "event=failed"));
    CHECK(run_heddle(role + " --check-config").status == 0);
  }
  // A port in use may become free, so the exit status is 1: starting the server again may help.
  RunningServer first({});
  const std::string address = first.event("started")["address"];
  CHECK(run_heddle("server --metrics off --listen " + address).status == 1);
}
