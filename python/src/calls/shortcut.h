// SPDX-License-Identifier: Apache-2.0
// Small calls that were made before: found by the layouts of their arrays and their other
// arguments, and made again without tensors.
#pragma once

#include <span>

#include "calls/arguments.h"
#include "sow/detail/recipe.h"

namespace sow::python {

// Below this many elements a call ends sooner than another thread could begin.
inline constexpr int64_t kReleaseFrom = 4096;

// Everything but data that a call depends on, as words, and where the data is. What it cannot put
// into words spoils it; then the call is made the long way.
class Fingerprint {
 public:
  static constexpr int kCpu = -1;

  explicit Fingerprint(const char* op) { add(reinterpret_cast<int64_t>(op)); }

  bool good() const { return good_; }
  void spoil() { good_ = false; }
  // Its library must see the array that spoiled it.
  bool recorded() const { return recorded_; }
  void spoil_recorded() { good_ = false, recorded_ = true; }
  int arrays() const { return arrays_; }
  int device() const { return device_; }  // of the first array
  void* const* memory() const { return memory_; }
  std::span<const int64_t> words() const { return {words_, static_cast<size_t>(count_)}; }
  uint64_t hash() const;

  void add(int64_t word) {
    if (count_ == kMostWords) return spoil();
    words_[count_++] = word;
  }
  // `header` holds all that is left of a layout, `device` the number of a GPU.
  void add_layout(int64_t header, int rank, const int64_t* shape, const int64_t* strides,
                  void* data, int device = kCpu) {
    if (count_ + 2 * rank + 1 > kMostWords || arrays_ == kMostArrays) return spoil();
    if (arrays_ == 0) device_ = device;
    words_[count_++] = header;
    for (int i = 0; i < rank; ++i) {
      if (shape[i] >= kReleaseFrom) return spoil();
      words_[count_++] = shape[i];
      words_[count_++] = strides[i];
    }
    memory_[arrays_++] = data;
  }
  // Of a result that is new.
  void add_memory(void* data) { memory_[arrays_] = data; }

 private:
  static constexpr int kMostWords = 40, kMostArrays = 5;

  bool good_ = true, recorded_ = false;
  int count_ = 0, arrays_ = 0, device_ = kCpu;
  int64_t words_[kMostWords];
  void* memory_[kMostArrays + 1];
};

// One a kind of array: numpy.cc, dlpack.cc.
void add_numpy(nb::handle object, Fingerprint& print);
void add_dlpack(nb::handle object, const TypeInfo& info, Fingerprint& print);

// A new array for a result, whose memory goes into the fingerprint.
nb::object new_numpy(DType dtype, const Dims& shape, Fingerprint& print);

// One call on its way to a recipe.
class Shortcut {
 public:
  template <class... P>
  Shortcut(const char* op, nb::handle object, const TypeInfo& info, P... p)
      : print_(op), info_(info) {
    array(object, info);
    (add(p), ...);
  }

  // The library that must see this call because one of its arrays is recorded; else Kind::other.
  Kind framework() const { return framework_; }

  // Makes the call if one like it was made before: then what it returns, else null.
  nb::object run(nb::handle object);

  // Makes the call the long way and, where calls like it come again, remembers how.
  template <class F, class... Parts>
  Tensor watch(const Tensor& x, const std::tuple<Parts...>& parts, F&& call) {
    if (new_text_) return learn_text(call());
    if (!print_.good() || hash_ == 0 || !is_seen_again()) return call();
    std::vector<Tensor> arrays{x};
    const auto collect_all = [&](const auto&... value) { (collect(value, arrays), ...); };
    std::apply([&](const auto&... part) { (std::apply(collect_all, part), ...); }, parts);
    return keep(arrays, call);
  }

 private:
  void array(nb::handle object, const TypeInfo& info);
  void array(nb::handle object) { array(object, info_of(object)); }

  void add(ArrayArg a) { array(a.object); }
  void add(KeysArg a) { array(a.object); }
  void add(ValuesArg a);
  void add(KeysListArg a);
  void add(MaybeArrayArg a) {
    if (!a.object.is_none()) array(a.object);
    print_.spoil();
  }
  void add(ReduceArg a) { text(a.object); }
  void add(MaybeReduceArg a) { text(a.object); }
  void add(NumberArg a) { number(a.object); }
  void add(BoundsArg a) { text(a.object); }
  void add(AxisArg a) {
    int overflow = 1;
    const bool exact = PyLong_CheckExact(a.object.ptr());
    const long axis = exact ? PyLong_AsLongAndOverflow(a.object.ptr(), &overflow) : 0;
    if (overflow != 0) return print_.spoil();
    print_.add(axis);
  }
  void add(int64_t a) { print_.add(a); }
  void add(bool a) { print_.add(a ? 1 : 0); }
  template <class T>
  void add(T a) {
    // A name is for programs; ends of slices and shapes may be anything.
    if constexpr (requires { a.object; }) {
      if (a.object.is_none()) return print_.add(0);
    }
    print_.spoil();
  }
  void text(nb::handle object);
  bool number(nb::handle object);

  static void collect(const Tensor& tensor, std::vector<Tensor>& out) { out.push_back(tensor); }
  static void collect(const Index& index, std::vector<Tensor>& out) { out.push_back(index.keys()); }
  static void collect(const Source& source, std::vector<Tensor>& out) {
    if (source.is_tensor()) out.push_back(source.tensor());
  }
  static void collect(const std::vector<Index>& all, std::vector<Tensor>& out) {
    for (const Index& index : all) collect(index, out);
  }
  template <class T>
  static void collect(const T&, std::vector<Tensor>&) {}

  nb::object in_place(Recipe& recipe, nb::handle object);
  nb::object fresh(Recipe& recipe, nb::handle object);
  // A text that a call was made with is one of a few names.
  Tensor learn_text(Tensor result);
  bool is_seen_again() const;
  Tensor keep(const std::vector<Tensor>& arrays, const std::function<Tensor()>& call);

  Fingerprint print_;
  const TypeInfo& info_;  // of the destination
  nb::handle new_text_;
  Kind framework_ = Kind::other;
  uint64_t hash_ = 0;  // until it was looked for
};

}  // namespace sow::python
