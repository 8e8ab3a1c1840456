// Memory that processes of one host and one user share: without a name (memfd_create), found by the others through /proc.
// Nothing is left behind when they end, however they end.
#pragma once

#include <cstddef>
#include <memory>

#include "net/socket.h"

namespace heddle::comm_detail {

// All throw CommError saying what the system says.
Socket make_memory(std::size_t bytes);  // zeros
std::shared_ptr<std::byte> map_memory(const Socket& file, std::size_t bytes);
// File descriptor `fd` of another process, which made_memory of `bytes` there.
std::shared_ptr<std::byte> map_memory_of(int pid, int fd, std::size_t bytes);

}  // namespace heddle::comm_detail
