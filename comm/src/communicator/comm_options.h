// Completes options from the environment, and makes the back end that they name.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/backend.h"

namespace heddle::comm_detail {

// backend_options() and backend_name() complete the options from the environment. They throw InvalidArgument
// naming a variable with an invalid value.
BackendOptions backend_options(const CommOptions& options);
std::string backend_name(const CommOptions& options);
// Throws InvalidArgument for a timeout that is negative or longer than a day.
void check_timeout(const char* who, std::chrono::milliseconds timeout);
void check_backend_name(const std::string& name);  // throws InvalidArgument for an unknown name

// Collective. Throws CommMismatch on all ranks if they have different back ends, algorithms or values of
// reproducible. Throws InvalidArgument on all ranks if some share an engine that cannot run several ranks.
void agree_on_settings(Rendezvous& rendezvous, const BackendOptions& options, const Engine& engine);

// Why ranks on threads of this engine would wait for each other for ever, and what to do; empty if they would not.
std::string why_not_shared(const Engine& engine);

// Makes the back end of this name. "auto" is shm if all ranks share a host, else tcp. Throws InvalidArgument
// for an unknown name.
std::unique_ptr<Backend> make_backend(const std::string& name, Rendezvous& rendezvous,
                                      const BackendOptions& options);

}  // namespace heddle::comm_detail
