// SPDX-License-Identifier: Apache-2.0
// The handler behind every operation of sow inside of a JAX program or an operator of Paddle: runs
// a saved program of sow on their buffers. One function for all operations, gradients and batches.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sow/sow.h"
#include "xla_ffi.h"

namespace sow::xla {
namespace {

// What the attribute `spec` says: "FEEDS;LEVELS;PROGRAM". FEEDS names for each input of the program
// the buffer it comes from: "a2" is operand 2, "r0" only the shape of result 0, for an input whose
// data nobody reads. LEVELS has a word of 0s and 1s for each batch dimension, outermost first:
// which operands have it. PROGRAM is the saved program, in hexadecimal digits.
struct Feed {
  bool from_result = false;
  size_t number = 0;
};

struct Spec {
  std::string text;
  Device device;
  std::vector<Feed> feeds;
  std::vector<std::string> levels;
  std::unique_ptr<CompiledProgram> program;
};

[[noreturn]] void malformed() {
  throw sow::Error(ErrorKind::argument, "sow.jax: the call was made by another version of sow");
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  malformed();
}

std::string from_hex(std::string_view text) {
  if (text.size() % 2 != 0) malformed();
  std::string bytes(text.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  }
  return bytes;
}

std::unique_ptr<Spec> parse(std::string_view text, Device device) {
  const size_t first = text.find(';');
  const size_t second = first == text.npos ? first : text.find(';', first + 1);
  if (second == text.npos) malformed();
  auto spec = std::make_unique<Spec>();
  spec->text = text;
  spec->device = device;
  for (const std::string& word : words(text.substr(0, first))) {
    if (word.size() < 2 || word.find_first_not_of("0123456789", 1) != word.npos) malformed();
    spec->feeds.push_back({word[0] == 'r', std::stoul(word.substr(1))});
  }
  spec->levels = words(text.substr(first + 1, second - first - 1));
  const Program program = Program::deserialize(from_hex(text.substr(second + 1)), device);
  CompileOptions options;
  // An operand whose buffer is a result's too is written in place; others are read-only below.
  options.donate = program.input_names();
  spec->program = std::make_unique<CompiledProgram>(program, options);
  return spec;
}

// Each text is read once a device. Calls find it by the address that XLA keeps it at, and compare
// it: another program's may have come to lie there.
const Spec& find_spec(const ByteSpan& span, Device device) {
  struct Known {
    const char* address = nullptr;
    const Spec* spec = nullptr;
  };
  thread_local Known known[64];
  const std::string_view text(span.data, span.size);
  Known& slot = known[(reinterpret_cast<uintptr_t>(span.data) >> 4) % 64];
  if (slot.address == span.data && slot.spec->text == text && slot.spec->device == device) {
    return *slot.spec;
  }
  static auto* mutex = new std::mutex();
  static auto* specs = new std::unordered_map<std::string, std::unique_ptr<Spec>>();
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Spec>& spec = (*specs)[to_string(device) + ";" + std::string(text)];
  if (!spec) spec = parse(text, device);
  slot = {span.data, spec.get()};
  return *spec;
}

DType dtype_of_buffer(Type type) {
  switch (type) {
    case Type::boolean:
      return DType::bool_;
    case Type::int8:
      return DType::int8;
    case Type::int16:
      return DType::int16;
    case Type::int32:
      return DType::int32;
    case Type::int64:
      return DType::int64;
    case Type::uint8:
      return DType::uint8;
    case Type::uint16:
      return DType::uint16;
    case Type::uint32:
      return DType::uint32;
    case Type::uint64:
      return DType::uint64;
    case Type::float16:
      return DType::float16;
    case Type::bfloat16:
      return DType::bfloat16;
    case Type::float32:
      return DType::float32;
    case Type::float64:
      return DType::float64;
    case Type::complex64:
      return DType::complex64;
    case Type::complex128:
      return DType::complex128;
  }
  malformed();
}

// An empty buffer has no address.
void* data_of(const Buffer& buffer) {
  alignas(16) static char nothing[16] = {};
  return buffer.data == nullptr ? nothing : buffer.data;
}

Tensor wrap(const Buffer& buffer, int64_t skip, Device device, void* data, bool read_only,
            const Dims* strides = nullptr) {
  Tensor::Foreign foreign;
  foreign.data = data;
  foreign.dtype = dtype_of_buffer(buffer.dtype);
  foreign.shape = Dims(buffer.dims + skip, static_cast<size_t>(buffer.rank - skip));
  if (strides != nullptr) foreign.strides = *strides;
  foreign.device = device;
  foreign.read_only = read_only;
  return Tensor::wrap(std::move(foreign));
}

// One run of a spec on the buffers of a call.
class Run {
 public:
  Run(const Spec& spec, const Buffers& arguments, const Buffers& results)
      : spec_(spec), arguments_(arguments), results_(results) {
    for (const Feed& feed : spec.feeds) {
      const Buffers& from = feed.from_result ? results_ : arguments_;
      if (feed.number >= static_cast<size_t>(from.size)) malformed();
    }
    for (const std::string& level : spec.levels) {
      if (level.size() != static_cast<size_t>(arguments_.size)) malformed();
    }
  }

