// What a device offers for collectives, in this library's words: one function here for each of NCCL's that is used, so that
// all that is decided about them is decided, and tested, without a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <heddle/stream.h>

#include "core/collective.h"

namespace heddle::comm_detail {

// One rank's part of a communicator of the device's library. Not thread-safe. Pointers are the device's; what is started
// runs on the stream, in the order of the starts. All throw CommError for what they are refused.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;  // after finish() or abort(); else aborts

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
  // Sends and recvs in between start together: none of them waits for another one.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  // Whether what was asked for last (joining, too) is not on its stream yet; until then nothing more may be asked for but
  // abort(). Throws CommError for what went wrong since, also in what is under way.
  virtual bool busy() = 0;
  // Begins to leave, after all that was started: then busy() until that is done.
  virtual void finish() = 0;
  // What is under way ends somehow, and nothing more may be asked for. Other ranks do not hear of it.
  virtual void abort() noexcept = 0;
};

// Makes them. Thread-safe.
class DeviceLibrary {
 public:
  virtual ~DeviceLibrary() = default;
  virtual std::string version() = 0;
  virtual int devices() = 0;  // of this process; throws Error if that cannot be said
  virtual Device device(int index) = 0;
  virtual std::string place_of(Device device) = 0;  // which piece of hardware of this host; no spaces
  virtual std::string new_id() = 0;                 // of a communicator to be; printable, no spaces
  // Returns at once: busy() until all ranks have come.
  virtual std::unique_ptr<DeviceRanks> join(const std::string& id, int rank, int size, Device device) = 0;
};

// NCCL, if this build has it; else null. Seam: nccl.cc or no_nccl.cc.
DeviceLibrary* nccl();

// Starts the call: what it is in the library's functions.
void start(DeviceRanks& ranks, const Collective& call, int rank, Stream& stream);

}  // namespace heddle::comm_detail
