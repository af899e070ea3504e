"""Auditing one's own model: from a fitted model and a table to certificates others can check."""
