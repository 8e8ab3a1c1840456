// Times of pushes to and pulls from a server: Heddle's key-value store at each of its layers, down to the
// transport alone, on each transport, beside a plain socket and Redis. The runs are interleaved.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "kvstore/kv_server.h"
#include "kvstore/kv_subjects.h"
#include "kvstore/kv_user.h"
#include "support/support.h"

namespace {

using namespace heddle;
using namespace heddle::bench;

struct Arguments {
  KvSetting setting;
  Options options;
  bool full = false;
  std::string role, transport, address, keys, scheduler;  // options of the child processes
  int copies = 1;
};

constexpr const char* kExplanation = R"(
One server and one user of it, each a process; a round is measured many times in a run, and all values are compared.

  push_pull_1KiB     us to push a value, pull it and wait: two round trips, of store and together one
  inflight64_1KiB    1000 pushes and pulls a second; 64 keys are pushed and pulled, then waited for
  push_pull_1MiB     GB/s, pushed and pulled; and push_pull_10MiB
  push_1000x4B       us to push 1000 keys of 4 bytes at once, beside push_4KiB, the same bytes as one key
  memory_per_key     bytes that the server grows by for each key of 4 bytes, of 100,000 keys (--full: a million)
  pull_rows_1pct     us to pull 10,000 random rows of 1,000,000 of 64 f32 (--quick: of 100,000), beside pull_whole, all
  server_cpu_1MiB    seconds of a core that the server uses for a GB pushed and pulled; server_cpu_10MiB without --quick
  cluster_4x1MiB     GB/s, pushed and pulled by two workers together, 4 keys each, on two servers with a scheduler, and what
                     the servers use for that. Layers: 1_copy, and 2_copies, where each server has the other's part, too

Layers: store, what an application does, through the engine; lists, the same with all keys to push, and 16 keys to push and
pull, in a call; calls, the client below it; together, the same without waiting for the answer to a push before its key is
pulled; bare, the transport alone carrying the same bytes; tcp, a blocking socket; redis, SET and GET by hiredis, over
loopback.
Transports: shm, unix and tls are "net" through shared memory, a unix socket and TCP; zmq is a unix socket. Within a host net
does not use TCP without encryption.

"/bare" and "/redis" are the time over that of the transport alone and over Redis's: less is better.

  kvstore_bench --quick
  kvstore_bench --filter push_pull --subjects shm,redis
  kvstore_bench --no-pin --json results.jsonl
)";

constexpr std::size_t kKiB = 1 << 10, kMiB = 1 << 20;

// A case of the benchmark: what a round does, and the unit of its result.
struct KvCase {
  std::string name, what;
  std::size_t keys, bytes;
  std::string unit;
  std::function<double(const KvSample&)> shown;
  bool is_rate = false;  // whether the result is a rate, so that higher is better
  // Layers that are not measured in this case, since their result equals that of another layer.
  std::vector<std::string> without{};
};

std::vector<KvCase> cases() {
  const auto microseconds = [](const KvSample& sample) { return sample.seconds * 1e6; };
  const auto rate = [](double amount) {
    return [amount](const KvSample& sample) { return amount / sample.seconds; };
  };
  const auto cpu = [](double bytes) {
    return [bytes](const KvSample& sample) { return sample.server_cpu / (2 * bytes / 1e9); };
  };
  const std::vector<std::string> list{"lists"}, one{"together", "lists"}, keys{"together"},
      both{"together", "lists", "calls"};
  return {{"push_pull_1KiB", "push_pull", 1, kKiB, "us", microseconds, false, list},
          {"inflight64_1KiB", "push_pull", 64, kKiB, "kops/s", rate(0.128), true},
          {"push_pull_1MiB", "push_pull", 1, kMiB, "GB/s", rate(2e-9 * kMiB), true, one},
          {"push_pull_10MiB", "push_pull", 1, 10 * kMiB, "GB/s", rate(20e-9 * kMiB), true, one},
          {"push_1000x4B", "push", 1000, 4, "us", microseconds, false, keys},
          {"push_4KiB", "push", 1, 4 * kKiB, "us", microseconds, false, one},
          {"server_cpu_1MiB", "push_pull", 1, kMiB, "s/GB", cpu(kMiB), false, both},
          {"server_cpu_10MiB", "push_pull", 1, 10 * kMiB, "s/GB", cpu(10 * kMiB), false, both}};
}

