// SPDX-License-Identifier: Apache-2.0
// Recipes: the Transfers of one call, with holes where the addresses of its arrays were.
#include "sow/detail/recipe.h"

#include <new>
#include <optional>
#include <vector>

#include "core/device_table.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/float_state.h"
#include "core/threads/parallel.h"
#include "transfer/plan/plan_cache.h"
#include "transfer/plan/tiles.h"
#include "transfer/recorder.h"

namespace sow {

namespace detail {

namespace {

// Notes the Transfers of a call while they run.
class Notes final : public Watcher {
 public:
  void on_run(const Transfer& transfer, Device at) override {
    if (transfers.empty()) device = at;
    if (transfers.size() == kMost || !(at == device) || transfer.order != nullptr) plain = false;
    if (plain) note(transfer);
  }
  void on_data_read() override { plain = false; }

  std::vector<Transfer> transfers;
  Device device;  // of all of them
  bool plain = true;

 private:
  static constexpr size_t kMost = 2;  // a copy and a scatter into it

  void note(const Transfer& transfer) {
    try {
      transfers.push_back(transfer);
    } catch (const std::bad_alloc&) {
      plain = false;  // the call goes on
    }
  }
};

int threads_now() { return can_run_parallel() ? get_num_threads() : 1; }

struct Extent {  // of an array: where its bytes are, from its first element on
  const char* data;
  ByteRange bytes;

  bool holds(const char* at) const { return at >= data + bytes.first && at < data + bytes.last; }
};

Extent extent_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()),
          byte_range(tensor.shape(), tensor.strides(), size_of(tensor.dtype()))};
}

}  // namespace

struct RecipeImpl {
  struct Hole {
    const char** address;
    int array;
    int64_t offset;
  };
  struct Step {
    Transfer transfer;
    Planned planned;
  };

  std::vector<Step> steps;
  std::vector<Hole> holes;
  std::vector<ByteRange> bytes;  // of the arrays that are inputs and, in place, the destination
  bool in_place = false;
  int threads = 1;
  Device device;
  DType dtype = DType::float32;
  Dims shape;

  bool overlap(void* const* memory) const {
    if (!in_place) return false;
    const auto first = reinterpret_cast<intptr_t>(memory[0]) + bytes[0].first,
               last = reinterpret_cast<intptr_t>(memory[0]) + bytes[0].last;
    for (size_t i = 1; i < bytes.size(); ++i) {
      const auto data = reinterpret_cast<intptr_t>(memory[i]);
      if (data + bytes[i].first < last && first < data + bytes[i].last) return true;
    }
    return false;
  }

  void run() const {
    for (const Step& step : steps) {
      if (!(device == Device{})) {
        device_table(device.type)
            .run_plan(step.transfer, *step.planned.plan.on_device, device.index);
        continue;
      }
      if (!step.planned.plan.strategy->checks_keys) check_indices(step.transfer);
      run_planned(step.transfer, step.planned);
    }
  }
};

namespace {

// Makes holes of the addresses; false where one of them is in no array, or in several.
class Holes {
 public:
  Holes(RecipeImpl& recipe, std::vector<Extent> extents)
      : recipe_(recipe), extents_(std::move(extents)), met_(extents_.size(), false) {}

  bool make(Transfer& transfer) {
    bool good = add(transfer.dst.data) && add(transfer.src.data) && add(transfer.mask.data) &&
                add(transfer.base.data);
    for (IndexOperand& index : transfer.dst_index) good = good && add(index.data);
    for (IndexOperand& index : transfer.src_index) good = good && add(index.data);
    return good;
  }

  // What was read without a Transfer, if only to make one, is not seen: every array has to be.
  bool all_met() const {
    for (const bool met : met_) {
      if (!met) return false;
    }
    return true;
  }

 private:
  template <class C>
  bool add(C*& address) {
    if (address == nullptr) return true;
    int owner = -1;
    for (size_t i = 0; i < extents_.size(); ++i) {
      if (!extents_[i].holds(address)) continue;
      if (owner >= 0) return false;
      owner = static_cast<int>(i);
    }
    if (owner < 0) return false;
    met_[owner] = true;
    recipe_.holes.push_back(
        {const_cast<const char**>(&address), owner, address - extents_[owner].data});
    return true;
  }

  RecipeImpl& recipe_;
  std::vector<Extent> extents_;
  std::vector<bool> met_;
};

std::unique_ptr<RecipeImpl> make_recipe(const Notes& notes, std::span<const Tensor> arrays,
                                        const Tensor& result) {
  if (!notes.plain || notes.transfers.empty() || forced_strategy() != nullptr || is_bounded())
    return nullptr;
  auto recipe = std::make_unique<RecipeImpl>();
  std::vector<Extent> extents;
  for (const Tensor& array : arrays) {
    if (!(array.device() == notes.device)) return nullptr;
    extents.push_back(extent_of(array));
    recipe->bytes.push_back(extents.back().bytes);
  }
  recipe->in_place = result.same_object(arrays[0]);
  recipe->threads = threads_now();
  recipe->device = notes.device;
  recipe->dtype = result.dtype();
  recipe->shape = result.shape();
  if (!recipe->in_place) {
    if (!result.is_contiguous()) return nullptr;
    extents.push_back(extent_of(result));
  }
  Holes holes(*recipe, std::move(extents));
  recipe->steps.resize(notes.transfers.size());
  for (size_t i = 0; i < notes.transfers.size(); ++i) {
    RecipeImpl::Step& step = recipe->steps[i];
    step.transfer = notes.transfers[i];
    step.planned = planned_for(step.transfer, notes.device);
    if (step.planned.canonical.empty || !holes.make(step.transfer)) return nullptr;
  }
  return holes.all_met() ? std::move(recipe) : nullptr;
}

}  // namespace
}  // namespace detail

Recipe::Recipe() noexcept = default;
Recipe::Recipe(Recipe&& other) noexcept = default;
Recipe& Recipe::operator=(Recipe&& other) noexcept = default;
Recipe::~Recipe() = default;

Tensor Recipe::watch(std::span<const Tensor> arrays, const std::function<Tensor()>& call) {
  impl_ = nullptr;
  detail::Notes notes;
  Tensor result;
  {
    const detail::WatchWith guard(&notes);
    result = call();
  }
  const bool plainly =
      detail::current_recorder() == nullptr && detail::current_explanation() == nullptr;
  if (!plainly || arrays.empty()) return result;
  try {
    impl_ = detail::make_recipe(notes, arrays, result);
  } catch (const std::bad_alloc&) {
    // The call is done; without a recipe the next one is only slower.
  }
  return result;
}

bool Recipe::in_place() const { return impl_->in_place; }
DType Recipe::dtype() const { return impl_->dtype; }
const Dims& Recipe::shape() const { return impl_->shape; }
Device Recipe::device() const { return impl_->device; }

bool Recipe::run(void* const* memory) {
  using namespace detail;
  RecipeImpl& recipe = *impl_;
  if (current_recorder() != nullptr || current_explanation() != nullptr ||
      forced_strategy() != nullptr || is_bounded() || recipe.threads != threads_now() ||
      recipe.overlap(memory)) {
    return false;
  }
  for (const RecipeImpl::Hole& hole : recipe.holes) {
    *hole.address = static_cast<const char*>(memory[hole.array]) + hole.offset;
  }
  const FloatStateGuard guard;
  recipe.run();
  return true;
}

}  // namespace sow
