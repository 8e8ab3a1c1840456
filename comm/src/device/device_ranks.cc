#include "device/device_ranks.h"

#include <utility>

namespace heddle::comm_detail {
namespace {

// A bool is a byte that is 0 or 1, so that `or` is the maximum and `and` the minimum.
ReduceOp op_of(const CallRecord& record) {
  if (record.dtype != DType::boolean) return record.op;
  return record.op == ReduceOp::sum || record.op == ReduceOp::max ? ReduceOp::max : ReduceOp::min;
}
DType dtype_of(const CallRecord& record) { return record.dtype == DType::boolean ? DType::u8 : record.dtype; }

// Ends the group also after an error, since the library would add later operations to an open group.
class Group {
 public:
  explicit Group(DeviceRanks& ranks) : ranks_(ranks) { ranks_.group_begin(); }
  void end() { std::exchange(open_, false), ranks_.group_end(); }
  ~Group() {
    if (!open_) return;
    try {
      ranks_.group_end();
    } catch (...) {  // an earlier error is on its way already and is the one to report
    }
  }

 private:
  DeviceRanks& ranks_;
  bool open_ = true;
};

void all_to_all(DeviceRanks& ranks, const Collective& call, Stream& stream) {
  const DType dtype = dtype_of(call.record);
  const std::byte* in = call.in;
  std::byte* out = call.out;
  Group group(ranks);
  for (std::size_t other = 0; other < call.in_counts.size(); ++other) {
    const auto sent = static_cast<std::size_t>(call.in_counts[other]),
               received = static_cast<std::size_t>(call.out_counts[other]);
    if (sent > 0) ranks.send(in, sent, dtype, static_cast<int>(other), stream);
    if (received > 0) ranks.recv(out, received, dtype, static_cast<int>(other), stream);
    in += sent * call.element();
    out += received * call.element();
  }
  group.end();
}

}  // namespace

void start(DeviceRanks& ranks, const Collective& call, int rank, Stream& stream) {
  const CallRecord& record = call.record;
  const DType dtype = dtype_of(record);
  const auto count = static_cast<std::size_t>(record.count);
  switch (record.kind) {
    case Kind::all_reduce:
      return ranks.all_reduce(call.in, call.out, count, dtype, op_of(record), stream);
    case Kind::reduce:
      return ranks.reduce(call.in, call.out, count, dtype, op_of(record), record.root, stream);
    case Kind::broadcast:
      return ranks.broadcast(rank == record.root ? call.in : nullptr, call.out, count, dtype, record.root,
                             stream);
    case Kind::all_gather:
      return ranks.all_gather(call.in, call.out, count, dtype, stream);
    case Kind::reduce_scatter:
      return ranks.reduce_scatter(call.in, call.out, count, dtype, op_of(record), stream);
    case Kind::all_to_all:
      return all_to_all(ranks, call, stream);
    case Kind::send:
      return ranks.send(call.in, count, dtype, record.root, stream);
    case Kind::recv:
      return ranks.recv(call.out, count, dtype, record.root, stream);
    case Kind::none:
    case Kind::barrier:
    case Kind::leave:
      break;
  }
  throw CommError(std::string("a device has no ") + name_of(record.kind));
}

}  // namespace heddle::comm_detail
