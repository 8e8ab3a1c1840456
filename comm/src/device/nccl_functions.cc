#include "device/nccl_functions.h"

#include <heddle/error.h>

#include "gpu/shared_library.h"

namespace heddle::comm_detail::nccl_library {
namespace {

std::unique_ptr<const Functions> find_functions(const detail::SharedLibrary& library) {
  auto found = std::make_unique<Functions>();
  library.find("ncclGetVersion", found->version);
  library.find("ncclGetUniqueId", found->new_id);
  library.find("ncclGetErrorString", found->error_text);
  library.find("ncclGetLastError", found->last_error);
  library.find("ncclCommInitRankConfig", found->init);
  library.find("ncclCommFinalize", found->finalize);
  library.find("ncclCommDestroy", found->destroy);
  library.find("ncclCommAbort", found->abort);
  library.find("ncclCommGetAsyncError", found->async_error);
  library.find("ncclGroupStart", found->group_start);
  library.find("ncclGroupEnd", found->group_end);
  library.find("ncclAllReduce", found->all_reduce);
  library.find("ncclReduce", found->reduce);
  library.find("ncclBroadcast", found->broadcast);
  library.find("ncclAllGather", found->all_gather);
  library.find("ncclReduceScatter", found->reduce_scatter);
  library.find("ncclSend", found->send);
  library.find("ncclRecv", found->recv);
  return found;
}

Loaded load() {
  Loaded loaded;
  const detail::SharedLibrary library({"libnccl.so.2"});
  if (!library.is_open()) {
    loaded.missing = "NCCL is not found: " + library.missing() +
                     ". HEDDLE_CUDA_LIBRARIES names folders that are looked into, separated by ':'";
    return loaded;
  }
  try {
    loaded.functions = find_functions(library);
  } catch (const Error& error) {
    loaded.missing = std::string("NCCL 2.14 or newer is not found: ") + error.what();
  }
  return loaded;
}

}  // namespace

// Never destroyed: communicators may end later.
const Loaded& loaded() {
  static const Loaded& all = *new Loaded(load());
  return all;
}

const Functions& functions() { return *loaded().functions; }

}  // namespace heddle::comm_detail::nccl_library
