"""Dataclasses to plain values (JSON, TOML) and back: one interpreter for run files, fingerprints, checkpoints, sites.

    to_plain(FedAvg(Logistic(l2=0.1)))    {"name": "FedAvg", "loss": {"name": "Logistic", "l2": 0.1, …}, "local": {…}}
    describe(FedAvg(Logistic(l2=0.1)))    "FedAvg(loss=Logistic(l2=0.1, …), local=…)", the text of a fingerprint
    Reader(catalogue).build("algorithm", plain)   the object again

`annotations` says what a declared type allows, `writing` takes values apart, `reading` puts them together, and `arrays`
does both for arrays. All go by the annotations of the dataclass: 1 and 1.0 are the same where a float is declared, and
so are a list and a tuple where a tuple is.
"""

from fedsolve.plain.annotations import Form, field_forms, field_hints, interpret
from fedsolve.plain.arrays import Plain
from fedsolve.plain.reading import Catalogue, Reader, describe_fields
from fedsolve.plain.writing import Style, describe, fingerprint, to_plain, write

__all__ = [
    "Catalogue",
    "Form",
    "Plain",
    "Reader",
    "Style",
    "describe",
    "describe_fields",
    "field_forms",
    "field_hints",
    "fingerprint",
    "interpret",
    "to_plain",
    "write",
]
