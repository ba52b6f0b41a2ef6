// SPDX-License-Identifier: Apache-2.0
// What each operation does, in words, with an example that the tests run in both forms.
#include "calls/docs.h"

#include <array>
#include <string_view>

namespace sow::python {
namespace {

// `@` in an example stands for the operation's name: out of place and in place give the same array.
struct Doc {
  std::string_view stem;
  std::string_view text;
  std::string_view example;
};

constexpr std::string_view kBounds =
    "bounds: what to do with an index outside of its axis: \"error\" (nothing is written), "
    "\"drop\" (that\n"
    "update is left out), \"clip\" (the nearest place) or \"promise\" (there is none; not "
    "checked).\n"
    "Negative indices count from the end, unless it is error_unwrapped, drop_unwrapped or "
    "clip_unwrapped.";
constexpr std::string_view kReduce =
    "reduce: assign (the last update wins), add = sum, mul = multiply = prod, amax = max, amin = "
    "min, mean.\n"
    "include_self: whether the old value takes part where updates land.";

constexpr auto kDocs = std::to_array<Doc>({
    {"masked_scatter",
     "Write the elements of value, in order, to the places where mask is true.\n\n"
     "mask broadcasts to x; value needs at least as many elements as mask has trues.",
     ">>> x = np.zeros((2, 3), \"f4\")\n"
     ">>> sow.@(x, [[True, False, True], [False, True, False]], [1.0, 2.0, 3.0])\n"
     "array([[1., 0., 2.],\n       [0., 3., 0.]], dtype=float32)"},
    {"masked_fill", "Write one value to every place where mask is true.",
     ">>> x = np.arange(4)\n"
     ">>> sow.@(x, [True, False, False, True], -1)\n"
     "array([-1,  1,  2, -1])"},
    {"masked_select", "The elements where mask is true, in order, in one dimension.",
     ">>> sow.@(np.arange(4), [True, False, False, True])\n"
     "array([0, 3])"},
    {"nonzero", "The positions of all elements that are not zero: one row of coordinates for each.",
     ">>> sow.@(np.array([[0, 7], [8, 0]]))\n"
     "array([[0, 1],\n       [1, 0]])"},
    {"put_along_axis",
     "Put values to the places that indices name along one axis; None: of the flattened array.\n\n"
     "The default reduction is \"add\"; numpy.put_along_axis assigns, which is reduce=\"assign\" "
     "here.\n"
     "broadcast: indices expand to arr off the axis, and values to the indices; without it, the "
     "corner of\n"
     "values that indices cover is used.\n$reduce\n$bounds",
     ">>> arr = np.zeros((2, 3), \"f4\")\n"
     ">>> sow.@(arr, [[0, 0], [2, 1]], 1.0, axis=1)\n"
     "array([[2., 0., 0.],\n       [0., 1., 1.]], dtype=float32)"},
    {"scatter",
     "Write src to the places that index names along dim; src is an array or one number.\n\n"
     "reduce: None or \"assign\" (the last update wins), or any reduction: add, multiply, amax, "
     "amin, mean.\n$bounds",
     ">>> x = np.zeros((3, 5), \"f4\")\n"
     ">>> sow.@(x, 0, [[1, 2], [0, 1]], 2.0)\n"
     "array([[2., 0., 0., 0., 0.],\n       [2., 2., 0., 0., 0.],\n       [0., 2., 0., 0., 0.]], "
     "dtype=float32)"},
    {"scatter_add",
     "Add src to the places that index names along dim. Sums are exact, rounded once.\n\n$bounds",
     ">>> x = np.ones(3, \"f4\")\n"
     ">>> sow.@(x, 0, [0, 0, 2], [1.0, 2.0, 3.0])\n"
     "array([4., 1., 4.], dtype=float32)"},
    {"scatter_reduce", "Reduce src into the places that index names along dim.\n\n$reduce\n$bounds",
     ">>> x = np.zeros(3, \"f4\")\n"
     ">>> sow.@(x, 0, [0, 0, 2], [1.0, 3.0, 5.0], \"mean\", include_self=False)\n"
     "array([2., 0., 5.], dtype=float32)"},
    {"take_along_axis",
     "The elements that indices name along one axis; None: of the flattened array.\n\n$bounds",
     ">>> sow.@(np.array([[10, 20], [30, 40]]), [[1], [0]], axis=1)\n"
     "array([[20],\n       [30]])"},
    {"gather", "The elements that index names along dim.\n\n$bounds",
     ">>> sow.@(np.array([[10, 20], [30, 40]]), 0, [[1, 0]])\n"
     "array([[30, 20]])"},
    {"index_add",
     "Add each slice of source to the slice of x that index names along axis.\n\n"
     "source may be one number. alpha: what each slice is multiplied by first.\n$bounds",
     ">>> x = np.zeros((3, 2), \"f4\")\n"
     ">>> sow.@(x, 0, [2, 2], [[1.0, 2.0], [3.0, 4.0]])\n"
     "array([[0., 0.],\n       [0., 0.],\n       [4., 6.]], dtype=float32)"},
    {"index_copy",
     "Write each slice of source to the slice of x that index names along axis.\n\n$bounds",
     ">>> x = np.zeros((3, 2), \"f4\")\n"
     ">>> sow.@(x, 0, [2, 0], [[1.0, 2.0], [3.0, 4.0]])\n"
     "array([[3., 4.],\n       [0., 0.],\n       [1., 2.]], dtype=float32)"},
    {"index_fill", "Fill the slices of x that index names along axis with one value.\n\n$bounds",
     ">>> x = np.zeros((2, 3), \"f4\")\n"
     ">>> sow.@(x, 1, [0, -1], 7.0)\n"
     "array([[7., 0., 7.],\n       [7., 0., 7.]], dtype=float32)"},
    {"index_reduce",
     "Reduce each slice of source into the slice of x that index names along "
     "axis.\n\n$reduce\n$bounds",
     ">>> x = np.ones((2, 2), \"f4\")\n"
     ">>> sow.@(x, 0, [1, 1], [[2.0, 3.0], [4.0, 0.5]], \"amax\")\n"
     "array([[1., 1.],\n       [4., 3.]], dtype=float32)"},
    {"index_select", "The slices of x that index names along axis.\n\n$bounds",
     ">>> sow.@(np.array([[10, 20], [30, 40]]), 0, [1, 1])\n"
     "array([[30, 40],\n       [30, 40]])"},
    {"index_get",
     "What index_put would write over: the elements that one index a leading axis, broadcast "
     "together,\nnames. A bool mask stands for the positions of its trues.\n\n$bounds",
     ">>> sow.@(np.array([[10, 20], [30, 40]]), ([1, 0], [0, 1]))\narray([30, 20])"},
    {"index_put",
     "Write value to the places that one index a leading axis, broadcast together, names.\n\n"
     "A bool mask stands for the positions of its trues; None leaves an axis out. accumulate: add "
     "instead of\nassigning; or reduce, a name as in scatter_reduce, with or without the old "
     "values "
     "(include_self).\n$bounds",
     ">>> x = np.zeros((2, 3), \"f4\")\n"
     ">>> sow.@(x, ([0, 1, 1], [2, 0, 0]), [1.0, 2.0, 3.0], accumulate=True)\n"
     "array([[0., 0., 1.],\n       [5., 0., 0.]], dtype=float32)"},
    {"scatter_nd",
     "Sum updates into zeros of the given shape, at the coordinates in the rows of "
     "indices.\n\n$bounds",
     ">>> sow.@([[1], [3], [1]], np.array([1.0, 2.0, 3.0]), [5])\n"
     "array([0., 4., 0., 2., 0.])"},
    {"tensor_scatter_nd_update",
     "Write updates at the coordinates in the rows of indices; the last one wins.\n\n$bounds",
     ">>> x = np.zeros((2, 2), \"f4\")\n"
     ">>> sow.@(x, [[0, 1], [1, 0]], [5.0, 6.0])\n"
     "array([[0., 5.],\n       [6., 0.]], dtype=float32)"},
    {"tensor_scatter_nd_add", "Add updates at the coordinates in the rows of indices.\n\n$bounds",
     ">>> x = np.ones((2, 2), \"f4\")\n"
     ">>> sow.@(x, [[0, 1], [0, 1]], [5.0, 6.0])\n"
     "array([[ 1., 12.],\n       [ 1.,  1.]], dtype=float32)"},
    {"tensor_scatter_nd_sub",
     "Subtract updates at the coordinates in the rows of indices.\n\n$bounds",
     ">>> x = np.ones((2, 2), \"f4\")\n"
     ">>> sow.@(x, [[0, 1], [0, 1]], [5.0, 6.0])\n"
     "array([[  1., -10.],\n       [  1.,   1.]], dtype=float32)"},
    {"tensor_scatter_nd_max",
     "Keep the maximum of x and updates at the coordinates in the rows of indices.\n\n$bounds",
     ">>> x = np.ones((2, 2), \"f4\")\n"
     ">>> sow.@(x, [[0], [0]], [[5.0, 0.0], [3.0, 2.0]])\n"
     "array([[5., 2.],\n       [1., 1.]], dtype=float32)"},
    {"tensor_scatter_nd_min",
     "Keep the minimum of x and updates at the coordinates in the rows of indices.\n\n$bounds",
     ">>> x = np.ones((2, 2), \"f4\")\n"
     ">>> sow.@(x, [[0], [0]], [[5.0, 0.0], [3.0, 2.0]])\n"
     "array([[1., 0.],\n       [1., 1.]], dtype=float32)"},
    {"tensor_scatter_nd_mul",
     "Multiply by updates at the coordinates in the rows of indices.\n\n$bounds",
     ">>> x = np.full((2, 2), 2.0, \"f4\")\n"
     ">>> sow.@(x, [[0, 1], [0, 1]], [5.0, 6.0])\n"
     "array([[ 2., 60.],\n       [ 2.,  2.]], dtype=float32)"},
    {"gather_nd",
     "The elements, or slices, at the coordinates in the rows of indices.\n\n"
     "batch_dims: how many first dimensions x and indices share, each looked up in its own."
     "\n$bounds",
     ">>> sow.@(np.array([[10, 20], [30, 40]]), [[1, 0], [0, 1]])\n"
     "array([30, 20])"},
    {"diagonal_scatter",
     "Write src to a diagonal of input: the one `offset` above the main diagonal of axis1 and "
     "axis2.\n\n"
     "src has the shape of diagonal(input, offset, axis1, axis2).",
     ">>> x = np.zeros((3, 3), \"f4\")\n"
     ">>> sow.@(x, [1.0, 2.0], offset=1)\n"
     "array([[0., 1., 0.],\n       [0., 0., 2.],\n       [0., 0., 0.]], dtype=float32)"},
    {"select_scatter", "Write src to the slice of input at position index of dim.",
     ">>> x = np.zeros((2, 2), \"f4\")\n"
     ">>> sow.@(x, [1.0, 2.0], 0, -1)\n"
     "array([[0., 0.],\n       [1., 2.]], dtype=float32)"},
    {"slice_scatter",
     "Write src to input[start:end:step] of dim.\n\n"
     "dim, start, end and step may be lists: the slices of several axes, to which src broadcasts.",
     ">>> x = np.zeros(5, \"f4\")\n"
     ">>> sow.@(x, [1.0, 2.0], 0, 1, None, 2)\n"
     "array([0., 1., 0., 2., 0.], dtype=float32)"},
    {"fill_diagonal",
     "Fill the main diagonal with one value.\n\n"
     "wrap: in a tall matrix the diagonal begins again after each block of columns.\n"
     "offset: how far its places are moved along the last axis; those that leave their row are not "
     "filled.",
     ">>> x = np.zeros((3, 3), \"f4\")\n"
     ">>> sow.@(x, 1.0)\n"
     "array([[1., 0., 0.],\n       [0., 1., 0.],\n       [0., 0., 1.]], dtype=float32)"},
    {"diagonal", "A view of a diagonal, its dimension last.",
     ">>> sow.@(np.array([[1, 2], [3, 4]]))\n"
     "array([1, 4])"},
    {"select", "A view at one position of an axis, without that axis.",
     ">>> sow.@(np.array([[1, 2], [3, 4]]), 1, 0)\n"
     "array([1, 3])"},
    {"slice",
     "A view of start:stop:step along an axis; the step is positive (x[::-1] goes backwards).",
     ">>> sow.@(np.arange(6), 0, 1, None, 2)\n"
     "array([1, 3, 5])"},
    {"broadcast_to", "A view with the given shape; dimensions of size 1 repeat.",
     ">>> sow.@(np.array([1, 2]), [2, 2])\n"
     "array([[1, 2],\n       [1, 2]])"},
    {"unsqueeze", "A view with a new axis of extent 1 there.",
     ">>> sow.@(np.arange(2), 1)\narray([[0],\n       [1]])"},
    {"flatten", "The dimensions first to last made one; a view where strides allow it.",
     ">>> sow.@(np.array([[1, 2], [3, 4]]))\n"
     "array([1, 2, 3, 4])"},
    {"reshape",
     "The same elements in another shape, one extent of which may be -1; a view where strides "
     "allow it.",
     ">>> sow.@(np.arange(4), [2, -1])\n"
     "array([[0, 1],\n       [2, 3]])"},
    {"transpose", "A view with two axes exchanged.",
     ">>> sow.@(np.array([[1, 2], [3, 4]]), 0, 1)\n"
     "array([[1, 3],\n       [2, 4]])"},
    {"add", "a + b, element by element; b is an array or one number. Shapes broadcast.",
     ">>> sow.@(np.array([1.0, 2.0]), 1)\narray([2., 3.])"},
    {"sub", "a - b, element by element; b is an array or one number. Shapes broadcast.",
     ">>> sow.@(np.array([1.0, 2.0]), np.ones(2))\narray([0., 1.])"},
    {"mul", "a * b, element by element; b is an array or one number. Shapes broadcast.",
     ">>> sow.@(np.array([1.0, 2.0]), 3)\narray([3., 6.])"},
    {"div", "a / b, element by element, for floating and complex types. Shapes broadcast.",
     ">>> sow.@(np.array([1.0, 2.0]), 2)\narray([0.5, 1. ])"},
    {"neg", "The negative of every element.",
     ">>> sow.@(np.array([1.0, -2.0]))\narray([-1.,  2.])"},
    {"conj", "The complex conjugate; of real numbers, themselves.",
     ">>> sow.@(np.array([1 + 2j]))\narray([1.-2.j])"},
    {"pow", "x to the power of one number: any real one for floating x, a whole one for complex x.",
     ">>> sow.@(np.array([1.0, 2.0, 3.0]), 2)\narray([1., 4., 9.])"},
    {"eq", "Where a and b are equal.", ">>> sow.@(np.array([1, 2]), 2)\narray([False,  True])"},
    {"ne", "Where a and b differ.", ">>> sow.@(np.array([1, 2]), 2)\narray([ True, False])"},
    {"lt", "Where a < b.", ">>> sow.@(np.array([1, 2]), 2)\narray([ True, False])"},
    {"le", "Where a <= b.", ">>> sow.@(np.array([1, 2]), 1)\narray([ True, False])"},
    {"gt", "Where a > b.", ">>> sow.@(np.array([1, 2]), 1)\narray([False,  True])"},
    {"ge", "Where a >= b.", ">>> sow.@(np.array([1, 2]), 2)\narray([False,  True])"},
    {"where",
     "The elements of a where condition is true, those of b elsewhere; each may be a number.\n"
     "Arrays of two types get the narrowest that has every value of both.\nWithout both: where "
     "condition is true, an array of positions for each axis.",
     ">>> sow.@(np.array([True, False]), np.array([1.0, 2.0]), 0)\narray([1., 0.])"},
    {"abs", "Every element without its sign; of real numbers.",
     ">>> sow.@(np.array([-1.5, 2.0]))\narray([1.5, 2. ])"},
    {"exp", "e to the power of every element, of floating types; the same bits on every device.",
     ">>> sow.@(np.array([0.0, 1.0]))\narray([1.        , 2.71828183])"},
    {"log", "The natural logarithm of every element, of floating types; the same bits everywhere.",
     ">>> sow.@(np.array([1.0, 8.0]))\narray([0.        , 2.07944154])"},
    {"sqrt", "The square root of every element, of floating types.",
     ">>> sow.@(np.array([4.0, 2.0]))\narray([2.        , 1.41421356])"},
    {"remainder", "The rest of a / b, with the sign of b, element by element; 0 by an integer 0.",
     ">>> sow.@(np.array([5, -5]), 3)\narray([2, 1])"},
    {"bitwise_and", "The bits that both have, of integers and bool, element by element.",
     ">>> sow.@(np.array([6, 7]), 3)\narray([2, 3])"},
    {"bitwise_or", "The bits that either has, of integers and bool, element by element.",
     ">>> sow.@(np.array([6, 8]), 3)\narray([ 7, 11])"},
    {"bitwise_xor", "The bits that one of both has, of integers and bool, element by element.",
     ">>> sow.@(np.array([6, 7]), 3)\narray([5, 4])"},
    {"bitwise_not", "The other bits, of integers and bool.",
     ">>> sow.@(np.array([True, False]))\narray([False,  True])"},
    {"sum",
     "The sum over axis: an int, several, or None for all; () sums each element by itself. Exact, "
     "rounded once.",
     ">>> sow.@(np.array([[1e30, 1.0], [-1e30, 2.0]]), None)\narray(3.)"},
    {"mean", "The mean over axis: an int, several, or None for all. The sum is exact.",
     ">>> sow.@(np.array([[1.0, 2.0], [3.0, 4.0]]), 0)\narray([2., 3.])"},
    {"group_reduce",
     "Reduce the slices of src along axis by group: index names the group of each slice, or of "
     "each "
     "element.\n\n"
     "reduce: add = sum, mul = multiply = prod, amax = max, amin = min, mean, count, any, all, var "
     "and std (the\ncount less correction divides), logsumexp, first, last, argmax, argmin (where "
     "along the axis the first\nof the winners is, or with last_of_ties the last; as many as there "
     "are slices where a group is empty).\n"
     "size: how many groups there are; None reads the index and takes its largest plus one.\n"
     "A group without elements has 0, 1 for mul, NaN for mean, var and std, and the extreme that "
     "loses against\nevery other for amax and amin.\n$bounds",
     ">>> sow.@(np.array([1.0, 2.0, 4.0]), [0, 2, 0], \"sum\")\n"
     "array([5., 0., 2.])"},
    {"group_softmax",
     "exp(x) over the sum of exp(x) in its group, computed in float64 and rounded once.\n\n"
     "index, axis and size as in group_reduce.\n$bounds",
     ">>> sow.@(np.array([1.0, 5.0, 1.0]), [0, 1, 0])\n"
     "array([0.5, 1. , 0.5])"},
    {"group_log_softmax",
     "The logarithm of group_softmax, computed in float64 and rounded once.\n\n"
     "index, axis and size as in group_reduce.\n$bounds",
     ">>> sow.@(np.array([1.0, 5.0, 1.0]), [0, 1, 0])\n"
     "array([-0.69314718,  0.        , -0.69314718])"},
    {"segment_reduce",
     "Reduce src[pointers[i]:pointers[i + 1]] along axis to one slice for each i.\n\n"
     "reduce and what an empty segment has: as in group_reduce. Slices outside of all segments do "
     "not count.",
     ">>> sow.@(np.array([1.0, 2.0, 4.0]), [0, 2, 2, 3], \"sum\")\n"
     "array([3., 0., 4.])"},
    {"gather_csr",
     "Slice i of src along axis, as often as segment i of pointers is long.\n\n"
     "size: the last pointer; None reads it.",
     ">>> sow.@(np.array([7.0, 8.0, 9.0]), [0, 2, 2, 3])\n"
     "array([7., 7., 9.])"},
    {"segment_cumsum",
     "Running sums of each segment along axis; every one is exact and rounded once.\n\n"
     "exclusive: of what comes before an element, without it.",
     ">>> sow.@(np.array([1.0, 2.0, 4.0]), [0, 2, 3])\n"
     "array([1., 3., 4.])"},
    {"bincount",
     "How often each number is in index, or the exact sum of its weights.\n\n"
     "size: how many numbers are counted; None reads the index and takes its largest plus one. "
     "Negative\nindices are out of range.\n$bounds",
     ">>> sow.@(np.array([0, 2, 2]))\n"
     "array([1, 0, 2])"},
    {"bin_index",
     "For each element the bin i with edges[i] <= x < edges[i + 1]; the last bin includes its end. "
     "Elements\noutside of all bins, and NaN, get the number of bins.\n\n"
     "edges: floating, ascending.",
     ">>> sow.@(np.array([0.5, 1.0, 2.0, 7.0]), np.array([0.0, 1.0, 2.0]))\n"
     "array([0, 1, 1, 2])"},
    {"send_u_recv",
     "What each place receives along its edges: the reduction (sum, mean, max, min) of "
     "x[src_index] "
     "by\ndst_index. The messages are never written; a place without edges has 0.\n\n"
     "out_size: how many places there are; None: as many as x has.\n$bounds",
     ">>> sow.@(np.array([1.0, 2.0, 4.0]), [0, 1, 2], [1, 1, 0])\n"
     "array([4., 3., 0.])"},
    {"send_ue_recv",
     "send_u_recv of x[src_index] combined (add, sub, mul, div) with the value y of each edge.\n\n"
     "out_size: how many places there are; None: as many as x has.\n$bounds",
     ">>> sow.@(np.array([1.0, 2.0]), np.array([0.5, 4.0]), [0, 1], [1, 1], \"mul\")\n"
     "array([0. , 8.5])"},
    {"send_uv",
     "x[src_index] combined (add, sub, mul, div) with y[dst_index], edge by edge.\n\n$bounds",
     ">>> sow.@(np.array([1.0, 2.0]), np.array([10.0, 20.0]), [0, 1], [1, 1])\n"
     "array([21., 22.])"},
});

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

}  // namespace

std::string doc_of(const char* stem, const char* op) {
  for (const Doc& doc : kDocs) {
    if (doc.stem != stem) continue;
    std::string text =
        replaced(replaced(std::string(doc.text), "$reduce", kReduce), "$bounds", kBounds);
    if (std::string_view(stem) != op) text += "\n\nWrites into its first argument and returns it.";
    return text + "\n\n" + replaced(std::string(doc.example), "@", op);
  }
  return "";
}

}  // namespace sow::python
