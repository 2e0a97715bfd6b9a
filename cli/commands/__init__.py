"""One file per command; `cli.main` lists them."""
