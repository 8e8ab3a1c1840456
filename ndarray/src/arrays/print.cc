// Printing as NumPy does. Follows the rules of numpy.array2string.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include <heddle/print_options.h>

#include "arrays/gpu_copy.h"
#include "arrays/read_now.h"
#include "dtype/convert.h"
#include "dtype/float_text.h"

namespace heddle {

namespace {

thread_local PrintOptions options_here;

std::string padded_left(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// The widest of several integer parts and fractions of numbers "int.frac".
struct Widths {
  std::size_t left = 0, right = 0;
  void add(const std::string& text) {
    const std::size_t point = text.find('.');
    left = std::max(left, point);
    right = std::max(right, text.size() - point - 1);
  }
};

// The format of all floating-point elements of one array, which depends on the largest and the smallest of
// them. T is float or double; halves are printed as floats with shortest digits of their own.
template <class T> class FloatFormat {
 public:
  using Shortest = ndarray_detail::Decimal (*)(T x);

  FloatFormat(const std::vector<T>& values, DType dtype, const PrintOptions& options, Shortest shortest)
      : dtype_(dtype), precision_(options.precision), suppress_(options.suppress), shortest_(shortest) {
    choose_form(values);
    bool any_finite = false, any_other = false, negative_infinity = false;
    for (T x : values) {
      (std::isfinite(x) ? any_finite : any_other) = true;
      negative_infinity |= std::isinf(x) && x < 0;
    }
    if (any_finite) scientific_ ? measure_scientific(values) : measure_plain(values);
    if (any_other) {
      const std::size_t widest = negative_infinity ? 4 : 3;  // "-inf", "nan"
      if (widest > right_ + 1) left_ = std::max(left_, widest - right_ - 1);
    }
  }

  std::string operator()(T x) const {
    if (std::isnan(x)) return padded_left("nan", left_ + right_ + 1);
    if (std::isinf(x)) return padded_left(x < 0 ? "-inf" : "inf", left_ + right_ + 1);
    if (scientific_) {
      const std::string text =
          scientific_text(ndarray_detail::rounded_scientific(x, places_), places_, exponent_digits_);
      return padded_left("", left_ - text.find('.')) + text;
    }
    std::string text = plain(x);
    text.resize(text.find('.') + 1 + right_, ' ');
    return padded_left(text, left_ + right_ + 1);
  }

 private:
  std::string plain(T x) const {
    const ndarray_detail::Decimal decimal = shortest_(x);
    const int places = static_cast<int>(decimal.digits.size()) - decimal.point;
    // A number whose last digit is left of the decimal point is shown with all digits of its integer part.
    if (places < 0) return plain_text(ndarray_detail::rounded_plain(x, 1));
    return plain_text(places <= precision_ ? decimal : ndarray_detail::rounded_plain(x, precision_));
  }

  T in_dtype(T x) const {
    if (dtype_ == DType::f16) return static_cast<T>(Float16(x));
    if (dtype_ == DType::bf16) return static_cast<T>(BFloat16(x));
    return x;
  }

  void choose_form(const std::vector<T>& values) {
    T largest = 0, smallest = std::numeric_limits<T>::infinity();
    for (T x : values) {
      if (!std::isfinite(x) || x == 0) continue;
      largest = std::max(largest, std::abs(x));
      smallest = std::min(smallest, std::abs(x));
    }
    // Numbers are compared in the array's dtype, since the f32 next to 0.0001 is below 0.0001 as a double,
    // but is not printed in scientific form.
    const T least_plain = in_dtype(T(0.0001)), ratio = in_dtype(largest / smallest);
    const bool small = !suppress_ && (smallest < least_plain || ratio > T(1000));
    scientific_ = largest > 0 && (largest >= T(1e8) || small);
  }

  void measure_plain(const std::vector<T>& values) {
    Widths widths;
    for (T x : values) {
      if (std::isfinite(x)) widths.add(plain(x));
    }
    left_ = widths.left;
    right_ = widths.right;
  }

  void measure_scientific(const std::vector<T>& values) {
    Widths widths;
    for (T x : values) {
      if (!std::isfinite(x)) continue;
      ndarray_detail::Decimal decimal = shortest_(x);
      if (static_cast<int>(decimal.digits.size()) > precision_ + 1) {
        decimal = ndarray_detail::rounded_scientific(x, precision_);
        decimal.digits.erase(std::max<std::size_t>(decimal.digits.find_last_not_of('0') + 1, 1));
      }
      const std::string text = scientific_text(decimal, 0, 2);
      const std::size_t e = text.find('e');
      widths.add(text.substr(0, e));
      exponent_digits_ = std::max(exponent_digits_, static_cast<int>(text.size() - e - 2));
    }
    left_ = widths.left;
    places_ = static_cast<int>(widths.right);
    right_ = static_cast<std::size_t>(exponent_digits_ + 2 + places_);
  }

  DType dtype_;
  int precision_;
  bool suppress_;
  Shortest shortest_;
  bool scientific_ = false;
  std::size_t left_ = 0, right_ = 0;  // characters before and behind the decimal point
  int places_ = 0, exponent_digits_ = 2;
};

template <class T> std::string integer_text(T x) { return std::to_string(x); }

// Reads an element from memory: a bool as a byte, because the byte may have any value, a half as a float.
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, ndarray_detail::BoolByte, T>;
template <class T> auto load(const std::byte* at) {
  const Stored<T> value = *reinterpret_cast<const Stored<T>*>(at);
  if constexpr (is_half_type<T>) {
    return static_cast<float>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.bits != 0;
  } else {
    return static_cast<std::conditional_t<std::is_same_v<T, std::uint64_t>, T, std::int64_t>>(value);
  }
}

template <class T> ndarray_detail::Decimal shortest_of(decltype(load<T>(nullptr)) x) {
  return ndarray_detail::shortest(static_cast<T>(x));
}

using ElementText = std::function<std::string(const std::byte*)>;

template <class T>
ElementText make_format(DType dtype, const PrintOptions& options,
                        const std::vector<const std::byte*>& shown) {
  using Value = decltype(load<T>(nullptr));
  std::vector<Value> values(shown.size());
  std::transform(shown.begin(), shown.end(), values.begin(), load<T>);
  if constexpr (std::is_floating_point_v<Value>) {
    return [format = FloatFormat<Value>(values, dtype, options, shortest_of<T>)](const std::byte* at) {
      return format(load<T>(at));
    };
  } else if constexpr (std::is_same_v<T, bool>) {
    return [](const std::byte* at) { return load<bool>(at) ? std::string(" True") : std::string("False"); };
  } else {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const std::size_t width = std::max(integer_text(*least).size(), integer_text(*most).size());
    return [width](const std::byte* at) { return padded_left(integer_text(load<T>(at)), width); };
  }
}

// The text of a single number, as Python's str writes a NumPy scalar.
template <class T> std::string scalar_text(const std::byte* at) {
  const auto x = load<T>(at);
  if constexpr (std::is_same_v<T, bool>) {
    return x ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return integer_text(x);
  } else {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
    const ndarray_detail::Decimal decimal = shortest_of<T>(x);
    if (x == 0 || (std::abs(x) >= 1e-4L && std::abs(x) < 1e16L)) {
      const std::string text = plain_text(decimal);
      return text.back() == '.' ? text + "0" : text;
    }
    std::string text = scientific_text(decimal, 0, 2);
    const std::size_t point = text.find('.');
    if (text[point + 1] == 'e') text.erase(point, 1);
    return text;
  }
}

// Which elements of an array of some shape are shown.
struct Shown {
  Shown(const Shape& of, const PrintOptions& options)
      : shape(of), edge(options.edgeitems), summary(element_count(of) > options.threshold) {}
  bool leaves_out(int axis) const { return summary && shape[axis] > 2 * edge; }
  std::int64_t count(int axis) const { return leaves_out(axis) ? 2 * edge : shape[axis]; }

  Shape shape;
  std::int64_t edge;
  bool summary;
};

// An array of the shown elements alone, on the same device. Axes that leave out most come first, so that little is copied.
NDArray only_shown(const NDArray& array, const Shown& shown) {
  NDArray kept = array.detach();
  const auto left_out = [&](int axis) { return shown.shape[axis] - shown.count(axis); };
  for (int done = 0; done < kept.ndim(); ++done) {
    int axis = 0;
    const auto is_due = [&](int i) { return kept.shape()[i] > shown.count(i); };
    for (int i = 1; i < kept.ndim(); ++i) {
      if (is_due(i) && (!is_due(axis) || left_out(i) > left_out(axis))) axis = i;
    }
    if (!is_due(axis)) break;
    Shape shape = kept.shape();
    shape[axis] = 2 * shown.edge;
    const EngineScope scope(array.engine());
    const NDArray ends(shape, array.dtype(), array.device());
    ends.slice(axis, {.end = shown.edge}).assign(kept.slice(axis, {.end = shown.edge}));
    ends.slice(axis, {.begin = shown.edge}).assign(kept.slice(axis, {.begin = -shown.edge}));
    kept = ends;
  }
  return kept;
}

// Prints one array of the shape that `shown` has. `array` has all its elements, or those that are shown alone.
class Printer {
 public:
  Printer(const NDArray& array, const Shown& shown, const PrintOptions& options)
      : options_(options), shown_(shown), shape_(shown.shape), strides_(array.strides()) {
    dtype_ = array.dtype();
    data_ = array.data<const std::byte>();
    complete_ = array.shape() == shape_;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype_));
    // A stride overflows only for an axis, or an array, along which no step is made.
    for (int axis = 0; axis < strides_.size(); ++axis)
      if (__builtin_mul_overflow(strides_[axis], bytes, &strides_[axis])) strides_[axis] = 0;
  }

