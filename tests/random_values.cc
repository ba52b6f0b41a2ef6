// SPDX-License-Identifier: Apache-2.0
// Random elements, built from their bits so that the arithmetic under test has no part in them.
#include "random_values.h"

#include <cstring>

namespace sow::test {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};

uint64_t join(Format format, bool negative, uint64_t biased, uint64_t mantissa) {
  const int width = format.exponent_bits + format.mantissa_bits;
  return (static_cast<uint64_t>(negative) << width) | (biased << format.mantissa_bits) | mantissa;
}

uint64_t small_integer(Draw& draw, Format format) {
  const int64_t value = draw.between(-4, 4);
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  if (magnitude == 0) return join(format, draw.chance(20), 0, 0);
  const int log = magnitude >= 4 ? 2 : magnitude >= 2 ? 1 : 0;
  const uint64_t bias = (uint64_t{1} << (format.exponent_bits - 1)) - 1;
  const uint64_t rest = magnitude - (uint64_t{1} << log);
  return join(format, value < 0, bias + log, rest << (format.mantissa_bits - log));
}

uint64_t special(Draw& draw, Format format) {
  const uint64_t all = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t top = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t payload = draw.bits() & top;
  const bool negative = draw.chance(50);
  switch (draw.between(0, 7)) {
    case 0:
      return join(format, negative, 0, 0);
    case 1:
      return join(format, true, 0, 0);
    case 2:
      return join(format, negative, all, 0);
    case 3:
      return join(format, negative, all, payload == 0 ? 1 : payload);
    case 4:
      return join(format, negative, all - 1, top);
    case 5:
      return join(format, negative, 0, 1);
    case 6:
      return join(format, negative, 1, 0);
    default:
      return join(format, negative, all / 2, 0);
  }
}

uint64_t float_bits(Draw& draw, Format format, ValueKind kind) {
  const uint64_t top = (uint64_t{1} << format.mantissa_bits) - 1;
  const int64_t last = (int64_t{1} << format.exponent_bits) - 2;  // of the finite ones
  const uint64_t bits = draw.bits();
  const bool negative = bits >> 63;
  switch (kind) {
    case ValueKind::bits:
      return bits & join(format, true, static_cast<uint64_t>(last) + 1, top);
    case ValueKind::small:
      return small_integer(draw, format);
    case ValueKind::wide:
      return join(format, negative, draw.between(0, last), bits & top);
    case ValueKind::special:
      return special(draw, format);
    case ValueKind::near_one:
      return join(format, negative, draw.between(last / 2 - 2, last / 2 + 1), bits & top);
    case ValueKind::ties: {  // powers of two a mantissa apart, and their neighbours
      const int64_t exponent = last / 2 + (format.mantissa_bits + 1) * draw.between(-1, 1);
      const int64_t biased = exponent < 0 ? 0 : exponent > last ? last : exponent;
      return join(format, negative, biased, draw.chance(70) ? 0 : bits & 1);
    }
    case ValueKind::subnormal:
      return join(format, negative, 0, bits & top);
    default:
      return draw.chance(2)   ? special(draw, format)
             : draw.chance(5) ? float_bits(draw, format, ValueKind::wide)
                              : float_bits(draw, format, ValueKind::near_one);
  }
}

uint64_t element_bits(Draw& draw, DType dtype, ValueKind kind) {
  switch (dtype) {
    case DType::bool_:  // any nonzero byte is true
      return kind == ValueKind::bits ? draw.bits() : draw.between(0, 1);
    case DType::float16:
      return float_bits(draw, {5, 10}, kind);
    case DType::bfloat16:
      return float_bits(draw, {8, 7}, kind);
    case DType::float32:
    case DType::complex64:
      return float_bits(draw, {8, 23}, kind);
    case DType::float64:
    case DType::complex128:
      return float_bits(draw, {11, 52}, kind);
    default:
      return kind == ValueKind::small || kind == ValueKind::ties
                 ? static_cast<uint64_t>(draw.between(-3, 5))
                 : draw.bits();
  }
}

}  // namespace

void fill_random(Draw& draw, DType dtype, ValueKind kind, int64_t count, void* out) {
  const int parts = is_complex(dtype) ? 2 : 1;
  const size_t bytes = size_of(dtype) / parts;
  char* at = static_cast<char*>(out);
  for (int64_t i = 0; i < count * parts; ++i, at += bytes) {
    const uint64_t bits = element_bits(draw, dtype, kind);
    std::memcpy(at, &bits, bytes);
  }
}

ValueKind draw_kind(Draw& draw) { return static_cast<ValueKind>(draw.between(0, kValueKinds - 1)); }

}  // namespace sow::test
