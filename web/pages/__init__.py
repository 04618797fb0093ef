"""The pages: one module for each tab, with the data of its templates."""
