// einsum: sums of products in Einstein's notation.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/products.h>
#include <heddle/shape_ops.h>

#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/products/contraction.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The label of an axis is its letter. The labels from kEllipsis on are the axes of "...", the last axis
// first.
constexpr int kEllipsis = 128;
constexpr int kLabels = kEllipsis + kMaxDims;

[[noreturn]] void refuse(const std::string& equation, const std::string& what) {
  throw InvalidArgument("einsum: '" + equation + "': " + what);
}

std::string name_of_label(int label) {
  return label < kEllipsis ? std::string("'") + static_cast<char>(label) + "'" : "'...'";
}

// The letters of one operand or of the result; `ellipsis` is how many precede "...", -1 if there is none.
struct Subscript {
  std::string letters;
  int ellipsis = -1;
};

struct Equation {
  std::vector<Subscript> operands;
  Subscript result;
  bool explicit_result = false;
};

Subscript parsed(const std::string& equation, std::string_view text) {
  Subscript subscript;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "...") {
      if (subscript.ellipsis >= 0) refuse(equation, "two '...' in '" + std::string(text) + "'");
      subscript.ellipsis = static_cast<int>(subscript.letters.size());
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) &&
               static_cast<unsigned char>(text[i]) < 128) {
      subscript.letters += text[i];
    } else {
      refuse(equation, std::string("'") + text[i] + "' is no letter, ',', '...' or '->'");
    }
  }
  return subscript;
}

Equation parsed(const std::string& equation) {
  std::string text = equation;
  std::erase(text, ' ');
  Equation result;
  const std::size_t arrow = text.find("->");
  result.explicit_result = arrow != std::string::npos;
  if (result.explicit_result) {
    result.result = parsed(equation, std::string_view(text).substr(arrow + 2));
    text.resize(arrow);
  }
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    result.operands.push_back(parsed(equation, rest.substr(0, comma)));
    if (comma == std::string_view::npos) return result;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<int> labels_of(const Subscript& subscript, int broadcast) {
  std::vector<int> labels(subscript.letters.begin(), subscript.letters.end());
  if (subscript.ellipsis < 0) return labels;
  std::vector<int> dots;
  for (int i = broadcast - 1; i >= 0; --i) dots.push_back(kEllipsis + i);
  labels.insert(labels.begin() + subscript.ellipsis, dots.begin(), dots.end());
  return labels;
}

// x with one axis for each label: axes that share a label become their diagonal.
Labelled diagonal(const std::string& equation, const NDArray& given, const std::vector<int>& labels) {
  std::vector<int> once;
  for (int label : labels) {
    if (std::find(once.begin(), once.end(), label) == once.end()) once.push_back(label);
  }
  if (once.size() == labels.size()) return {given, labels};
  const NDArray x = given.overlaps_itself() ? given.copy() : given;
  Shape shape = Dims::filled(static_cast<int>(once.size()), -1);
  Strides strides = Dims::filled(static_cast<int>(once.size()), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto at = static_cast<int>(std::find(once.begin(), once.end(), labels[i]) - once.begin());
    const std::int64_t size = x.shape()[static_cast<int>(i)];
    if (shape[at] >= 0 && shape[at] != size) {
      refuse(equation, name_of_label(labels[i]) + " stands for axes of " + std::to_string(shape[at]) +
                           " and " + std::to_string(size) + " in one operand, of shape " +
                           x.shape().to_string());
    }
    shape[at] = size;
    strides[at] += x.strides()[static_cast<int>(i)];
  }
  return {x.view(shape, strides, x.offset()), once};
}

int broadcast_axes(const std::string& equation, const Subscript& subscript, const Shape& shape) {
  const int letters = static_cast<int>(subscript.letters.size());
  if (subscript.ellipsis < 0 ? letters != shape.size() : letters > shape.size()) {
    refuse(equation, "'" + subscript.letters + "' has " + std::to_string(letters) +
                         " letters for an operand of shape " + shape.to_string());
  }
  return subscript.ellipsis < 0 ? 0 : shape.size() - letters;
}

std::vector<Labelled> labelled(const std::string& equation, const Equation& parts,
                               const std::vector<NDArray>& operands) {
  std::vector<Labelled> terms;
  std::array<std::int64_t, kLabels> sizes;
  sizes.fill(1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const int broadcast = broadcast_axes(equation, parts.operands[i], operands[i].shape());
    terms.push_back(diagonal(equation, operands[i], labels_of(parts.operands[i], broadcast)));
    for (std::size_t axis = 0; axis < terms[i].labels.size(); ++axis) {
      const int label = terms[i].labels[axis];
      std::int64_t& known = sizes[static_cast<std::size_t>(label)];
      const std::int64_t size = terms[i].array.shape()[static_cast<int>(axis)];
      if (known != 1 && size != 1 && size != known) {
        refuse(equation, name_of_label(label) + " has size " + std::to_string(known) + " and, in operand " +
                             std::to_string(i) + ", size " + std::to_string(size));
      }
      if (size != 1) known = size;
    }
  }
  return terms;
}

// The labels of the result's axes, in order.
std::vector<int> result_labels(const std::string& equation, const Equation& parts,
                               const std::vector<Labelled>& terms) {
  std::array<int, kLabels> count{};
  int broadcast = 0;
  for (const Labelled& term : terms) {
    for (int label : term.labels) {
      ++count[static_cast<std::size_t>(label)];
      broadcast = std::max(broadcast, label - kEllipsis + 1);
    }
  }
  if (!parts.explicit_result) {
    Subscript implicit{"", 0};
    std::string all;
    for (const Subscript& operand : parts.operands) all += operand.letters;
    std::sort(all.begin(), all.end());
    for (char letter : all) {
      if (std::count(all.begin(), all.end(), letter) == 1) implicit.letters += letter;
    }
    return labels_of(implicit, broadcast);
  }
  if (broadcast > 0 && parts.result.ellipsis < 0) refuse(equation, "the result lacks '...'");
  const std::vector<int> labels = labels_of(parts.result, broadcast);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!count[static_cast<std::size_t>(labels[i])])
      refuse(equation, "no operand has the result's " + name_of_label(labels[i]));
    if (std::find(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i), labels[i]) !=
        labels.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(equation, "the result has " + name_of_label(labels[i]) + " twice");
  }
  return labels;
}

