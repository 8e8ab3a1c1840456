// Chooses the kernels of a reduction by operator and dtype.
#include "families/reduce/cuda/folds.h"
#include "families/reduce/cuda/reduce.h"
#include "families/reduce/cuda/sum_folds.h"

namespace heddle::cuda_kernels {
namespace {

// f32, and halves, which are loaded as f32.
bool is_single(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; }

bool is_signed(Type type) {
  return type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
}

const char* sum(void* stream, const Reduction& r, ScratchBlocks& scratch, bool squares, Ends ends) {
  const Type type{r.dtype};
  if (is_single(type)) return reduce(stream, FoldSum<float>(squares, ends), r, scratch);
  if (type != Type::f64) return reduce(stream, FoldSum<Word>(), r, scratch);
  if (ends != Ends::total) return reduce(stream, FoldInRange{ends == Ends::root}, r, scratch);
  return reduce(stream, FoldSum<double>(squares, ends), r, scratch);
}

const char* product(void* stream, const Reduction& r, ScratchBlocks& scratch) {
  const Type type{r.dtype};
  if (is_single(type)) return reduce(stream, FoldProduct<float>(), r, scratch);
  if (type == Type::f64) return reduce(stream, FoldProduct<double>(), r, scratch);
  return reduce(stream, FoldProduct<Word>(), r, scratch);
}

template <template <class> class F>
const char* ordered(void* stream, const Reduction& r, ScratchBlocks& scratch, bool largest) {
  const Type type{r.dtype};
  if (is_single(type)) return reduce(stream, F<float>{largest}, r, scratch);
  if (type == Type::f64) return reduce(stream, F<double>{largest}, r, scratch);
  if (is_signed(type)) return reduce(stream, F<long long>{largest}, r, scratch);
  return reduce(stream, F<Word>{largest}, r, scratch);
}

}  // namespace

const char* launch_reduce(void* stream, Fold fold, const Reduction& r, ScratchBlocks& scratch) {
  switch (fold) {
    case Fold::sum:
      return sum(stream, r, scratch, false, Ends::total);
    case Fold::prod:
      return product(stream, r, scratch);
    case Fold::mean:
      return sum(stream, r, scratch, false, Ends::mean);
    case Fold::sum_of_squares:
      return sum(stream, r, scratch, true, Ends::total);
    case Fold::norm:
      return sum(stream, r, scratch, true, Ends::root);
    case Fold::max:
    case Fold::min:
      return ordered<FoldExtreme>(stream, r, scratch, fold == Fold::max);
    case Fold::argmax:
    case Fold::argmin:
      return ordered<FoldPlace>(stream, r, scratch, fold == Fold::argmax);
    case Fold::any:
      return reduce(stream, FoldNonzero{FoldNonzero::any}, r, scratch);
    case Fold::all:
      return reduce(stream, FoldNonzero{FoldNonzero::all}, r, scratch);
    case Fold::count_nonzero:
      return reduce(stream, FoldNonzero{FoldNonzero::count}, r, scratch);
  }
  return "an unknown reduction";
}

const char* launch_mean_of(void* stream, const double* values, long long count, void* mean,
                           unsigned char result, ScratchBlocks& scratch) {
  Reduction r{};
  r.dims = 1;
  r.sizes[0] = count;
  r.x_strides[0] = 1;
  r.reduced[0] = true;
  r.x = values;
  r.y = mean;
  r.dtype = static_cast<unsigned char>(Type::f64);
  r.result = result;
  return launch_reduce(stream, Fold::mean, r, scratch);
}

}  // namespace heddle::cuda_kernels
