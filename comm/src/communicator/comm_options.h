// Options as the environment completes them, and the backend they ask for.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace heddle::comm_detail {

// All throw InvalidArgument naming the variable.
BackendOptions backend_options(const CommOptions& options);
std::string backend_name(const CommOptions& options);

// "auto": shm if all ranks share a host, else tcp. Throws InvalidArgument for a name that there is not.
std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options);

}  // namespace heddle::comm_detail
