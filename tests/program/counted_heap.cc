// SPDX-License-Identifier: Apache-2.0
// Replaces operator new by one that counts and, if told to, fails.
#include "program/counted_heap.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "core/memory/memory.h"

namespace {

std::atomic<int64_t> calls{0};
std::atomic<bool> watching{false};
std::atomic<int64_t> made{0}, bad{0};
std::atomic<bool> for_ever{false};

bool fails() {
  if (!watching) return false;
  const int64_t number = ++made;
  return for_ever ? number >= bad : number == bad;
}

}  // namespace

// ThreadSanitizer brings a heap of its own that cannot be replaced: nothing is counted there.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOW_HEAP_OF_THE_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SOW_HEAP_OF_THE_SANITIZER
#endif

#ifndef SOW_HEAP_OF_THE_SANITIZER
void* operator new(size_t size) {
  ++calls;
  void* block = fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++calls;
  return fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
#endif

namespace sow::test {

int64_t heap_calls() { return calls; }

bool counts_operator_new() {
#ifdef SOW_HEAP_OF_THE_SANITIZER
  return false;
#else
  return true;
#endif
}

FailAllocation::FailAllocation(int64_t n, Then then) {
  ::made = 0;
  bad = n;
  for_ever = then == Then::fails;
  detail::set_allocation_test(fails);
  watching = true;
}

FailAllocation::~FailAllocation() {
  watching = false;
  detail::set_allocation_test(nullptr);
}

int64_t FailAllocation::made() { return ::made; }

}  // namespace sow::test
