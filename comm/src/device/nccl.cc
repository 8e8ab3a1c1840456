// DeviceRanks on NCCL: each function calls NCCL's of the same name, on a nonblocking communicator, and throws its
// errors.
#include <array>
#include <cuda_runtime_api.h>

#include <heddle/comm_error.h>

#include "device/device_ranks.h"
#include "device/nccl_functions.h"
#include "stream/gpu.h"

namespace heddle::comm_detail {
namespace {

using namespace nccl_library;

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kF32;
    case DType::f64:
      return kF64;
    case DType::i32:
      return kI32;
    case DType::i64:
      return kI64;
    case DType::u8:
      return kU8;
    case DType::i8:
      return kI8;
    case DType::u32:
      return kU32;
    case DType::u64:
      return kU64;
    case DType::f16:
      return kF16;
    case DType::bf16:
      return kBf16;
    default:
      throw CommError(std::string("NCCL has no ") + name_of(dtype));
  }
}

int type_of(ReduceOp op) {
  constexpr std::array kOps{kSum, kProduct, kMin, kMax, kMean};
  return kOps.at(static_cast<std::size_t>(op));
}

void check(int result, const char* call, Comm comm = nullptr) {
  if (result == kSuccess || result == kInProgress) return;
  const std::string more = functions().last_error(comm);
  throw CommError(std::string(call) + ": " + functions().error_text(result) +
                  (more.empty() ? "" : ": " + more));
}

void check(cudaError_t status, const char* call, Device device) {
  if (status == cudaSuccess) return;
  throw CommError(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

void* handle(Stream& stream) { return stream.native(); }

class NcclRanks final : public DeviceRanks {
 public:
  NcclRanks(const UniqueId& id, int rank, int size, Device device) : device_(device) {
    const detail::GpuCalls scope(device);
    check(cudaSetDevice(device.index), "cudaSetDevice", device);
    Config config;
    const int result = functions().init(&comm_, size, id, rank, &config);
    try {
      check(result, "ncclCommInitRankConfig");
    } catch (...) {
      abort();
      throw;
    }
  }
  ~NcclRanks() override {
    if (finished_ && comm_) functions().destroy(std::exchange(comm_, nullptr));
    abort();
  }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                  Stream& stream) override {
    check(functions().all_reduce(in, out, count, type_of(dtype), type_of(op), comm_, handle(stream)),
          "ncclAllReduce", comm_);
  }
  void reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int root,
              Stream& stream) override {
    check(functions().reduce(in, out, count, type_of(dtype), type_of(op), root, comm_, handle(stream)),
          "ncclReduce", comm_);
  }
  void broadcast(const void* in, void* out, std::size_t count, DType dtype, int root,
                 Stream& stream) override {
    check(functions().broadcast(in, out, count, type_of(dtype), root, comm_, handle(stream)), "ncclBroadcast",
          comm_);
  }
  void all_gather(const void* in, void* out, std::size_t count, DType dtype, Stream& stream) override {
    check(functions().all_gather(in, out, count, type_of(dtype), comm_, handle(stream)), "ncclAllGather",
          comm_);
  }
  void reduce_scatter(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                      Stream& stream) override {
    check(functions().reduce_scatter(in, out, count, type_of(dtype), type_of(op), comm_, handle(stream)),
          "ncclReduceScatter", comm_);
  }
  void send(const void* in, std::size_t count, DType dtype, int to, Stream& stream) override {
    check(functions().send(in, count, type_of(dtype), to, comm_, handle(stream)), "ncclSend", comm_);
  }
  void recv(void* out, std::size_t count, DType dtype, int from, Stream& stream) override {
    check(functions().recv(out, count, type_of(dtype), from, comm_, handle(stream)), "ncclRecv", comm_);
  }
  void group_begin() override { check(functions().group_start(), "ncclGroupStart", comm_); }
  void group_end() override { check(functions().group_end(), "ncclGroupEnd", comm_); }

  bool busy() override {
    int state = kSuccess;
    check(functions().async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
    check(state, "NCCL", comm_);
    finished_ = finishing_ && state == kSuccess;
    return state == kInProgress;
  }
  void finish() override {
    const detail::GpuCalls scope(device_);
    check(cudaSetDevice(device_.index), "cudaSetDevice", device_);
    check(functions().finalize(comm_), "ncclCommFinalize", comm_);
    finishing_ = true;
  }
  void abort() noexcept override {
    if (!comm_) return;
    const detail::GpuCalls scope(device_);
    cudaSetDevice(device_.index);
    functions().abort(std::exchange(comm_, nullptr));
  }

 private:
  const Device device_;
  Comm comm_ = nullptr;
  // A communicator that has not finished must be aborted, not destroyed.
  bool finishing_ = false, finished_ = false;
};

constexpr char kDigits[] = "0123456789abcdef";

std::string to_hex(const UniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

UniqueId from_hex(const std::string& text) {
  UniqueId id;
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
    check(functions().version(&code), "ncclGetVersion");
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
    UniqueId id;
    check(functions().new_id(&id), "ncclGetUniqueId");
    return to_hex(id);
  }
  std::unique_ptr<DeviceRanks> join(const std::string& id, int rank, int size, Device device) override {
    return std::make_unique<NcclRanks>(from_hex(id), rank, size, device);
  }
};

}  // namespace

DeviceLibrary* nccl() {
  static Nccl* const library = loaded().functions ? new Nccl : nullptr;
  return library;
}

std::string nccl_missing() { return loaded().missing; }

}  // namespace heddle::comm_detail
