"""Your own table, with one client per hospital: python examples/own_data.py"""

from pathlib import Path

import fedsolve as fs

SCHEMA = fs.data.Schema(
    (
        fs.data.Numeric("age"),
        fs.data.Numeric("pressure", indicator=True),
        fs.data.Categorical("smoker", ("never", "former", "current"), drop_first=True),
    )
)


def main() -> fs.Run:
    table = fs.data.load(Path(__file__).with_name("patients.csv"), target="readmitted", groups="site", drop=["patient"])
    clients = []
    for site in ("Arden", "Bryn", "Corrie", "Dale"):
        rows = table.groups == site
        clients.append(fs.Client(site, table.X[rows], table.y[rows], feature_names=table.feature_names))

    run = fs.run(fs.Newton(fs.Logistic(l2=0.01, intercept="free")), clients, preprocess=fs.data.Preprocess(SCHEMA))

    print(run)
    for name, weight in run.model.coefficients().items():
        print(f"{name:18} {weight:8.4f}")
    print(run.model.transform.notice() or "Few cells are missing.")
    assert table.target_names is not None
    new = [[71, 150, "current"], [45, None, "never"]]
    for row, probability in zip(new, run.model.predict_proba(new)[:, 1], strict=True):
        print(row, f"{table.target_names[1]} with probability {probability:.2f}")
    return run


if __name__ == "__main__":
    main()
