"""Recourse methods, one module each behind one small interface; see `cfc.recourse.methods.base`."""
