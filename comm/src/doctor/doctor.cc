#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>
#include <heddle/communicator.h>
#include <heddle/cost_model.h>
#include <heddle/doctor.h>
#include <heddle/launch_environment.h>

#include "bootstrap/security.h"
#include "communicator/comm_options.h"
#include "connection/environment.h"
#include "connection/interfaces.h"
#include "doctor/doctor_checks.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

using Level = Finding::Level;

LaunchEnvironment examine_job(Findings& findings) {
  try {
    const LaunchEnvironment job = LaunchEnvironment::from_environment();
    std::string text = "rank " + std::to_string(job.rank) + " of " + std::to_string(job.size);
    if (job.size == 1) {
      text += ", because " +
              (job.source == "alone" ? "no launcher's variables are set" : job.source + " says so");
    } else {
      text += ", number " + std::to_string(job.local_rank) + " of " + std::to_string(job.local_size) +
              " on this host, says " + job.source + "; they meet at " + job.rendezvous;
    }
    findings.push_back({Level::ok, "job", text});
    return job;
  } catch (const InvalidArgument& error) {
    findings.push_back({Level::problem, "job", error.message()});
    return {};
  }
}

// The addresses of a name, as text.
std::string addresses_of(const std::string& name) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &first) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  std::string list;
  for (const addrinfo* one = first; one; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    list += (list.empty() ? "" : " ") + std::string(text);
  }
  return list;
}

void examine_name(Findings& findings) {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string addresses = addresses_of(name);
  if (addresses.empty()) {
    findings.push_back({Level::note, "host name",
                        std::string(name) + " is known to no resolver: name rank 0's host "
                                            "by its address in jobs of several hosts"});
  } else if (is_loopback_address(addresses.substr(0, addresses.find(' ')))) {
    findings.push_back({Level::note, "host name",
                        std::string(name) + " is " + addresses +
                            " here: loopback, as Debian's /etc/hosts has it; rank 0 listens on "
                            "the address below instead"});
  } else {
    findings.push_back({Level::ok, "host name", std::string(name) + " is " + addresses});
  }
}

void examine_addresses(Findings& findings, const LaunchEnvironment& job) {
  const auto all = interfaces();
  for (const Interface& one : all) {
    findings.push_back({Level::ok, "interface",
                        one.name + " " + one.address + (one.is_up ? "" : ", down") +
                            (one.has_default_route ? ", default route" : "")});
  }
  const std::string wanted = variable("HEDDLE_COMM_INTERFACE");
  const bool set = !wanted.empty(), one_host = job.local_size == job.size;
  try {
    const std::string address = choose_address("", one_host);
    findings.push_back({Level::ok, "tcp",
                        "would listen on " + address + ", because " +
                            (set        ? "HEDDLE_COMM_INTERFACE is " + wanted
                             : one_host ? "all ranks are on this host"
                                        : "other hosts reach it best")});
    if (one_host && !set) {
      findings.push_back({Level::ok, "tcp", "in a job of several hosts: on " + choose_address("", false)});
    }
  } catch (const Error& error) {
    findings.push_back({set || !one_host ? Level::problem : Level::note, "tcp", error.what()});
  }
}

// Examines the user's keys. True: there are valid ones, which would be used between hosts.
bool examine_keys(Findings& findings, bool needed) {
  try {
    const std::string directory = comm_keys_directory();
    if (const auto files = read_key_files(directory)) {
      const std::string own = fingerprint_of(files->key.get());
      const bool listed = files->allowed.contains(own);
      findings.push_back({listed ? Level::ok : Level::note, "keys",
                          own + " in " + directory + ", which only this user can read; " +
                              std::to_string(files->allowed.size()) + " allowed" +
                              (listed ? "" : ", but not this one itself: ranks with it refuse each other")});
      return true;
    }
    findings.push_back({needed ? Level::problem : Level::ok, "keys",
                        "none in " + directory + "; heddle keygen makes one, for jobs of several hosts"});
  } catch (const CommError& error) {
    findings.push_back({needed ? Level::problem : Level::note, "keys", error.what()});
  }
  return false;
}

void examine_security(Findings& findings, const LaunchEnvironment& job) {
  try {
    const bool several = job.local_size < job.size, encrypt = flag_of("HEDDLE_COMM_ENCRYPT");
    const bool insecure = flag_of("HEDDLE_COMM_INSECURE");
    SecurityPolicy::from_environment();
    const bool keys = examine_keys(findings, (several || encrypt) && !insecure);
    if (insecure) {
      findings.push_back({Level::note, "security",
                          "HEDDLE_COMM_INSECURE=1: what goes to other hosts is not encrypted, "
                          "and any process that reaches the ports can join"});
    } else if (keys) {
      findings.push_back({Level::ok, "security",
                          std::string(encrypt ? "everything over TCP is" : "what leaves this host would be") +
                              " encrypted (TLS 1.3), among the keys that are allowed"});
    } else {
      findings.push_back(
          {several ? Level::problem : Level::ok, "security",
           "nothing may leave this host: that needs heddle keygen, or HEDDLE_COMM_INSECURE=1"});
    }
  } catch (const InvalidArgument& error) {
    findings.push_back({Level::problem, "security", error.message()});
  }
}

void examine_ports(Findings& findings) {
  try {
    const PortRange ports = port_range();
    findings.push_back({Level::ok, "ports",
                        ports.first == 0
                            ? "the system chooses; HEDDLE_COMM_PORTS=FIRST-LAST does for firewalls"
                            : std::to_string(ports.first) + " to " + std::to_string(ports.last) +
                                  ", because HEDDLE_COMM_PORTS says so"});
  } catch (const InvalidArgument& error) {
    findings.push_back({Level::problem, "ports", error.message()});
  }
}

// Variables that other findings do not name: each is read as a program would read it.
void examine_settings(Findings& findings) {
  const auto check = [&](const char* subject, const std::function<void()>& read) {
    try {
      read();
      findings.push_back({Level::ok, subject, "the variables that are set have values that programs accept"});
    } catch (const Error& error) {
      findings.push_back({Level::problem, subject, error.what()});
    }
  };
  check("HEDDLE_COMM", [] {
    const CommOptions options;
    check_backend_name(backend_name(options));
    (void)backend_options(options);
    if (const std::string file = variable("HEDDLE_COMM_TUNING"); !file.empty()) (void)tuning_from_file(file);
  });
  check("engine", [] { (void)EngineOptions::from_environment(); });
}

void examine_congestion(Findings& findings) {
  std::ifstream allowed("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::ifstream used("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string list, now;
  std::getline(allowed, list);
  std::getline(used, now);
  const bool reno = (" " + list + " ").find(" reno ") != std::string::npos;
  findings.push_back({reno ? Level::ok : Level::note, "congestion",
                      reno ? "reno, of those allowed: " + list + "; others get " + now
                           : "reno is not allowed here: " + (now.empty() ? "unknown" : now)});
}

}  // namespace

void examine_network(Findings& findings) {
  const LaunchEnvironment job = examine_job(findings);
  examine_name(findings);
  examine_addresses(findings, job);
  examine_security(findings, job);
  examine_ports(findings);
  examine_settings(findings);
  examine_congestion(findings);
}

}  // namespace heddle::comm_detail

namespace heddle {

std::vector<Finding> examine_host() {
  std::vector<Finding> findings;
  comm_detail::examine_network(findings);
  comm_detail::examine_memory(findings);
  comm_detail::examine_others(findings);
  return findings;
}

}  // namespace heddle
