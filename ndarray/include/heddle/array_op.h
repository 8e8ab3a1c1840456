// Pushes ops on arrays: the access list follows from the arrays, and the op's function works on plain memory.
#pragma once

#include <initializer_list>
#include <span>
#include <utility>

#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

// The access list of an op that reads and writes these arrays. A written array that does not cover its whole
// storage keeps the rest of it, so its var is listed as read too (an error there is not overwritten). Also
// bumps the versions of the written storages. Throws InvalidArgument if the arrays belong to several engines.
Access array_access(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes);

// array_push("scale", {x}, {y}, [=](RunContext&) { ... x.data<float>() ... });
// fn must capture the arrays it uses by value (detached: x.detach()), which keeps their memory alive. The op belongs
// to the arrays' engine; throws InvalidArgument as array_access does. The op names the place of the outermost library
// call (call_site.h) or, outside of any, `where`.
template <class F>
void array_push(const char* name, std::initializer_list<NDArray> reads, std::initializer_list<NDArray> writes,
                F&& fn, Where where = Where::current()) {
  const Access access = array_access(name, {reads.begin(), reads.size()}, {writes.begin(), writes.size()});
  Engine& engine = writes.size()  ? writes.begin()->engine()
                   : reads.size() ? reads.begin()->engine()
                                  : current_engine();
  engine.push(std::forward<F>(fn), access, CallSite::current(where));
}

}  // namespace heddle
