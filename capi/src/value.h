// Arguments and results of operators, in C and in C++.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <heddle/function_info.h>

#include "array_handle.h"

namespace heddle::c {

// The arguments of one call, which hold what they name while they live.
class Arguments {
 public:
  explicit Arguments(const char* call) : call_(call) {}
  OperatorValue value_of(const heddle_value& value);
  // The engine of the results: that of the first array, else `otherwise`.
  std::shared_ptr<Engine> engine(heddle_engine* otherwise) const;
  NDArray array_of(const heddle_array* array);

 private:
  RowSparse rows_of(const heddle_row_sparse* rows);
  Generator* generator_of(const heddle_generator* generator);
  template <class Part, class T, class Get>
  std::vector<Part> list_of(const heddle_value& value, T* const* list, Get get);
  const char* call_;
  std::shared_ptr<Engine> first_;                 // of the first array
  std::vector<std::shared_ptr<Engine>> engines_;  // live as long as the call
  std::shared_ptr<LockedGenerator> generator_;
  std::unique_lock<std::mutex> lock_;  // of the generator
};

// What a function of a registry is called with: what the values point to is held by the Arguments. Throws InvalidArgument for more
// values than the function has arguments.
struct CallArguments {
  OperatorValues first;
  std::vector<NamedValue> named;
};
CallArguments arguments_of(const FunctionInfo& function, const heddle_value* values, std::size_t value_count,
                           const heddle_named_value* named, std::size_t named_count, Arguments& arguments,
                           const char* call);

// The value, whose texts and lists live as long as `value`. Not for arrays and generators.
heddle_value plain_value(const OperatorValue& value);

// Handles for the caller: all of `values`, or none if it throws.
void give_results(const OperatorValues& values, const EngineLink& engine, heddle_value* results);

}  // namespace heddle::c