  void operator()() {
    argument_at_.assign(arguments_.size, 0);
    result_at_.assign(results_.size, 0);
    argument_skip_.assign(arguments_.size, 0);
    run_level(0);
  }

 private:
  // The extent of a batch dimension: every result has all of them.
  void run_level(size_t level) {
    if (level == spec_.levels.size()) return run_one();
    const int64_t depth = static_cast<int64_t>(level);
    const int64_t extent = results_[0].dims[depth];
    const std::string& has = spec_.levels[level];
    const std::vector<int64_t> arguments = argument_at_, results = result_at_;
    for (size_t i = 0; i < has.size(); ++i) argument_skip_[i] += has[i] == '1';
    for (int64_t b = 0; b < extent; ++b) {
      for (size_t i = 0; i < has.size(); ++i) {
        if (has[i] == '1')
          argument_at_[i] = arguments[i] + b * bytes(arguments_[i], argument_skip_[i]);
      }
      for (size_t i = 0; i < results.size(); ++i) {
        result_at_[i] = results[i] + b * bytes(results_[i], depth + 1);
      }
      run_level(level + 1);
    }
    for (size_t i = 0; i < has.size(); ++i) argument_skip_[i] -= has[i] == '1';
    argument_at_ = arguments;
    result_at_ = results;
  }

  static int64_t bytes(const Buffer& buffer, int64_t skip) {
    auto size = static_cast<int64_t>(size_of(dtype_of_buffer(buffer.dtype)));
    for (int64_t d = skip; d < buffer.rank; ++d) size *= buffer.dims[d];
    return size;
  }

  void run_one() {
    const auto depth = static_cast<int64_t>(spec_.levels.size());
    TensorList feeds, results;
    feeds.reserve(spec_.feeds.size());
    results.reserve(result_at_.size());
    for (const Feed& feed : spec_.feeds) {
      feeds.push_back(feed.from_result ? shape_of_result(feed.number) : argument(feed.number));
    }
    for (size_t i = 0; i < result_at_.size(); ++i) {
      char* data = static_cast<char*>(data_of(results_[i])) + result_at_[i];
      results.push_back(wrap(results_[i], depth, spec_.device, data, false));
    }
    spec_.program->run_into(feeds, results);
  }

  Tensor argument(size_t i) const {
    const Buffer& buffer = arguments_[i];
    bool shared = false;
    for (int64_t r = 0; r < results_.size; ++r) {
      shared = shared || (buffer.data != nullptr && buffer.data == results_[r].data);
    }
    char* data = static_cast<char*>(data_of(buffer)) + argument_at_[i];
    return wrap(buffer, argument_skip_[i], spec_.device, data, !shared);
  }

  // Nobody reads its data; a view of one element has any shape.
  Tensor shape_of_result(size_t i) const {
    alignas(16) static char zero[16] = {};
    const Buffer& buffer = results_[i];
    const auto depth = static_cast<int64_t>(spec_.levels.size());
    const Dims strides(static_cast<size_t>(buffer.rank - depth), 0);
    void* data = spec_.device.type == DeviceType::cpu || arguments_.size == 0
                     ? zero
                     : data_of(arguments_[0]);
    return wrap(buffer, depth, spec_.device, data, true, &strides);
  }

