// Operators by name: their arguments and results, and calls. docs/operators.md lists all operators.
//
//   const heddle_operator* softmax = NULL;
//   heddle_operator_find("softmax", &softmax, NULL);
//   heddle_value x = {.kind = HEDDLE_VALUE_ARRAY, .as.array = logits};
//   heddle_named_value axis = {"axis", {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 1}};
//   heddle_array* y = NULL;
//   heddle_operator_apply(softmax, &x, 1, &axis, 1, NULL, &y, &error);
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_operator heddle_operator;      // an operator; lives as long as the process
typedef struct heddle_generator heddle_generator;    // a handle on a random number generator, see random.h
typedef struct heddle_row_sparse heddle_row_sparse;  // a handle on a row-sparse array, see row_sparse.h

// The kind of a heddle_value, and the member of its union `as` that has the value.
#define HEDDLE_VALUE_NONE ((int32_t)0)      // an argument that is left out
#define HEDDLE_VALUE_BOOLEAN ((int32_t)1)   // as.boolean: 0 or 1
#define HEDDLE_VALUE_INTEGER ((int32_t)2)   // as.integer
#define HEDDLE_VALUE_REAL ((int32_t)3)      // as.real
#define HEDDLE_VALUE_TEXT ((int32_t)4)      // as.text
#define HEDDLE_VALUE_INTEGERS ((int32_t)5)  // as.integers, `count` of them, 8 at most: a shape, axes
#define HEDDLE_VALUE_DTYPE ((int32_t)6)     // as.dtype
#define HEDDLE_VALUE_DEVICE ((int32_t)7)    // as.device
#define HEDDLE_VALUE_ARRAY ((int32_t)8)     // as.array
#define HEDDLE_VALUE_ARRAYS ((int32_t)9)    // as.arrays, `count` of them
#define HEDDLE_VALUE_ROW_SPARSE ((int32_t)10)
#define HEDDLE_VALUE_ROW_SPARSE_LIST ((int32_t)11)
#define HEDDLE_VALUE_GENERATOR ((int32_t)12)

// An argument or a result. A call borrows memory and handles of arguments; the caller owns those of results.
typedef struct heddle_value {
  int32_t kind;
  uint32_t count;  // number of elements, if the value is a list
  union {
    int32_t boolean;
    int64_t integer;
    double real;
    const char* text;
    const int64_t* integers;
    int32_t dtype;
    heddle_device device;
    heddle_array* array;
    heddle_array* const* arrays;
    heddle_row_sparse* row_sparse;
    heddle_row_sparse* const* row_sparse_list;
    heddle_generator* generator;
  } as;
} heddle_value;

typedef struct heddle_named_value {
  const char* name;
  heddle_value value;
} heddle_named_value;

// The kinds of an argument, in the order of docs/operators.md.
#define HEDDLE_ARGUMENT_ARRAY ((int32_t)0)
#define HEDDLE_ARGUMENT_ARRAY_OR_NUMBER ((int32_t)1)
#define HEDDLE_ARGUMENT_ARRAY_OR_ROW_SPARSE ((int32_t)2)
#define HEDDLE_ARGUMENT_ARRAYS ((int32_t)3)
#define HEDDLE_ARGUMENT_ROW_SPARSE ((int32_t)4)
#define HEDDLE_ARGUMENT_ROW_SPARSE_LIST ((int32_t)5)
#define HEDDLE_ARGUMENT_NUMBER ((int32_t)6)  // integer, real or boolean, without conversion
#define HEDDLE_ARGUMENT_REAL ((int32_t)7)    // a real; an integer is converted to one
#define HEDDLE_ARGUMENT_INTEGER ((int32_t)8)
#define HEDDLE_ARGUMENT_BOOLEAN ((int32_t)9)
#define HEDDLE_ARGUMENT_TEXT ((int32_t)10)      // one of the argument's `choices`; any text if it has none
#define HEDDLE_ARGUMENT_INTEGERS ((int32_t)11)  // a list of integers, or one integer
#define HEDDLE_ARGUMENT_DTYPE ((int32_t)12)     // a dtype, or its name as a text
#define HEDDLE_ARGUMENT_DEVICE ((int32_t)13)
#define HEDDLE_ARGUMENT_GENERATOR ((int32_t)14)

