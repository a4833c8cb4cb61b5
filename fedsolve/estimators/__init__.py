"""scikit-learn estimators whose rows lie with several sites.

    from fedsolve.estimators import FederatedLogisticRegression

    model = FederatedLogisticRegression(C=1.0).fit(X, y, sites=hospital)   # the fit of the pooled rows
    model.fit_federation(clients)                                          # or of fs.Client objects

They follow scikit-learn: parameters, attributes, errors, pipelines, grid search. `run_` is the finished `fs.Run`.
`import fedsolve` does not import this room, because scikit-learn adds about a second.
"""

from fedsolve.estimators.boosting import FederatedBoostingClassifier, FederatedBoostingRegressor
from fedsolve.estimators.elastic_net import FederatedElasticNet
from fedsolve.estimators.kernel import FederatedKernelClassifier, FederatedKernelRidge
from fedsolve.estimators.logistic import FederatedLogisticRegression
from fedsolve.estimators.poisson import FederatedPoissonRegressor
from fedsolve.estimators.ridge import FederatedRidge

__all__ = [
    "FederatedBoostingClassifier",
    "FederatedBoostingRegressor",
    "FederatedElasticNet",
    "FederatedKernelClassifier",
    "FederatedKernelRidge",
    "FederatedLogisticRegression",
    "FederatedPoissonRegressor",
    "FederatedRidge",
]
