"""The stages of the experiment: plain functions from tables and settings to tables."""
