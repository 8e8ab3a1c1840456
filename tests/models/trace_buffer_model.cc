// Model of a thread's trace buffer: the thread appends records, the writer takes them, and chunks are reused.
#include <unistd.h>

#include "model.h"

// Relacy defines malloc and free as macros, which would also match names in namespaces.
#undef malloc
#undef free

namespace model {

constexpr std::size_t kRoom = 3 * 256;  // three chunks of the small size that product.py sets
alignas(256) inline std::byte room[kRoom];

}  // namespace model

#define std model_std
#define madvise(...) getpid()
namespace model_std {
inline void* aligned_alloc(size_t, size_t bytes) { return bytes == model::kRoom ? model::room : nullptr; }
inline void free(void*) {}
}  // namespace model_std
#include <product/trace/trace_buffer.cc>
#undef std
#undef madvise

namespace heddle::trace {
std::uint32_t this_thread_lane() noexcept { return 0; }
}  // namespace heddle::trace

namespace {

using namespace heddle::trace;
using model::check;

// The index of a record in model::room, the memory of all chunks; a record has 64 bytes.
std::size_t slot_of(const Record& record) {
  return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&record) - model::room) / 64;
}

// The writer must take every record once, in order. Records for which there is no room are counted, and a gap
// record replaces them.
template <int Records> struct Buffer : model::Schedule<Buffer<Records>, 2> {
  ChunkPool pool;
  std::optional<ThreadBuffer> buffer;
  model::Plain<std::uint64_t> written[model::kRoom / 64];
  std::uint64_t last = 0, taken = 0;

  void before() {
    pool.set_limit(model::kRoom);
    buffer.emplace(pool, pool.take());
  }
  void thread(unsigned index) { index == 0 ? append() : take_all(); }
  void append() {
    for (std::uint64_t number = 1; number <= Records; ++number) {
      Record* record = buffer->place(number);
      if (!record) continue;
      record->sequence = number;
      record->kind = Kind::op;
      written[slot_of(*record)].set(number);
      buffer->commit();
    }
    buffer->end_of_thread();
  }
  void take_all() {
    for (bool last_look = false; !last_look;) {
      last_look = buffer->ended();
      do {
        buffer->take([this](const Record& record) { take(record); });
      } while (!buffer->empty());
      model::step();
    }
  }
  void take(const Record& record) {
    if (record.kind == Kind::gap) {
      last += record.other;
      return;
    }
    check(written[slot_of(record)].get() == record.sequence, "a record was overwritten before it was taken");
    check(record.sequence == last + 1, "records are lost, or out of order");
    last = record.sequence;
    ++taken;
  }
  void after() {
    check(taken + buffer->take_dropped() == Records, "a record is neither taken nor counted as dropped");
    pool.give(buffer->last_chunk());
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(
      argc, argv,
      {random_program<Buffer<4>>("4 records, room for them"),
       random_program<Buffer<9>>("9 records, room for 6")},
      {"trace::ThreadBuffer::commit store relaxed", "trace::ThreadBuffer::take load relaxed",
       "trace::ThreadBuffer::end_of_thread store relaxed", "trace::ThreadBuffer::ended load relaxed"});
}
