"""Choosing penalties and feature maps by cross-validation, without pooling.

grid = loss_grid(fs.Logistic(intercept="free", features=fs.RandomFourier(100, 1.0)), l2=[…], features={"gamma": […]})
found = cross_validate(grid, clients, folds=5, seed=0)
run = fs.run(fs.Newton(found.best), clients)
"""

from fedsolve.selection.candidates import Candidate, Selection
from fedsolve.selection.folds import fold_of_samples
from fedsolve.selection.grid import loss_grid
from fedsolve.selection.validate import cross_validate

__all__ = ["Candidate", "Selection", "cross_validate", "fold_of_samples", "loss_grid"]
