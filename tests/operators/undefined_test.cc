// Every public function on arrays refuses an undefined array, in each argument, with the same message.
#include "undefined.h"

#include <doctest/doctest.h>

#include <heddle/ops.h>

namespace heddle {

using test::check_refused;

namespace {

const NDArray kNone;
NDArray some() { return ones({2, 2}); }

}  // namespace

TEST_CASE("operators of C++ refuse undefined arrays") {
  const NDArray x = some(), yes = ones({2, 2}, DType::boolean);
  check_refused({
      {"negative", [] { (void)-kNone; }},
      {"add", [=] { (void)(kNone + x); }},
      {"add", [=] { (void)(x + kNone); }},
      {"add", [] { (void)(kNone + 2); }},
      {"add", [] { (void)(2.5 + kNone); }},
      {"multiply", [=] { (void)(x * kNone); }},
      {"divide", [=] { (void)(kNone / x); }},
      {"less", [=] { (void)(x < kNone); }},
      {"greater", [] { (void)(kNone > 1); }},
      {"where", [=] { where(yes, 1, kNone); }},
      {"block",
       [=] {
         block({{x, kNone}});
       }},
      {"meshgrid", [] { meshgrid({kNone}); }},
      {"index_put", [=] { index_put(x, {kNone}, 1); }},
  });
}

TEST_CASE("updates in place refuse undefined arrays") {
  NDArray none, x = some();
  check_refused({
      {"add_", [&] { none += some(); }},
      {"add_", [&] { x += none; }},
      {"subtract_", [&] { none -= 1; }},
      {"subtract_", [&] { x -= none; }},
      {"multiply_", [&] { none *= 2.5; }},
      {"multiply_", [&] { x *= none; }},
      {"divide_", [&] { none /= some(); }},
      {"divide_", [&] { x /= none; }},
  });
}

TEST_CASE("functions on row-sparse arrays refuse undefined ones") {
  const NDArray rows = zeros({1}, DType::i64), count = ones({1}, DType::i64);
  const RowSparse none, x = retain(some(), rows);
  check_refused({
      {"add_rows", [=] { add_rows(kNone, x); }},
      {"add_rows", [=] { add_rows(some(), none); }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, kNone, some(), count);
       }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, rows, kNone, count);
       }},
      {"RowSparse",
       [=] {
         RowSparse({2, 2}, rows, some(), kNone);
       }},
      {"shape", [=] { none.shape(); }},
      {"dtype", [=] { none.dtype(); }},
      {"device", [=] { none.device(); }},
      {"engine", [=] { none.engine(); }},
      {"capacity", [=] { none.capacity(); }},
      {"rows", [=] { none.rows(); }},
      {"values", [=] { none.values(); }},
      {"count", [=] { none.count(); }},
      {"wait", [=] { none.wait(); }},
      {"trimmed", [=] { static_cast<void>(none.trimmed()); }},
  });
  CHECK_FALSE(none.defined());
}

TEST_CASE("the tape refuses undefined arrays") {
  NDArray none, leaf = some();
  set_requires_grad(leaf);
  check_refused({
      {"set_requires_grad", [&] { set_requires_grad(none); }},
      {"requires_grad", [] { requires_grad(kNone); }},
      {"grad", [] { grad(kNone); }},
      {"row_sparse_grad", [] { row_sparse_grad(kNone); }},
      {"clear_grad", [] { clear_grad(kNone); }},
      {"lend_gradient_memory", [] { lend_gradient_memory(kNone, some()); }},
      {"backward", [] { backward(kNone); }},
      {"record", [&] { record("f", none, {leaf}, {}, {}); }},
      {"record", [&] { record("f", leaf, {kNone}, {}, {}); }},
      {"record", [&] { record("f", leaf, {leaf}, {kNone}, {}); }},
      {"record_part", [&] { record_part("f", none, leaf, {}, {}); }},
      {"record_part", [&] { record_part("f", leaf, kNone, {}, {}); }},
      {"record_rows", [&] { record_rows("f", none, leaf, {}, {}); }},
      {"record_rows", [&] { record_rows("f", leaf, kNone, {}, {}); }},
      {"make_gradient", [] { make_gradient(0, kNone); }},
  });
  CHECK_FALSE(recording({&kNone}));
}

}  // namespace heddle
