// Parallel loops, the product's own: every chunk runs once, and the owner goes on when all guests have left.
#include "model.h"

#define std model_std
#define __builtin_ia32_pause model::step
#include <product/scheduler/region.cc>
#undef std
#undef __builtin_ia32_pause

namespace {

using heddle::detail::Region;
using heddle::detail::Regions;

// One owner, the others look for loops to join.
template <int Guests, int Chunks> struct Loop : model::Schedule<Loop<Guests, Chunks>, Guests + 1> {
  Regions regions;
  model::Plain<int> chunks[Chunks];

  void thread(unsigned index) {
    if (index == 0) return own();
    for (int looks = 0; looks < 2; ++looks) {
      if (std::shared_ptr<Region> region = regions.enter()) {
        if (!region->exhausted()) region->work();
        regions.close(region.get());
        Regions::leave(*region);
      }
      model::step();
    }
  }
  void own() {
    const Region::Body body = [this](std::int64_t at, std::int64_t) { chunks[at].set(chunks[at].get() + 1); };
    const auto region = std::make_shared<Region>(Chunks, 1, body, nullptr);
    regions.open(region);
    region->work();
    regions.close(region.get());
    if (!region->quiet_soon()) region->await_guests();
    for (auto& chunk : chunks) model::check(chunk.get() == 1, "a chunk did not run once");
  }
  void after() { model::check(regions.empty(), "a loop is still open"); }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(argc, argv,
                           {random_program<Loop<1, 2>>("1 guest"), random_program<Loop<2, 3>>("2 guests")},
                           {"Region::quiet_soon load relaxed", "Region::await_guests load relaxed",
                            "Regions::leave fetch_sub acq_rel", "SpinLock::unlock store relaxed"});
}
