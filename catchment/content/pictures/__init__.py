"""Read the text on pictures of pages. `pictures` and `text_on` run in parser processes only: the bytes are of strangers."""