  std::string text() {
    if (element_count(shape_) == 0) return "[]";
    if (shape_.empty()) return visit_dtype(dtype_, [this]<class T>() { return scalar_text<T>(data_); });
    std::vector<const std::byte*> shown;
    gather(0, data_, shown);
    format_ = visit_dtype(dtype_, [&]<class T>() { return make_format<T>(dtype_, options_, shown); });
    return axis_text(0, data_, " ", options_.linewidth);
  }

 private:
  // Calls visit(index) for the shown indices of an axis, and gap() where some are left out.
  template <class Visit, class Gap> void each_shown(int axis, const Visit& visit, const Gap& gap) const {
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (shown_.leaves_out(axis) && i == options_.edgeitems) {
        gap();
        i = shape_[axis] - options_.edgeitems;
      }
      visit(i);
    }
  }

  const std::byte* element(int axis, const std::byte* at, std::int64_t i) const {
    const std::int64_t left_out = complete_ || i < options_.edgeitems ? 0 : shape_[axis] - shown_.count(axis);
    return at + (i - left_out) * strides_[axis];
  }

  void gather(int axis, const std::byte* at, std::vector<const std::byte*>& shown) const {
    if (axis == shape_.size()) {
      shown.push_back(at);
      return;
    }
    each_shown(
        axis, [&](std::int64_t i) { gather(axis + 1, element(axis, at, i), shown); }, [] {});
  }

