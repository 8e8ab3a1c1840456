// Model of the allocator of ops' memory: a chunk is reused when all of its ops are freed, and not before.

#include <sys/mman.h>

#include <sanitizer/asan_interface.h>

#include "model.h"
#include "relacy_threads.h"

namespace model {

constexpr std::size_t kRoom = 17 * 64 * 1024;  // the size of op_memory.cc's requests to the system
alignas(64 * 1024) inline std::byte room[kRoom];
inline void* map_room(std::size_t bytes) { return bytes == kRoom ? room : nullptr; }

}  // namespace model

#define std model_std
#define private public  // the model reads private state at the end
#define thread_local static
#define thread_cache thread_caches[model::thread_index()]
#define mmap(at, bytes, ...) model::map_room(bytes)
#define madvise(...) void()
#include <product/base/fork.h>
namespace heddle::detail {
ForkMutex::ForkMutex() {}
namespace {
class Reserve;
Reserve* reserve_of_schedule();
}  // namespace
}  // namespace heddle::detail
#include <product/op/op_memory.cc>

namespace heddle::detail {
namespace {

Reserve* current_reserve = nullptr;

Reserve* reserve_of_schedule() {
  if (!current_reserve) current_reserve = new Reserve;
  return current_reserve;
}

}  // namespace
}  // namespace heddle::detail

namespace {

using namespace heddle::detail;
using model::check;

constexpr std::size_t kOp = kLargestOp;  // size of each op: seven of them fill a chunk
constexpr int kSlots = static_cast<int>(model::kRoom / kOp);

int slot_of(const void* op) {
  return static_cast<int>((static_cast<const std::byte*>(op) - model::room) / kOp);
}

// Owner threads allocate more ops than fit into a chunk, and free some of them; another thread frees the
// rest.
template <int Owners, int Each> struct Chunks : model::Schedule<Chunks<Owners, Each>, Owners + 1> {
  Chunks() { current_reserve = nullptr; }
  // Whether the memory of a slot is used by an op. Relacy reports a data race if it is reused too early.
  model::Plain<int> used[kSlots];
  model_std::atomic<void*> handed[Owners][Each];

  void thread(unsigned index) {
    thread_cache = {};
    if (index < Owners) {
      own(handed[index]);
    } else {
      free_handed();
    }
    { AtThreadEnd end; }
  }
  void own(model_std::atomic<void*>* hand) {
    for (int i = 0; i < Each; ++i) {
      void* op = op_allocate(kOp);
      auto& use = used[slot_of(op)];
      check(use.get() == 0, "memory in use is given out again");
      use.set(1);
      if (i % 3 == 2) {
        give_up(op);
        hand[i].store(this, model_std::memory_order_release);  // `this` tells the other thread: already freed
      } else {
        hand[i].store(op, model_std::memory_order_release);
      }
    }
  }
  void free_handed() {
    for (int i = 0; i < Each; ++i) {
      for (auto& hand : handed) {
        void* op;
        while (!(op = hand[i].load(model_std::memory_order_acquire))) model::step();
        if (op != this) give_up(op);
      }
    }
  }
  void give_up(void* op) {
    used[slot_of(op)].set(0);
    op_free(op, kOp, false);
  }
  // All chunks except those kept by pools must be back in the reserve.
  void after() {
    op_memory_trim();
    std::size_t kept = 0;
    for (Pool* pool : reserve().orphans_) {
      kept += pool->chunk != nullptr;
      for (Chunk* chunk = pool->returned.load(); chunk; chunk = chunk->next) ++kept;
    }
    check(op_memory_resident() == kept * kChunkBytes, "a chunk whose ops are all freed is not used again");
    for (Pool* pool : reserve().orphans_) delete pool;
    delete current_reserve;
  }
};

}  // namespace

#undef std
#undef private
#undef thread_cache
#undef mmap
#undef thread_local
#undef madvise

int main(int argc, char** argv) {
  using model::random_program;
  const int status = model::run_models(
      argc, argv,
      {random_program<Chunks<1, 16>>("1 owner, 2 chunks"), random_program<Chunks<2, 9>>("2 owners")},
      {"give_back compare_exchange relaxed", "take_off fetch_sub acquire", "take_off fetch_sub release",
       "next_chunk exchange relaxed"});
  thread_caches[0] = {};  // a failed schedule leaves a dangling pointer here, which is read at exit
  return status;
}
