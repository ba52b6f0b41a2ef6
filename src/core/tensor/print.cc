// SPDX-License-Identifier: Apache-2.0
// Printing a tensor the way NumPy does: aligned columns, long axes shortened in the middle.
#include <cmath>

#include "core/digits.h"
#include "core/dtype_switch.h"
#include "core/fail.h"
#include "core/tensor/tensor_impl.h"
#include "sow/ops.h"

namespace sow {

namespace {

// NumPy's defaults: arrays above 1000 elements show 3 at each end of every axis, lines have 75
// characters, floats 8 digits.
constexpr int64_t kSummarize = 1000;
constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 75;
constexpr int kPrecision = 8;

using detail::fixed;
using detail::parse;

// How a set of reals is written; NumPy looks at all shown values together.
struct RealFormat {
  bool scientific = false;
  int digits = 0;   // after the point: the most any value needs
  size_t left = 0;  // characters before the point
  size_t exponent_digits = 2;
  bool plus = false;

  // The fewest digits that read back as the same T, at most NumPy's precision.
  template <class T>
  int digits_of(T value) const {
    const double d = static_cast<double>(value);
    for (int n = 0; n < kPrecision; ++n) {
      const std::string text = scientific ? detail::scientific(d, n) : fixed(d, n);
      if (static_cast<double>(static_cast<T>(parse(text))) == d) return n;
    }
    return kPrecision;
  }

  template <class T>
  void look_at(const std::vector<T>& values) {
    double largest = 0, smallest = INFINITY;
    for (const T& v : values) {
      const double magnitude = std::abs(static_cast<double>(v));
      if (!std::isfinite(magnitude) || magnitude == 0) continue;
      largest = std::max(largest, magnitude);
      smallest = std::min(smallest, magnitude);
    }
    scientific = largest != 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000.);
    for (const T& v : values) {
      const double d = static_cast<double>(v);
      if (!std::isfinite(d)) continue;
      digits = std::max(digits, digits_of(v));
      const std::string text = detail::scientific(d, 6);
      exponent_digits = std::max(exponent_digits, text.size() - text.find('e') - 2);
    }
    for (const T& v : values) {
      const double d = static_cast<double>(v);
      const std::string text = bare(v);
      const size_t width = std::isfinite(d) ? text.find('.') : text.size();
      // "nan" and "inf" may reach over the point and its digits.
      const size_t beyond = std::isfinite(d) || scientific ? 0 : static_cast<size_t>(digits) + 1;
      left = std::max(left, width > beyond ? width - beyond : 0);
    }
  }

  // Without padding: "1.", "2.25", "-inf", "1.50e+10".
  template <class T>
  std::string bare(T value) const {
    const double d = static_cast<double>(value);
    const char* sign = plus && !std::signbit(d) ? "+" : "";
    if (std::isnan(d)) return plus ? "+nan" : "nan";
    if (std::isinf(d)) return d < 0 ? "-inf" : std::string(sign) + "inf";
    if (scientific) {
      std::string text = sign + detail::scientific(d, digits);
      if (digits == 0) text.insert(text.find('e'), ".");
      const size_t exponent = text.find('e') + 2;
      return text.insert(exponent, exponent_digits - (text.size() - exponent), '0');
    }
    const int own = digits_of(value);
    return sign + fixed(d, own) + (own == 0 ? "." : "");
  }

  // Padded so that points stand below each other.
  template <class T>
  std::string write(T value, const char* suffix = "") const {
    std::string text = bare(value);
    if (scientific) return text + suffix;
    const size_t total = left + 1 + static_cast<size_t>(digits);
    if (!std::isfinite(static_cast<double>(value))) {
      return text.insert(0, total - std::min(total, text.size()), ' ') + suffix;
    }
    const size_t point = text.find('.');
    text = std::string(left - point, ' ') + text + suffix;
    text.resize(std::max(text.size(), total + (*suffix ? 1 : 0)), ' ');
    return text;
  }
};

template <class T>
std::vector<std::string> write_all(const std::vector<T>& values) {
  std::vector<std::string> texts;
  RealFormat format;
  if constexpr (!std::is_integral_v<T>) format.look_at(values);
  for (const T& v : values) {
    if constexpr (std::is_same_v<T, bool>)
      texts.push_back(v ? "True" : "False");
    else if constexpr (std::is_integral_v<T>)
      texts.push_back(std::to_string(v));
    else
      texts.push_back(format.write(v));
  }
  return texts;
}

template <class R>
std::vector<std::string> write_all(const std::vector<std::complex<R>>& values) {
  std::vector<R> re, im;
  for (const auto& v : values) {
    re.push_back(v.real());
    im.push_back(v.imag());
  }
  RealFormat real_format, imag_format;
  imag_format.plus = true;
  real_format.look_at(re);
  imag_format.look_at(im);
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    texts.push_back(real_format.write(re[i]) + imag_format.write(im[i], "j"));
  }
  return texts;
}

