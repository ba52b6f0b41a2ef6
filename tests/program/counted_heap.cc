// Replaces operator new by one that counts.
#include "program/counted_heap.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> calls{0};

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
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++calls;
  return std::malloc(size == 0 ? 1 : size);
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

}  // namespace sow::test
