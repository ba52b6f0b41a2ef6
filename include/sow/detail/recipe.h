// SPDX-License-Identifier: Apache-2.0
// How a call was done, kept for the next one that is like it but for the memory: for bindings to
// other languages, where a small call costs more than its work.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "sow/tensor.h"

namespace sow {

namespace detail {
struct RecipeImpl;  // src/transfer/recipe.cc
}

// Everything but data decides what a call checks and which kernel it runs, so that a call on arrays
// of the same types, shapes and strides, with the same other arguments, is the same kernel on other
// addresses. Whether two calls are alike is for the caller to know.
class SOW_API Recipe {
 public:
  Recipe() noexcept;
  Recipe(Recipe&& other) noexcept;
  Recipe& operator=(Recipe&& other) noexcept;
  ~Recipe();

  // Makes the call, which uses no tensors but `arrays`, and returns what it returns; if the call
  // writes in place, into arrays[0]. Afterwards the recipe is ready, unless data decided how the
  // call was done, or there is no telling whose memory went where.
  Tensor watch(std::span<const Tensor> arrays, const std::function<Tensor()>& call);

  bool ready() const { return impl_ != nullptr; }
  bool in_place() const;
  // Of a result that is new, and row-major.
  DType dtype() const;
  const Dims& shape() const;
  Device device() const;

  // Makes the call on other memory: the first elements of the arrays and, unless it is in place, of
  // the result. Throws what the call would throw. False, with nothing done, where the call has to
  // be made the long way: a destination shares memory with an input, or something else than the
  // arrays is different now (a number of threads; explain). One thread at a time may use a recipe.
  bool run(void* const* memory);

 private:
  std::unique_ptr<detail::RecipeImpl> impl_;
};

}  // namespace sow
