"""Auditing models and tables of one's own."""
