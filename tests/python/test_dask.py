# SPDX-License-Identifier: Apache-2.0
"""The recipe of docs/scale.md for dask."""

import importlib.util

import numpy as np
import pytest

import sow

import peers


@pytest.mark.skipif(peers.left_out or importlib.util.find_spec("dask") is None, reason="no dask")
def test_blocks_have_the_bits_of_one_call():
    import dask.array

    random = np.random.default_rng(1)
    whole = random.standard_normal((50, 4)).astype("f4")
    index, source = random.integers(0, 50, 300), random.standard_normal((300, 4)).astype("f4")
    x = dask.array.from_array(whole, chunks=(13, 4))

    def add_rows(block, block_info=None):
        first, last = block_info[0]["array-location"][0]
        here = np.where((index >= first) & (index < last), index - first, last - first)
        return sow.index_add(block, 0, here, source, bounds="drop")

    y = x.map_blocks(add_rows, dtype=x.dtype, meta=np.empty((0, 0), "f4")).compute()
    assert y.tobytes() == sow.index_add(whole, 0, index, source).tobytes()
