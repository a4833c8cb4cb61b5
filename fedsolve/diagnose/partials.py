"""What a source of gradients hands out."""

from __future__ import annotations

from collections.abc import Callable

from fedsolve.typing import Array

# ∂f/∂θ of some samples: called with parameters that `SampleGradients.placed` made and an index of coordinates, it
# returns a NumPy matrix with a row for each sample and a column for each coordinate.
Partials = Callable[[Array, Array], Array]
