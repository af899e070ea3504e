"""Audit of a model the user brings: tracing, tables, targets, records, verification, display."""