// The description of an operator. All its texts and lists are static, and no text is null. This also holds
// for heddle_argument_info.
typedef struct heddle_operator_info {
  size_t struct_size;  // sizeof(heddle_operator_info), set by the caller
  const char* name;
  const char* family;         // the operator's heading in docs/operators.md
  const char* documentation;  // plain text on one line
  const char* signature;      // "softmax(x, axis=-1)"
  const char* result_dtype;   // description of the result's dtype; "" without a result
  size_t argument_count;
  const int32_t* results;  // kinds of the results: HEDDLE_VALUE_ARRAY, _ARRAYS or _ROW_SPARSE
  size_t result_count;
  int32_t differentiable;  // 1: at least one argument gets a gradient
  int32_t in_place;        // 1: the operator writes its first argument and has no result
} heddle_operator_info;

typedef struct heddle_argument_info {
  size_t struct_size;  // sizeof(heddle_argument_info), set by the caller
  const char* name;
  int32_t kind;                // HEDDLE_ARGUMENT_ARRAY ...
  int32_t required;            // 1: the argument has no default
  int32_t takes_none;          // 1: the default is HEDDLE_VALUE_NONE
  int32_t differentiable;      // 1: a floating array gets a gradient
  int32_t length;              // required length of a list of integers; 0: any length
  const char* default_text;    // the default as Python writes it; "" if the argument is required
  heddle_value default_value;  // HEDDLE_VALUE_NONE if the argument is required
  const int32_t* dtypes;       // the dtypes that an array argument may have
  size_t dtype_count;
  const char* const* choices;  // the values that a text argument may have; see HEDDLE_ARGUMENT_TEXT
  size_t choice_count;
} heddle_argument_info;

HEDDLE_API heddle_status heddle_operator_count(size_t* count);
HEDDLE_API heddle_status heddle_operator_at(size_t index, const heddle_operator** op, heddle_error** error);
HEDDLE_API heddle_status heddle_operator_find(const char* name, const heddle_operator** op,
                                              heddle_error** error);
HEDDLE_API heddle_status heddle_operator_describe(const heddle_operator* op, heddle_operator_info* info,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_operator_argument(const heddle_operator* op, size_t index,
                                                  heddle_argument_info* info, heddle_error** error);

// Calls an operator, and records the call for gradients. `values` are the first arguments in order, `named`
// are further arguments; the remaining ones have their defaults. `engine` is used by operators without an
// array argument; null: the default engine. `results` has room for all results, which the caller destroys;
// null is legal if the operator has no result. A list of arrays is one result: the caller destroys its
// handles, then it.
HEDDLE_API heddle_status heddle_operator_call(const heddle_operator* op, const heddle_value* values,
                                              size_t value_count, const heddle_named_value* named,
                                              size_t named_count, heddle_engine* engine,
                                              heddle_value* results, size_t room, heddle_error** error);
// Frees the list of a result of kind HEDDLE_VALUE_ARRAYS, not the handles in it. Null is legal.
HEDDLE_API heddle_status heddle_array_list_destroy(heddle_array* const* list);
// Calls an operator whose only result is an array.
HEDDLE_API heddle_status heddle_operator_apply(const heddle_operator* op, const heddle_value* values,
                                               size_t value_count, const heddle_named_value* named,
                                               size_t named_count, heddle_engine* engine,
                                               heddle_array** result, heddle_error** error);
// Calls an operator and writes its only result into `out`, which has the result's shape and a dtype whose
// kind fits. No gradient may be recorded. After an error at the call the values of `out` are undetermined.
HEDDLE_API heddle_status heddle_operator_apply_into(const heddle_operator* op, const heddle_value* values,
                                                    size_t value_count, const heddle_named_value* named,
                                                    size_t named_count, heddle_array* out,
                                                    heddle_error** error);

#ifdef __cplusplus
}
#endif
