// Registers libheddle.so's kinds of handles and its errors with the C ABI of the engine's library.
#include <array>

#include <heddle/comm_error.h>
#include <heddle/store_error.h>

#include "array_handle.h"

namespace heddle::c {
namespace {

const char* name_of_kind(Kind kind) {
  static constexpr std::array kNames = {"heddle_array",      "heddle_archive",    "heddle_generator",
                                        "heddle_row_sparse", "heddle_optimizer",  "heddle_communicator",
                                        "heddle_kvstore",    "heddle_trainer",    "heddle_module",
                                        "heddle_metric",     "heddle_module_hook"};
  const auto index = static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(Kind::first_added);
  return index < kNames.size() ? kNames[index] : nullptr;
}

const char* name_of_status(heddle_status status) {
  static constexpr std::array kNames = {"HEDDLE_COMM_ERROR",  "HEDDLE_COMM_MISMATCH",  "HEDDLE_PEER_LOST",
                                        "HEDDLE_PEER_SILENT", "HEDDLE_REMOTE_FAILURE", "HEDDLE_COMM_ABORTED",
                                        "HEDDLE_STORE_ERROR"};
  const auto index = static_cast<std::uint32_t>(status - HEDDLE_COMM_ERROR);
  return index < kNames.size() ? kNames[index] : nullptr;
}

heddle_status status_of(const std::exception& error) {
  if (dynamic_cast<const CommMismatch*>(&error)) return HEDDLE_COMM_MISMATCH;
  if (dynamic_cast<const PeerSilent*>(&error)) return HEDDLE_PEER_SILENT;
  if (dynamic_cast<const PeerLost*>(&error)) return HEDDLE_PEER_LOST;
  if (dynamic_cast<const RemoteFailure*>(&error)) return HEDDLE_REMOTE_FAILURE;
  if (dynamic_cast<const CommAborted*>(&error)) return HEDDLE_COMM_ABORTED;
  if (dynamic_cast<const CommError*>(&error)) return HEDDLE_COMM_ERROR;
  if (dynamic_cast<const StoreError*>(&error)) return HEDDLE_STORE_ERROR;
  return HEDDLE_FAILED;
}

[[maybe_unused]] const bool added = [] {
  static constexpr AbiExtension kAddition{name_of_kind, name_of_status, status_of};
  add(kAddition);
  return true;
}();

}  // namespace
}  // namespace heddle::c
