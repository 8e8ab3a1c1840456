// Seats and those who wait for one, the product's own: a seat has one holder, and none lies free while somebody waits.

#include "model.h"
#include "relacy_threads.h"

#define std model_std
#define __builtin_ia32_pause model::step
#include <product/scheduler/crew.cc>

#include <heddle/error.h>
#undef std
#undef __builtin_ia32_pause

namespace {

using heddle::detail::Crew;
using heddle::detail::Seat;
using heddle::detail::Seats;

// Threads in the middle of an op wait for a seat, to go on; runners take one if there is one. That somebody waits for ever
// is a deadlock to Relacy.
template <int Count, int Waiters, int Runners>
struct Contest : model::Schedule<Contest<Count, Waiters, Runners>, Waiters + Runners> {
  Seats seats{Count};
  Crew crew{seats, {}};
  model::Plain<int> holds[Count];

  void thread(unsigned index) {
    if (index < Waiters) return use(*crew.await_seat([] { return std::uint64_t{0}; }));
    Seat* last = nullptr;
    for (int i = 0; i < 2; ++i) {
      Seat* seat = seats.take(last);
      if (!seat) continue;
      last = seat;
      use(*seat);
    }
  }
  void use(Seat& seat) {
    auto& held = holds[seat.index];
    model::check(held.get() == 0, "a seat has two holders");
    held.set(1);
    held.set(0);
    seats.release(seat);
    crew.seat_released();
  }
  void after() { model::check(seats.all_free() && !crew.wanted(), "a seat is lost"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::times_out = false;  // a seat that is not heard of must not be found by looking again
  using model::program;
  using model::random_program;
  return model::run_models(argc, argv,
                           {program<Contest<1, 2, 1>>("1 seat, 2 waiters, 1 runner"),
                            program<Contest<1, 1, 2>>("1 seat, 1 waiter, 2 runners"),
                            random_program<Contest<2, 2, 2>>("2 seats, 2 waiters, 2 runners")},
                           {"Crew::await_seat fetch_add acq_rel", "Crew::wanted load acquire",
                            "Seats::take load acquire", "Seats::release store relaxed",
                            "Seats::release fetch_add acq_rel", "Seats::try_take exchange release"});
}
