// SPDX-License-Identifier: Apache-2.0
// Saves programs and loads them again. Little-endian, sizes as 64-bit, values numbered in the order
// inputs, constants, results.
#include "program/save.h"

#include "core/device_table.h"
#include "core/tensor/layout.h"
#include "ops/defs.h"
#include "program/file.h"
#include "program/op_table.h"

namespace sow {
namespace detail {
namespace {

constexpr std::string_view kMagic = "sowprog\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kMaxRank = 64;

[[noreturn]] void damaged(const char* what) {
  fail(ErrorKind::argument, "load: the file is damaged: {}", what);
}

uint64_t checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

// -- bytes

class Writer {
 public:
  template <class T>
  void number(T value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8)
      bytes_.push_back(static_cast<char>(bits & 0xff));
  }
  void flag(bool value) { number<uint8_t>(value); }
  void real(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    number(bits);
  }
  void string(const std::string& value) {
    number<uint64_t>(value.size());
    bytes_ += value;
  }
  void dims(const Dims& value) {
    number<uint64_t>(value.size());
    for (const int64_t extent : value) number(extent);
  }
  void raw(const char* data, size_t count) { bytes_.append(data, count); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  T number() {
    const std::string_view part = raw(sizeof(T));
    uint64_t bits = 0;
    for (size_t i = sizeof(T); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(part[i]);
    return static_cast<T>(bits);
  }
  bool flag() {
    const auto value = number<uint8_t>();
    if (value > 1) damaged("a flag is neither true nor false");
    return value == 1;
  }
  double real() {
    const auto bits = number<uint64_t>();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  // How many things follow that take at least so many bytes each.
  size_t count(size_t least_bytes) {
    const auto value = number<uint64_t>();
    if (value > left_.size() / least_bytes) damaged("a count exceeds what the file holds");
    return static_cast<size_t>(value);
  }
  std::string string() { return std::string(raw(count(1))); }
  Dims dims() {
    Dims out(count(sizeof(int64_t)), 0);
    if (out.size() > kMaxRank) damaged("a rank is out of range");
    for (int64_t& extent : out) extent = number<int64_t>();
    return out;
  }
  template <class E>
  E choice(int count) {
    const auto value = number<uint8_t>();
    if (value >= count) damaged("a type or rule is unknown");
    return static_cast<E>(value);
  }
  std::string_view raw(size_t count) {
    if (count > left_.size()) damaged("it ends too early");
    const std::string_view part = left_.substr(0, count);
    left_.remove_prefix(count);
    return part;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

// -- attributes

// The kind of an integer from 2^63 on, after those of Scalar::Kind.
constexpr uint8_t kBeyondInt64 = 4;

void write_scalar(Writer& out, const Scalar& scalar) {
  out.number(scalar.beyond_int64() ? kBeyondInt64 : static_cast<uint8_t>(scalar.kind()));
  if (scalar.kind() == Scalar::Kind::boolean || scalar.kind() == Scalar::Kind::integer) {
    int64_t value = 0;
    scalar.write_as(scalar.beyond_int64() ? DType::uint64 : DType::int64, &value, "save");
    out.number(value);
    return;
  }
  std::complex<double> value;
  scalar.write_as(DType::complex128, &value, "save");
  out.real(value.real());
  out.real(value.imag());
}

Scalar read_scalar(Reader& in) {
  const auto kind = in.choice<Scalar::Kind>(kBeyondInt64 + 1);
  if (static_cast<uint8_t>(kind) == kBeyondInt64) {
    return Scalar(static_cast<uint64_t>(in.number<int64_t>()));
  }
  if (kind == Scalar::Kind::boolean) return Scalar(in.number<int64_t>() != 0);
  if (kind == Scalar::Kind::integer) return Scalar(in.number<int64_t>());
  const double real = in.real(), imag = in.real();
  return kind == Scalar::Kind::real ? Scalar(real) : Scalar(std::complex<double>(real, imag));
}

void write_attrs(Writer& out, const Attrs& attrs) {
  for (const int64_t value : {attrs.axis, attrs.axis2, attrs.offset, attrs.start, attrs.stop,
                              attrs.step, attrs.held_size}) {
    out.number(value);
  }
  for (const bool value : {attrs.include_self, attrs.broadcast, attrs.accumulate, attrs.wrap,
                           attrs.keepdim, attrs.scalar_first, attrs.scalar.has_value()}) {
    out.flag(value);
  }
  out.number(static_cast<uint8_t>(attrs.reduce));
  out.number(static_cast<uint8_t>(attrs.bounds));
  out.number(static_cast<uint8_t>(attrs.dtype));
  out.dims(attrs.shape);
  if (attrs.scalar) write_scalar(out, *attrs.scalar);
}

Attrs read_attrs(Reader& in) {
  Attrs attrs;
  for (int64_t* value : {&attrs.axis, &attrs.axis2, &attrs.offset, &attrs.start, &attrs.stop,
                         &attrs.step, &attrs.held_size}) {
    *value = in.number<int64_t>();
  }
  bool has_scalar = false;
  for (bool* value : {&attrs.include_self, &attrs.broadcast, &attrs.accumulate, &attrs.wrap,
                      &attrs.keepdim, &attrs.scalar_first, &has_scalar}) {
    *value = in.flag();
  }
  attrs.reduce = in.choice<Reduce>(kReduceCount);
  attrs.bounds = in.choice<Bounds>(4);
  // A file cannot vouch for an index: under a promise a bad one would be undefined behaviour.
  if (attrs.bounds == Bounds::promise) attrs.bounds = Bounds::error;
  attrs.dtype = in.choice<DType>(kDTypeCount);
  attrs.shape = in.dims();
  if (has_scalar) attrs.scalar = read_scalar(in);
  return attrs;
}

// -- values and calls

void write_constant(Writer& out, const Tensor& tensor) {
  out.number(static_cast<uint8_t>(tensor.dtype()));
  out.dims(tensor.shape());
  const Tensor dense = tensor.contiguous();
  std::string bytes(dense.nbytes(), '\0');
  if (!bytes.empty()) {
    device_table(tensor.device().type)
        .copy_bytes(bytes.data(), dense.data(), bytes.size(), tensor.device().index);
  }
  out.raw(bytes.data(), bytes.size());
}

Tensor read_constant(Reader& in) {
  const auto dtype = in.choice<DType>(kDTypeCount);
  const Dims shape = in.dims();
  const auto bytes =
      static_cast<size_t>(checked_numel(shape, size_of(dtype), "load")) * size_of(dtype);
  const std::string_view data = in.raw(bytes);  // before anything is allocated
  const Tensor out = Tensor::empty(shape, dtype);
  if (bytes != 0) std::memcpy(out.data(), data.data(), bytes);
  return out;
}

void write_node(Writer& out, const GraphNode& node, const std::vector<int>& numbers) {
  if (node.op != nullptr && find_saved_op(node.op->name) == nullptr) {
    fail(ErrorKind::argument,
         "save: the program holds {}, which only gradients are made of; take gradients with "
         "Program::gradients, which are worked out when it runs",
         node.op->name);
  }
  out.string(node.op == nullptr ? "gradients" : node.op->name);
  out.flag(node.in_place);
  out.number<uint64_t>(node.inputs.size());
  for (const int input : node.inputs) out.number<uint32_t>(static_cast<uint32_t>(numbers[input]));
  if (node.op != nullptr) return write_attrs(out, node.attrs);
  out.number<uint64_t>(node.output_count);
  out.number<uint64_t>(node.results.size());
}

TensorList read_operands(Reader& in, const TensorList& values) {
  TensorList operands(in.count(sizeof(uint32_t)));
  for (Tensor& operand : operands) {
    const auto number = in.number<uint32_t>();
    if (number >= values.size()) damaged("a call uses a value that does not exist yet");
    operand = values[number];
  }
  return operands;
}

TensorList read_gradients(Reader& in, Graph& graph, const TensorList& operands) {
  const auto outputs = in.number<uint64_t>(), targets = in.number<uint64_t>();
  const size_t count = operands.size();
  const bool fits = outputs <= count && targets <= count - outputs && outputs != 0 &&
                    targets != 0 &&
                    (outputs + targets == count || outputs + targets + outputs == count);
  if (!fits) damaged("gradients have the wrong number of operands");
  const auto begin = operands.begin();
  const auto second = begin + static_cast<std::ptrdiff_t>(outputs);
  const auto third = second + static_cast<std::ptrdiff_t>(targets);
  return graph.gradients({begin, second}, {second, third}, {third, operands.end()});
}

TensorList read_node(Reader& in, Graph& graph, const TensorList& values) {
  const std::string name = in.string();
  const bool in_place = in.flag();
  TensorList operands = read_operands(in, values);
  if (name == "gradients") return read_gradients(in, graph, operands);
  const SavedOp* saved = find_saved_op(name);
  const OpDef* op = find_op(name);
  if (saved == nullptr || op == nullptr) {
    fail(ErrorKind::argument, "load: the file is damaged: there is no operation \"{}\"", name);
  }
  const Attrs attrs = read_attrs(in);
  expect_well_formed(*saved, attrs, operands.size(), in_place, *op);
  return {apply({op, std::move(operands), attrs, in_place})};
}

}  // namespace

std::string write_attrs(const Attrs& attrs) {
  Writer out;
  write_attrs(out, attrs);
  return out.take();
}

std::string write_graph(const Graph& graph) {
  Writer out;
  std::vector<int> numbers(graph.values.size(), -1);
  int next = 0;
  out.number<uint64_t>(graph.inputs.size());
  for (const GraphInput& input : graph.inputs) {
    const Meta& meta = graph.values[input.value].meta;
    numbers[input.value] = next++;
    out.string(input.name);
    out.number(static_cast<uint8_t>(meta.dtype));
    out.number(static_cast<uint8_t>(meta.device.type));
    out.number<uint32_t>(static_cast<uint32_t>(meta.device.index));
    out.dims(meta.shape);
    for (const std::string& name : input.extents) out.string(name);
  }
  std::vector<size_t> constants;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == Value::Kind::constant) constants.push_back(v);
  }
  out.number<uint64_t>(constants.size());
  for (const size_t v : constants) {
    numbers[v] = next++;
    out.string(graph.values[v].name);
    write_constant(out, graph.values[v].constant);
  }
  out.number<uint64_t>(graph.nodes.size());
  for (const GraphNode& node : graph.nodes) {
    write_node(out, node, numbers);
    for (const int result : node.results) {
      numbers[result] = next++;
      out.string(graph.values[result].name);
    }
  }
  out.number<uint64_t>(graph.outputs.size());
  for (const GraphOutput& output : graph.outputs) {
    out.string(output.name);
    out.number<uint32_t>(static_cast<uint32_t>(numbers[output.value]));
  }
  return out.take();
}

namespace {

Tensor read_input(Reader& in, Program& program, const Device* on) {
  const std::string name = in.string();
  const auto dtype = in.choice<DType>(kDTypeCount);
  Device device;
  device.type = in.choice<DeviceType>(2);
  const auto index = in.number<uint32_t>();
  if (index > 1023) damaged("a device is out of range");
  device.index = static_cast<int>(index);
  const Dims shape = in.dims();
  std::vector<Extent> extents;
  for (const int64_t extent : shape) {
    std::string extent_name = in.string();
    if (extent_name.empty()) {
      extents.emplace_back(extent);
    } else {
      extents.emplace_back(std::move(extent_name));
    }
  }
  return program.input(name, dtype, extents, on == nullptr ? device : *on);
}

}  // namespace

std::shared_ptr<Graph> read_graph(std::string_view bytes, const Device* on) {
  Reader in(bytes);
  Program program;
  Graph& graph = *program.graph();
  TensorList values;
  for (size_t left = in.count(14); left > 0; --left) values.push_back(read_input(in, program, on));
  for (size_t left = in.count(17); left > 0; --left) {
    const std::string name = in.string();
    const Tensor constant = on == nullptr ? read_constant(in) : read_constant(in).to(*on);
    graph.copies_constants = false;  // it is ours alone
    values.push_back(named(program.constant(constant), name));
    graph.copies_constants = true;
  }
  for (size_t left = in.count(17); left > 0; --left) {
    for (const Tensor& result : read_node(in, graph, values)) {
      values.push_back(named(result, in.string()));
    }
  }
  for (size_t left = in.count(12); left > 0; --left) {
    const std::string name = in.string();
    const auto number = in.number<uint32_t>();
    if (number >= values.size()) damaged("an output is a value that does not exist");
    program.output(name, values[number]);
  }
  if (!in.at_end()) damaged("something follows its end");
  return program.graph();
}

namespace {

// Magic, version, size of the body, its checksum.
constexpr size_t kHeaderBytes = kMagic.size() + 4 + 8 + 8;

// How many bytes follow a header.
uint64_t body_size(std::string_view header) {
  Reader in(header);
  if (header.size() < kMagic.size() || in.raw(kMagic.size()) != kMagic) {
    fail(ErrorKind::argument, "load: this is not a program of sow");
  }
  const auto version = in.number<uint32_t>();
  if (version != kVersion) {
    fail(ErrorKind::argument, "load: the file has version {}, and this sow reads version {}",
         version, kVersion);
  }
  const auto size = in.number<uint64_t>();
  in.number<uint64_t>();  // the checksum: the header is whole
  return size;
}

}  // namespace
}  // namespace detail

std::string Program::serialize() const {
  const std::string body = detail::write_graph(*graph_);
  detail::Writer out;
  out.raw(detail::kMagic.data(), detail::kMagic.size());
  out.number(detail::kVersion);
  out.number<uint64_t>(body.size());
  out.number(detail::checksum(body));
  out.raw(body.data(), body.size());
  return out.take();
}

namespace detail {
namespace {

// What a file holds inside of its frame.
std::string_view body_of(std::string_view bytes) {
  const uint64_t size = body_size(bytes.substr(0, kHeaderBytes));
  Reader in(bytes.substr(kHeaderBytes - sizeof(uint64_t)));
  const auto sum = in.number<uint64_t>();
  const std::string_view body = in.raw(size);
  if (!in.at_end()) damaged("something follows its end");
  if (checksum(body) != sum) damaged("its checksum is another");
  return body;
}

}  // namespace
}  // namespace detail

Program Program::deserialize(std::string_view bytes) {
  return Program(detail::read_graph(detail::body_of(bytes)));
}

Program Program::deserialize(std::string_view bytes, Device device) {
  return Program(detail::read_graph(detail::body_of(bytes), &device));
}

void Program::save(const std::string& path) const { detail::replace_file(path, serialize()); }

Program Program::load(const std::string& path) {
  return deserialize(detail::read_file(path, detail::kHeaderBytes, [](std::string_view header) {
    return detail::kHeaderBytes + std::min(detail::body_size(header), UINT64_MAX / 2);
  }));
}

}  // namespace sow