// Runs one subject in one case.
class Series {
 public:
  Series(KvSubject& subject, const KvCase& the_case, double sample) : subject_(subject), case_(the_case) {
    const double first = run(1).seconds, second = run(rounds_for(sample / 4, first)).seconds;
    rounds_ = rounds_for(sample, second);
  }

  double measured() { return case_.shown(run(rounds_)); }
  const KvSubject& subject() const { return subject_; }
  long wrong() const { return wrong_; }

 private:
  static constexpr long kMostRounds = 100'000;

  static long rounds_for(double sample, double round) {
    return std::clamp(static_cast<long>(sample / std::max(round, 1e-7)), 1l, kMostRounds);
  }

  KvSample run(long rounds) {
    const KvSample sample = subject_.run(case_.what, case_.keys, case_.bytes, rounds);
    wrong_ += sample.wrong;
    return sample;
  }

  KvSubject& subject_;
  const KvCase& case_;
  long rounds_ = 1, wrong_ = 0;
};

// The result of the subject in `results`; null if there is none.
const Result* find(const std::vector<Result>& results, const std::string& subject) {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const Result& one) { return one.subject == subject; });
  return found == results.end() ? nullptr : &*found;
}

std::string ratio_text(const Result& mine, const Result* other, bool is_rate) {
  if (!other || other == &mine) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", is_rate ? median_ratio(*other, mine) : median_ratio(mine, *other));
  return text;
}

void print_header(const Arguments& arguments) {
  std::printf("# 1 server, 1 worker, dist_async without an optimizer; %s; median of %d runs\n",
              arguments.setting.pin ? "each on a core of its own" : "not pinned", arguments.options.runs);
  std::printf("%-16s %-9s %-9s %-6s %-9s %11s  [%10s .. %-10s] %-6s %7s %7s\n", "case", "layer", "transport",
              "pinned", "encrypted", "median", "min", "max", "unit", "/bare", "/redis");
}

void print_line(const std::string& name, const Result& result, const std::string& layer,
                const std::string& transport, bool pin, const std::string& to_bare = {},
                const std::string& to_redis = {}) {
  std::printf("%-16s %-9s %-9s %-6s %-9s %11.4g  [%10.4g .. %-10.4g] %-6s %7s %7s\n", name.c_str(),
              layer.c_str(), transport.empty() ? "loopback" : transport.c_str(), pin ? "yes" : "no",
              transport == "tls" ? "TLS" : "-", result.median, result.min, result.max, result.unit.c_str(),
              to_bare.c_str(), to_redis.c_str());
}

void print_row(const std::string& name, const Result& result, const KvSubject& subject, bool pin,
               const std::string& to_bare, const std::string& to_redis) {
  print_line(name, result, subject.layer(), subject.transport(), pin, to_bare, to_redis);
}

std::string case_name(const Arguments& arguments, const std::string& name) {
  return arguments.setting.pin ? name : name + "_unpinned";
}

bool is_asked_for(const Arguments& arguments, const std::string& name) {
  return case_name(arguments, name).find(arguments.options.filter) != std::string::npos;
}

// Measures all subjects in one case and prints their rows. Returns the number of wrong values.
long run_case(const Arguments& arguments, const KvCase& the_case,
              const std::vector<std::unique_ptr<KvSubject>>& subjects) {
  std::vector<Series> series;
  for (const auto& subject : subjects) {
    const auto& without = the_case.without;
    if (std::find(without.begin(), without.end(), subject->layer()) != without.end()) continue;
    series.emplace_back(*subject, the_case, arguments.options.quick ? 4e-3 : 100e-3);
  }
  if (series.empty()) return 0;
  Case measured{"kvstore", case_name(arguments, the_case.name), the_case.unit, 1, {}};
  for (Series& one : series)
    measured.subjects.push_back({one.subject().name(), [&one] { return one.measured(); }});
  const std::vector<Result> results = measure(measured, arguments.options);
  long wrong = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const KvSubject& subject = series[i].subject();
    const Result* bare = find(results, subject.layer() == "redis" ? "tcp" : "bare_" + subject.transport());
    print_row(the_case.name, results[i], subject, arguments.setting.pin,
              ratio_text(results[i], bare, the_case.is_rate),
              ratio_text(results[i], find(results, "redis"), the_case.is_rate));
    wrong += series[i].wrong();
  }
  std::fflush(stdout);
  append_json(results, arguments.options);
  return wrong;
}

