// SPDX-License-Identifier: Apache-2.0
// Binds an operation once as a function and once as a method, generic over its arguments.
#pragma once

#include <cassert>
#include <string>
#include <vector>

#include "calls/arguments.h"
#include "calls/dispatch.h"
#include "calls/docs.h"
#include "calls/shortcut.h"
#include "runtime/streams.h"

namespace sow::python {

// What the bound functions keep of an operation; lives as long as the process.
struct OpSite {
  const char* op;
  std::span<const char* const> names;
};

template <class... T>
std::tuple<const T&...> references(const std::tuple<T...>& values) {
  return std::apply([](const T&... value) { return std::tuple<const T&...>(value...); }, values);
}

template <auto Function, class... P>
nb::object call(const OpSite& site, Access access, nb::handle object, StreamArg chosen, OutArg out,
                P... p) {
  assert(site.names.size() == 1 + sizeof...(P));
  const TypeInfo info = info_of(object);
  Shortcut shortcut(site.op, object, info, p...);
  const bool has_out = !out.object.is_none();
  if (shortcut.framework() != Kind::other) {
    if (has_out) refuse_out(site.op);
    nb::object done = hand_over(shortcut.framework(), site.op, Destination{object}, p..., chosen);
    if (done.is_valid()) return done;
  }
  if (chosen.object.is_none() && !has_out) {
    if (nb::object done = shortcut.run(object)) return done;
  }
  Arguments arguments(site.op, site.names);
  (arguments.prepare(p), ...);
  const Tensor x = arguments.destination(object, access);
  const GivenStream given(chosen.object, x, site.op);
  const OwnersStream stream(x, object, info);
  // Braces: read from left to right.
  std::tuple<decltype(arguments.read(p))...> parts{arguments.read(p)...};
  auto run = [&](auto&... part) {
    return std::apply([&](const auto&... value) { return Function(x, value...); },
                      std::tuple_cat(references(part)...));
  };
  Tensor result;
  if (arguments.work() < kReleaseFrom) {
    result = shortcut.watch(x, parts, [&] { return std::apply(run, parts); });
  } else {
    const Unlocked unlocked;
    result = std::apply(run, parts);
  }
  if (has_out) return put_out(site.op, result, arguments.carried(), out.object);
  if (arguments.name()) named(result, *arguments.name());
  if (access == Access::read) {
    nb::object out = from_tensor(result, object, info);
    return arguments.carried().empty() ? out : out.attr("view")(object.attr("dtype"));
  }
  // In a program the in-place form is a new value.
  if (!result.same_object(x)) return nb::cast(result);
  if (info.kind == Kind::tensor) return nb::borrow(object);
  mark_written(object, info);
  return nb::borrow(object);
}

class Binder {
 public:
  Binder(nb::module_& module, nb::class_<Tensor>& tensor) : module_(module), tensor_(tensor) {}

  // `op` and `op_`. `first` is the name of the destination, the rest are the annotations of P.
  template <auto Out, auto In, class... P, class... Notes>
  void pair(const char* name, const char* first, const Notes&... notes) {
    const std::span<const char* const> names = names_of(first, notes...);
    define<Out, P...>(name, name, Access::read, names, notes...);
    define<In, P...>(keep(std::string(name) + "_"), name, Access::write, names, notes...);
  }

  // An operation that writes nowhere: a gather.
  template <auto Function, class... P, class... Notes>
  void single(const char* name, const char* first, const Notes&... notes) {
    define<Function, P...>(name, name, Access::read, names_of(first, notes...), notes...);
  }

  // One that runs nowhere.
  template <auto Function, class... P, class... Notes>
  void view(const char* name, const char* first, const Notes&... notes) {
    const OpSite site{name, names_of(first, notes...)};
    const char* doc = keep(doc_of(name, name));
    list<P...>(name, name, "view", first, notes...);
    module_.def(
        name,
        [site](Destination x, P... p) {
          return SameKind{
              call<Function, P...>(site, Access::read, x.object, {nb::none()}, {nb::none()}, p...)};
        },
        nb::arg(first), notes..., doc);
    tensor_.def(
        name,
        [site](Destination x, P... p) {
          return OwnKind{
              call<Function, P...>(site, Access::read, x.object, {nb::none()}, {nb::none()}, p...)};
        },
        notes..., doc);
  }