// From where on NumPy writes a number that stands alone with an exponent.
template <class T>
constexpr double kExponentFrom = 1e6;
template <>
constexpr double kExponentFrom<double> = 1e16;
template <>
constexpr double kExponentFrom<float16> = 1e3;

// A number that stands alone: the fewest digits that read back, "2.5", "3.0", "1e+20".
template <class T>
std::string write_alone(T value, const char* whole_suffix) {
  const double d = static_cast<double>(value);
  if (!std::isfinite(d)) return detail::shortest(d);
  std::string text;
  for (int n = 0; n <= 16; ++n) {
    text = detail::scientific(d, n);
    if (static_cast<double>(static_cast<T>(parse(text))) == d) break;
  }
  const double magnitude = std::abs(d);
  const bool exponent = d != 0 && (magnitude < 1e-4 || magnitude >= kExponentFrom<T>);
  return exponent ? text : detail::without_exponent(text, whole_suffix);
}

template <class R>
std::string write_alone(std::complex<R> value, const char*) {
  const std::string imag = write_alone(value.imag(), "");
  if (value.real() == 0 && !std::signbit(value.real())) return imag + "j";
  const char* plus = imag[0] == '-' ? "" : "+";
  return "(" + write_alone(value.real(), "") + plus + imag + "j)";
}

// The positions of one axis that are shown; -1 stands for the dots.
std::vector<int64_t> shown(int64_t extent, bool summarize) {
  std::vector<int64_t> positions;
  const bool cut = summarize && extent > 2 * kEdge;
  for (int64_t i = 0; i < extent; ++i) {
    if (cut && i == kEdge) {
      positions.push_back(-1);
      i = extent - kEdge;
    }
    positions.push_back(i);
  }
  return positions;
}

struct Printer {
  const Tensor& tensor;
  bool summarize;
  std::vector<Tensor> leaves = {};  // 0-d views of what is shown, in order
  std::vector<std::string> texts = {};
  size_t next = 0;

  void collect(const Tensor& t) {
    if (t.dim() == 0) return leaves.push_back(t);
    for (int64_t i : shown(t.size(0), summarize)) {
      if (i >= 0) collect(t.select(0, i));
    }
  }

  void format_leaves() {
    detail::with_dtype(tensor.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::vector<T> values;
      for (const Tensor& leaf : leaves) values.push_back(leaf.item<T>());
      if constexpr (!std::is_integral_v<T>) {
        if (tensor.dim() == 0) return texts.push_back(write_alone(values[0], ".0"));
      }
      texts = write_all(values);
    });
    size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    for (std::string& text : texts) text = std::string(width - text.size(), ' ') + text;
  }

  std::string line(int64_t extent, size_t indent) {
    std::string out = "[";
    size_t column = indent + 1;
    bool first = true;
    for (int64_t i : shown(extent, summarize)) {
      const std::string word = i < 0 ? "..." : texts[next++];
      // One character stays free for the closing bracket.
      if (!first && column + 1 + word.size() + 1 > kLineWidth) {
        out.erase(out.find_last_not_of(' ') + 1);
        out += '\n';
        out.append(indent + 1, ' ');
        column = indent + 1;
      } else if (!first) {
        out += " ";
        ++column;
      }
      out += word;
      column += word.size();
      first = false;
    }
    return out + "]";
  }

  std::string block(int axis, size_t indent) {
    const int rank = tensor.dim();
    const int64_t extent = tensor.shape()[axis];
    if (axis == rank - 1) return line(extent, indent);
    std::string out = "[";
    bool first = true;
    for (int64_t i : shown(extent, summarize)) {
      if (!first) out += std::string(rank - 1 - axis, '\n') + std::string(indent + 1, ' ');
      out += i < 0 ? "..." : block(axis + 1, indent + 1);
      first = false;
    }
    return out + "]";
  }
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "undefined";
  if (impl()->symbolic != nullptr) {
    return std::string("symbolic ") + name_of(dtype()) + " " + sow::to_string(shape());
  }
  if (numel() == 0) return "[]";
  Printer printer{*this, numel() > kSummarize};
  printer.collect(*this);
  printer.format_leaves();
  if (dim() == 0) return printer.texts[0];
  return printer.block(0, 0);
}

}  // namespace sow