  const Spec& spec_;
  const Buffers& arguments_;
  const Buffers& results_;
  std::vector<int64_t> argument_at_, result_at_;  // in bytes
  std::vector<int64_t> argument_skip_;            // batch dimensions passed so far
};

int32_t code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::index:
      return 11;  // out of range
    case ErrorKind::memory:
      return 8;  // resource exhausted
    case ErrorKind::device:
      return 9;  // failed precondition
    default:
      return 3;  // invalid argument
  }
}

Error* fail(const CallFrame& frame, const char* message, int32_t code) {
  ErrorCreate create{sizeof(ErrorCreate), nullptr, message, code};
  return frame.api->error_create(&create);
}

// XLA asks once which version a handler was written for.
bool answers_metadata(CallFrame& frame) {
  if (frame.extensions == nullptr || frame.extensions->type != kMetadata) return false;
  Metadata& metadata = *reinterpret_cast<MetadataExtension*>(frame.extensions)->metadata;
  metadata.version.major = kMajor;
  metadata.version.minor = kMinor;
  metadata.traits = 0;
  return true;
}

const ByteSpan& spec_attribute(const Attributes& attributes) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
    if (name == "spec" && attributes.types[i] == kStringAttribute) {
      return *static_cast<const ByteSpan*>(attributes.items[i]);
    }
  }
  malformed();
}

template <class F>
Error* guarded(CallFrame* frame, F&& call) noexcept {
  try {
    if (answers_metadata(*frame)) return nullptr;
    call();
    return nullptr;
  } catch (const sow::Error& error) {
    return fail(*frame, error.what(), code_of(error.kind()));
  } catch (const std::bad_alloc&) {
    return fail(*frame, "sow: no memory", 8);
  } catch (const std::exception& error) {
    return fail(*frame, error.what(), 13);  // internal
  }
}

void run(const CallFrame& frame, Device device) {
  const Spec& spec = find_spec(spec_attribute(frame.attributes), device);
  Run(spec, frame.arguments, frame.results)();
}

// The device that XLA has made current on this thread. The driver is loaded: XLA works with it.
int current_device() {
  using Function = int (*)(int*);
  static const auto function = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver ? reinterpret_cast<Function>(dlsym(driver, "cuCtxGetDevice")) : nullptr;
  }();
  int device = 0;
  if (function == nullptr || function(&device) != 0) return 0;
  return device;
}

}  // namespace
}  // namespace sow::xla

extern "C" {

__attribute__((visibility("default"))) sow::xla::Error* sow_jax_cpu(sow::xla::CallFrame* frame) {
  using namespace sow::xla;
  return guarded(frame, [&] { run(*frame, {}); });
}

// Runs on XLA's stream and does not wait for it: a bad index is told by sow.cuda.check().
__attribute__((visibility("default"))) sow::xla::Error* sow_jax_cuda(sow::xla::CallFrame* frame) {
  using namespace sow::xla;
  return guarded(frame, [&] {
    StreamGet get{sizeof(StreamGet), nullptr, frame->context, nullptr};
    if (frame->api->stream_get(&get) != nullptr) {
      throw sow::Error(sow::ErrorKind::device, "sow.jax: XLA gave no stream");
    }
    const int device = current_device();
    const sow::cuda::StreamGuard guard(get.stream, device);
    run(*frame, {sow::DeviceType::cuda, device});
  });
}

// The same for other libraries, whose operators find it by its name: `cuda` is the device, -1 the
// host. Returns 0, or 1 with the sentence in `message`.
__attribute__((visibility("default"))) int sow_run_saved(const char* spec, size_t size, int cuda,
                                                         void* stream, void** arguments,
                                                         size_t argument_count, void** results,
                                                         size_t result_count, char* message,
                                                         size_t room) {
  using namespace sow::xla;
  const auto tell = [&](const char* text) {
    std::snprintf(message, room, "%s", text);
    return 1;
  };
  try {
    const Buffers in{sizeof(Buffers), nullptr, static_cast<int64_t>(argument_count), nullptr,
                     arguments};
    const Buffers out{sizeof(Buffers), nullptr, static_cast<int64_t>(result_count), nullptr,
                      results};
    std::optional<sow::cuda::StreamGuard> guard;
    if (cuda >= 0) guard.emplace(stream, cuda);
    const sow::Device device = cuda < 0 ? sow::Device{} : sow::Device{sow::DeviceType::cuda, cuda};
    Run(find_spec({spec, size}, device), in, out)();
    return 0;
  } catch (const std::exception& error) {
    return tell(error.what());
  }
}
}
