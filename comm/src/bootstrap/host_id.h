// Identifies what ranks on one host share: memory, and the network stack.
#pragma once

#include <string>

namespace heddle::comm_detail {

// Equal for ranks that can share memory: the same kernel, PID namespace, user and HEDDLE_COMM_HOST, whose value
// separates ranks on purpose. Without spaces. Throws InvalidArgument for an invalid HEDDLE_COMM_HOST.
std::string memory_domain();

// Equal for ranks that reach each other over loopback: the same kernel and network namespace.
std::string network_domain();

}  // namespace heddle::comm_detail