bool has(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Whether a label is still needed after terms[first] and terms[second] are multiplied.
bool needed(const std::vector<Labelled>& terms, std::size_t first, std::size_t second,
            const std::vector<int>& result, int label) {
  if (has(result, label)) return true;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i != first && i != second && has(terms[i].labels, label)) return true;
  }
  return false;
}

struct TermPair {
  std::size_t first = 0, second = 1;
};

// The pair whose product adds the fewest elements to those of its operands; among equals, the pair with the
// fewest multiplications.
TermPair cheapest_pair(const std::vector<Labelled>& terms, const std::vector<int>& result) {
  TermPair best;
  double least = 0, work = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t j = i + 1; j < terms.size(); ++j) {
      std::array<double, kLabels> sizes;
      sizes.fill(-1);
      for (const std::size_t k : {i, j}) {
        for (std::size_t axis = 0; axis < terms[k].labels.size(); ++axis) {
          double& size = sizes[static_cast<std::size_t>(terms[k].labels[axis])];
          size = std::max(size, static_cast<double>(terms[k].array.shape()[static_cast<int>(axis)]));
        }
      }
      double stored = 1, products = 1;
      for (int label = 0; label < kLabels; ++label) {
        const double size = sizes[static_cast<std::size_t>(label)];
        if (size < 0) continue;
        products *= size;
        if (needed(terms, i, j, result, label)) stored *= size;
      }
      stored -= static_cast<double>(terms[i].array.size()) + static_cast<double>(terms[j].array.size());
      const bool first_pair = i == 0 && j == 1;
      if (!first_pair && !(stored < least || (stored == least && products < work))) continue;
      best = {i, j};
      least = stored;
      work = products;
    }
  }
  return best;
}

NDArray product_of(std::vector<Labelled> terms, const std::vector<int>& result) {
  while (terms.size() > 1) {
    const auto [first, second] = terms.size() == 2 ? TermPair{} : cheapest_pair(terms, result);
    Labelled product = contract(terms[first], terms[second], [&, i = first, j = second](int label) {
      return needed(terms, i, j, result, label);
    });
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(second));
    terms[first] = std::move(product);
  }
  const Labelled last = summed(terms[0], [&](int label) { return has(result, label); });
  Dims axes;
  for (int label : result) {
    axes.push_back(
        static_cast<int>(std::find(last.labels.begin(), last.labels.end(), label) - last.labels.begin()));
  }
  return last.labels == result ? last.array : transpose(last.array, axes);
}

}  // namespace

NDArray einsum(const std::string& equation, const std::vector<NDArray>& operands, Where at) {
  const CallSite site(at);
  check_arrays("einsum", operands);
  const Equation parts = parsed(equation);
  if (parts.operands.size() != operands.size() || operands.empty()) {
    refuse(equation,
           std::to_string(operands.size()) + " operands; wanted " + std::to_string(parts.operands.size()));
  }
  const DType dtype = product_dtype(operands);
  std::vector<NDArray> converted;
  for (const NDArray& operand : operands)
    converted.push_back(cast(operand, is_half(dtype) ? DType::f32 : dtype));
  const std::vector<Labelled> terms = labelled(equation, parts, converted);
  const std::vector<int> result = result_labels(equation, parts, terms);
  if (result.size() > static_cast<std::size_t>(kMaxDims)) {
    refuse(equation,
           "the result has " + std::to_string(result.size()) + " axes; at most " + std::to_string(kMaxDims));
  }
  return cast(product_of(terms, result), dtype);
}

HEDDLE_OPERATORS(einsum) {
  table.family("Products");
  table.add("einsum", einsum,
            {"The sum of products that the equation names, such as 'ij,jk->ik' or '...ij->...ji'. A view of "
             "an operand alone "
             "of which nothing is summed.",
             {"equation", "operands"},
             "common",
             kDifferentiable});
}

}  // namespace heddle
