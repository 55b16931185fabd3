"""Plugins of serving frameworks. Importing this package imports none of them."""
