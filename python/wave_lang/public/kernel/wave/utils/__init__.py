"""The folder of the following."""
