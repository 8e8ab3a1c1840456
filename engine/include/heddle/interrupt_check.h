// Lets a waiting thread be interrupted: a wait for room in an engine with bounds, or for an array.
// Interpreters use it to handle signals.
#pragma once

#include <heddle/var.h>

namespace heddle {

// From now on the calling thread calls check() every 50 ms while one of its pushes waits for room in an
// engine with bounds. No lock is held during the call. An exception out of check() ends the push, which then
// has no effect. Null: no check. Pushes on an engine with the fuzz scheduler do not call it.
void set_interrupt_check(void (*check)());

// Calls the calling thread's check, if it has one: for waits that end in short steps.
void check_interrupt();

// If the calling thread has a check, waits until every op that mutates var is done, and calls check() every
// 50 ms: its exception ends the wait. Throws nothing else. Without a check, and inside an op, it returns at
// once. For callers that start something uninterruptible afterwards.
void wait_with_check(const Var& var);

}  // namespace heddle
