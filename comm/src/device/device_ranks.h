// The interface to a device's library for collectives: one function for each function of NCCL that is used. The logic
// around them can therefore be tested without a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <heddle/stream.h>

#include "core/collective.h"

namespace heddle::comm_detail {

// One rank of a communicator of the device's library. Not thread-safe. Pointers are device pointers. Operations run on
// the stream, in the order in which they are started. All functions throw CommError when the library refuses a call.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;  // leaves by abort(), unless finish() has completed

  virtual void all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op,
                          Stream& stream) = 0;
  virtual void reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int root,
                      Stream& stream) = 0;
  virtual void broadcast(const void* in, void* out, std::size_t count, DType dtype, int root,
                         Stream& stream) = 0;
  virtual void all_gather(const void* in, void* out, std::size_t count_in, DType dtype, Stream& stream) = 0;
  virtual void reduce_scatter(const void* in, void* out, std::size_t count_out, DType dtype, ReduceOp op,
                              Stream& stream) = 0;
  virtual void send(const void* in, std::size_t count, DType dtype, int to, Stream& stream) = 0;
  virtual void recv(void* out, std::size_t count, DType dtype, int from, Stream& stream) = 0;
  // Sends and recvs that are started between group_begin() and group_end() run together, so that no one of
  // them waits for another.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  // True while the last operation (or joining) is not on its stream yet; meanwhile only abort() may be
  // called. Throws CommError for asynchronous errors, also of earlier operations.
  virtual bool busy() = 0;
  // Begins to leave once all operations have run. This rank has left when busy() is false.
  virtual void finish() = 0;
  // Ends operations that are under way; no function may be called after it. Other ranks are not notified.
  virtual void abort() noexcept = 0;
};

// Makes DeviceRanks. Thread-safe.
class DeviceLibrary {
 public:
  virtual ~DeviceLibrary() = default;
  virtual std::string version() = 0;
  virtual int devices() = 0;  // number of usable devices; throws Error if the driver cannot say
  virtual Device device(int index) = 0;
  virtual std::string place_of(Device device) = 0;  // identifies the device on its host; no spaces
  virtual std::string new_id() = 0;                 // an id for a new communicator; printable, no spaces
  // Returns at once; the rank has joined when its busy() is false.
  virtual std::unique_ptr<DeviceRanks> join(const std::string& id, int rank, int size, Device device) = 0;
};

// NCCL (nccl.cc); null if it is not found, or if this build has no CUDA (no_nccl.cc).
DeviceLibrary* nccl();
// Why nccl() is null.
std::string nccl_missing();

// Starts the call on the stream, by the functions of DeviceRanks.
void start(DeviceRanks& ranks, const Collective& call, int rank, Stream& stream);

}  // namespace heddle::comm_detail
