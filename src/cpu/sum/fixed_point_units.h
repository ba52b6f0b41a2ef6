// SPDX-License-Identifier: Apache-2.0
// Values as whole numbers of a fixed-point scale, in the vectors of one instruction level:
// for_each_level.h compiles what includes this. They become integers by the addition of a power of
// two so large that their digits stand at the end of its own.
namespace sow::detail::SOW_LEVEL {

// The float64 to add so that whole numbers of 2^exponent, below 2^51 of them, are its last digits.
inline double magic_of(int exponent) { return std::ldexp(1.5, 52 + exponent); }

// Of the narrow floats.
template <class T>
struct UnitRange {
  U32 least, reach;
  F64 magic;

  explicit UnitRange(const FixedPointScale& scale)
      : least(all_of<U32>(uint32_t{1} << 31)),  // more than all magnitudes: none is taken
        reach(),
        magic(all_of<F64>(magic_of(scale.exponent))) {
    // From here on all digits of a value are whole numbers of the unit.
    const int first = std::max(scale.exponent + FloatTraits<T>::kDigits - 1 + 127, 1);
    const uint32_t from = static_cast<uint32_t>(first) << 23;
    if (first > 254 || from > scale.limit) return;
    least = all_of<U32>(from);
    reach = all_of<U32>(scale.limit - from);
  }
  // More than `reach` where a value may be beyond the fixed-point scale, or not whole. Zeros are
  // neither, but -0 is.
  SOW_VECTOR U32 distance(U32 bits) const {
    return ((bits & 0x7fffffffu) - least) & (U32)(bits != 0u);
  }
  // What is at `from`, as whole numbers.
  SOW_VECTOR void convert(const T* from, F32 values, int64_t* whole) const {
    F64 wide[2];
    widen(from, values, wide);
    store(whole, (I64)(wide[0] + magic) - (I64)magic);
    store(whole + kLanes64, (I64)(wide[1] + magic) - (I64)magic);
  }
};

}  // namespace sow::detail::SOW_LEVEL
