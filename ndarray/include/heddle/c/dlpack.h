// The structs of DLPack 1 (dmlc.github.io/dlpack), by which libraries lend arrays to each other: the same
// layout under other names, so that a program may include dlpack/dlpack.h beside this. C11, and C++.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Values of heddle_dl_device.type and heddle_dl_dtype.code. DLPack has more of them, which from_dlpack
// refuses.
#define HEDDLE_DL_CPU ((int32_t)1)
#define HEDDLE_DL_CUDA ((int32_t)2)
#define HEDDLE_DL_CUDA_HOST ((int32_t)3)  // page-locked memory of the CPU

#define HEDDLE_DL_INT ((uint8_t)0)
#define HEDDLE_DL_UINT ((uint8_t)1)
#define HEDDLE_DL_FLOAT ((uint8_t)2)
#define HEDDLE_DL_BFLOAT ((uint8_t)4)
#define HEDDLE_DL_BOOL ((uint8_t)6)

#define HEDDLE_DL_READ_ONLY ((uint64_t)1)  // flags: the receiver must not write
#define HEDDLE_DL_IS_COPIED ((uint64_t)2)  // flags: the memory is a copy that was made for the receiver

typedef struct heddle_dl_device {
  int32_t type;  // kind of device: HEDDLE_DL_CPU, HEDDLE_DL_CUDA, ...
  int32_t index;
} heddle_dl_device;

typedef struct heddle_dl_dtype {
  uint8_t code;    // kind of number: HEDDLE_DL_INT, HEDDLE_DL_UINT, ...
  uint8_t bits;    // bits of an element
  uint16_t lanes;  // numbers in an element; Heddle has 1 only
} heddle_dl_dtype;

typedef struct heddle_dl_tensor {
  void* data;
  heddle_dl_device device;
  int32_t ndim;
  heddle_dl_dtype dtype;
  int64_t* shape;
  int64_t* strides;      // strides in elements; null: row-major
  uint64_t byte_offset;  // offset of the first element from `data`
} heddle_dl_tensor;

// The receiver calls deleter(self) once when it needs the memory no more, on any thread; a null deleter is
// not called.
typedef struct heddle_dl_managed_tensor {
  heddle_dl_tensor tensor;
  void* manager_ctx;
  void (*deleter)(struct heddle_dl_managed_tensor* self);
} heddle_dl_managed_tensor;

typedef struct heddle_dl_version {
  uint32_t major;
  uint32_t minor;
} heddle_dl_version;

typedef struct heddle_dl_managed_tensor_versioned {
  heddle_dl_version version;
  void* manager_ctx;
  void (*deleter)(struct heddle_dl_managed_tensor_versioned* self);
  uint64_t flags;  // HEDDLE_DL_READ_ONLY, HEDDLE_DL_IS_COPIED, both or 0
  heddle_dl_tensor tensor;
} heddle_dl_managed_tensor_versioned;

#ifdef __cplusplus
}
#endif
