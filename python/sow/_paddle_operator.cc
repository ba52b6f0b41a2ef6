// SPDX-License-Identifier: Apache-2.0
// The operator that static programs of Paddle call sow by: runs a saved program on Paddle's
// tensors, forward and backward. sow.paddle.build() compiles it for the Paddle that is installed.
#include <dlfcn.h>

#include <sstream>
#include <string>
#include <vector>

#include "paddle/common/enforce.h"
#include "paddle/extension.h"

namespace {

// As python/jax/xla_ffi.h has it: what the handler takes for every library.
struct Buffer {
  size_t struct_size = sizeof(Buffer);
  void* extensions = nullptr;
  int32_t dtype = 0;
  void* data = nullptr;
  int64_t rank = 0;
  const int64_t* dims = nullptr;
};

int32_t number_of(paddle::DataType type) {
  switch (type) {
    case paddle::DataType::BOOL:
      return 1;
    case paddle::DataType::INT8:
      return 2;
    case paddle::DataType::INT16:
      return 3;
    case paddle::DataType::INT32:
      return 4;
    case paddle::DataType::INT64:
      return 5;
    case paddle::DataType::UINT8:
      return 6;
    case paddle::DataType::FLOAT16:
      return 10;
    case paddle::DataType::FLOAT32:
      return 11;
    case paddle::DataType::FLOAT64:
      return 12;
    case paddle::DataType::COMPLEX64:
      return 15;
    case paddle::DataType::BFLOAT16:
      return 16;
    case paddle::DataType::COMPLEX128:
      return 18;
    default:
      PD_THROW("sow: a tensor is of a type that sow does not have");
  }
}

paddle::DataType type_of(const std::string& name) {
  static const std::pair<const char*, paddle::DataType> known[] = {
      {"bool", paddle::DataType::BOOL},         {"int8", paddle::DataType::INT8},
      {"int16", paddle::DataType::INT16},       {"int32", paddle::DataType::INT32},
      {"int64", paddle::DataType::INT64},       {"uint8", paddle::DataType::UINT8},
      {"float16", paddle::DataType::FLOAT16},   {"float32", paddle::DataType::FLOAT32},
      {"float64", paddle::DataType::FLOAT64},   {"complex64", paddle::DataType::COMPLEX64},
      {"bfloat16", paddle::DataType::BFLOAT16}, {"complex128", paddle::DataType::COMPLEX128}};
  for (const auto& [text, type] : known) {
    if (name == text) return type;
  }
  PD_THROW("sow: a result is of a type that Paddle does not have");
}

using Handler = int (*)(const char* spec, size_t size, int cuda, void* stream, void** arguments,
                        size_t argument_count, void** results, size_t result_count, char* message,
                        size_t room);

struct View {
  Buffer buffer;
  std::vector<int64_t> dims;
  explicit View(const paddle::Tensor& tensor) : dims(tensor.shape()) {
    buffer.dtype = number_of(tensor.dtype());
    buffer.data = const_cast<void*>(tensor.data());
    buffer.rank = static_cast<int64_t>(dims.size());
    buffer.dims = dims.data();
  }
};

// Runs `spec`; the message of an error becomes Paddle's exception.
void run(const std::string& spec, const std::vector<paddle::Tensor>& arguments,
         const std::vector<paddle::Tensor>& results) {
  static const auto handler = reinterpret_cast<Handler>(dlsym(RTLD_DEFAULT, "sow_run_saved"));
  if (handler == nullptr) PD_THROW("sow: import sow.paddle before this operator is used");
  std::vector<View> given, made;
  given.reserve(arguments.size());
  made.reserve(results.size());
  std::vector<void*> in, out;
  for (const paddle::Tensor& tensor : arguments) in.push_back(&given.emplace_back(tensor).buffer);
  for (const paddle::Tensor& tensor : results) out.push_back(&made.emplace_back(tensor).buffer);
  int device = -1;
  void* stream = nullptr;
#ifdef PADDLE_WITH_CUDA
  if (arguments[0].is_gpu()) {
    device = arguments[0].place().GetDeviceId();
    stream = arguments[0].stream();
  }
#endif
  char message[1024] = {};
  if (handler(spec.data(), spec.size(), device, stream, in.data(), in.size(), out.data(),
              out.size(), message, sizeof(message)) != 0) {
    // Its executor of many threads keeps the text of this exception only.
    PADDLE_THROW(::common::errors::InvalidArgument("%s", message));
  }
}

std::vector<paddle::Tensor> dense(const std::vector<paddle::Tensor>& tensors) {
  std::vector<paddle::Tensor> out;
  for (const paddle::Tensor& tensor : tensors) {
    out.push_back(tensor.is_contiguous() ? tensor : tensor.contiguous());
  }
  return out;
}

// "3 0.1 4 0+1.2": a number, dimension 1 of tensor 0, and the largest of tensors 0 and 1 in the
// second dimension from their end. (A list of numbers would be taken for the shape of an input.)
// While a program is written, all but numbers are unknown.
std::vector<int64_t> extents(const std::string& text, const std::vector<paddle::Tensor>* all) {
  std::vector<int64_t> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t dot = word.find('.'), plus = word.find('+');
    if (dot == word.npos) {
      out.push_back(std::stoll(word));
    } else if (all == nullptr) {
      out.push_back(-1);
    } else if (plus == word.npos) {
      out.push_back(all->at(std::stoul(word)).shape().at(std::stoul(word.substr(dot + 1))));
    } else {
      int64_t extent = 1;
      const size_t back = std::stoul(word.substr(dot + 1));
      for (const size_t i : {std::stoul(word), std::stoul(word.substr(plus + 1))}) {
        const std::vector<int64_t> shape = all->at(i).shape();
        if (shape.size() >= back && shape[shape.size() - back] != 1)
          extent = shape[shape.size() - back];
      }
      out.push_back(extent);
    }
  }
  return out;
}

