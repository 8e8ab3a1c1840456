// Completes options from the environment, and makes the back end that they name.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace heddle::comm_detail {

// All throw InvalidArgument naming the variable.
BackendOptions backend_options(const CommOptions& options);
std::string backend_name(const CommOptions& options);

// Collective. Throws CommMismatch on all ranks if they have different back ends, algorithms or values of reproducible.
// Throws InvalidArgument on all ranks if some share an engine that cannot run several.
void agree_on_settings(Rendezvous& rendezvous, const BackendOptions& options, const Engine& engine);

// Whether the engine runs one op after the other (scheduler naive), so that two of its ranks would wait for ever.
bool runs_one_thread(const Engine& engine);
inline constexpr const char* kOneThread =
    "which runs each op inside its push, one after the other, so that ranks on threads of one engine would "
    "wait for each other for ever; want the scheduler threaded or fuzz, or ranks that are processes";

// "auto": shm if all ranks share a host, else tcp. Throws InvalidArgument for an unknown name.
std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options);

}  // namespace heddle::comm_detail
