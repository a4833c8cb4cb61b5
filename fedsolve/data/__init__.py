"""Data: read it, divide it among clients, agree on what its columns mean.

    sites = load_sites("sites/*.csv", target="outcome")         one file per site
    data = load("heart")
    clients = partition(data.X, data.y, ByGroup(), groups=data.groups)
    run(algorithm, clients, preprocess=Preprocess())

`load`, `partition` and `datasets` are functions here. What else their modules hold is imported by the full
name of the module, as in `from fedsolve.data.file_formats import read_csv`.
"""

from fedsolve.data.chebyshev_regression import chebyshev
from fedsolve.data.complete_cases import complete_cases
from fedsolve.data.dataset import Dataset
from fedsolve.data.fitted_transform import Transform
from fedsolve.data.held_out import hold_out, with_test_rows
from fedsolve.data.known_datasets import DatasetInfo
from fedsolve.data.known_datasets import names as datasets
from fedsolve.data.linear_regressions import AllDeviate, OneDeviates, SharedModel, TwoGroups, linear_model
from fedsolve.data.load import load
from fedsolve.data.onehot import one_hot
from fedsolve.data.partition import partition, split_indices
from fedsolve.data.partition_schemes import (
    IID,
    ByColumn,
    ByGroup,
    ClassesPerClient,
    Contiguous,
    Dirichlet,
    Given,
    Homogeneity,
    QuantitySkew,
    Scheme,
)
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.proposals import Proposal, propose
from fedsolve.data.schema import Categorical, Column, Discrete, Numeric, Schema
from fedsolve.data.site_column import site_intercepts
from fedsolve.data.site_tables import SiteReading
from fedsolve.data.sites import Sites, load_sites
from fedsolve.data.synthetic import heterogeneous

__all__ = [
    "IID",
    "AllDeviate",
    "ByColumn",
    "ByGroup",
    "Categorical",
    "ClassesPerClient",
    "Column",
    "Contiguous",
    "Dataset",
    "DatasetInfo",
    "Dirichlet",
    "Discrete",
    "Given",
    "Homogeneity",
    "Numeric",
    "OneDeviates",
    "Preprocess",
    "Proposal",
    "QuantitySkew",
    "Schema",
    "Scheme",
    "SharedModel",
    "SiteReading",
    "Sites",
    "Transform",
    "TwoGroups",
    "chebyshev",
    "complete_cases",
    "datasets",
    "heterogeneous",
    "hold_out",
    "linear_model",
    "load",
    "load_sites",
    "one_hot",
    "partition",
    "propose",
    "site_intercepts",
    "split_indices",
    "with_test_rows",
]
