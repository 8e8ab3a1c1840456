// Options as the environment completes them, and the backend they ask for.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace heddle::comm_detail {

// All throw InvalidArgument naming the variable.
BackendOptions backend_options(const CommOptions& options);
std::string backend_name(const CommOptions& options);

// Collective. Throws CommMismatch, on all ranks, if not all want the same back end, algorithm and reproducible: what they
// would tell each other then would make no sense. Throws InvalidArgument, on all, if ranks share an engine that cannot have
// several.
void agree_on_settings(Rendezvous& rendezvous, const BackendOptions& options, const Engine& engine);

// Whether calls of two threads on this engine cannot wait for each other: the naive one runs one op after the other.
bool runs_one_thread(const Engine& engine);
inline constexpr const char* kOneThread =
    "which runs each op inside its push, one after the other, so that ranks on threads of one engine would "
    "wait for each "
    "other for ever; want the scheduler threaded or fuzz, or ranks that are processes";

// "auto": shm if all ranks share a host, else tcp. Throws InvalidArgument for a name that there is not.
std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options);

}  // namespace heddle::comm_detail
