// Operators that split an array along one axis.
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/rearrange.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/shape/rearrange.h"

namespace heddle {

using namespace operators_detail;

namespace {

int checked_axis(const char* op, const NDArray& x, int axis) {
  check_arrays(op, {&x});
  return ndarray_detail::axis_of(op, axis, x.shape());
}

std::vector<NDArray> parts_of_size(const NDArray& x, std::int64_t size, std::int64_t count, int axis) {
  std::vector<NDArray> parts;
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(x.slice(axis, {i * size, (i + 1) * size}));
  return parts;
}

}  // namespace

std::vector<NDArray> operators_detail::split_equally(const NDArray& x, std::int64_t sections, int given,
                                                     Where where) {
  const CallSite site(where);
  const int axis = checked_axis("split", x, given);
  const std::int64_t size = x.shape()[axis];
  if (sections < 1 || size % sections != 0) {
    throw InvalidArgument("split: axis " + std::to_string(given) + " of shape " + x.shape().to_string() +
                          " has no " + std::to_string(sections) + " equal parts");
  }
  return parts_of_size(x, size / sections, sections, axis);
}

std::vector<NDArray> split(const NDArray& x, const std::vector<std::int64_t>& indices, int given,
                           Where where) {
  const CallSite site(where);
  const int axis = checked_axis("split", x, given);
  std::vector<NDArray> parts;
  std::int64_t begin = 0;
  for (const std::int64_t end : indices) {
    parts.push_back(x.slice(axis, {begin, end}));
    begin = end;
  }
  parts.push_back(x.slice(axis, {.begin = begin}));
  return parts;
}

std::vector<NDArray> chunk(const NDArray& x, std::int64_t chunks, int given, Where where) {
  const CallSite site(where);
  const int axis = checked_axis("chunk", x, given);
  if (chunks < 1) {
    throw InvalidArgument("chunk: chunks is " + std::to_string(chunks) + "; wanted 1 or more");
  }
  const std::int64_t length = x.shape()[axis], size = length / chunks + (length % chunks != 0);
  return parts_of_size(x, size, size == 0 ? chunks : (length + size - 1) / size, axis);
}

std::vector<NDArray> unstack(const NDArray& x, int given, Where where) {
  const CallSite site(where);
  const int axis = checked_axis("unstack", x, given);
  const NDArray first = moveaxis(x, {axis}, {0});
  std::vector<NDArray> entries;
  for (std::int64_t i = 0; i < x.shape()[axis]; ++i) entries.push_back(first[i]);
  return entries;
}

std::optional<std::int64_t> operators_detail::count_in(const Operand& value) {
  const bool whole = !value.is_array && value.scalar.is_integral() && !value.scalar.is_boolean();
  return whole ? std::optional(value.scalar.as<std::int64_t>()) : std::nullopt;
}

std::vector<std::int64_t> operators_detail::integers_in(const char* op, const char* argument,
                                                        const Operand& value) {
  const auto refuse = [&](const std::string& given) {
    throw InvalidArgument(std::string(op) + ": " + argument + " is " + given +
                          "; wanted an int or a list of ints");
  };
  if (!value.is_array) refuse("a float or a bool");
  const NDArray array = value.array;
  check_arrays(op, {&array});
  const DType dtype = array.dtype();
  // An empty list [] is accepted whatever its dtype, since it has no ints that define a dtype.
  if (array.ndim() == 1 && array.size() == 0) return {};
  if (is_floating(dtype) || dtype == DType::boolean || array.ndim() > 1)
    refuse(std::string("an array ") + name_of(dtype) + array.shape().to_string());
  return array.detach().astype(DType::i64).to_vector<std::int64_t>();
}

HEDDLE_OPERATORS(split) {
  table.family("Shapes, joining and copies");
  const Argument axis = {"axis", 0};
  const char* same = "that of x";
  table.add("split",
            +[](const NDArray& x, const Operand& at, int along, Where where) {
              const CallSite site(where);
              if (const auto sections = count_in(at)) return split(x, *sections, along, where);
              return split(x, integers_in("split", "indices_or_sections", at), along, where);
            },
            {"So many equal parts along `axis`, or the parts between the indices, for which the call waits. "
             "Views.",
             {"x", {"indices_or_sections", DTypes::integers}, axis},
             same,
             kDifferentiable});
  table.add("chunk", chunk,
            {"Parts of one size along `axis`, the last of which may be smaller; `chunks` of them or fewer. "
             "Views.",
             {"x", "chunks", axis},
             same,
             kDifferentiable});
  table.add("unstack", unstack,
            {"The entries along `axis`, without it. Views.", {"x", axis}, same, kDifferentiable});
}

}  // namespace heddle