 private:
  template <auto Function, class... P, class... Notes>
  void define(const char* op, const char* stem, Access access, std::span<const char* const> names,
              const Notes&... notes) {
    const OpSite site{op, names};
    const char* doc = keep(doc_of(stem, op));
    list<P...>(op, stem, access == Access::write ? "in_place" : "out", names[0], notes...);
    const auto add_to = [&](auto& scope, auto function, const auto& last, const auto&... first) {
      using namespace nb::literals;
      const auto add = [&](const char* text, const auto&... rest) {
        std::apply(
            [&](const auto&... late) {
              if constexpr ((std::is_same_v<Notes, nb::kw_only> || ...)) {
                scope.def(op, function, first..., rest..., "stream"_a = nb::none(), late..., text);
              } else {
                scope.def(op, function, first..., rest..., nb::kw_only(), "stream"_a = nb::none(),
                          late..., text);
              }
            },
            last);
      };
      add(doc, notes...);
      if ((is_axis(notes) || ...)) add("The same by the other name.", other_axis(notes)...);
    };
    if (access == Access::write) {
      const auto function = [site](Destination x, P... p, StreamArg stream) {
        return SameKind{
            call<Function, P...>(site, Access::write, x.object, stream, {nb::none()}, p...)};
      };
      const auto method = [site](Destination x, P... p, StreamArg stream) {
        return OwnKind{
            call<Function, P...>(site, Access::write, x.object, stream, {nb::none()}, p...)};
      };
      add_to(module_, function, std::tuple(), nb::arg(names[0]));
      add_to(tensor_, method, std::tuple());
    } else {
      const auto function = [site](Destination x, P... p, StreamArg stream, OutArg out) {
        return SameKind{call<Function, P...>(site, Access::read, x.object, stream, out, p...)};
      };
      const auto method = [site](Destination x, P... p, StreamArg stream, OutArg out) {
        return OwnKind{call<Function, P...>(site, Access::read, x.object, stream, out, p...)};
      };
      const std::tuple out(nb::arg("out") = nb::none());
      add_to(module_, function, out, nb::arg(names[0]));
      add_to(tensor_, method, out);
    }
  }

  // The table of dispatch.h; every operation takes a stream last.
  template <class... P, class... Notes>
  static void list(const char* op, const char* stem, const char* form, const char* first,
                   const Notes&... notes) {
    std::vector<Parameter> parameters{{first, role_of<Destination>(), {}}};
    const char* const roles[] = {role_of<P>()..., nullptr};
    size_t at = 0;
    const auto add = [&](const auto& note) {
      if (name_of(note) == nullptr) return;
      nb::object fallback;
      if constexpr (requires { note.value; }) fallback = nb::borrow(note.value);
      parameters.push_back({name_of(note), roles[at++], fallback});
    };
    (add(notes), ...);
    parameters.push_back({"stream", role_of<StreamArg>(), nb::none()});
    list_operation(op, stem, form, std::move(parameters));
  }

  // NumPy and Paddle say axis, torch says dim: both names are taken everywhere.
  template <class Note>
  static bool is_axis(const Note& note) {
    const char* name = name_of(note);
    return name != nullptr && (std::string_view(name) == "axis" || std::string_view(name) == "dim");
  }
  template <class Note>
  static Note other_axis(const Note& note) {
    Note other = note;
    if constexpr (requires { other.name_; }) {
      if (is_axis(note)) other.name_ = std::string_view(note.name_) == "axis" ? "dim" : "axis";
    }
    return other;
  }

  template <class Note>
  static const char* name_of(const Note& note) {
    if constexpr (requires { note.name_; })
      return note.name_;
    else
      return nullptr;
  }

  template <class... Notes>
  static std::span<const char* const> names_of(const char* first, const Notes&... notes) {
    auto* names = new std::vector<const char*>{first};
    for (const char* name : std::initializer_list<const char*>{name_of(notes)...}) {
      if (name) names->push_back(name);
    }
    return *names;
  }

  static const char* keep(std::string text) { return (new std::string(std::move(text)))->c_str(); }

  nb::module_& module_;
  nb::class_<Tensor>& tensor_;
};

// What each file adds to the module.
nb::class_<Tensor> bind_tensor(nb::module_& module);
void bind_dtypes(nb::module_& module);
void bind_factories(nb::module_& module);
void bind_indexing(nb::class_<Tensor>& tensor);
void bind_index(nb::module_& module);
void bind_operations(nb::module_& module, nb::class_<Tensor>& tensor);
void bind_groups(nb::module_& module, nb::class_<Tensor>& tensor);
void bind_math(nb::module_& module, nb::class_<Tensor>& tensor);
void bind_autograd(nb::module_& module, nb::class_<Tensor>& tensor);
void bind_runtime(nb::module_& module);
void bind_cuda(nb::module_& module);
void bind_dispatch(nb::module_& module);
void bind_streams(nb::module_& module);
void bind_program(nb::module_& module);
void bind_jit(nb::module_& module);
void bind_distributed(nb::module_& module);

}  // namespace sow::python
