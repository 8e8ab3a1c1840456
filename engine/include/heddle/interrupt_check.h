// A way out for a thread that waits: for room in an engine with bounds, or for an array. Interpreters look for signals so.
#pragma once

#include <heddle/var.h>

namespace heddle {

// From now on the calling thread calls check() every 50 ms while a push of its waits for room, without any lock. An exception
// out of it ends the push, which has changed nothing then. Null: no check. Not with the scheduler fuzz.
void set_interrupt_check(void (*check)());

// Waits until every op that mutates var is done if the calling thread has a check, which is called every 50 ms and may end the
// wait by an exception. Throws nothing else. Without a check, and inside an op, it returns at once. For callers that then
// begin what they have to see through.
void wait_with_check(const Var& var);

}  // namespace heddle
