// Memory of a device and streams for tests.
#pragma once

#include <cuda_runtime_api.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace heddle::test {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

class TestStream {
 public:
  TestStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class T> class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    // The copy of pageable memory may still be under way, and non-blocking streams do not wait for it.
    check(cudaStreamSynchronize(nullptr));
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  // Waits for the stream.
  std::vector<T> values(const TestStream& stream) const {
    stream.wait();
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// An array of pinned memory.
template <class T> class InPinned {
 public:
  explicit InPinned(std::size_t count) : count_(count) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, count * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  ~InPinned() { cudaFreeHost(data_); }
  InPinned(const InPinned&) = delete;
  InPinned& operator=(const InPinned&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

}  // namespace heddle::test