  std::string axis_text(int axis, const std::byte* at, const std::string& indent, std::int64_t width) const {
    std::string text =
        axis + 1 == shape_.size() ? row_text(at, indent, width) : rows_text(axis, at, indent, width);
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string row_text(const std::byte* at, const std::string& indent, std::int64_t width) const {
    const int axis = shape_.size() - 1;
    std::string text, line = indent;
    const auto add = [&](const std::string& word) {
      if (line.size() > indent.size() && std::ssize(line) + std::ssize(word) > width - 1) {
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += word;
    };
    each_shown(
        axis,
        [&](std::int64_t i) {
          add(format_(element(axis, at, i)));
          if (i + 1 < shape_[axis]) line += " ";
        },
        [&] {
          add("...");
          line += " ";
        });
    return text + line;
  }

  std::string rows_text(int axis, const std::byte* at, const std::string& indent, std::int64_t width) const {
    std::string text;
    const std::string gap(static_cast<std::size_t>(shape_.size() - axis - 1), '\n');
    each_shown(
        axis,
        [&](std::int64_t i) {
          text += indent + axis_text(axis + 1, element(axis, at, i), indent + " ", width - 1);
          if (i + 1 < shape_[axis]) text += gap;
        },
        [&] { text += indent + "..." + gap; });
    return text;
  }

  const PrintOptions options_;
  const Shown shown_;
  Shape shape_;
  Strides strides_;  // strides in bytes
  DType dtype_;
  const std::byte* data_;
  bool complete_;
  ElementText format_;
};

}  // namespace

PrintOptions print_options() { return options_here; }

PrintOptions set_print_options(const PrintOptions& options) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least)
      throw InvalidArgument(std::string("set_print_options: ") + name + " is " + std::to_string(value) +
                            "; wanted " + std::to_string(least) + " or more");
  };
  check("precision", options.precision, 0);
  check("threshold", options.threshold, 0);
  check("edgeitems", options.edgeitems, 1);
  check("linewidth", options.linewidth, 1);
  return std::exchange(options_here, options);
}

std::string NDArray::to_string(Where where) const {
  const CallSite site(where);
  if (!defined()) ndarray_detail::refuse_undefined("to_string");
  const Shown shown(shape(), options_here);
  const bool gpu = ndarray_detail::on_gpu(*this);
  const NDArray source = gpu ? ndarray_detail::on_cpu(only_shown(*this, shown)) : detach();
  const auto text = std::make_shared<std::string>();
  ndarray_detail::read_now(source, "to_string", [text, source, shown, options = options_here] {
    *text = Printer(source, shown, options).text();
  });
  return std::move(*text);
}

std::ostream& operator<<(std::ostream& out, const ArrayArgument& x) {
  return out << x.array.to_string(x.where);
}

}  // namespace heddle
