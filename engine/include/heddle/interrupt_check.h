// A way out for a thread whose push waits for room in an engine with bounds: interpreters look for signals so.
#pragma once

namespace heddle {

// From now on the calling thread calls check() every 50 ms while a push of its waits for room, without any lock. An exception
// out of it ends the push, which has changed nothing then. Null: no check. Not with the scheduler fuzz.
void set_interrupt_check(void (*check)());

}  // namespace heddle
