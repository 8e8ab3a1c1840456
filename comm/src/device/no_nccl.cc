// Replaces nccl.cc in a build without CUDA.
#include "device/device_ranks.h"

namespace heddle::comm_detail {

DeviceLibrary* nccl() { return nullptr; }

std::string nccl_missing() { return "its build has no NCCL; configure with -DHEDDLE_CUDA=ON"; }

}  // namespace heddle::comm_detail