std::vector<paddle::Tensor> joined(const std::vector<paddle::Tensor>& smooth,
                                   const std::vector<paddle::Tensor>& others) {
  std::vector<paddle::Tensor> all = dense(smooth);
  for (paddle::Tensor& tensor : dense(others)) all.push_back(tensor);
  return all;
}

std::vector<paddle::Tensor> forward(const std::vector<paddle::Tensor>& smooth,
                                    const std::vector<paddle::Tensor>& others,
                                    const std::string& spec, const std::string&,
                                    const std::string& shape, const std::string& dtype) {
  const std::vector<paddle::Tensor> all = joined(smooth, others);
  paddle::Tensor out = paddle::empty(extents(shape, &all), type_of(dtype), all[0].place());
  run(spec, all, {out});
  return {out};
}

std::vector<paddle::Tensor> backward(const std::vector<paddle::Tensor>& smooth,
                                     const std::vector<paddle::Tensor>& others,
                                     const paddle::Tensor& grad, const std::string&,
                                     const std::string& spec, const std::string&,
                                     const std::string&) {
  std::vector<paddle::Tensor> all = joined(smooth, others), results;
  for (const paddle::Tensor& tensor : smooth) {
    results.push_back(paddle::empty(tensor.shape(), tensor.dtype(), tensor.place()));
  }
  all.push_back(dense({grad})[0]);
  run(spec, all, results);
  return results;
}

std::vector<std::vector<int64_t>> infer_shape(const std::vector<std::vector<int64_t>>&,
                                              const std::vector<std::vector<int64_t>>&,
                                              const std::string&, const std::string&,
                                              const std::string& shape, const std::string&) {
  return {extents(shape, nullptr)};
}

std::vector<paddle::DataType> infer_dtype(const std::vector<paddle::DataType>&,
                                          const std::vector<paddle::DataType>&, const std::string&,
                                          const std::string&, const std::string&,
                                          const std::string& dtype) {
  return {type_of(dtype)};
}

}  // namespace

PD_BUILD_OP(sow_call)
    .Inputs({paddle::Vec("X"), paddle::Vec("I")})
    .Outputs({"Out"})
    .Attrs({"forward: std::string", "backward: std::string", "shape: std::string",
            "dtype: std::string"})
    .SetKernelFn(PD_KERNEL(forward))
    .SetInferShapeFn(PD_INFER_SHAPE(infer_shape))
    .SetInferDtypeFn(PD_INFER_DTYPE(infer_dtype));

PD_BUILD_GRAD_OP(sow_call)
    .Inputs({paddle::Vec("X"), paddle::Vec("I"), paddle::Grad("Out")})
    .Outputs({paddle::Grad(paddle::Vec("X"))})
    .Attrs({"forward: std::string", "backward: std::string", "shape: std::string",
            "dtype: std::string"})
    .SetKernelFn(PD_KERNEL(backward));
