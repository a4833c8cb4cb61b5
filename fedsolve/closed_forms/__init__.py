"""Solutions and limits known in closed form. They need all the data in one place: for simulation only.

    kernel_ridge        pooled solutions of (kernel) ridge regression
    methods             what a client does in a round of FedAvg and FedProx, as a function of its curvature
    client_rows         rows as the limit weighs them, and least squares on them
    limits              the points at which FedAvg and FedProx end on a squared loss
    linear_path         their way there on linear regression, with minibatches
    kernel_simulation   kernel FedAvg and FedProx, step by step
    recursion           the same by one matrix (Su et al., Proposition 3), and exact expected errors
    bounds              the bounds of Su et al. (Proposition 7, Theorems 8, 11 and 12)
    gain                what a client gains by joining (Theorems 16 and 17, Definition 15)

The early-stopping time is in `fedsolve.numerics.early_stopping`, because stopping rules use it too.
"""
