// DeviceRanks on NCCL: each function calls NCCL's of the same name, on a nonblocking communicator, and throws its
// errors.
#include <array>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <heddle/comm_error.h>

#include "device/device_ranks.h"
#include "stream/gpu.h"

namespace heddle::comm_detail {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
    case DType::i8:
      return ncclInt8;
    case DType::u32:
      return ncclUint32;
    case DType::u64:
      return ncclUint64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    default:
      throw CommError(std::string("NCCL has no ") + name_of(dtype));
  }
}

ncclRedOp_t type_of(ReduceOp op) {
  constexpr std::array kOps{ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
  return kOps.at(static_cast<std::size_t>(op));
}

void check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string more = ncclGetLastError(comm);
  throw CommError(std::string(call) + ": " + ncclGetErrorString(result) + (more.empty() ? "" : ": " + more));
}

void check(cudaError_t status, const char* call, Device device) {
  if (status == cudaSuccess) return;
  throw CommError(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

cudaStream_t handle(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

class NcclRanks final : public DeviceRanks {
 public:
  NcclRanks(const ncclUniqueId& id, int rank, int size, Device device) : device_(device) {
    const detail::GpuCalls scope(device);
    check(cudaSetDevice(device.index), "cudaSetDevice", device);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, size, id, rank, &config);
    try {
      check(result, "ncclCommInitRankConfig");
    } catch (...) {
      abort();
      throw;
    }
  }
  ~NcclRanks() override {
    if (finished_ && comm_) ncclCommDestroy(std::exchange(comm_, nullptr));
    abort();
  }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                  Stream& stream) override {
    check(ncclAllReduce(in, out, count, type_of(dtype), type_of(op), comm_, handle(stream)), "ncclAllReduce",
          comm_);
  }
  void reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int root,
              Stream& stream) override {
    check(ncclReduce(in, out, count, type_of(dtype), type_of(op), root, comm_, handle(stream)), "ncclReduce",
          comm_);
  }
  void broadcast(const void* in, void* out, std::size_t count, DType dtype, int root,
                 Stream& stream) override {
    check(ncclBroadcast(in, out, count, type_of(dtype), root, comm_, handle(stream)), "ncclBroadcast", comm_);
  }
  void all_gather(const void* in, void* out, std::size_t count, DType dtype, Stream& stream) override {
    check(ncclAllGather(in, out, count, type_of(dtype), comm_, handle(stream)), "ncclAllGather", comm_);
  }
  void reduce_scatter(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                      Stream& stream) override {
    check(ncclReduceScatter(in, out, count, type_of(dtype), type_of(op), comm_, handle(stream)),
          "ncclReduceScatter", comm_);
  }
  void send(const void* in, std::size_t count, DType dtype, int to, Stream& stream) override {
    check(ncclSend(in, count, type_of(dtype), to, comm_, handle(stream)), "ncclSend", comm_);
  }
  void recv(void* out, std::size_t count, DType dtype, int from, Stream& stream) override {
    check(ncclRecv(out, count, type_of(dtype), from, comm_, handle(stream)), "ncclRecv", comm_);
  }
  void group_begin() override { check(ncclGroupStart(), "ncclGroupStart", comm_); }
  void group_end() override { check(ncclGroupEnd(), "ncclGroupEnd", comm_); }

  bool busy() override {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    check(state, "NCCL", comm_);
    finished_ = finishing_ && state == ncclSuccess;
    return state == ncclInProgress;
  }
  void finish() override {
    const detail::GpuCalls scope(device_);
    check(cudaSetDevice(device_.index), "cudaSetDevice", device_);
    check(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
    finishing_ = true;
  }
  void abort() noexcept override {
    if (!comm_) return;
    const detail::GpuCalls scope(device_);
    cudaSetDevice(device_.index);
    ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  const Device device_;
  ncclComm_t comm_ = nullptr;
  // A communicator that has not finished must be aborted, not destroyed.
  bool finishing_ = false, finished_ = false;
};

constexpr char kDigits[] = "0123456789abcdef";

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id;
  if (text.size() != 2 * sizeof id.internal || text.find_first_not_of(kDigits) != text.npos) {
    throw CommError("rank 0 sent no id of NCCL's at the rendezvous");
  }
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

class Nccl final : public DeviceLibrary {
 public:
  std::string version() override {
    int code = 0;
    check(ncclGetVersion(&code), "ncclGetVersion");
    return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
           std::to_string(code % 100);
  }
  int devices() override { return gpu_count(); }
  Device device(int index) override { return gpu(index); }
  std::string place_of(Device device) override {
    char place[32] = "";
    check(cudaDeviceGetPCIBusId(place, sizeof place, device.index), "cudaDeviceGetPCIBusId", device);
    return place;
  }
  std::string new_id() override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return to_hex(id);
  }
  std::unique_ptr<DeviceRanks> join(const std::string& id, int rank, int size, Device device) override {
    return std::make_unique<NcclRanks>(from_hex(id), rank, size, device);
  }
};

}  // namespace

DeviceLibrary* nccl() {
  static Nccl& library = *new Nccl;
  return &library;
}

}  // namespace heddle::comm_detail
