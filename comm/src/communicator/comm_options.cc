#include "communicator/comm_options.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "device/nccl_backend.h"
#include "net/environment.h"

namespace heddle::comm_detail {
namespace {

// A day is for ever; what is longer overflows somewhere.
std::chrono::milliseconds seconds_of(const char* name, const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 0.01 && seconds <= 86400)) {
    throw InvalidArgument(std::string(name) + " is '" + text + "'; want seconds, 0.01 to 86400");
  }
  return std::chrono::milliseconds(std::lround(seconds * 1000));
}

std::size_t bytes_of(const char* name, const std::string& text) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(std::string(name) + " is '" + text + "'; want bytes, as 262144; 0: no fusion");
  }
  return bytes;
}

}  // namespace

BackendOptions backend_options(const CommOptions& options) {
  BackendOptions result;
  const std::string timeout = variable("HEDDLE_COMM_TIMEOUT"), algorithm = variable("HEDDLE_COMM_ALGORITHM");
  if (options.timeout.count() < 0) throw InvalidArgument("CommOptions: timeout is negative");
  if (options.timeout.count() > 0) {
    result.timeout = options.timeout;
  } else if (!timeout.empty()) {
    result.timeout = seconds_of("HEDDLE_COMM_TIMEOUT", timeout);
  }
  const std::string& wanted = options.algorithm.empty() ? algorithm : options.algorithm;
  if (!wanted.empty()) result.algorithm = algorithm_from_name(wanted);
  result.tuning = variable("HEDDLE_COMM_TUNING");
  if (const std::string fusion = variable("HEDDLE_COMM_FUSION"); !fusion.empty())
    result.fusion = bytes_of("HEDDLE_COMM_FUSION", fusion);
  if (options.gpu < -1) {
    throw InvalidArgument("CommOptions: gpu is " + std::to_string(options.gpu) +
                          "; want a GPU's number, or -1");
  }
  result.gpu = options.gpu;
  result.backend = backend_name(options);
  result.reproducible = options.reproducible || flag_of("HEDDLE_COMM_REPRODUCIBLE");
  return result;
}

std::string backend_name(const CommOptions& options) {
  const std::string name = options.backend.empty() ? variable("HEDDLE_COMM_BACKEND") : options.backend;
  return name.empty() ? "auto" : name;
}

std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options) {
  if (name == "local") return make_local_backend(rendezvous, options);
  if (name == "shm") return make_shm_backend(rendezvous, options);
  if (name == "tcp") return make_tcp_backend(rendezvous, options);
  if (name == "mpi") return make_mpi_backend(rendezvous, options);
  if (name == "nccl") return make_nccl_backend(rendezvous, options);
  if (name != "auto") {
    throw InvalidArgument("there is no communication backend '" + name +
                          "'; there is auto, shm, tcp, mpi, nccl");
  }
  try {
    return make_shm_backend(rendezvous, options);
  } catch (const CommError&) {  // on all ranks, or on none
    return make_tcp_backend(rendezvous, options);
  }
}

}  // namespace heddle::comm_detail
