"""The folder of the following three."""
