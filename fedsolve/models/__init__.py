"""What a run leaves: models that predict, are saved and are loaded again."""

from fedsolve.models.linear import LinearModel, load_model

__all__ = ["LinearModel", "load_model"]