// Measures the server's memory per key. Each run starts a new server, since a process keeps memory once used.
void run_memory(const Arguments& arguments, const KeyDirectory& keys,
                const std::vector<std::unique_ptr<KvSubject>>& subjects) {
  const std::size_t count = arguments.full ? 1'000'000 : arguments.options.quick ? 20'000 : 100'000;
  Case measured{"kvstore", case_name(arguments, "memory_per_key"), "B/key", 1, {}};
  std::vector<const KvSubject*> shown;
  for (const auto& one : subjects) {
    if (one->name() != "store_shm" && one->name() != "redis") continue;
    shown.push_back(one.get());
    measured.subjects.push_back({one->name(), [&arguments, &keys, count, like = one.get()] {
                                   const auto fresh = start_subject(like->layer(), like->transport(), keys,
                                                                    arguments.setting.pin);
                                   fresh->run("make", 1, 4, 0);
                                   const double before = fresh->server().rss();
                                   fresh->run("make", count, 4, 0);
                                   return (fresh->server().rss() - before) / static_cast<double>(count);
                                 }});
  }
  Options options = arguments.options;
  options.runs = std::min(options.runs, options.quick ? 1 : 3);
  const std::vector<Result> results = measure(measured, options);
  for (std::size_t i = 0; i < results.size(); ++i)
    print_row("memory_per_key", results[i], *shown[i], arguments.setting.pin, "",
              ratio_text(results[i], find(results, "redis"), false));
  append_json(results, options);
}

// Measures the times to pull a random hundredth of the rows, and all rows, of a matrix on one server.
long run_rows(const Arguments& arguments, const KeyDirectory& keys) {
  constexpr std::size_t kRowBytes = 256;
  const std::size_t rows = arguments.options.quick ? 100'000 : 1'000'000;
  const auto subject = start_subject("rows", "shm", keys, arguments.setting.pin);
  long wrong = 0;
  Case measured{"kvstore", case_name(arguments, "pull_rows_1pct"), "us", 1, {}};
  for (const char* what : {"pull_rows", "pull"}) {
    measured.subjects.push_back({what, [&, what] {
                                   const KvSample sample = subject->run(what, rows, kRowBytes, 3);
                                   wrong += sample.wrong;
                                   return sample.seconds * 1e6;
                                 }});
  }
  const std::vector<Result> results = measure(measured, arguments.options);
  print_row("pull_rows_1pct", results[0], *subject, arguments.setting.pin, "", "");
  print_row("pull_whole", results[1], *subject, arguments.setting.pin, "", "");
  std::printf("# pull_rows_1pct takes %.3f of the time of pull_whole\n",
              median_ratio(results[0], results[1]));
  append_json(results, arguments.options);
  return wrong;
}

