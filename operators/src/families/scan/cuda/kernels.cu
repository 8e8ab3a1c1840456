// Scans on a GPU. Where a line is cut, and where a team of threads scans it, sums of floating numbers are joined in an order that is
// not the CPU's; all other results are the CPU's bits.
#include "families/scan/cuda/launch_scan.h"
#include "families/scan/cuda/products.h"

namespace heddle::cuda_kernels {
namespace {

template <template <class> class S>
const char* numbers(void* stream, const ScanLines& lines, ScratchBlocks& scratch) {
  if (Type{lines.dtype} == Type::f32) return scan(stream, S<float>(), lines, scratch);
  if (Type{lines.dtype} == Type::f64) return scan(stream, S<double>(), lines, scratch);
  return scan(stream, S<Word>(), lines, scratch);
}

bool is_f64(const ScanLines& lines) { return Type{lines.dtype} == Type::f64; }

}  // namespace

const char* launch_cumsum(void* stream, const ScanLines& lines, ScratchBlocks& scratch) {
  return numbers<ScanSum>(stream, lines, scratch);
}

const char* launch_cumprod(void* stream, const ScanLines& lines, ScratchBlocks& scratch) {
  return numbers<ScanProduct>(stream, lines, scratch);
}

const char* launch_cumextreme(void* stream, const ScanLines& lines, long long* indices, bool largest,
                              ScratchBlocks& scratch) {
  switch (Type{lines.dtype}) {
    case Type::f32:
      return scan(stream, ScanExtreme<float>{largest, indices}, lines, scratch);
    case Type::f64:
      return scan(stream, ScanExtreme<double>{largest, indices}, lines, scratch);
    case Type::i8:
    case Type::i16:
    case Type::i32:
    case Type::i64:
      return scan(stream, ScanExtreme<long long>{largest, indices}, lines, scratch);
    default:
      return scan(stream, ScanExtreme<Word>{largest, indices}, lines, scratch);
  }
}

const char* launch_cumprod_gradient(void* stream, const ScanLines& lines, const void* g,
                                    ScratchBlocks& scratch) {
  return is_f64(lines) ? cumprod_gradient<double>(stream, lines, g, scratch)
                       : cumprod_gradient<float>(stream, lines, g, scratch);
}

const char* launch_product_of_others(void* stream, const ScanLines& lines, ScratchBlocks& scratch) {
  return is_f64(lines) ? product_of_others<double>(stream, lines, scratch)
                       : product_of_others<float>(stream, lines, scratch);
}

}  // namespace heddle::cuda_kernels
