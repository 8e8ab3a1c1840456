// Reads an array's values for the caller.
#pragma once

#include <utility>

#include <heddle/array_op.h>
#include <heddle/call_site.h>
#include <heddle/interrupt_check.h>
#include <heddle/var_use.h>

namespace heddle::ndarray_detail {

// Pushes fn as an op that reads array, and blocks until it is done; rethrows its error. The caller must not
// read the memory itself, since other threads may push ops that overwrite the array meanwhile.
template <class F> void read_now(const NDArray& array, const char* name, F&& fn) {
  wait_with_check(array.var());
  Engine* const alive = array.storage()->engine_if_alive();
  if (!alive || has_ended(*alive)) {
    wait_on(array.var());
    fn();
    return;
  }
  Engine& engine = *alive;
  const Var done = engine.new_var();
  engine.push(std::forward<F>(fn), {.read = {array.var()}, .mutate = {done}, .name = name},
              CallSite::current());
  engine.wait(done);
}

}  // namespace heddle::ndarray_detail