// Measures the throughput of two workers and two servers, with and without replicas.
long run_cluster(const Arguments& arguments, const KeyDirectory& keys) {
  constexpr std::size_t kKeys = 4;
  constexpr double kBytes = 2.0 * kClusterWorkers * kKeys * kMiB;
  const auto& wanted = arguments.setting.subjects;
  long wrong = 0;
  for (const char* transport : {"shm", "unix", "tls", "zmq"}) {
    if (!has_transport(transport)) continue;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), transport) == wanted.end()) continue;
    for (const int copies : {1, 2}) {
      KvCluster cluster(transport, copies, keys, arguments.setting.pin);
      const double first = cluster.run("push_pull", kKeys, kMiB, 3).seconds;
      const long rounds = std::max(3l, static_cast<long>((arguments.options.quick ? 0.01 : 0.3) / first));
      double cpu = 0;
      const std::string layer = copies == 1 ? "1_copy" : "2_copies";
      Case measured{"kvstore", case_name(arguments, "cluster_4x1MiB"), "GB/s", 1, {}};
      measured.subjects.push_back({layer + "_" + transport, [&] {
                                     const KvSample sample = cluster.run("push_pull", kKeys, kMiB, rounds);
                                     wrong += sample.wrong;
                                     cpu = sample.server_cpu;
                                     return kBytes / 1e9 / sample.seconds;
                                   }});
      const std::vector<Result> results = measure(measured, arguments.options);
      print_line("cluster_4x1MiB", results[0], layer, transport, arguments.setting.pin);
      std::printf("# %s %s: %.3f s of the servers' cores a GB, in the last run\n", layer.c_str(), transport,
                  cpu / (kBytes / 1e9));
      append_json(results, arguments.options);
    }
  }
  return wrong;
}

int run_bench(const Arguments& arguments) {
  const KeyDirectory keys;
  const bool clustered = is_asked_for(arguments, "cluster_4x1MiB");
  const auto all = cases();
  const bool alone = is_asked_for(arguments, "memory_per_key") ||
                     std::any_of(all.begin(), all.end(),
                                 [&](const KvCase& one) { return is_asked_for(arguments, one.name); });
  const auto subjects =
      alone ? start_kv_subjects(arguments.setting, keys) : std::vector<std::unique_ptr<KvSubject>>();
  if (subjects.empty() && !clustered && !is_asked_for(arguments, "pull_rows_1pct"))
    throw std::runtime_error("there is nothing to measure");
  print_header(arguments);
  long wrong = 0;
  for (const KvCase& one : all) {
    const bool is_long = arguments.options.quick && one.name == "server_cpu_10MiB";
    if (!is_long && is_asked_for(arguments, one.name)) wrong += run_case(arguments, one, subjects);
  }
  if (is_asked_for(arguments, "pull_rows_1pct")) wrong += run_rows(arguments, keys);
  if (clustered) wrong += run_cluster(arguments, keys);
  if (is_asked_for(arguments, "memory_per_key")) run_memory(arguments, keys, subjects);
  if (wrong > 0) std::fprintf(stderr, "kvstore_bench: %ld values were wrong\n", wrong);
  return wrong > 0 ? 1 : 0;
}

int run(const Arguments& arguments) {
  const ServerSetup server{arguments.role, arguments.transport, arguments.address,
                           arguments.keys, arguments.scheduler, arguments.copies};
  if (arguments.role.empty()) return run_bench(arguments);
  if (arguments.role == "server") return run_server(server);
  if (arguments.role == "scheduler") return run_scheduler(server);
  if (arguments.role == "echo") return run_echo(server);
  if (arguments.role == "tcp_echo") return run_tcp_echo();
  if (arguments.role == "redis_server") return run_redis_server();
  return run_user({arguments.role, arguments.transport, arguments.address, arguments.keys});
}

void add_kv_options(heddle::command_line::Command& app, Arguments& arguments) {
  add_run_options(app, arguments.options);
  app.add_option("--subjects", arguments.setting.subjects,
                 "only these, separated by commas: layers, transports, or both as in store_shm")
      .delimiter(',');
  app.add_flag(
      "--pin,!--no-pin", arguments.setting.pin,
      "servers on the first core and users on the second, which is the default, or not; the cases then "
      "are called unpinned");
  app.add_flag("--full", arguments.full, "a million keys for memory_per_key");
  app.add_option("--role", arguments.role).hidden();
  app.add_option("--transport", arguments.transport).hidden();
  app.add_option("--address", arguments.address).hidden();
  app.add_option("--keys", arguments.keys).hidden();
  app.add_option("--scheduler", arguments.scheduler).hidden();
  app.add_option("--copies", arguments.copies).hidden();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  heddle::command_line::Program app(
      "kvstore_bench",
      "What a push and a pull take: Heddle's key-value store beside its transport and Redis");
  app.footer(kExplanation);
  add_kv_options(app, arguments);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvstore_bench: %s\n", error.what());
    return 1;
  }
}
