"""What is left of a run: its folder, tables, figures."""

from fedsolve.report.json_values import to_json, to_plain
from fedsolve.report.output_folder import RunFolder
from fedsolve.report.summary import summarise

__all__ = ["RunFolder", "summarise", "to_json", "to_plain"]
