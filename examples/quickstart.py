"""Fits one model to four clients that do not pool their data: python examples/quickstart.py"""

import numpy as np

import fedsolve as fs


def main() -> float:
    data = fs.data.load("breast_cancer")
    clients = fs.data.partition(data.X, data.y, fs.data.Dirichlet(0.5, min_samples=20), clients=4, seed=0)

    run = fs.run(
        fs.Newton(loss=fs.Logistic(l2=1e-2, intercept="free")),
        clients,
        preprocess=fs.data.Preprocess(),  # standardise with the mean and deviation over all clients
        rounds=20,
        tolerance=1e-9,
    )

    for row in run.history:
        print(f"round {row.round}   value {row.value:.6f}   gradient {row.gradient_norm:.1e}")
    accuracy = float(np.mean(run.model.predict(data.X) == data.y))
    print(f"{run.status}: {run.message}; accuracy {accuracy:.1%}")
    run.model.save("runs/quickstart.npz")  # fs.load_model reads it; the model takes raw columns
    return accuracy


if __name__ == "__main__":
    main()
