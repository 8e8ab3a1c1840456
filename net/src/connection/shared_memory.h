// Anonymous shared memory (memfd_create) of processes of one host and one user, which open it through /proc. The system
// frees it however the processes end.
#pragma once

#include <cstddef>
#include <memory>

#include "connection/socket.h"

namespace heddle::net_detail {

// These functions throw CommError with the system's error.
Socket make_memory(std::size_t bytes);  // the memory is all zeros
std::shared_ptr<std::byte> map_memory(const Socket& file, std::size_t bytes);
// Maps the memory that another process has made as its file descriptor `fd`.
std::shared_ptr<std::byte> map_memory_of(int pid, int fd, std::size_t bytes);

}  // namespace heddle::net_detail
