"""What a run leaves: models that predict, are saved and are loaded again."""

from fedsolve.models.base import Model, load_model
from fedsolve.models.ensemble import Ensemble
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.models.linear import LinearModel
from fedsolve.models.network import NetworkModel

__all__ = ["Ensemble", "KernelExpansion", "LinearModel", "Model", "NetworkModel", "load_model"]
