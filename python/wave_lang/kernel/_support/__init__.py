"""Building blocks shared by the language and the compiler interface."""
