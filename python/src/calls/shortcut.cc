// SPDX-License-Identifier: Apache-2.0
// The table of recipes, which the GIL guards.
#include "calls/shortcut.h"

#include <cstring>

#include "calls/dispatch.h"
#include "runtime/streams.h"

namespace sow::python {
namespace {

struct Slot {
  uint64_t seen = 0;  // the last call that went by: the second one alike is remembered
  int count = 0;
  int patience = 0;  // how many more calls alike are made the long way, if there is no recipe
  int64_t words[40];
  Recipe recipe;

  bool is_of(std::span<const int64_t> other) const {
    return count == static_cast<int>(other.size()) &&
           std::memcmp(words, other.data(), other.size_bytes()) == 0;
  }
};

constexpr size_t kSlots = 128;
constexpr int kPatience = 64;

Slot& slot_of(uint64_t hash) {
  static Slot* const slots = new Slot[kSlots];  // stays: calls are made until the very end
  return slots[(hash * 0x9e3779b97f4a7c15u) >> 57];
}
static_assert(kSlots == 128);

// Texts that were met, kept alive so that their addresses stay theirs.
constexpr int kMostTexts = 32;
PyObject* known_texts[kMostTexts];
int known_text_count = 0;

int number_of_text(PyObject* text) {
  for (int i = 0; i < known_text_count; ++i) {
    if (known_texts[i] == text) return i;
  }
  return -1;
}

}  // namespace

uint64_t Fingerprint::hash() const {
  uint64_t mixed = 0;
  for (const int64_t word : words())
    mixed = (mixed << 7 | mixed >> 57) ^ static_cast<uint64_t>(word);
  return mixed | 1;  // 0 is of no call
}

void Shortcut::array(nb::handle object, const TypeInfo& info) {
  if (print_.good()) {
    if (info.kind == Kind::numpy && info.exact) return add_numpy(object, print_);
    if (info.exchange != nullptr) {
      add_dlpack(object, info, print_);
      if (print_.good()) return;
    }
    print_.spoil();
  }
  if (framework_ != Kind::other) return;
  if (print_.recorded() || is_recorded(object, info)) framework_ = info.kind;
}

// False, and the fingerprint is spoiled, unless it is a float or an int of 64 bits.
bool Shortcut::number(nb::handle given) {
  PyObject* object = given.ptr();
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    int64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    print_.add(1);
    print_.add(bits);
    return true;
  }
  int overflow = 1;
  const int64_t value =
      PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
  if (overflow != 0) return print_.spoil(), false;
  print_.add(2);
  print_.add(value);
  return true;
}

void Shortcut::add(ValuesArg a) {
  PyObject* object = a.object.ptr();
  if (PyFloat_CheckExact(object) || PyLong_CheckExact(object)) {
    number(a.object);
  } else {
    array(a.object);
  }
}

void Shortcut::add(KeysListArg a) {
  PyObject* object = a.object.ptr();
  if (PyList_Check(object)) {
    print_.spoil();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) array(PyList_GET_ITEM(object, i));
    return;
  }
  if (!PyTuple_CheckExact(object)) return array(a.object);
  print_.add(PyTuple_GET_SIZE(object));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) array(PyTuple_GET_ITEM(object, i));
}

void Shortcut::text(nb::handle object) {
  const int number = object.is_none() ? kMostTexts : number_of_text(object.ptr());
  if (number < 0) {
    new_text_ = object;
    return print_.spoil();
  }
  print_.add(number);
}

Tensor Shortcut::learn_text(Tensor result) {
  if (known_text_count < kMostTexts && PyUnicode_CheckExact(new_text_.ptr())) {
    known_texts[known_text_count++] = new_text_.inc_ref().ptr();
  }
  return result;
}

nb::object Shortcut::run(nb::handle object) {
  if (!print_.good()) return {};
  hash_ = print_.hash();
  Slot& slot = slot_of(hash_);
  if (!slot.is_of(print_.words())) return {};
  if (!slot.recipe.ready()) {
    if (--slot.patience == 0) slot.count = 0;
    return {};
  }
  std::optional<cuda::StreamGuard> guard;
  if (print_.device() != Fingerprint::kCpu && !stream_is_chosen()) {
    guard.emplace(*library_stream(object, info_, print_.device()), print_.device());
  }
  nb::object result =
      slot.recipe.in_place() ? in_place(slot.recipe, object) : fresh(slot.recipe, object);
  // What the recipe was made for is no more.
  if (!result) slot.count = 0, slot.seen = 0;
  return result;
}

nb::object Shortcut::in_place(Recipe& recipe, nb::handle object) {
  if (!recipe.run(print_.memory())) return {};
  if (info_.kind != Kind::numpy) mark_written(object, info_);
  return nb::borrow(object);
}

nb::object Shortcut::fresh(Recipe& recipe, nb::handle object) {
  if (info_.kind == Kind::numpy) {
    nb::object array = new_numpy(recipe.dtype(), recipe.shape(), print_);
    return recipe.run(print_.memory()) ? std::move(array) : nb::object();
  }
  const Tensor result = Tensor::empty(recipe.shape(), recipe.dtype(), recipe.device());
  print_.add_memory(result.data());
  return recipe.run(print_.memory()) ? from_tensor(result, object, info_) : nb::object();
}

bool Shortcut::is_seen_again() const {
  Slot& slot = slot_of(hash_);
  if (slot.is_of(print_.words())) return false;
  const bool again = slot.seen == hash_;
  slot.seen = hash_;
  return again;
}

Tensor Shortcut::keep(const std::vector<Tensor>& arrays, const std::function<Tensor()>& call) {
  // What was copied on its way in is not where the caller's memory is.
  if (arrays.size() != static_cast<size_t>(print_.arrays())) return call();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].data() != print_.memory()[i]) return call();
  }
  Recipe recipe;
  Tensor result = recipe.watch(arrays, call);
  Slot& slot = slot_of(hash_);
  slot.recipe = std::move(recipe);
  slot.count = static_cast<int>(print_.words().size());
  std::memcpy(slot.words, print_.words().data(), print_.words().size_bytes());
  slot.patience = kPatience;
  return result;
}

}  // namespace sow::python
