"""Going down over a federation: line searches, and the step that Newton-type methods share.

line_search   Armijo's backtracking, as a protocol: all step sizes in one exchange
steps         a point and a step from it; try the full step, accept it or shorten it; ask again after a cohort changed
pipelined     the same with the next iteration's questions asked at the end of the full step
newton_steps  the Newton step of a point whose Hessian is known, with or without an l1 penalty
"""

from fedsolve.descent.line_search import Armijo, Step, rounding
from fedsolve.descent.steps import Attempt, Point, Tried, asked_again, descend, try_step

__all__ = ["Armijo", "Attempt", "Point", "Step", "Tried", "asked_again", "descend", "rounding", "try_step"]
