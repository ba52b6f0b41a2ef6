// SPDX-License-Identifier: Apache-2.0
// DLPack both ways: layout, ownership, read-only arrays and what is refused.
#include "sow/dlpack.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/tensor/dlpack_abi.h"
#include "sow/ops.h"
#include "test_threads.h"

namespace sow {
namespace {

namespace dlpack = detail::dlpack;

// An array of another library, which counts how often it is given back.
template <class Managed>
struct ForeignArray {
  Managed managed{};
  std::vector<float> memory{0, 1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {1, 2};
  int deleted = 0;

  ForeignArray() {
    dlpack::Array& array = managed.array;
    array.data = memory.data();
    array.device = {dlpack::kCpu, 0};
    array.ndim = 2;
    array.dtype = {dlpack::kFloat, 32, 1};
    array.shape = shape;
    array.strides = strides;
    array.byte_offset = sizeof(float);
    managed.context = this;
    managed.deleter = [](Managed* self) { ++static_cast<ForeignArray*>(self->context)->deleted; };
  }
};

Tensor import(dlpack::Managed& managed) {
  return from_dlpack(reinterpret_cast<DLManagedTensor*>(&managed));
}
Tensor import(dlpack::ManagedVersioned& managed) {
  return from_dlpack(reinterpret_cast<DLManagedTensorVersioned*>(&managed));
}

TEST(Dlpack, imports_strides_and_offset_without_a_copy) {
  ForeignArray<dlpack::Managed> foreign;
  {
    const Tensor view = import(foreign.managed);
    EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
    EXPECT_FALSE(view.read_only());
    Tensor part = view.select(0, 1);
    part.fill_(9);
    EXPECT_EQ(foreign.memory, (std::vector<float>{0, 1, 9, 3, 9, 5, 9}));
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, null_strides_mean_row_major) {
  ForeignArray<dlpack::ManagedVersioned> foreign;
  foreign.managed.version = {1, 7};
  foreign.managed.flags = dlpack::kReadOnly;
  foreign.managed.array.strides = nullptr;
  foreign.managed.array.byte_offset = 0;
  const Tensor view = import(foreign.managed);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(view.read_only());
  EXPECT_THROW(view.fill_(1), Error);
}

TEST(Dlpack, what_is_refused_stays_the_callers) {
  ForeignArray<dlpack::ManagedVersioned> foreign;
  dlpack::ManagedVersioned& managed = foreign.managed;
  const auto refused = [&](auto&& spoil) {
    const dlpack::ManagedVersioned good = managed;
    managed.version = {1, 0};
    spoil();
    EXPECT_THROW(import(managed), Error);
    managed = good;
  };
  refused([&] { managed.version = {2, 0}; });
  refused([&] { managed.array.dtype.lanes = 4; });
  refused([&] { managed.array.dtype.bits = 24; });
  refused([&] { managed.array.device.type = 7; });
  refused([&] { managed.array.byte_offset = 1; });
  refused([&] { managed.array.data = nullptr; });
  refused([&] { managed.array.ndim = -1; });
  refused([&] { managed.array.ndim = INT32_MAX; });
  refused([&] { managed.array.byte_offset = UINT64_MAX - 3; });
  refused([&] { managed.array.shape = nullptr; });
  refused([&] { foreign.shape[0] = -2; });
  foreign.shape[0] = 2;
  refused([&] { foreign.strides[1] = int64_t{1} << 62; });
  refused([&] { foreign.strides[1] = INT64_MIN; });
  EXPECT_EQ(foreign.deleted, 0);
  EXPECT_THROW(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), Error);
}

TEST(Dlpack, every_type_comes_back) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const Tensor x = Tensor::ones({2, 2}, dtype).transpose(0, 1);
    for (const Tensor& back : {from_dlpack(to_dlpack(x)), from_dlpack(to_dlpack_versioned(x))}) {
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.data(), x.data());
      EXPECT_EQ(back.shape(), x.shape());
      EXPECT_EQ(back.strides(), x.strides());
    }
  }
}

TEST(Dlpack, an_exported_array_keeps_its_memory) {
  DLManagedTensorVersioned* exported = nullptr;
  {
    Tensor x = Tensor::of<int64_t>({1, 2, 3});
    exported = to_dlpack_versioned(x);
  }
  auto* managed = reinterpret_cast<dlpack::ManagedVersioned*>(exported);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, 0u);
  EXPECT_EQ(static_cast<int64_t*>(managed->array.data)[2], 3);
  test::run_in_threads(1, [&](int) { managed->deleter(managed); });
}

TEST(Dlpack, read_only_is_said_or_refused) {
  float memory[2] = {1, 2};
  Tensor::Foreign foreign;
  foreign.data = memory;
  foreign.shape = {2};
  foreign.read_only = true;
  const Tensor x = Tensor::wrap(foreign);
  EXPECT_THROW(to_dlpack(x), Error);
  EXPECT_TRUE(from_dlpack(to_dlpack_versioned(x)).read_only());
  EXPECT_THROW(to_dlpack(Tensor()), Error);
}

}  // namespace
}  // namespace sow
