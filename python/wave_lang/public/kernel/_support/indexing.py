"""Symbols under another path: the same as wave_lang.support.indexing."""

from wave_lang.support.indexing import IndexExpr, IndexSymbol, index_symbol, sym

__all__ = ["IndexExpr", "IndexSymbol", "index_symbol", "sym"]
