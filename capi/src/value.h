// Conversion of operators' arguments and results between C and C++.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <heddle/function_info.h>

#include "array_handle.h"

namespace heddle::c {

// The arguments of one call. Keeps the arrays, engines and the generator alive that the arguments name.
class Arguments {
 public:
  explicit Arguments(const char* call) : call_(call) {}
  OperatorValue value_of(const heddle_value& value);
  // The engine of the results: the engine of the first array argument, or `otherwise` if there is none.
  std::shared_ptr<Engine> engine(heddle_engine* otherwise) const;
  NDArray array_of(const heddle_array* array);

 private:
  RowSparse rows_of(const heddle_row_sparse* rows);
  Generator* generator_of(const heddle_generator* generator);
  template <class Part, class T, class Get>
  std::vector<Part> list_of(const heddle_value& value, T* const* list, Get get);
  const char* call_;
  std::shared_ptr<Engine> first_;                 // the engine of the first array argument
  std::vector<std::shared_ptr<Engine>> engines_;  // the engines of all arguments, kept alive during the call
  std::shared_ptr<LockedGenerator> generator_;
  std::unique_lock<std::mutex> lock_;  // locks the mutex of generator_
};

// The values with which a registered operator or layer is called. The `arguments` of arguments_of() keep the
// objects alive to which the values point. arguments_of() throws InvalidArgument if there are more values
// than the function has arguments.
struct CallArguments {
  OperatorValues first;
  std::vector<NamedValue> named;
};
CallArguments arguments_of(const FunctionInfo& function, const heddle_value* values, std::size_t value_count,
                           const heddle_named_value* named, std::size_t named_count, Arguments& arguments,
                           const char* call);

// Converts a value that is no array or generator to C. The result's texts and lists live as long as `value`.
heddle_value plain_value(const OperatorValue& value);

// Converts results to C: makes handles for the caller on all of `values`, or on none if it throws.
void give_results(const OperatorValues& values, const EngineLink& engine, heddle_value* results);

}  // namespace heddle::c
