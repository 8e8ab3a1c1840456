#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <heddle/usable_cores.h>

#include "base/cores.h"

namespace heddle {
namespace {

// The smaller of two limits; 0 means no limit.
double tighter(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

// cpu.max has "200000 100000" or "max 100000": microseconds of CPU time, in a period of so many microseconds.
double quota_of_v2(const std::string& group) {
  double most = 0, period = 0;
  std::ifstream file(group + "/cpu.max");
  return file >> most >> period && most > 0 && period > 0 ? most / period : 0;
}

double quota_of_v1(const std::string& group) {
  double most = 0, period = 0;  // `most` is -1 without a limit
  std::ifstream(group + "/cpu.cfs_quota_us") >> most;
  std::ifstream(group + "/cpu.cfs_period_us") >> period;
  return most > 0 && period > 0 ? most / period : 0;
}

// The smallest quota of the control group at `path` and of the groups above it. Inside a container the path may be the
// host's, and not exist. The container's own group is then mounted at the top, which is read too.
double tightest(const std::string& mount, std::string path, double (*quota_of)(const std::string&)) {
  double quota = 0;
  for (;;) {
    if (path == "/") path.clear();
    quota = tighter(quota, quota_of(mount + path));
    if (path.empty()) return quota;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

// Lines of /proc/self/cgroup: "0::/path" of v2, "4:cpu,cpuacct:/path" of v1.
double quota(const std::string& root) {
  double least = 0;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number, controllers, path;
    if (!std::getline(fields, number, ':') || !std::getline(fields, controllers, ':') ||
        !std::getline(fields, path)) {
      continue;
    }
    const std::string mounts = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      least = tighter(least, tightest(mounts, path, quota_of_v2));
      least = tighter(least, tightest(mounts + "/unified", path, quota_of_v2));
    } else if (names_cpu(controllers)) {
      least = tighter(least, tightest(mounts + "/" + controllers, path, quota_of_v1));
      if (controllers != "cpu") least = tighter(least, tightest(mounts + "/cpu", path, quota_of_v1));
    }
  }
  return least;
}

}  // namespace

int UsableCores::count() const {
  const int whole =
      by_quota > 0 && by_quota < by_affinity ? static_cast<int>(std::ceil(by_quota)) : by_affinity;
  return std::max(1, whole);
}

UsableCores usable_cores(const std::string& root) {
  UsableCores cores;
  cores.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cores.by_affinity = detail::cores_by_affinity().value_or(cores.online);
  cores.by_quota = quota(root);
  return cores;
}

}  // namespace heddle
