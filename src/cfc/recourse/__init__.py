"""Robust recourse: does a counterfactual survive eight families of model change?

The second benchmark of this repository (Kostrzewa and Zięba: Robust to Which Model Change? 2026).
A network refuses a person; a method returns the change that would make it accept; afterwards the
network is trained anew, on other rows, with other settings, or is nudged. The question is how
often the accepted point is still accepted. Numeric features and two classes only.

`cfc.recourse.methods` and `cfc.recourse.families` hold what a user can add to.
"""
