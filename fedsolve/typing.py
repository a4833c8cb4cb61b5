"""The few types that every room shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    # Arrays follow the Array API (NumPy, torch, array-api-strict): no static type spans them yet.
    Array: TypeAlias = Any
else:

    class Array:
        """Stands for a dense array in the annotations of client steps; the wire checks replies against it."""


# The array library of some arrays (`array_namespace`): a module, which no static type describes.
Namespace: TypeAlias = Any

# What may travel: None, bool, int, float, str, bytes, arrays, the structured arrays of `arrays.py`, CSR matrices where
# a step declares them (`scipy.sparse.csr_array`), and tuples, lists, dicts and declared dataclasses of these.
Value: TypeAlias = Any
