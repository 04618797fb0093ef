"""The order of work. One sync flow per connector; `normalize` and `extract` are the subflows that they chain."""
