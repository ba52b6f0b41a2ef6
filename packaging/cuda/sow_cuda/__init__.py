"""The CUDA backend of sow: a library that sow loads, and nothing to import."""
