// Devices, their properties and peers, versions, and the texts of errors.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/runtime.h"

using namespace heddle::emulated_gpu;

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText unknown{cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
  for (const ErrorText& one : kErrors) {
    if (one.error == error) return one;
  }
  return unknown;
}

// cuDevicePrimaryCtxGetState
int context_state(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = static_cast<int>(contexts() >> device & 1u);
  return 0;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&] { *version = CUDART_VERSION; });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&] { *version = CUDART_VERSION; });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    *count = settings().devices;
    require(*count > 0, cudaErrorNoDevice);
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    check_device_index(device);
    set_current_device(device);
    make_context(device);
    check_device(device);
  });
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return call("cudaInitDevice", [&] {
    check_device_index(device);
    make_context(device);
    check_device(device);
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] { *device = current_device_even_if_failed(); });
}

// The one function of the driver that Heddle asks for.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPoint", [&] {
    const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
    *found = known ? reinterpret_cast<void*>(&context_state) : nullptr;
    if (result) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    require(known, cudaErrorInvalidValue);
  });
}

// An imagined GPU with the limits of an H100.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&] {
    require(properties, cudaErrorInvalidValue);
    check_device_index(device);
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "Heddle emulated GPU");
    std::memcpy(properties->uuid.bytes, "heddle-emulated", 15);
    properties->uuid.bytes[15] = static_cast<char>(device);
    properties->totalGlobalMem = settings().memory;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->sharedMemPerMultiprocessor = 228 << 10;
    properties->reservedSharedMemPerBlock = 1 << 10;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 0x7fffffff;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->l2CacheSize = 50 << 20;
    properties->concurrentKernels = properties->unifiedAddressing = properties->canMapHostMemory = 1;
    properties->asyncEngineCount = 3;
    properties->streamPrioritiesSupported = properties->memoryPoolsSupported = 1;
    properties->hostRegisterSupported = properties->canUseHostPointerForRegisteredMem = 1;
    properties->textureAlignment = 512;
    properties->pciBusID = device + 1;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    require(value, cudaErrorInvalidValue);
    check_device_index(device);
    switch (attribute) {
      case cudaDevAttrMaxThreadsPerBlock:
      case cudaDevAttrMaxBlockDimX:
      case cudaDevAttrMaxBlockDimY:
        return void(*value = 1024);
      case cudaDevAttrMaxBlockDimZ:
        return void(*value = 64);
      case cudaDevAttrMaxGridDimX:
        return void(*value = 0x7fffffff);
      case cudaDevAttrMaxGridDimY:
      case cudaDevAttrMaxGridDimZ:
        return void(*value = 65535);
      case cudaDevAttrMaxSharedMemoryPerBlock:
        return void(*value = 48 << 10);
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return void(*value = 227 << 10);
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return void(*value = 228 << 10);
      case cudaDevAttrWarpSize:
        return void(*value = 32);
      case cudaDevAttrMultiProcessorCount:
        return void(*value = 132);
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        return void(*value = 2048);
      case cudaDevAttrComputeCapabilityMajor:
        return void(*value = 9);
      case cudaDevAttrComputeCapabilityMinor:
      case cudaDevAttrIntegrated:
      case cudaDevAttrManagedMemory:
      case cudaDevAttrPageableMemoryAccess:
      case cudaDevAttrCooperativeLaunch:
        return void(*value = 0);
      case cudaDevAttrMemoryPoolsSupported:
      case cudaDevAttrUnifiedAddressing:
      case cudaDevAttrHostRegisterSupported:
      case cudaDevAttrConcurrentKernels:
      case cudaDevAttrCanMapHostMemory:
        return void(*value = 1);
      case cudaDevAttrAsyncEngineCount:
        return void(*value = 3);
      case cudaDevAttrClockRate:
        return void(*value = 1980000);
      default:
        throw Failure{cudaErrorInvalidValue};
    }
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return call("cudaDeviceGetPCIBusId", [&] {
    check_device_index(device);
    require(id && bytes >= 13, cudaErrorInvalidValue);
    std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02X:00.0", device + 1);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&] {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&] {
    check_device_index(device);
    check_device_index(peer);
    *can = device != peer;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("cudaDeviceEnablePeerAccess", [&] {
    const int device = current_device();
    check_device_index(peer);
    require(flags == 0, cudaErrorInvalidValue);
    require(peer != device, cudaErrorInvalidDevice);
    const std::lock_guard guard(runtime().mutex);
    unsigned& peers = runtime().peers[device];
    require((peers >> peer & 1u) == 0, cudaErrorPeerAccessAlreadyEnabled);
    peers |= 1u << peer;
  });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call("cudaDeviceDisablePeerAccess", [&] {
    const int device = current_device();
    check_device_index(peer);
    const std::lock_guard guard(runtime().mutex);
    unsigned& peers = runtime().peers[device];
    require((peers >> peer & 1u) != 0, cudaErrorPeerAccessNotEnabled);
    peers &= ~(1u << peer);
  });
}

}  // extern "C"
